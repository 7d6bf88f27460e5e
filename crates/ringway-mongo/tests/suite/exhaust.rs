//! Cursors whose batches come without being asked for, against servers of the test.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use bson::{Document, doc};
use ringway_mongo::{Client, Collection, Cursor, TransactionOptions, Wait};
use ringway_runtime::yield_now;

use crate::support::fake::{Answer, Command, Fake, streamed_batches};
use crate::support::{drop_when, on_core, options};

const BATCHES: i32 = 20;

/// The first batch of the cursor 7.
fn first() -> Answer {
    let cursor = doc! { "id": 7_i64, "ns": "d.c", "firstBatch": [{ "n": 0 }] };
    Answer::Reply(doc! { "cursor": cursor, "ok": 1.0 })
}

/// Further batches with one document each.
fn batches(command: &Command, numbers: std::ops::Range<i32>, is_end: bool) -> Vec<Vec<u8>> {
    assert!(command.allows_more, "several replies are allowed");
    streamed_batches(command.id, numbers.map(|n| vec![doc! { "n": n }]).collect(), is_end)
}

/// Serves `find` and all else properly, and `getMore` by `more`.
fn server(more: impl Fn(&Command) -> Answer + Send + Sync + 'static) -> Fake {
    Fake::serve(move |command| match command.name() {
        "find" => first(),
        "getMore" => more(command),
        _ => Answer::Reply(doc! { "ok": 1.0 }),
    })
}

fn things(client: &Client) -> Collection<Document> {
    client.database("d").collection("c")
}

/// A client of one connection.
fn client(fake: &Fake) -> Client {
    Client::new(options(&fake.address).pool_size_max(1))
}

async fn numbers(mut cursor: Cursor<Document>) -> ringway_mongo::Result<Vec<i32>> {
    let mut numbers = Vec::new();
    while cursor.advance().await? {
        numbers.push(cursor.current().get_i32("n").expect("a number"));
    }
    Ok(numbers)
}

#[test]
fn batches_come_without_being_asked_for() {
    let fake = server(|command| Answer::Bytes(batches(command, 1..BATCHES, true).concat()));
    on_core(async move {
        let client = client(&fake);
        let cursor = things(&client).find(doc! {}).exhaust(true).await.expect("found");
        assert_eq!(numbers(cursor).await.expect("read"), Vec::from_iter(0..BATCHES));
        assert_eq!(fake.commands(), 3, "hello, find and one getMore");
        client.database("d").ping().await.expect("the connection is free");
        assert_eq!((fake.connections(), client.idle_connections()), (1, 1));
    });
}

#[test]
fn replies_may_be_cut_anywhere() {
    let fake = server(|command| {
        let bytes = batches(command, 1..BATCHES, true).concat();
        let (mut rest, mut len) = (&bytes[..], 1);
        while rest.len() > len {
            command.send(&rest[..len]);
            (rest, len) = (&rest[len..], len % 101 + 1);
        }
        Answer::Bytes(rest.to_vec())
    });
    on_core(async move {
        let cursor = things(&client(&fake)).find(doc! {}).exhaust(true).await.expect("found");
        assert_eq!(numbers(cursor).await.expect("read"), Vec::from_iter(0..BATCHES));
    });
}

#[test]
fn a_plain_thread_waits_for_them() {
    let fake = server(|command| Answer::Bytes(batches(command, 1..BATCHES, true).concat()));
    let mut cursor = things(&client(&fake)).find(doc! {}).exhaust(true).wait().expect("found");
    for number in 0..BATCHES {
        let next = cursor.next().wait().expect("read");
        assert_eq!(next, Some(doc! { "n": number }));
    }
    assert_eq!(cursor.next().wait().expect("read"), None);
}

#[test]
fn servers_that_cannot_do_it_are_asked_for_each_batch() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let fake = server(move |command| {
        let at = i32::try_from(count.fetch_add(1, Ordering::SeqCst)).expect("few") + 1;
        Answer::Bytes(batches(command, at..at + 1, at + 1 == BATCHES).concat())
    });
    on_core(async move {
        let cursor = things(&client(&fake)).find(doc! {}).exhaust(true).await.expect("found");
        assert_eq!(numbers(cursor).await.expect("read"), Vec::from_iter(0..BATCHES));
        assert_eq!(fake.connections(), 1);
    });
    assert_eq!(asked.load(Ordering::SeqCst), BATCHES as usize - 1);
}

#[test]
fn a_cursor_that_is_dropped_closes_its_connection_only() {
    let fake = server(|command| Answer::Bytes(batches(command, 1..BATCHES, false).concat()));
    on_core(async move {
        let client = client(&fake);
        let find = things(&client).find(doc! {}).exhaust(true);
        let mut cursor = find.await.expect("found");
        for _ in 0..3 {
            assert!(cursor.advance().await.expect("read"));
        }
        drop(cursor);
        while fake.ended() == 0 {
            yield_now().await;
        }
        client.database("d").ping().await.expect("another connection is made");
        assert_eq!((fake.connections(), client.idle_connections()), (2, 1));
        assert_eq!(fake.commands(), 5, "hello, find, getMore, hello, ping: no killCursors");
    });
}

#[test]
fn a_cursor_that_is_dropped_while_it_waits_closes_its_connection_too() {
    let fake = server(|command| {
        command.send(&batches(command, 1..3, false)[0]);
        Answer::Silence
    });
    on_core(async move {
        let client = client(&fake);
        let mut cursor = things(&client).find(doc! {}).exhaust(true).await.expect("found");
        assert!(cursor.advance().await.expect("the first batch"));
        assert!(cursor.advance().await.expect("the second"));
        drop_when(async { numbers(cursor).await }, || true).await;
        while fake.ended() == 0 {
            yield_now().await;
        }
        client.database("d").ping().await.expect("another connection is made");
    });
}

