//! Primaries that step down or stop, wherever the client learns of it.

use bson::{Document, doc};
use ringway_mongo::{Client, Collection};

use crate::support::fake::{Answer, Command};
use crate::support::replica_set::{ReplicaSet, SetState, not_primary};
use crate::support::{on_core, options};

fn things(client: &Client) -> Collection<Document> {
    client.database("d").collection("things")
}

/// Executes writes on the primary alone.
fn proper(state: &mut SetState, member: usize, _: &Command) -> Answer {
    match state.primary == Some(member) {
        true => Answer::Reply(doc! { "n": 1, "ok": 1.0 }),
        false => not_primary(),
    }
}

#[test]
fn a_primary_that_stops_while_it_is_greeted_costs_no_write() {
    for retries in [true, false] {
        let set = ReplicaSet::start(2, proper);
        set.state().stopping = Some((0, 1));
        on_core(async move {
            let options = options(&set.address(&[0, 1])).retry_writes(retries);
            let insert = things(&Client::new(options)).insert_one(&doc! {}).await;
            insert.expect("nothing was sent to the first, so that nothing is repeated");
            let members: Vec<_> = set.got("insert").iter().map(|(member, _)| *member).collect();
            assert_eq!(members, [1]);
        });
    }
}

#[test]
fn a_pipeline_that_is_refused_tells_that_there_is_another_primary() {
    let set = ReplicaSet::start(2, |state, member, command| {
        if member == 0 && state.log.len() == 1 {
            state.elect(Some(1));
        }
        proper(state, member, command)
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0, 1])).retry_writes(false));
        let mut pipeline = client.database("d").pipeline().allow_writes();
        pipeline.push(doc! { "insert": "things", "documents": [{ "a": 1 }] }).expect("a command");
        let replies = pipeline.await.expect("answered");
        let error = replies[0].as_ref().expect_err("refused");
        assert_eq!(error.server().expect("it answered").code, 10107);
        things(&client).insert_one(&doc! {}).await.expect("it goes to the next primary");
    });
}

#[test]
fn servers_before_4_4_do_not_say_that_a_write_may_be_sent_again() {
    let unconfirmed = doc! {
        "n": 1, "ok": 1.0, "writeConcernError": { "code": 91, "errmsg": "shutdown in progress" },
    };
    let refused = doc! { "ok": 0.0, "code": 11602, "errmsg": "interrupted" };
    for (version, reply, sent) in [
        (8, refused.clone(), 2),
        (8, unconfirmed.clone(), 2),
        (8, doc! { "ok": 0.0, "code": 13, "errmsg": "not allowed" }, 1),
        (9, refused, 1),
        (9, unconfirmed, 1),
    ] {
        let set = ReplicaSet::start(2, move |state, member, command| {
            if state.log.len() == 1 {
                state.elect(Some(1));
                return Answer::Reply(reply.clone());
            }
            proper(state, member, command)
        });
        set.state().wire_version = Some(version);
        on_core(async move {
            let client = Client::new(options(&set.address(&[0, 1])));
            let inserted = things(&client).insert_one(&doc! {}).await;
            assert_eq!((inserted.is_ok(), set.got("insert").len()), (sent == 2, sent), "{version}");
        });
    }
}

#[test]
fn a_second_try_that_wrote_nothing_does_not_hide_the_first() {
    let set = ReplicaSet::start(2, |state, member, _| {
        if member == 0 {
            state.elect(Some(1));
            return Answer::Reply(doc! {
                "n": 1, "ok": 1.0, "errorLabels": ["RetryableWriteError"],
                "writeConcernError": { "code": 91, "errmsg": "shutdown in progress" },
            });
        }
        Answer::Reply(doc! {
            "ok": 0.0, "code": 10107, "errmsg": "not primary",
            "errorLabels": ["RetryableWriteError", "NoWritesPerformed"],
        })
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0, 1])));
        let error = things(&client).insert_one(&doc! {}).await.expect_err("refused");
        assert_eq!(error.server().expect("it answered").code, 91);
        assert_eq!(set.got("insert").len(), 2);
    });
}
