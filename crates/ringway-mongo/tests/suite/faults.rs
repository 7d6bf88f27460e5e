//! Servers that cut, delay and lie. No caller gets another's reply, and no connection is lost or used out of
//! step.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::{Document, doc};
use ringway_mongo::{Client, Collection};

use crate::support::alone::NoForks;
use crate::support::fake::{Answer, Command, Fake, last_batch, reply};
use crate::support::{client, drop_when, on_core, options};

/// A server that sends the filter back as the document that was found.
fn echo(command: &Command) -> Answer {
    let filter = command.body.get_document("filter").cloned().unwrap_or_default();
    Answer::Reply(last_batch(vec![filter]))
}

fn things(client: &Client) -> Collection<Document> {
    client.database("d").collection("things")
}

async fn find(client: &Client, at: i32) -> ringway_mongo::Result<Option<Document>> {
    things(client).find_one(doc! { "at": at }).await
}

#[test]
fn a_reply_that_is_cut_anywhere_is_an_error_and_the_next_one_is_right() {
    let whole = reply(0, &last_batch(vec![doc! { "at": 1 }])).len();
    for cut in 0..whole {
        let fake = Fake::serve(move |command| match (command.connection, echo(command)) {
            (0, Answer::Reply(document)) => {
                let mut bytes = reply(command.id, &document);
                bytes.truncate(cut);
                Answer::End(bytes)
            }
            (_, answer) => answer,
        });
        on_core(async move {
            let client = Client::new(options(&fake.address).retry_reads(false));
            let error = find(&client, 1).await.expect_err("the reply is cut");
            assert!(error.is_network() && error.may_have_happened(), "cut at {cut}: {error}");
            let found = find(&client, 2).await.expect("a new connection");
            assert_eq!(found, Some(doc! { "at": 2 }));
            assert_eq!((fake.connections(), client.pool_counts().made), (2, 2));
        });
    }
}

#[test]
fn a_reply_in_single_bytes_is_right() {
    let fake = Fake::serve(|command| {
        let Answer::Reply(document) = echo(command) else { unreachable!() };
        for byte in reply(command.id, &document) {
            command.send(&[byte]);
        }
        Answer::Bytes(Vec::new())
    });
    on_core(async move {
        let client = client(&fake.address);
        assert_eq!(find(&client, 1).await.expect("found"), Some(doc! { "at": 1 }));
    });
}

#[test]
fn a_reply_to_another_command_ends_the_operation_at_once() {
    let fake = Fake::serve(|command| match command.connection {
        0 => Answer::Bytes(reply(command.id + 1000, &last_batch(vec![doc! { "stray": true }]))),
        _ => echo(command),
    });
    on_core(async move {
        let client = client(&fake.address);
        let error = find(&client, 1).await.expect_err("it answers nobody");
        assert!(error.is_protocol() && error.to_string().contains("no command"), "{error}");
        assert_eq!(find(&client, 1).await.expect("on another connection"), Some(doc! { "at": 1 }));
        assert_eq!(client.pool_counts().made, 2);
    });
}

#[test]
fn a_reply_behind_the_one_that_is_wanted_costs_the_connection_only() {
    let fake = Fake::serve(|command| {
        let stray = reply(command.id + 1000, &last_batch(vec![doc! { "stray": true }]));
        let wanted = reply(command.id, &last_batch(vec![doc! { "at": 1 }]));
        Answer::Bytes([wanted, stray].concat())
    });
    on_core(async move {
        let client = client(&fake.address);
        for _ in 0..5 {
            assert_eq!(find(&client, 1).await.expect("found"), Some(doc! { "at": 1 }));
        }
    });
}

#[test]
fn lies_close_the_connection_with_their_name() {
    let lies: [fn(&mut Vec<u8>); 5] = [
        |bytes| bytes[..4].copy_from_slice(&15_i32.to_le_bytes()),
        |bytes| bytes[..4].copy_from_slice(&100_000_000_i32.to_le_bytes()),
        |bytes| bytes[12..16].copy_from_slice(&1_i32.to_le_bytes()),
        |bytes| bytes[16] = 0x80,
        |bytes| bytes[21] += 1,
    ];
    for lie in lies {
        let fake = Fake::serve(move |command| {
            let mut bytes = reply(command.id, &last_batch(vec![]));
            lie(&mut bytes);
            match command.connection {
                0 => Answer::Bytes(bytes),
                _ => echo(command),
            }
        });
        on_core(async move {
            let client = client(&fake.address);
            let error = find(&client, 1).await.expect_err("a lie");
            assert!(error.is_protocol() && error.may_have_happened(), "{error}");
            assert_eq!(find(&client, 2).await.expect("found"), Some(doc! { "at": 2 }));
        });
    }
}

#[test]
fn what_is_no_reply_to_the_command_is_an_error_and_the_connection_stays() {
    let answers =
        [doc! { "ok": 1.0 }, doc! { "n": 1 }, doc! { "cursor": 1, "ok": 1 }, last_batch(vec![])];
    let next = AtomicUsize::new(0);
    let fake = Fake::serve(move |_| {
        Answer::Reply(answers[next.fetch_add(1, Ordering::SeqCst).min(3)].clone())
    });
    on_core(async move {
        let client = client(&fake.address);
        for _ in 0..3 {
            let error = find(&client, 1).await.expect_err("not a batch");
            assert!(error.is_protocol(), "{error}");
        }
        assert_eq!(find(&client, 1).await.expect("found"), None);
        assert_eq!(client.pool_counts().made, 1);
    });
}

