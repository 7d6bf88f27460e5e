//! The pool: who waits, in which order, and for how long.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::{Document, doc};
use ringway_mongo::{Client, Collection};
use ringway_runtime::yield_now;

use crate::support::fake::{Answer, Fake, hello, last_batch, reply};
use crate::support::replica_set::ReplicaSet;
use crate::support::{client, drop_when, on_core, options, until};

#[test]
fn operations_wait_in_order() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen_too = Arc::clone(&seen);
    let fake = Fake::serve(move |command| {
        let at = command.body.get_document("filter").and_then(|filter| filter.get_i32("at"));
        seen_too.lock().expect("no panic").push(at.expect("a number"));
        Answer::Reply(last_batch(vec![]))
    });
    on_core(async move {
        let client = Client::new(options(&fake.address).pool_size_max(1));
        let things: Collection<Document> = client.database("d").collection("things");
        let tasks: Vec<_> = (0..20)
            .map(|at| {
                let things = things.clone();
                ringway_runtime::spawn(async move { things.find_one(doc! { "at": at }).await })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic").expect("answered");
        }
        assert_eq!(fake.connections(), 1);
    });
    assert_eq!(*seen.lock().expect("no panic"), (0..20).collect::<Vec<_>>());
}

#[test]
fn nobody_overtakes_those_who_wait_for_a_connection() {
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let held = Arc::<Mutex<Option<(i32, TcpStream)>>>::default();
    let (seen_too, held_too) = (Arc::clone(&seen), Arc::clone(&held));
    // It greets its first connection only.
    let fake = Fake::serve_all(move |command| match command.name() {
        "hello" if command.connection == 0 => Answer::Reply(hello()),
        "hello" => Answer::Silence,
        "hold" => {
            *held_too.lock().expect("no panic") = Some((command.id, command.stream()));
            Answer::Silence
        }
        name => {
            seen_too.lock().expect("no panic").push(name.to_owned());
            Answer::Reply(doc! { "ok": 1 })
        }
    });
    on_core(async move {
        let options = options(&format!("{}&maxConnecting=1", fake.address));
        let client = Client::new(options);
        let run = |name: &str| {
            let (database, command) = (client.database("d"), doc! { name: 1 });
            async move { database.run_command(command).await }
        };
        let (hold, later) = (run("hold"), run("later"));
        let busy = ringway_runtime::spawn(async move {
            hold.await.expect("answered");
            later.await.expect("answered");
        });
        until(|| held.lock().expect("no panic").is_some()).await;
        let stuck = ringway_runtime::spawn(run("stuck"));
        until(|| fake.connections() == 2).await;
        let waiting = ringway_runtime::spawn(run("waiting"));
        yield_now().await;
        let (id, mut stream) = held.lock().expect("no panic").take().expect("it is held");
        stream.write_all(&reply(id, &doc! { "ok": 1 })).expect("a client");
        busy.await.expect("no panic");
        stuck.await.expect("no panic").expect("answered, whatever becomes of the one that is made");
        waiting.await.expect("no panic").expect("answered");
        assert_eq!(*seen.lock().expect("no panic"), ["stuck", "waiting", "later"]);
    });
}

#[test]
fn a_connection_of_the_least_number_is_given_up_with_its_client() {
    let fake = Fake::serve_all(|_| Answer::Silence);
    on_core(async move {
        let options = options(&format!("{}&connectTimeoutMS=0", fake.address)).pool_size_min(1);
        let client = Client::new(options);
        assert_eq!(client.servers().len(), 1, "nothing is run");
        until(|| fake.commands() == 1).await;
        drop(client);
        until(|| fake.ended() == 1).await;
    });
}

