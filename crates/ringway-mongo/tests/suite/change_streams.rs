//! Change streams, against servers of the test: none that has them can be had.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::{Document, Timestamp, doc};
use ringway_mongo::{
    Client, Collection, ReadConcern, ReadMode, ReadPreference, TransactionOptions,
};

use crate::support::fake::{Answer, Command, Fake, hello};
use crate::support::replica_set::ReplicaSet;
use crate::support::{on_core, options};

fn books(client: &Client) -> Collection<Document> {
    client.database("shop").collection("books")
}

/// A change, whose token is its number.
fn change(number: i32) -> Document {
    doc! { "_id": { "at": number }, "operationType": "insert", "fullDocument": { "n": number } }
}

/// A batch of a cursor that goes on, with a token behind its last change if there is one.
fn batch(first: bool, changes: &[i32], token: Option<i32>) -> Answer {
    let name = if first { "firstBatch" } else { "nextBatch" };
    let changes: Vec<_> = changes.iter().map(|number| change(*number)).collect();
    let mut cursor = doc! { "id": 7_i64, "ns": "shop.books", name: changes };
    if let Some(token) = token {
        cursor.insert("postBatchResumeToken", doc! { "at": token });
    }
    let time = Timestamp { time: 100, increment: 5 };
    Answer::Reply(doc! { "cursor": cursor, "operationTime": time, "ok": 1.0 })
}

fn refused(code: i32, labels: &[&str]) -> Answer {
    let labels: Vec<_> = labels.iter().map(|label| (*label).to_owned()).collect();
    Answer::Reply(
        doc! { "ok": 0.0, "code": code, "errmsg": "as the test wants", "errorLabels": labels },
    )
}

type Log = Arc<Mutex<Vec<Document>>>;

/// Answers the commands with these, in their order; `killCursors` is confirmed.
fn serve(answers: Vec<Answer>) -> (Fake, Log) {
    let (log, answers) = (Log::default(), Mutex::new(answers.into_iter()));
    let log_too = Arc::clone(&log);
    let answer = move |command: &Command| {
        if command.name() == "killCursors" {
            return Answer::Reply(doc! { "ok": 1.0 });
        }
        log_too.lock().expect("no panic").push(command.body.clone());
        answers.lock().expect("no panic").next().unwrap_or(Answer::Silence)
    };
    (Fake::serve(answer), log)
}

/// The stage `$changeStream` of each `aggregate`.
fn stages(log: &Log) -> Vec<Document> {
    let log = log.lock().expect("no panic");
    let pipelines = log.iter().filter_map(|body| body.get_array("pipeline").ok());
    let stage = |stages: &bson::Array| {
        let first = stages[0].as_document().expect("a stage");
        first.get_document("$changeStream").expect("the first stage").clone()
    };
    pipelines.map(stage).collect()
}

fn number(change: &Document) -> i32 {
    change.get_document("fullDocument").expect("a document").get_i32("n").expect("a number")
}

#[test]
fn what_is_watched_is_in_the_command() {
    let answers = (0..4).map(|_| batch(true, &[], Some(1))).collect();
    let (fake, log) = serve(answers);
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let watched = books(&client).watch().full_document("updateLookup").batch_size(5);
        let watched = watched.full_document_before_change("required").comment("why");
        drop(watched.pipeline([doc! { "$match": { "a": 1 } }]).await.expect("opened"));
        let time = Timestamp { time: 9, increment: 1 };
        drop(books(&client).watch().start_at_operation_time(time).await.expect("opened"));
        drop(client.database("shop").watch().resume_after(doc! { "at": 3 }).await.expect("opened"));
        drop(client.watch().start_after(doc! { "at": 4 }).await.expect("opened"));
        let expected = [
            doc! { "fullDocument": "updateLookup", "fullDocumentBeforeChange": "required" },
            doc! { "startAtOperationTime": time },
            doc! { "resumeAfter": { "at": 3 } },
            doc! { "allChangesForCluster": true, "startAfter": { "at": 4 } },
        ];
        assert_eq!(stages(&log), expected);
        let log = log.lock().expect("no panic");
        let of: Vec<_> =
            log.iter().map(|it| (it.get("aggregate"), it.get_str("$db").ok())).collect();
        let (name, one) = ("books".into(), 1.into());
        let (shop, admin) = (Some("shop"), Some("admin"));
        let all =
            [(Some(&name), shop), (Some(&name), shop), (Some(&one), shop), (Some(&one), admin)];
        assert_eq!(of, all);
        let further = bson::bson!({ "$match": { "a": 1 } });
        assert_eq!(log[0].get_array("pipeline").expect("stages")[1], further);
        assert_eq!(log[0].get_document("cursor").expect("one"), &doc! { "batchSize": 5_i64 });
        assert_eq!(log[0].get_str("comment").ok(), Some("why"));
    });
}

