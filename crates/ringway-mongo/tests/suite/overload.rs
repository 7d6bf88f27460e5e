//! Servers that have too much to do, and say so (MongoDB 8.2 and later).

use std::sync::{Arc, Mutex};

use bson::{Document, doc};
use ringway_mongo::{Client, ClientOptions, Error, TransactionOptions};

use crate::support::fake::{Answer, Fake, last_batch};
use crate::support::replica_set::ReplicaSet;
use crate::support::{on_core, options, until};

type Log = Arc<Mutex<Vec<Document>>>;

/// The refusal of a server with too much to do, which asks for short pauses.
fn overloaded() -> Answer {
    Answer::Reply(doc! {
        "ok": 0.0, "code": 462, "codeName": "IngressRequestRateLimitExceeded", "errmsg": "rate exceeded",
        "errorLabels": ["SystemOverloadedError", "RetryableError"], "baseBackoffMS": 1,
    })
}

fn done() -> Answer {
    Answer::Reply(doc! {
        "n": 1, "nModified": 1, "values": [1], "cursor": { "id": 0_i64, "ns": "d.c", "firstBatch": [{ "n": 1 }] },
        "ok": 1.0,
    })
}

/// A server that refuses so many commands and does the others.
fn refusing(count: usize) -> (Fake, Log) {
    let log = Log::default();
    let seen = Arc::clone(&log);
    let fake = Fake::serve(move |command| {
        let mut seen = seen.lock().expect("no panic");
        seen.push(command.body.clone());
        if seen.len() > count { done() } else { overloaded() }
    });
    (fake, log)
}

/// Runs an operation of each kind.
async fn run(client: &Client, kind: usize) -> Result<(), Error> {
    let database = client.database("d");
    let things = database.collection::<Document>("c");
    let set = doc! { "$set": { "a": 1 } };
    match kind {
        0 => things.find_one(doc! {}).await.map(drop),
        1 => things.find(doc! {}).await.map(drop),
        2 => things.distinct("n", doc! {}).await.map(drop),
        3 => things.insert_one(&doc! {}).await.map(drop),
        4 => things.update_one(doc! {}, set).await.map(drop),
        5 => things.update_many(doc! {}, set).await.map(drop),
        6 => things.delete_many(doc! {}).await.map(drop),
        7 => things.insert_many(&[doc! {}, doc! {}]).await.map(drop),
        8 => database.run_command(doc! { "anything": 1 }).await.map(drop),
        9 => database.ping().await,
        _ => database.create_collection("new").await,
    }
}

const KINDS: usize = 11;

#[test]
fn every_command_is_sent_again_after_pauses() {
    for kind in 0..KINDS {
        let (fake, log) = refusing(2);
        on_core(async move {
            let client = Client::new(options(&fake.address));
            run(&client, kind).await.unwrap_or_else(|error| panic!("{kind}: {error:?}"));
            assert_eq!(client.pool_counts().made, 1, "the connection is good");
        });
        let log = log.lock().expect("no panic");
        assert_eq!(log.len(), 3, "{kind}: {log:?}");
        assert_eq!((&log[0], &log[1]), (&log[1], &log[2]), "{kind}: it is the same command");
    }
}

#[test]
fn a_server_that_goes_on_refusing_is_asked_as_often_as_the_options_allow() {
    type Change = fn(ClientOptions) -> ClientOptions;
    let cases: [(&str, Change, usize, usize); 7] = [
        ("by default", |it| it, 0, 3),
        ("never again", |it| it.adaptive_retries_max(0), 5, 1),
        ("more often", |it| it.adaptive_retries_max(4), 8, 5),
        ("no reads", |it| it.retry_reads(false), 0, 1),
        ("no writes", |it| it.retry_writes(false), 5, 1),
        ("reads still", |it| it.retry_writes(false), 0, 3),
        ("not what may be either", |it| it.retry_reads(false), 8, 1),
    ];
    for (what, change, kind, sent) in cases {
        let (fake, log) = refusing(usize::MAX);
        on_core(async move {
            let client = Client::new(change(options(&fake.address)));
            let error = run(&client, kind).await.expect_err("it refuses all");
            assert_eq!(error.server().map(|server| server.code), Some(462), "{what}");
            assert!(error.has_label("SystemOverloadedError"), "{what}: {error:?}");
            assert!(!error.may_have_happened(), "{what}: nothing was done");
        });
        assert_eq!(log.lock().expect("no panic").len(), sent, "{what}");
    }
}