#[test]
fn who_waits_too_long_has_sent_nothing() {
    let fake = Fake::serve(|_| Answer::Silence);
    on_core(async move {
        let options = options(&fake.address).pool_size_max(1).timeout(Duration::from_secs(1));
        let client = Client::new(options);
        let database = client.database("d");
        let first = {
            let database = database.clone();
            ringway_runtime::spawn(async move { database.ping().await })
        };
        let second = database.ping().await.expect_err("the only connection is in use");
        let first = first.await.expect("no panic").expect_err("no reply");
        assert!(first.is_timeout() && second.is_timeout(), "{first} {second}");
        assert_ne!(first.may_have_happened(), second.may_have_happened(), "one of them was sent");
    });
}

#[test]
fn connections_age() {
    let fake = Fake::serve(|_| Answer::Reply(doc! { "ok": 1 }));
    on_core(async move {
        let client = Client::new(options(&fake.address).idle_max(Duration::from_millis(20)));
        client.database("d").ping().await.expect("a server");
        assert_eq!(client.idle_connections(), 1);
        while client.idle_connections() > 0 {
            ringway_runtime::sleep(Duration::from_millis(5)).await;
        }
        client.database("d").ping().await.expect("a server");
        assert_eq!(fake.connections(), 2);
    });
}

