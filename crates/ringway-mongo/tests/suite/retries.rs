//! Reads are tried once more where that can help; nothing else is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::{Document, doc};
use ringway_mongo::{Client, Error};

use crate::support::fake::{Answer, Command, Fake, hello, last_batch};
use crate::support::{on_core, options};

/// The commands that a server has got, without `hello`.
type Log = Arc<Mutex<Vec<Document>>>;

/// A server that answers each command by its position among all, from 0.
fn numbered(answer: impl Fn(usize) -> Answer + Send + Sync + 'static) -> (Fake, Log) {
    let log = Log::default();
    let seen = Arc::clone(&log);
    let fake = Fake::serve(move |command: &Command| {
        let mut seen = seen.lock().expect("no test panics here");
        seen.push(command.body.clone());
        answer(seen.len() - 1)
    });
    (fake, log)
}

fn found() -> Answer {
    Answer::Reply(last_batch(vec![doc! { "at": 1 }]))
}

fn refused(code: i32) -> Answer {
    Answer::Reply(doc! { "ok": 0.0, "code": code, "errmsg": "as the test wants" })
}

fn cut() -> Answer {
    Answer::End(Vec::new())
}

async fn find(client: &Client) -> Result<Option<Document>, Error> {
    client.database("d").collection::<Document>("c").find_one(doc! {}).await
}

#[test]
fn every_read_whose_connection_breaks_is_tried_again_in_its_session() {
    for kind in 0..5 {
        let (fake, log) = numbered(|number| match number {
            0 => cut(),
            1 => Answer::Reply(
                doc! { "cursor": { "id": 0_i64, "ns": "d.c", "firstBatch": [{ "n": 1 }] },
                "values": [1], "ok": 1.0 },
            ),
            _ => found(),
        });
        on_core(async move {
            let client = Client::new(options(&fake.address));
            let things = client.database("d").collection::<Document>("c");
            let result = match kind {
                0 => things.find_one(doc! {}).await.map(drop),
                1 => things.find(doc! {}).await.map(drop),
                2 => things.count_documents(doc! {}).await.map(drop),
                3 => things.distinct("n", doc! {}).await.map(drop),
                _ => things.aggregate([doc! { "$match": {} }]).await.map(drop),
            };
            result.expect("the second try is answered");
            find(&client).await.expect("found");
        });
        let log = log.lock().expect("no test panics here");
        let ids: Vec<_> =
            log.iter().map(|body| body.get_document("lsid").expect("a session")).collect();
        assert_eq!((ids.len(), ids[0]), (3, ids[1]), "{kind}");
        assert_ne!(ids[1], ids[2], "the server may be at work in it: {kind}");
    }
}

#[test]
fn a_read_is_tried_twice_and_no_more() {
    let (fake, log) = numbered(|_| cut());
    on_core(async move {
        let error = find(&Client::new(options(&fake.address))).await.expect_err("cut twice");
        assert!(error.is_network() && error.may_have_happened(), "{error}");
    });
    assert_eq!(log.lock().expect("no test panics here").len(), 2);
}

#[test]
fn only_an_error_that_passes_is_worth_another_try() {
    for (code, tries) in [(13, 1), (50, 1), (11000, 1), (91, 2), (134, 2), (189, 2), (10107, 2)] {
        let (fake, log) = numbered(move |_| refused(code));
        on_core(async move {
            let error = find(&Client::new(options(&fake.address))).await.expect_err("refused");
            assert_eq!(error.server().expect("it answered").code, code);
        });
        assert_eq!(log.lock().expect("no test panics here").len(), tries, "{code}");
    }
}

#[test]
fn what_writes_or_may_write_is_tried_once() {
    for kind in 0..5 {
        let (fake, log) = numbered(|_| cut());
        on_core(async move {
            let client = Client::new(options(&fake.address));
            let stages = [doc! { "$currentOp": {} }, doc! { "$merge": "other" }];
            let things = client.database("d").collection::<Document>("c");
            let result = match kind {
                0 => things.insert_one(&doc! {}).await.map(drop),
                1 => things.aggregate([doc! { "$out": "other" }]).await.map(drop),
                2 => client.database("d").run_command(doc! { "find": "c" }).await.map(drop),
                3 => client.database("d").aggregate(stages).await.map(drop),
                _ => things.delete_one(doc! {}).await.map(drop),
            };
            let error = result.expect_err("cut");
            assert!(error.is_network() && error.may_have_happened(), "{error}");
        });
        assert_eq!(log.lock().expect("no test panics here").len(), 1, "{kind}");
    }
}