#[test]
fn the_connection_string_says_how_often() {
    let (fake, log) = refusing(usize::MAX);
    on_core(async move {
        let client = Client::new(options(&format!("{}&maxAdaptiveRetries=1", fake.address)));
        run(&client, 0).await.expect_err("it refuses all");
    });
    assert_eq!(log.lock().expect("no panic").len(), 2);
}

#[test]
fn another_batch_is_asked_for_again() {
    let log = Log::default();
    let seen = Arc::clone(&log);
    let fake = Fake::serve(move |command| {
        let mut seen = seen.lock().expect("no panic");
        seen.push(command.body.clone());
        match (command.name(), seen.len()) {
            ("find", _) => Answer::Reply(
                doc! { "cursor": { "id": 7_i64, "ns": "d.c", "firstBatch": [{ "n": 1 }] }, "ok": 1.0 },
            ),
            (_, 2) => overloaded(),
            _ => Answer::Reply(
                doc! { "cursor": { "id": 0_i64, "ns": "d.c", "nextBatch": [{ "n": 2 }] }, "ok": 1.0 },
            ),
        }
    });
    on_core(async move {
        let things = Client::new(options(&fake.address)).database("d").collection::<Document>("c");
        let found = things.find(doc! {}).await.expect("found").collect().await.expect("read");
        assert_eq!(found, [doc! { "n": 1 }, doc! { "n": 2 }]);
    });
    assert_eq!(log.lock().expect("no panic").len(), 3);
}

/// Specification: Transactions, "Interaction with Client Backpressure".
#[test]
fn the_first_command_of_a_transaction_begins_it_also_when_it_is_sent_again() {
    let (fake, log) = refusing(1);
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let session = client.start_session();
        session.start_transaction(TransactionOptions::new()).expect("none is under way");
        let things = client.database("d").collection::<Document>("c");
        for _ in 0..2 {
            things.insert_one(&doc! {}).session(&session).await.expect("it is sent again");
        }
        session.abort().await.expect("it is told");
    });
    let log = log.lock().expect("no panic");
    let begins = |body: &Document| body.get_bool("startTransaction").unwrap_or(false);
    assert_eq!(log.iter().map(begins).collect::<Vec<_>>(), [true, true, false, false]);
    assert!(log.iter().all(|body| body.get("txnNumber") == log[0].get("txnNumber")));
}

#[test]
fn another_server_is_asked_if_the_options_say_so() {
    for is_on in [false, true] {
        let set = ReplicaSet::start(2, |_, member, _| match member {
            0 => overloaded(),
            _ => Answer::Reply(last_batch(vec![])),
        });
        let address = format!(
            "{}&readPreference=primaryPreferred&localThresholdMS=60000&enableOverloadRetargeting={is_on}",
            set.address(&[0, 1])
        );
        on_core(async move {
            let client = Client::new(options(&address));
            assert_eq!(client.servers().len(), 2, "they are asked how they are");
            until(|| client.servers().iter().all(|server| server.kind.holds_data())).await;
            let things = client.database("d").collection::<Document>("c");
            let found = things.find_one(doc! {}).await;
            assert_eq!(found.is_ok(), is_on, "{found:?}");
            let asked: Vec<_> = set.got("find").into_iter().map(|(member, _)| member).collect();
            let expected: &[usize] = if is_on { &[0, 1] } else { &[0, 0, 0] };
            assert_eq!(asked, expected);
        });
    }
}