#[test]
fn changes_come_in_batches_some_of_which_are_empty() {
    let (fake, log) = serve(vec![
        batch(true, &[], Some(0)),
        batch(false, &[], Some(10)),
        batch(false, &[11, 12], Some(20)),
    ]);
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let wait = Duration::from_millis(1_500);
        let mut changes = books(&client).watch().max_await_time(wait).await.expect("opened");
        let token = |at: i32| Some(bson::rawdoc! { "at": at });
        assert_eq!(changes.resume_token(), token(0));
        let change = changes.next().await.expect("a change").expect("no end");
        assert_eq!((number(&change), changes.resume_token()), (11, token(11)));
        let change = changes.next().await.expect("a change").expect("no end");
        assert_eq!((number(&change), changes.resume_token()), (12, token(20)));
        for more in &log.lock().expect("no panic")[1..] {
            assert_eq!(
                (more.get_i64("getMore").ok(), more.get_i64("maxTimeMS").ok()),
                (Some(7), Some(1_500))
            );
        }
        let refused = books(&client).watch().max_await_time(Duration::MAX).await;
        assert!(refused.expect_err("longer than an operation").is_options());
    });
}

#[test]
fn a_stream_goes_on_behind_its_last_change() {
    let (fake, log) = serve(vec![
        batch(true, &[1], None),
        // The connection breaks, the cursor is gone, the server says that it is none for it.
        Answer::End(Vec::new()),
        batch(true, &[2], None),
        refused(43, &[]),
        batch(true, &[], Some(50)),
        refused(9_999, &["ResumableChangeStreamError"]),
        batch(true, &[3], None),
    ]);
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let mut changes = books(&client).watch().await.expect("opened");
        for expected in 1..=3 {
            let change = changes.next().await.expect("a change").expect("no end");
            assert_eq!(number(&change), expected);
        }
        let after = |at: i32| doc! { "resumeAfter": { "at": at } };
        assert_eq!(stages(&log), [doc! {}, after(1), after(2), after(50)]);
    });
}

/// The code of a server that is not primary any more. Servers since MongoDB 4.4 label what is passing.
#[test]
fn an_error_is_passing_by_its_number_at_old_servers_only() {
    for (version, goes_on) in [(8, true), (9, false)] {
        let answers =
            vec![batch(true, &[], Some(1)), refused(10_107, &[]), batch(true, &[1], None)];
        let answers = Mutex::new(answers.into_iter());
        let fake = Fake::serve_all(move |command| {
            if command.name() == "hello" {
                let mut hello = hello();
                hello.insert("maxWireVersion", version);
                return Answer::Reply(hello);
            }
            answers.lock().expect("no panic").next().unwrap_or(Answer::Silence)
        });
        on_core(async move {
            let client = Client::new(options(&fake.address));
            let mut changes = books(&client).watch().await.expect("opened");
            let change = changes.next().await;
            assert_eq!(change.is_ok(), goes_on, "version {version}: {change:?}");
        });
    }
}

#[test]
fn a_stream_is_opened_again_where_it_was_to_begin() {
    let (fake, log) =
        serve(vec![batch(true, &[], None), refused(43, &[]), batch(true, &[1], None)]);
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let time = Timestamp { time: 9, increment: 1 };
        let watch = books(&client).watch().start_at_operation_time(time);
        let mut changes = watch.await.expect("opened");
        changes.next().await.expect("a change").expect("no end");
        let began = doc! { "startAtOperationTime": time };
        assert_eq!(stages(&log), [began.clone(), began], "not at the time of the empty batch");
    });
}