#[test]
fn without_retries_a_read_is_tried_once() {
    let (fake, log) = numbered(|_| cut());
    on_core(async move {
        let client =
            Client::connect(&format!("{}&retryReads=false", fake.address)).expect("a client");
        find(&client).await.expect_err("cut");
    });
    assert_eq!(log.lock().expect("no test panics here").len(), 1);
}

#[test]
fn a_second_try_that_is_not_sent_does_not_hide_the_first() {
    let fake = Fake::serve_all(|command| match (command.connection, command.name()) {
        (0, "hello") => Answer::Reply(hello()),
        _ => cut(),
    });
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let error = find(&client).await.expect_err("cut, and then no greeting");
        assert!(error.is_network() && error.may_have_happened(), "{error}");
        assert_eq!((client.pool_counts().made, client.pool_counts().failed), (1, 2));
    });
}

#[test]
fn one_time_is_over_both_tries() {
    let (fake, log) = numbered(|number| if number == 0 { cut() } else { Answer::Silence });
    on_core(async move {
        let client = Client::new(options(&fake.address).timeout(Duration::from_millis(200)));
        let error = find(&client).await.expect_err("nobody answers");
        assert!(error.is_timeout() && error.may_have_happened(), "{error}");
    });
    assert_eq!(log.lock().expect("no test panics here").len(), 2);
}

#[test]
fn a_session_whose_reply_was_garbage_is_not_used_again() {
    let (fake, log) = numbered(|number| match number {
        0 => Answer::Bytes(vec![7; 64]),
        _ => found(),
    });
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let error = find(&client).await.expect_err("no reply");
        assert!(error.is_protocol() && error.may_have_happened(), "{error}");
        find(&client).await.expect("on another connection");
    });
    let log = log.lock().expect("no test panics here");
    assert_ne!(log[0].get("lsid"), log[1].get("lsid"), "the server may be at work in it");
}

#[test]
fn a_write_is_not_sent_again_without_its_number() {
    let log = Log::default();
    let seen = Arc::clone(&log);
    // A primary that comes back as a server that stands alone.
    let fake = Fake::serve_all(move |command| match (command.name(), command.connection) {
        ("hello", 0) => {
            let mut hello = hello();
            hello.insert("setName", "rs");
            Answer::Reply(hello)
        }
        ("hello", _) => Answer::Reply(hello()),
        (_, connection) => {
            seen.lock().expect("no test panics here").push(command.body.clone());
            if connection == 0 { cut() } else { Answer::Reply(doc! { "n": 1, "ok": 1.0 }) }
        }
    });
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let things = client.database("d").collection::<Document>("c");
        let error = things.insert_one(&doc! {}).await.expect_err("nobody knows");
        assert!(error.is_network() && error.may_have_happened(), "{error}");
        things.insert_one(&doc! {}).await.expect("another write");
    });
    let log = log.lock().expect("no test panics here");
    let numbers: Vec<_> = log.iter().map(|body| body.get_i64("txnNumber").ok()).collect();
    assert_eq!(numbers, [Some(1), None]);
}

/// Specification: Client Side Operations Timeout, "Retryability".
#[test]
fn a_read_whose_time_is_set_is_tried_until_that_is_over() {
    /// The first five are refused for a passing reason, or all.
    fn server(is_ever_answered: bool) -> (Fake, Log) {
        numbered(move |at| if is_ever_answered && at >= 5 { found() } else { refused(11602) })
    }
    let find = async |fake: &Fake, time: Duration| {
        let things = Client::new(options(&fake.address)).database("d").collection::<Document>("c");
        things.find_one(doc! {}).timeout(time).await
    };
    on_core(async move {
        let (fake, log) = server(true);
        let found = find(&fake, Duration::from_secs(30)).await.expect("the sixth is answered");
        assert_eq!((found, log.lock().expect("no panic").len()), (Some(doc! { "at": 1 }), 6));
        let (fake, _) = server(false);
        let error = find(&fake, Duration::from_millis(200)).await.expect_err("none is");
        assert!(error.is_timeout() && error.to_string().contains("as the test wants"), "{error}");
        assert_eq!(error.server().map(|it| it.code), Some(11602), "why it was tried again");
    });
}
