//! Cursors that go on at the end of what there is, against servers of the test and FerretDB.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::{Document, doc};
use ringway_mongo::{Client, Collection, CursorType, Wait};
use ringway_runtime::spawn;

use crate::support::fake::{Answer, Command, Fake};
use crate::support::{drop_when, on_core, options, until, with_server};

fn log(client: &Client) -> Collection<Document> {
    client.database("d").collection("log")
}

fn batch(name: &str, numbers: &[i32]) -> Answer {
    let documents: Vec<_> = numbers.iter().map(|n| doc! { "n": n }).collect();
    Answer::Reply(doc! { "cursor": { "id": 7_i64, "ns": "d.log", name: documents }, "ok": 1.0 })
}

/// A server whose cursor has one document at first, and then what `more` says.
fn server(more: impl Fn(&Command) -> Answer + Send + Sync + 'static) -> Fake {
    Fake::serve(move |command| match command.name() {
        "find" => batch("firstBatch", &[0]),
        "getMore" => more(command),
        _ => Answer::Reply(doc! { "ok": 1.0 }),
    })
}

#[test]
fn the_server_is_told_how_to_wait() {
    let waits = Duration::from_millis(1500);
    let told = |kind: CursorType| {
        let log_of_server = Arc::<Mutex<Vec<Document>>>::default();
        let kept = Arc::clone(&log_of_server);
        let fake = Fake::serve(move |command| {
            kept.lock().expect("no panic").push(command.body.clone());
            let name = if command.name() == "find" { "firstBatch" } else { "nextBatch" };
            batch(name, &[1])
        });
        on_core(async move {
            let client = Client::new(options(&fake.address));
            let entries = log(&client).find(doc! {}).cursor_type(kind).max_await_time(waits);
            let mut entries = entries.await.expect("found");
            assert!(entries.advance().await.expect("of the first batch"));
            assert!(entries.advance().await.expect("of the second batch"));
        });
        let told = log_of_server.lock().expect("no panic").clone();
        let flags = ["tailable", "awaitData"].map(|name| told[0].get_bool(name).ok());
        (flags, told[1].get_i64("maxTimeMS").ok())
    };
    assert_eq!(told(CursorType::NonTailable), ([None, None], None));
    assert_eq!(told(CursorType::Tailable), ([Some(true), None], None));
    assert_eq!(told(CursorType::TailableAwait), ([Some(true), Some(true)], Some(1500)));
}

#[test]
fn what_contradicts_itself_is_refused_before_anything_is_sent() {
    let fake = server(|_| Answer::Silence);
    on_core(async move {
        let client = Client::new(options(&fake.address).timeout(Duration::from_secs(1)));
        let find = || log(&client).find(doc! {});
        let waits = find().cursor_type(CursorType::TailableAwait);
        let error = waits.max_await_time(Duration::from_secs(1)).await.expect_err("too long");
        assert!(error.is_options() && error.to_string().contains("would wait 1s"), "{error}");
        let waits = find().cursor_type(CursorType::TailableAwait);
        let waits = waits.timeout(Duration::from_millis(500));
        let error = waits.max_await_time(Duration::from_millis(600)).await.expect_err("too long");
        assert!(error.is_options() && error.to_string().contains("the client 500ms"), "{error}");
        let error = find().cursor_type(CursorType::Tailable).exhaust(true).await;
        let error = error.expect_err("one or the other");
        assert!(error.is_options() && error.to_string().contains("exhaust"), "{error}");
        assert_eq!(fake.connections(), 0);
    });
}

#[test]
fn empty_answers_are_not_asked_for_as_fast_as_they_come() {
    for kind in [CursorType::Tailable, CursorType::TailableAwait] {
        let asked = Arc::<AtomicUsize>::default();
        let is_written = Arc::<AtomicBool>::default();
        let (count, is_there) = (Arc::clone(&asked), Arc::clone(&is_written));
        let fake = server(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            let numbers: &[i32] = if is_there.load(Ordering::SeqCst) { &[1] } else { &[] };
            batch("nextBatch", numbers)
        });
        on_core(async move {
            let client = Client::new(options(&fake.address));
            let mut entries = log(&client).find(doc! {}).cursor_type(kind).await.expect("found");
            assert!(entries.advance().await.expect("of the first batch"));
            let read = spawn(async move {
                assert!(entries.advance().await.expect("it waits"));
                entries.current().get_i32("n").expect("a number")
            });
            // Meanwhile the same server answers others as fast as they ask.
            const PINGS: usize = 500;
            for _ in 0..PINGS {
                client.database("d").ping().await.expect("answered");
            }
            let asked = asked.load(Ordering::SeqCst);
            assert!(asked < PINGS / 4, "{asked} questions during {PINGS} pings");
            is_written.store(true, Ordering::SeqCst);
            assert_eq!(read.await.expect("no panic"), 1);
        });
    }
}