/// Sends a word when it wakes.
struct Told(mpsc::Sender<()>);

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        let _nobody_may_listen = self.0.send(());
    }
}

#[test]
fn a_batch_that_nobody_takes_on_another_thread_keeps_no_connection() {
    let (go_on, may_go_on) = mpsc::channel();
    let may_go_on = Mutex::new(may_go_on);
    let fake = server(move |command| {
        may_go_on.lock().expect("no panic").recv().expect("the test says when");
        Answer::Bytes(batches(command, 1..BATCHES, false).concat())
    });
    let client = client(&fake);
    let mut cursor = things(&client).find(doc! {}).exhaust(true).wait().expect("found");
    assert!(cursor.advance().wait().expect("the first batch"));
    let (told, woken) = mpsc::channel();
    let waker = Waker::from(Arc::new(Told(told)));
    assert!(cursor.poll_advance(&mut Context::from_waker(&waker)).is_pending());
    go_on.send(()).expect("the server listens");
    woken.recv().expect("the batch has come");
    drop(cursor);
    client.database("d").ping().wait().expect("another connection is made");
}

#[test]
fn each_batch_has_the_time_of_the_client() {
    let fake = server(|command| {
        command.send(&batches(command, 1..3, false)[0]);
        Answer::Silence
    });
    on_core(async move {
        let options = options(&fake.address).pool_size_max(1).timeout(Duration::from_secs(1));
        let client = Client::new(options);
        let mut cursor = things(&client).find(doc! {}).exhaust(true).await.expect("found");
        assert!(cursor.advance().await.expect("the first batch"));
        assert!(cursor.advance().await.expect("the second"));
        let error = cursor.advance().await.expect_err("no third one comes");
        assert!(error.is_timeout(), "{error}");
        assert!(!cursor.advance().await.expect("it has ended"));
        while fake.ended() == 0 {
            yield_now().await;
        }
        client.database("d").ping().await.expect("another connection is made");
    });
}

#[test]
fn an_error_of_the_server_ends_the_cursor_and_keeps_the_connection() {
    let fake = server(|command| {
        let mut replies = batches(command, 1..3, false);
        let refusal = doc! { "ok": 0.0, "code": 43, "errmsg": "as the test wants" };
        replies[1] = crate::support::fake::reply(1000, &refusal);
        Answer::Bytes(replies.concat())
    });
    on_core(async move {
        let client = client(&fake);
        let cursor = things(&client).find(doc! {}).exhaust(true).await.expect("found");
        let error = numbers(cursor).await.expect_err("the server says so");
        assert_eq!(error.server().map(|it| it.code), Some(43), "{error}");
        client.database("d").ping().await.expect("the connection is free");
        assert_eq!(fake.connections(), 1);
    });
}

#[test]
fn a_connection_that_breaks_between_batches_is_an_error() {
    let whole = {
        let cursor = streamed_batches(1, vec![vec![doc! { "n": 1 }], vec![doc! { "n": 2 }]], true);
        cursor.concat().len()
    };
    for at in 0..whole {
        let fake = server(move |command| {
            let mut bytes = batches(command, 1..3, true).concat();
            bytes.truncate(at);
            Answer::End(bytes)
        });
        on_core(async move {
            let client = client(&fake);
            let cursor = things(&client).find(doc! {}).exhaust(true).await.expect("found");
            let error = numbers(cursor).await.expect_err("the end is missing");
            assert!(error.is_network(), "cut at {at}: {error}");
            client.database("d").ping().await.expect("another connection is made");
        });
    }
}

#[test]
fn replies_that_nobody_expects_close_the_connection() {
    let lies: [fn(&Command) -> Vec<u8>; 3] = [
        // It announces a batch behind the last one.
        |command| {
            let mut bytes = streamed_batches(command.id, vec![vec![]], true).concat();
            bytes[16] |= 2;
            bytes
        },
        |_| b"\xff\xff\xff\x7f garbage that is no message".to_vec(),
        // Garbage behind the last batch.
        |command| {
            let batches = vec![vec![doc! { "n": 1 }], vec![]];
            let mut bytes = streamed_batches(command.id, batches, true).concat();
            bytes.extend_from_slice(b"\xff\xff\xff\x7f garbage behind the end");
            bytes
        },
    ];
    for lie in lies {
        let fake = server(move |command| Answer::Bytes(lie(command)));
        on_core(async move {
            let client = client(&fake);
            let cursor = things(&client).find(doc! {}).exhaust(true).await.expect("found");
            let _read_or_not = numbers(cursor).await;
            while fake.ended() == 0 {
                yield_now().await;
            }
            client.database("d").ping().await.expect("another connection is made");
        });
    }
}

/// The batches that come meanwhile are of it as well, but nobody asks for them.
#[test]
fn the_session_of_the_user_is_free_between_two_batches() {
    let fake = server(|command| Answer::Bytes(batches(command, 1..4, true).concat()));
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let session = client.start_session();
        let find = things(&client).find(doc! {}).exhaust(true).session(&session);
        let mut cursor = find.await.expect("found");
        for number in 0..4 {
            assert!(cursor.advance().await.expect("read"));
            assert_eq!(cursor.current().get_i32("n").expect("a number"), number);
            let ping = client.database("d").run_command(doc! { "ping": 1 }).session(&session);
            ping.await.expect("on another connection");
        }
        assert!(!cursor.advance().await.expect("the end"));
        session.start_transaction(TransactionOptions::new()).expect("none is open");
        let find = things(&client).find(doc! {}).exhaust(true).session(&session);
        let error = find.await.expect_err("not in a transaction");
        assert!(error.is_options() && error.to_string().contains("exhaust"), "{error}");
    });
}