#[test]
fn a_stream_is_one_of_its_session() {
    let answers = Mutex::new(
        vec![
            batch(true, &[], Some(1)),
            batch(true, &[], Some(1)),
            batch(false, &[1], None),
            refused(43, &[]),
            batch(true, &[2], None),
        ]
        .into_iter(),
    );
    let set = ReplicaSet::start(1, move |_, _, command| match command.name() {
        "killCursors" => Answer::Reply(doc! { "ok": 1.0 }),
        _ => answers.lock().expect("no panic").next().unwrap_or(Answer::Silence),
    });
    on_core(async move {
        let address = format!("{}&readConcernLevel=majority", set.address(&[0]));
        let client = Client::new(options(&address));
        let session = client.start_session();
        books(&client).find_one(doc! {}).session(&session).await.expect("found");
        let mut changes = books(&client).watch().session(&session).await.expect("opened");
        for expected in 1..=2 {
            let change = changes.next().await.expect("a change").expect("no end");
            assert_eq!(number(&change), expected);
        }
        let log = set.state().log.clone();
        let is_of_stream = |(_, body): &&(usize, Document)| !body.contains_key("find");
        let session_of = |body: &Document| body.get_document("lsid").expect("a session").clone();
        let own = session_of(&log[0].1);
        for (_, body) in
            log.iter().filter(is_of_stream).filter(|it| !it.1.contains_key("killCursors"))
        {
            assert_eq!(session_of(body), own, "{body}");
        }
        // It sees what the session has seen.
        let after = Timestamp { time: 100, increment: 5 };
        let concern = doc! { "level": "majority", "afterClusterTime": after };
        for (_, body) in set.got("aggregate") {
            assert_eq!(body.get_document("readConcern").ok(), Some(&concern), "{body}");
        }
        assert_eq!(set.got("aggregate").len(), 2);
        drop(changes);
        session.start_transaction(TransactionOptions::new()).expect("none is open");
        let error = books(&client).watch().session(&session).await.expect_err("in a transaction");
        assert!(error.is_options(), "{error}");
    });
}

#[test]
fn a_stream_without_changes_goes_on_where_it_began() {
    let (fake, log) =
        serve(vec![batch(true, &[], None), refused(43, &[]), batch(true, &[1], None)]);
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let mut changes = books(&client).watch().await.expect("opened");
        assert_eq!(changes.resume_token(), None);
        changes.next().await.expect("a change").expect("no end");
        let began = doc! { "startAtOperationTime": Timestamp { time: 100, increment: 5 } };
        assert_eq!(stages(&log), [doc! {}, began]);
    });
}

#[test]
fn a_stream_behind_another_one_starts_so_until_it_has_a_change() {
    let (fake, log) = serve(vec![
        batch(true, &[], None),
        refused(43, &[]),
        batch(true, &[1], None),
        refused(43, &[]),
        batch(true, &[2], None),
    ]);
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let mut changes =
            books(&client).watch().start_after(doc! { "at": 9 }).await.expect("opened");
        for _ in 0..2 {
            changes.next().await.expect("a change").expect("no end");
        }
        let after = doc! { "startAfter": { "at": 9 } };
        assert_eq!(stages(&log), [after.clone(), after, doc! { "resumeAfter": { "at": 1 } }]);
    });
}

/// Counts how often a stream is opened within half a second whose batches are refused, the first so many of each opening
/// excepted.
fn openings(good_batches: usize) -> usize {
    let opened = Arc::new(AtomicUsize::new(0));
    let (count, asked) = (Arc::clone(&opened), AtomicUsize::new(0));
    let fake = Fake::serve(move |command| match command.name() {
        "aggregate" => {
            count.fetch_add(1, Ordering::SeqCst);
            asked.store(0, Ordering::SeqCst);
            batch(true, &[], Some(1))
        }
        "getMore" if asked.fetch_add(1, Ordering::SeqCst) < good_batches => {
            batch(false, &[], Some(1))
        }
        "getMore" => refused(43, &[]),
        _ => Answer::Reply(doc! { "ok": 1.0 }),
    });
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let mut changes = books(&client).watch().await.expect("opened");
        let limited = ringway_runtime::timeout(Duration::from_millis(500), changes.next());
        limited.await.expect_err("there is never a change");
        opened.load(Ordering::SeqCst)
    })
}