#[test]
fn a_cursor_that_waits_can_be_dropped_and_its_future_too() {
    let killed = Arc::<AtomicBool>::default();
    let told = Arc::clone(&killed);
    let fake = Fake::serve(move |command| match command.name() {
        "find" => batch("firstBatch", &[0]),
        "getMore" => Answer::Silence,
        "killCursors" => {
            told.store(true, Ordering::SeqCst);
            Answer::Reply(doc! { "ok": 1.0 })
        }
        _ => Answer::Reply(doc! { "ok": 1.0 }),
    });
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let entries = log(&client).find(doc! {}).cursor_type(CursorType::TailableAwait);
        let mut entries = entries.await.expect("found");
        assert!(entries.advance().await.expect("of the first batch"));
        let asked = fake.commands() + 1;
        drop_when(entries.advance(), || fake.commands() == asked).await;
        // The question goes on, and is not asked a second time.
        drop_when(entries.advance(), || true).await;
        assert_eq!(fake.commands(), asked);
        drop(entries);
        until(|| killed.load(Ordering::SeqCst)).await;
    });
}

#[test]
fn a_tailable_cursor_ends_when_the_server_says_so() {
    let fake = server(|_| {
        let cursor = doc! { "id": 0_i64, "ns": "d.log", "nextBatch": [] };
        Answer::Reply(doc! { "cursor": cursor, "ok": 1.0 })
    });
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let entries = log(&client).find(doc! {}).cursor_type(CursorType::Tailable);
        let entries = entries.await.expect("found").collect().await.expect("read");
        assert_eq!(entries, [doc! { "n": 0 }]);
    });
}

#[test]
fn what_is_written_later_is_read_from_ferretdb() {
    with_server(|client| async move {
        let database = client.database("d");
        database.create_collection("log").capped(1 << 20).await.expect("made");
        let log: Collection<Document> = log(&client);
        log.insert_many(&[doc! { "_id": 0 }, doc! { "_id": 1 }]).await.expect("written");
        for kind in [CursorType::Tailable, CursorType::TailableAwait] {
            let from = i32::try_from(log.count_documents(doc! {}).await.expect("counted"));
            let from = from.expect("few");
            // FerretDB ends a cursor whose first batch is not full.
            let entries = log.find(doc! {}).batch_size(1).cursor_type(kind);
            let mut entries =
                entries.max_await_time(Duration::from_millis(100)).await.expect("found");
            for id in 0..from {
                assert!(entries.advance().await.expect("read"));
                assert_eq!(entries.current().get_i32("_id").ok(), Some(id));
            }
            let read = spawn(async move {
                let mut ids = Vec::new();
                while ids.len() < 3 {
                    assert!(entries.advance().await.expect("it waits"));
                    ids.push(entries.current().get_i32("_id").expect("a number"));
                }
                ids
            });
            for id in from..from + 3 {
                log.insert_one(&doc! { "_id": id }).await.expect("written");
            }
            assert_eq!(read.await.expect("no panic"), Vec::from_iter(from..from + 3));
        }
        let plain = client.database("d").collection::<Document>("plain");
        plain.insert_one(&doc! {}).await.expect("written");
        let error = plain.find(doc! {}).cursor_type(CursorType::Tailable).await;
        let error = error.expect_err("it has no limited size");
        assert!(error.to_string().contains("capped"), "{error}");
    });
}

#[test]
fn a_plain_thread_waits_as_well() {
    let fake = server(|_| batch("nextBatch", &[1]));
    let client = Client::new(options(&fake.address));
    let find = log(&client).find(doc! {}).cursor_type(CursorType::TailableAwait);
    let mut entries = find.wait().expect("found");
    for n in [0, 1, 1] {
        assert_eq!(entries.next().wait().expect("read"), Some(doc! { "n": n }));
    }
}

#[test]
fn an_empty_batch_has_no_current_document() {
    let asked = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&asked);
    let fake = server(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => batch("nextBatch", &[]),
        _ => Answer::Silence,
    });
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let entries = log(&client).find(doc! {}).cursor_type(CursorType::TailableAwait);
        let mut entries = entries.await.expect("found");
        assert!(entries.advance().await.expect("of the first batch"));
        drop_when(entries.advance(), || asked.load(Ordering::SeqCst) == 2).await;
        let current = catch_unwind(AssertUnwindSafe(|| entries.current().to_owned()));
        let panic = ringway_runtime::panic_message(current.expect_err("there is none"));
        assert!(panic.contains("has not gone to a document"), "{panic}");
    });
}
