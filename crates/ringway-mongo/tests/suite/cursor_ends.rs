//! What cursors hold at their servers, and how they are ended there.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bson::{Bson, Document, doc};
use futures_core::Stream;
use ringway_mongo::{Client, Collection};

use crate::support::fake::{Answer, Command, Fake, hello, last_batch};
use crate::support::replica_set::ReplicaSet;
use crate::support::{client, on_core, options, until};

fn things(client: &Client) -> Collection<Document> {
    client.database("d").collection("c")
}

/// A first batch of a cursor that goes on.
fn open_cursor(id: i64) -> Answer {
    let cursor = doc! { "id": id, "ns": "d.c", "firstBatch": [{ "n": 0 }] };
    Answer::Reply(doc! { "cursor": cursor, "ok": 1.0 })
}

type Log = Arc<Mutex<Vec<Document>>>;

/// A server that keeps its commands.
fn logging(answer: impl Fn(&Command) -> Answer + Send + Sync + 'static) -> (Fake, Log) {
    let log = Log::default();
    let kept = Arc::clone(&log);
    let fake = Fake::serve(move |command| {
        kept.lock().expect("no panic").push(command.body.clone());
        answer(command)
    });
    (fake, log)
}

/// The different sessions of the commands of this name.
fn sessions(log: &Log, name: &str) -> usize {
    let log = log.lock().expect("no panic");
    let of_name = log.iter().filter(|body| body.contains_key(name));
    let ids: BTreeSet<_> =
        of_name.map(|body| format!("{:?}", body.get("lsid").expect("a session"))).collect();
    ids.len()
}

#[test]
fn a_cursor_that_the_server_has_exhausted_holds_no_session() {
    let (fake, log) = logging(|command| match command.name() {
        "find" if command.body.contains_key("batchSize") => open_cursor(7),
        "getMore" => Answer::Reply(
            doc! { "cursor": { "id": 0_i64, "ns": "d.c", "nextBatch": [{ "n": 1 }] }, "ok": 1.0 },
        ),
        _ => Answer::Reply(last_batch(vec![doc! { "n": 0 }])),
    });
    on_core(async move {
        let things = things(&client(&fake.address));
        let mut held = Vec::new();
        for _ in 0..5 {
            held.push(things.find(doc! {}).await.expect("found"));
        }
        assert_eq!(sessions(&log, "find"), 1, "all documents are here already");
        let mut longer = things.find(doc! {}).batch_size(1).await.expect("found");
        assert!(longer.advance().await.expect("the first") && longer.advance().await.expect("one"));
        drop(things.find(doc! {}).await.expect("found"));
        assert_eq!(sessions(&log, "find"), 1, "its last batch is here");
        for cursor in held {
            assert_eq!(cursor.collect().await.expect("read"), [doc! { "n": 0 }]);
        }
        assert!(!longer.advance().await.expect("the end"));
    });
}

#[test]
fn a_cursor_is_a_stream() {
    let (fake, _log) = logging(|command| match command.name() {
        "find" => open_cursor(7),
        _ => {
            let batch = [doc! { "n": "no number" }, doc! { "n": 2 }];
            let cursor = doc! { "id": 0_i64, "ns": "d.c", "nextBatch": batch };
            Answer::Reply(doc! { "cursor": cursor, "ok": 1.0 })
        }
    });
    #[derive(serde::Deserialize)]
    struct Numbered {
        n: i32,
    }
    on_core(async move {
        let things = things(&client(&fake.address)).with_type::<Numbered>();
        let mut cursor = things.find(doc! {}).await.expect("found");
        let mut read = Vec::new();
        while let Some(next) = poll_fn(|cx| Pin::new(&mut cursor).poll_next(cx)).await {
            read.push(
                next.map_or_else(|error| error.to_string().contains('n'), |it| it.n % 2 == 0),
            );
        }
        assert_eq!(read, [true; 3], "it goes on behind what is no number");
    });
}

fn killed(commands: &[Document]) -> Vec<Vec<i64>> {
    let of_kill = commands.iter().filter_map(|body| body.get_array("cursors").ok());
    of_kill.map(|ids| ids.iter().filter_map(Bson::as_i64).collect()).collect()
}

#[test]
fn dropped_cursors_of_a_collection_are_ended_together() {
    let next = Mutex::new(100);
    let (fake, log) = logging(move |command| match command.name() {
        "find" => {
            let mut next = next.lock().expect("no panic");
            *next += 1;
            open_cursor(*next)
        }
        _ => Answer::Reply(doc! { "ok": 1.0 }),
    });
    on_core(async move {
        let things = things(&client(&fake.address));
        let mut cursors = Vec::new();
        for _ in 0..10 {
            cursors.push(things.find(doc! {}).await.expect("found"));
        }
        drop(cursors);
        let count = || killed(&log.lock().expect("no panic")).iter().map(Vec::len).sum::<usize>();
        until(|| count() == 10).await;
        let killed = killed(&log.lock().expect("no panic"));
        assert_eq!(killed, [(101..=110).collect::<Vec<_>>()], "in one command");
    });
}

#[test]
fn a_server_that_does_not_end_its_cursors_delays_no_other() {
    // The primary never answers the end of a cursor.
    let set = ReplicaSet::start(2, |_, member, command| match command.name() {
        "find" => open_cursor(if member == 0 { 70 } else { 71 }),
        "killCursors" if member == 0 => Answer::Silence,
        _ => Answer::Reply(doc! { "ok": 1.0 }),
    });
    on_core(async move {
        let client = Client::new(options(&set.address(&[0, 1])));
        let mode = |mode| ringway_mongo::ReadPreference::new(mode);
        let primary = things(&client);
        let secondary = primary.read_preference(&mode(ringway_mongo::ReadMode::Secondary));
        let secondary = secondary.expect("a preference");
        let cursors = (
            primary.find(doc! {}).await.expect("found"),
            secondary.find(doc! {}).await.expect("found"),
        );
        drop(cursors.0);
        until(|| set.got("killCursors").len() == 1).await;
        drop(cursors.1);
        // The first one has three seconds; the second one does not wait for them.
        until(|| set.got("killCursors").len() == 2).await;
        let members: Vec<_> = set.got("killCursors").iter().map(|(member, _)| *member).collect();
        assert_eq!(members, [0, 1]);
        assert_eq!(client.pool_counts().abandoned, 0, "nobody has waited until its time was over");
    });
}

#[test]
fn old_servers_get_no_comment_with_further_batches() {
    for (version, takes) in [(8, false), (9, true)] {
        let log = Log::default();
        let kept = Arc::clone(&log);
        let fake = Fake::serve_all(move |command| {
            kept.lock().expect("no panic").push(command.body.clone());
            match command.name() {
                "hello" => {
                    let mut hello = hello();
                    hello.insert("maxWireVersion", version);
                    Answer::Reply(hello)
                }
                "find" => open_cursor(7),
                _ => Answer::Reply(last_batch(vec![])),
            }
        });
        on_core(async move {
            let cursor = things(&client(&fake.address)).find(doc! {}).comment("why").await;
            cursor.expect("found").collect().await.expect("read");
            let log = log.lock().expect("no panic");
            let of = |name: &str| log.iter().find(|body| body.contains_key(name)).expect("sent");
            assert!(of("find").contains_key("comment"));
            assert_eq!(of("getMore").contains_key("comment"), takes, "version {version}");
        });
    }
}