#[test]
fn a_stream_that_gets_nowhere_is_opened_more_and_more_slowly() {
    for good_batches in [0, 1] {
        // At once, and after 1, 2, 4, 8, 16, 32, 64, 128 and 250 ms.
        let opened = openings(good_batches);
        assert!((3..=12).contains(&opened), "{opened} with {good_batches} good batches");
    }
}

#[test]
fn other_errors_end_a_stream() {
    let without_token = || {
        let change = doc! { "operationType": "insert" };
        let cursor = doc! { "id": 7_i64, "ns": "shop.books", "firstBatch": [change] };
        Answer::Reply(doc! { "cursor": cursor, "ok": 1.0 })
    };
    let last = || {
        let cursor = doc! { "id": 0_i64, "ns": "shop.books", "firstBatch": [change(1)] };
        Answer::Reply(doc! { "cursor": cursor, "ok": 1.0 })
    };
    let (fake, log) = serve(vec![
        batch(true, &[], None),
        refused(280, &[]),
        without_token(),
        refused(40_573, &[]),
        last(),
        // It cannot be opened again.
        batch(true, &[], None),
        refused(43, &[]),
        refused(286, &[]),
    ]);
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let mut changes = books(&client).watch().await.expect("opened");
        let error = changes.next().await.expect_err("a fatal one");
        assert_eq!(error.server().map(|told| told.code), Some(280));
        assert_eq!(changes.next().await.expect("the end"), None);
        let mut changes = books(&client).watch().await.expect("opened");
        let error = changes.next().await.expect_err("no token");
        assert!(error.is_protocol() && error.to_string().contains("_id"), "{error}");
        assert_eq!(changes.next().await.expect("the end"), None);
        assert!(books(&client).watch().await.expect_err("refused").server().is_some());
        let mut changes = books(&client).watch().await.expect("opened");
        assert!(changes.next().await.expect("a change").is_some());
        assert_eq!(changes.next().await.expect("the end"), None);
        let mut changes = books(&client).watch().await.expect("opened");
        let error = changes.next().await.expect_err("refused");
        assert_eq!(error.server().map(|told| told.code), Some(286));
        assert_eq!(changes.next().await.expect("the end"), None);
        assert_eq!(stages(&log).len(), 6);
    });
}

#[test]
fn a_stream_whose_time_is_over_goes_on_behind_its_last_change() {
    let (fake, log) = serve(vec![
        batch(true, &[1], None),
        Answer::Silence,
        // It is opened again, which takes too long at first.
        Answer::Silence,
        batch(true, &[2], None),
    ]);
    on_core(async move {
        let client = Client::new(options(&fake.address).timeout(Duration::from_millis(200)));
        let mut changes = books(&client).watch().await.expect("opened");
        let change = changes.next().await.expect("a change").expect("no end");
        assert_eq!(number(&change), 1);
        for what in ["the next batch", "the stream"] {
            assert!(changes.next().await.expect_err(what).is_timeout());
        }
        let change = changes.next().await.expect("a change").expect("no end");
        assert_eq!(number(&change), 2);
        let after = doc! { "resumeAfter": { "at": 1 } };
        assert_eq!(stages(&log), [doc! {}, after.clone(), after]);
    });
}

#[test]
fn a_stream_is_read_as_its_collection_says() {
    let answers = vec![batch(true, &[], Some(1)), refused(43, &[]), batch(true, &[1], None)];
    let answers = Mutex::new(answers.into_iter());
    let set = ReplicaSet::start(2, move |_, _, command| match command.name() {
        "killCursors" => Answer::Reply(doc! { "ok": 1.0 }),
        _ => answers.lock().expect("no panic").next().unwrap_or(Answer::Silence),
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0, 1])));
        let secondary = ReadPreference::new(ReadMode::Secondary);
        let books = books(&client).read_preference(&secondary).expect("one that can be");
        let books = books.read_concern(&ReadConcern { level: "majority".into() });
        let mut changes = books.watch().await.expect("opened");
        changes.next().await.expect("a change").expect("no end");
        // Also when it is opened again.
        let opened = set.got("aggregate");
        assert_eq!(opened.len(), 2);
        for (member, body) in opened {
            assert_eq!(member, 1, "the secondary");
            let concern = doc! { "level": "majority" };
            assert_eq!(body.get_document("readConcern").ok(), Some(&concern), "{body}");
        }
    });
}