#[test]
fn no_field_of_a_command_comes_twice() {
    let names = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&names);
    let fake = Fake::serve(move |command| {
        kept.lock().expect("no panic").push((command.names.clone(), command.body.clone()));
        Answer::Reply(doc! { "ok": 1.0 })
    });
    on_core(async move {
        let database = client(&fake.address).database("d");
        let id = bson::Uuid::new();
        let own = doc! {
            "ping": 1, "$db": "other", "lsid": { "id": id }, "txnNumber": 7_i64, "maxTimeMS": 9,
            "$readPreference": { "mode": "nearest" }, "readConcern": { "level": "local" },
        };
        let timed = database.run_command(own.clone()).timeout(Duration::from_secs(20));
        timed.await.expect("answered");
        let mut pipeline = database.pipeline();
        pipeline.push(&doc! { "ping": 1, "$db": "other" }).expect("one");
        pipeline.await.expect("answered");
        let sent = names.lock().expect("no panic");
        for (names, body) in &*sent {
            let different: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!(different.len(), names.len(), "{names:?}");
            assert_eq!(body.get_str("$db").ok(), Some("other"), "the user's own");
        }
        let (_, body) = &sent[0];
        assert!(own.iter().all(|(name, value)| body.get(name) == Some(value)), "{body}");
    });
}

#[test]
fn a_late_reply_is_drained_and_nobody_gets_it() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let fake = Fake::serve(move |command| {
        if command
            .body
            .get_document("filter")
            .is_ok_and(|filter| filter.get("at") == Some(&1.into()))
        {
            let _by_the_test = released.lock().expect("one thread").recv();
        }
        echo(command)
    });
    on_core(async move {
        let client = client(&fake.address);
        drop_when(find(&client, 1), || fake.commands() == 2).await;
        assert_eq!((client.idle_connections(), client.pool_counts().abandoned), (0, 1));
        release.send(()).expect("the server waits");
        while client.pool_counts().recovered == 0 {
            ringway_runtime::yield_now().await;
        }
        assert_eq!(find(&client, 2).await.expect("found"), Some(doc! { "at": 2 }));
        assert_eq!(client.pool_counts().made, 1, "the same connection");
    });
}

#[test]
fn a_reply_that_never_comes_costs_its_connection_and_not_its_place() {
    let fake = Fake::serve(|command| match command.connection {
        0 => Answer::Silence,
        _ => echo(command),
    });
    on_core(async move {
        let client = Client::new(options(&fake.address).pool_size_max(1));
        drop_when(find(&client, 1), || fake.commands() == 2).await;
        // The only place of the pool is free again when the connection has drained for a second.
        assert_eq!(find(&client, 2).await.expect("found"), Some(doc! { "at": 2 }));
        let counts = client.pool_counts();
        assert_eq!((counts.made, counts.abandoned, counts.recovered), (2, 1, 0));
    });
}

#[test]
fn a_server_that_cannot_be_reached_has_executed_nothing() {
    let _no_forks = NoForks::begin();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = listener.local_addr().expect("an address");
    let address = format!("mongodb://{place}/?directConnection=true");
    drop(listener);
    on_core(async move {
        let client = client(&address);
        let error = find(&client, 1).await.expect_err("nobody listens");
        assert!(error.is_network() && !error.may_have_happened(), "{error}");
        assert_eq!(client.pool_counts().failed, 3, "it is tried again, after pauses");
    });
}

#[test]
fn a_server_too_old_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = listener.local_addr().expect("an address");
    let address = format!("mongodb://{place}/?directConnection=true");
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut command = [0; 4096];
        let _some = stream.read(&mut command).expect("hello");
        let id = i32::from_le_bytes(command[4..8].try_into().expect("four"));
        let old = doc! { "ismaster": true, "maxWireVersion": 5, "ok": 1 };
        stream.write_all(&reply(id, &old)).expect("the client is there");
        let _until_the_end = stream.read(&mut command);
    });
    on_core(async move {
        let error = client(&address).database("d").ping().await.expect_err("too old");
        assert!(error.to_string().contains("use MongoDB 4.0 or later"), "{error}");
    });
}

#[test]
fn an_idle_connection_that_the_server_has_closed_is_not_used() {
    let fake = Fake::serve(|command| {
        let Answer::Reply(document) = echo(command) else { unreachable!() };
        match command.connection {
            0 => Answer::End(reply(command.id, &document)),
            _ => Answer::Reply(document),
        }
    });
    on_core(async move {
        let client = client(&fake.address);
        assert_eq!(find(&client, 1).await.expect("found"), Some(doc! { "at": 1 }));
        while fake.ended() == 0 {
            ringway_runtime::yield_now().await;
        }
        // A turn of the core, in which it sees the end.
        ringway_runtime::sleep(Duration::from_millis(1)).await;
        assert_eq!(find(&client, 2).await.expect("found"), Some(doc! { "at": 2 }));
    });
}