/// Waits until so many connections of the core are idle.
async fn until_idle(client: &Client, count: usize) {
    while client.idle_connections() != count {
        ringway_runtime::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn the_least_number_of_connections_is_there_before_it_is_needed() {
    let fake = Fake::serve(|command| match command.name() {
        "end" => Answer::End(Vec::new()),
        _ => Answer::Reply(doc! { "ok": 1 }),
    });
    on_core(async move {
        let options = options(&fake.address).pool_size_min(3).pool_size_max(4);
        let client = Client::new(options);
        assert_eq!(client.servers().len(), 1, "nothing is run");
        until_idle(&client, 3).await;
        client.database("d").ping().await.expect("a server");
        assert_eq!((fake.connections(), client.pool_counts().made), (3, 3));
        // What ends is replaced.
        let ended = client.database("d").run_command(doc! { "end": 1 }).await;
        assert!(ended.expect_err("the server hangs up").is_network());
        client.database("d").ping().await.expect("a server");
        until_idle(&client, 3).await;
        assert!(client.pool_counts().made <= 6, "{:?}", client.pool_counts());
    });
}

#[test]
fn the_most_connections_are_not_passed_for_the_least() {
    let fake = Fake::serve(|command| match command.name() {
        "hold" => Answer::Silence,
        _ => Answer::Reply(doc! { "ok": 1 }),
    });
    on_core(async move {
        let client = Client::new(options(&fake.address).pool_size_min(9).pool_size_max(2));
        let database = client.database("d");
        let held =
            ringway_runtime::spawn(async move { database.run_command(doc! { "hold": 1 }).await });
        until_idle(&client, 1).await;
        assert_eq!(fake.connections(), 2);
        drop(held);
    });
}

#[test]
fn each_member_that_is_there_has_the_least_number() {
    let set = ReplicaSet::start(2, |_, _, _| Answer::Reply(doc! { "ok": 1 }));
    on_core(async move {
        let uri = format!("{}&minPoolSize=2", set.address(&[0, 1]));
        let client = Client::connect(&uri).expect("a connection string");
        assert!(!client.servers().is_empty(), "it is made");
        until_idle(&client, 4).await;
    });
}

#[test]
fn dropped_cursors_end_at_the_server() {
    let ended = Arc::new(AtomicUsize::new(0));
    let ended_too = Arc::clone(&ended);
    let fake = Fake::serve(move |command| match command.name() {
        "killCursors" => {
            assert_eq!(command.body.get("cursors"), Some(&bson::bson!([77_i64])));
            ended_too.fetch_add(1, Ordering::SeqCst);
            Answer::Reply(doc! { "ok": 1 })
        }
        _ => Answer::Reply(
            doc! { "cursor": { "id": 77_i64, "ns": "d.c", "firstBatch": [{ "a": 1 }] }, "ok": 1 },
        ),
    });
    on_core(async move {
        let client = client(&fake.address);
        let things: Collection<Document> = client.database("d").collection("c");
        let cursor = things.find(doc! {}).await.expect("found");
        drop(cursor);
        while ended.load(Ordering::SeqCst) == 0 {
            ringway_runtime::yield_now().await;
        }
    });
}

#[test]
fn operations_of_one_session_after_the_other_have_the_same_session() {
    let sessions = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sessions_too = Arc::clone(&sessions);
    let fake = Fake::serve(move |command| {
        let session = command.body.get_document("lsid").cloned();
        sessions_too.lock().expect("no panic").push(session.expect("a session"));
        Answer::Reply(doc! { "ok": 1 })
    });
    on_core(async move {
        let client = client(&fake.address);
        for _ in 0..3 {
            client.database("d").ping().await.expect("a server");
        }
    });
    let sessions = sessions.lock().expect("no panic");
    assert!(sessions.len() == 3 && sessions.iter().all(|session| *session == sessions[0]));
}

#[test]
fn session_of_an_operation_that_was_given_up_is_not_used_again() {
    let sessions = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sessions_too = Arc::clone(&sessions);
    let fake = Fake::serve(move |command| {
        let session = command.body.get_document("lsid").cloned();
        sessions_too.lock().expect("no panic").push(session.expect("a session"));
        match command.connection {
            0 => Answer::Silence,
            _ => Answer::Reply(doc! { "ok": 1 }),
        }
    });
    on_core(async move {
        let database = client(&fake.address).database("d");
        // The server may still be at work on it.
        drop_when(database.ping(), || fake.commands() == 2).await;
        database.ping().await.expect("another connection");
    });
    let sessions = sessions.lock().expect("no panic");
    assert!(sessions.len() == 2 && sessions[0] != sessions[1], "{sessions:?}");
}

#[test]
fn any_time_without_use_can_be_set() {
    for period in [Duration::ZERO, Duration::MAX] {
        let (release, late) = std::sync::mpsc::channel::<()>();
        let late = std::sync::Mutex::new(late);
        let finds = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&finds);
        let fake = Fake::serve(move |command| {
            if command.name() == "find" {
                count.fetch_add(1, Ordering::SeqCst);
                late.lock().expect("no panic").recv().expect("the test goes on");
            }
            Answer::Reply(last_batch(vec![]))
        });
        on_core(async move {
            let client = Client::new(options(&fake.address).idle_max(period));
            let things: Collection<Document> = client.database("d").collection("things");
            let find = || things.find_one(doc! {}).into_future();
            drop_when(find(), || finds.load(Ordering::SeqCst) == 1).await;
            client.database("d").ping().await.expect("on another connection");
            drop_when(find(), || finds.load(Ordering::SeqCst) == 2).await;
            for number in 1..=2 {
                release.send(()).expect("it waits");
                while client.pool_counts().recovered < number {
                    ringway_runtime::yield_now().await;
                }
            }
        });
    }
}

#[test]
fn a_cursor_whose_end_nobody_confirms_holds_up_neither_others_nor_the_client() {
    let fake = Fake::serve(|command| match command.name() {
        "killCursors" => Answer::Silence,
        _ => Answer::Reply(
            doc! { "cursor": { "id": 7_i64, "ns": "d.c", "firstBatch": [] }, "ok": 1.0 },
        ),
    });
    on_core(async move {
        let client = Client::new(options(&fake.address).timeout(Duration::MAX));
        let things: Collection<Document> = client.database("d").collection("things");
        let first = things.find(doc! {}).await.expect("found");
        let second = things.find(doc! {}).await.expect("found");
        let before = fake.commands();
        drop(first);
        while fake.commands() < before + 1 {
            ringway_runtime::yield_now().await;
        }
        drop(second);
        while fake.commands() < before + 2 {
            ringway_runtime::yield_now().await;
        }
        drop((client, things));
        while fake.ended() < fake.connections() {
            ringway_runtime::yield_now().await;
        }
    });
}
