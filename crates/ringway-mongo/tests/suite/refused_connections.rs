//! Servers that end new connections before they greet them: because they have too much to do, or because they are gone.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

use bson::{Document, doc};
use ringway_mongo::{Client, ClientOptions, Error};
use ringway_runtime::spawn;

use crate::support::fake::{Answer, Fake, hello, last_batch, reply};
use crate::support::replica_set::ReplicaSet;
use crate::support::{client as client_of, on_core, options, until};

/// Commands that wait for their replies.
type Held = Arc<Mutex<Vec<(i32, TcpStream)>>>;

/// A server that greets its first connection only, and keeps `hold` waiting.
fn full() -> (Fake, Held) {
    let held = Held::default();
    let holds = Arc::clone(&held);
    let fake = Fake::serve_all(move |command| match command.name() {
        "hello" if command.connection == 0 => Answer::Reply(hello()),
        "hello" => Answer::End(Vec::new()),
        "hold" => {
            holds.lock().expect("no panic").push((command.id, command.stream()));
            Answer::Silence
        }
        _ => Answer::Reply(doc! { "ok": 1.0 }),
    });
    (fake, held)
}

/// A client whose only connection is in use.
async fn busy(options: ClientOptions, held: &Held) -> Client {
    let client = Client::new(options);
    let database = client.database("d");
    let hold = spawn(async move { database.run_command(doc! { "hold": 1 }).await });
    until(|| !held.lock().expect("no panic").is_empty()).await;
    drop(hold);
    client
}

#[test]
fn who_gets_no_other_connection_waits_for_those_that_there_are() {
    let (fake, held) = full();
    on_core(async move {
        let client = busy(options(&fake.address).retry_reads(false), &held).await;
        let (database, refused) = (client.database("d"), || client.pool_counts().failed);
        let waiting: Vec<_> = (0..5)
            .map(|_| {
                let database = database.clone();
                spawn(async move { database.ping().await })
            })
            .collect();
        until(|| refused() > 0).await;
        let (id, mut stream) = held.lock().expect("no panic").remove(0);
        stream.write_all(&reply(id, &doc! { "ok": 1.0 })).expect("a client");
        for waiting in waiting {
            waiting.await.expect("no panic").expect("on the connection that there is");
        }
        assert_eq!(client.pool_counts().made, 1);
    });
}

/// How often a connection is tried for an operation while no other comes back.
async fn tries(change: impl Fn(ClientOptions) -> ClientOptions, address: &str, held: &Held) -> u64 {
    let client = busy(change(options(address).retry_reads(false)), held).await;
    let error = client.database("d").ping().await.expect_err("none is made");
    assert!(error.has_label("SystemOverloadedError") && !error.may_have_happened(), "{error}");
    client.pool_counts().failed
}

#[test]
fn who_waits_for_those_in_vain_is_told() {
    for (most, expected) in [(0, 1), (2, 3)] {
        let (fake, held) = full();
        on_core(async move {
            let change = |it: ClientOptions| it.adaptive_retries_max(most);
            assert_eq!(tries(change, &fake.address, &held).await, expected);
        });
    }
}

#[test]
fn a_time_that_is_over_meanwhile_says_why_there_was_no_other() {
    let (fake, held) = full();
    on_core(async move {
        let change = options(&fake.address).adaptive_retries_max(u32::MAX);
        let client = busy(change, &held).await;
        let time = std::time::Duration::from_millis(500);
        let found = client.database("d").collection::<Document>("c").find_one(doc! {});
        let error = found.timeout(time).await.expect_err("none is free");
        assert!(error.is_timeout() && !error.may_have_happened(), "{error}");
        assert!(error.to_string().contains("takes no other connection: "), "{error}");
    });
}

/// The pool has connections that the server has ended while nobody used them, so no operation is told so.
#[test]
fn a_server_that_is_gone_is_asked_by_its_monitor_and_not_by_each_operation() {
    let streams = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&streams);
    let set = ReplicaSet::start(1, move |_, _, command| {
        kept.lock().expect("no panic").push(command.stream());
        Answer::Reply(last_batch(vec![]))
    });
    let other = Fake::serve(|_| Answer::Reply(doc! { "ok": 1.0 }));
    on_core(async move {
        let client = Client::new(options(&set.address(&[0])));
        let things = client.database("d").collection::<Document>("c");
        things.find_one(doc! {}).await.expect("found");
        set.state().dead = vec![0];
        for stream in streams.lock().expect("no panic").drain(..) {
            stream.shutdown(Shutdown::Both).expect("a connection");
        }
        // What comes from another server comes after that.
        client_of(&other.address).database("d").ping().await.expect("another server");
        let find = || {
            let things = things.clone();
            spawn(async move { things.find_one(doc! {}).await.map(drop) })
        };
        let waiting: Vec<_> = (0..100).map(|_| find()).collect();
        let is_known = || client.servers().iter().all(|server| server.kind.holds_data());
        let refused = || client.pool_counts().failed;
        until(|| !is_known() || refused() > 20).await;
        set.state().dead.clear();
        for waiting in waiting {
            let ended: Result<(), Error> = waiting.await.expect("no panic");
            ended.expect("the server is there again");
        }
        assert!(refused() <= 2, "{} connections were tried", refused());
    });
}
