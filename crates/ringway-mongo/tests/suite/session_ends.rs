//! The end of a client's sessions, of which its server is told at the client's own end.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bson::{Binary, Document, doc};
use ringway_mongo::{Client, TransactionOptions, Wait};

use crate::support::fake::{Answer, Command, Fake, hello};
use crate::support::{on_core, options, until};

type Log = Arc<Mutex<Vec<Document>>>;

/// A member of a replica set that keeps its commands, and answers `endSessions` as the test wants.
fn member(ended: impl Fn(&Command) -> Answer + Send + Sync + 'static) -> (Fake, Log) {
    let log = Log::default();
    let kept = Arc::clone(&log);
    let fake = Fake::serve_to_the_end(move |command| {
        kept.lock().expect("no panic").push(command.body.clone());
        match command.name() {
            "hello" => {
                let mut hello = hello();
                hello.extend(doc! { "setName": "rs" });
                Answer::Reply(hello)
            }
            "find" => {
                let cursor = doc! { "id": 7_i64, "ns": "d.c", "firstBatch": [{ "n": 0 }] };
                Answer::Reply(doc! { "cursor": cursor, "ok": 1.0 })
            }
            "endSessions" => ended(command),
            _ => Answer::Reply(doc! { "ok": 1.0, "n": 1 }),
        }
    });
    (fake, log)
}

fn ok(_: &Command) -> Answer {
    Answer::Reply(doc! { "ok": 1.0 })
}

fn id(session: &Document) -> Vec<u8> {
    let Binary { bytes, .. } = session
        .get("id")
        .and_then(|id| match id {
            bson::Bson::Binary(binary) => Some(binary.clone()),
            _ => None,
        })
        .expect("a UUID");
    bytes
}

/// The commands that end sessions.
fn ends(log: &Log) -> Vec<Document> {
    let log = log.lock().expect("no panic");
    log.iter().filter(|body| body.contains_key("endSessions")).cloned().collect()
}

/// The sessions that these commands end.
fn ended(ends: &[Document]) -> Vec<Vec<u8>> {
    let ids = ends.iter().flat_map(|body| body.get_array("endSessions").expect("a list").clone());
    ids.map(|session| id(session.as_document().expect("a session"))).collect()
}

/// The sessions in which commands were sent.
fn used(log: &Log) -> BTreeSet<Vec<u8>> {
    let log = log.lock().expect("no panic");
    log.iter().filter_map(|body| body.get_document("lsid").ok()).map(id).collect()
}

/// Uses three sessions: that of the user, that of a cursor, and that of what is done meanwhile.
async fn use_sessions(client: &Client) {
    let things = client.database("d").collection::<Document>("c");
    let session = client.start_session();
    things.insert_one(&doc! {}).session(&session).await.expect("written");
    let cursor = things.find(doc! {}).await.expect("found");
    things.insert_one(&doc! {}).await.expect("written");
    drop((cursor, session));
}

#[test]
fn a_client_that_is_shut_down_ends_its_sessions() {
    let (fake, log) = member(ok);
    let log_of_server = Arc::clone(&log);
    on_core(async move {
        let client = Client::new(options(&fake.address));
        use_sessions(&client).await;
        client.shutdown().await.expect("there is a core");
        until(|| fake.ended() == fake.connections()).await;
    });
    let ends = ends(&log_of_server);
    let [end] = &ends[..] else { panic!("it is told once: {ends:?}") };
    assert_eq!(end.get_str("$db").ok(), Some("admin"));
    assert!(!end.contains_key("lsid"), "{end}");
    let preference = end.get_document("$readPreference").expect("there is one");
    assert_eq!(preference, &doc! { "mode": "primaryPreferred" });
    let ended = ended(&ends);
    assert_eq!((ended.len(), BTreeSet::from_iter(ended)), (3, used(&log_of_server)));
}

#[test]
fn a_client_that_is_dropped_ends_its_sessions_in_the_background() {
    let (fake, log) = member(ok);
    on_core(async move {
        let client = Client::new(options(&fake.address));
        use_sessions(&client).await;
        let other = client.clone();
        drop(client);
        use_sessions(&other).await;
        assert!(ends(&log).is_empty(), "the client is still there");
        drop(other);
        until(|| fake.ended() == fake.connections()).await;
        let ended = ended(&ends(&log));
        assert_eq!((ended.len(), BTreeSet::from_iter(ended)), (3, used(&log)));
    });
}

#[test]
fn a_session_whose_transaction_is_aborted_is_ended_behind_that() {
    for is_shut_down in [true, false] {
        let (fake, log) = member(ok);
        on_core(async move {
            let client = Client::new(options(&fake.address));
            let things = client.database("d").collection::<Document>("c");
            let session = client.start_session();
            session.start_transaction(TransactionOptions::new()).expect("none is open");
            things.insert_one(&doc! {}).session(&session).await.expect("written");
            drop((session, things));
            match is_shut_down {
                true => client.shutdown().await.expect("there is a core"),
                false => drop(client),
            }
            until(|| fake.ended() == fake.connections()).await;
            let names: Vec<_> =
                log.lock().expect("no panic").iter().map(|it| it.keys().next().cloned()).collect();
            let expected = ["insert", "abortTransaction", "endSessions"];
            assert_eq!(
                names[1..],
                expected.map(|name| Some(name.to_owned())),
                "behind the greeting"
            );
            assert_eq!(BTreeSet::from_iter(ended(&ends(&log))), used(&log));
        });
    }
}

#[test]
fn nobody_waits_for_a_server_that_does_not_want_to_know() {
    let refuse =
        |_: &Command| Answer::Reply(doc! { "ok": 0.0, "code": 59, "errmsg": "no such command" });
    let cut = |_: &Command| Answer::End(Vec::new());
    let be_silent = |_: &Command| Answer::Silence;
    let answers: [fn(&Command) -> Answer; 3] = [refuse, cut, be_silent];
    for answer in answers {
        let (fake, log) = member(answer);
        on_core(async move {
            let client = Client::new(options(&fake.address));
            use_sessions(&client).await;
            client.shutdown().await.expect("what the server says is no matter");
            assert_eq!(ends(&log).len(), 1, "it is not asked again");
        });
    }
}

#[test]
fn servers_without_sessions_are_told_nothing() {
    let log = Log::default();
    let kept = Arc::clone(&log);
    let fake = Fake::serve_to_the_end(move |command| {
        kept.lock().expect("no panic").push(command.body.clone());
        let mut hello = hello();
        hello.remove("logicalSessionTimeoutMinutes");
        Answer::Reply(hello)
    });
    on_core(async move {
        let client = Client::new(options(&fake.address));
        client.database("d").ping().await.expect("answered");
        client.shutdown().await.expect("there is a core");
        assert_eq!(fake.commands(), 2, "hello and ping");
    });
    assert!(ends(&log).is_empty() && used(&log).is_empty());
}

#[test]
fn a_session_is_not_used_again_when_its_server_may_have_forgotten_it() {
    for (minutes, sessions) in [(30, 1), (1, 2)] {
        let log = Log::default();
        let kept = Arc::clone(&log);
        let fake = Fake::serve_all(move |command| {
            kept.lock().expect("no panic").push(command.body.clone());
            let mut hello = hello();
            hello.insert("logicalSessionTimeoutMinutes", minutes);
            Answer::Reply(hello)
        });
        on_core(async move {
            let client = Client::new(options(&fake.address));
            for _ in 0..2 {
                client.database("d").ping().await.expect("answered");
            }
            assert_eq!(used(&log).len(), sessions, "{minutes} minutes");
        });
    }
}

#[test]
fn many_sessions_are_ended_in_several_commands() {
    const SESSIONS: usize = 10_001;
    let (fake, log) = member(ok);
    let log_of_server = Arc::clone(&log);
    on_core(async move {
        let client = Client::new(options(&fake.address));
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            let session = client.start_session();
            let ping = client.database("d").run_command(doc! { "ping": 1 }).session(&session);
            ping.await.expect("answered");
            sessions.push(session);
        }
        drop(sessions);
        client.shutdown().await.expect("there is a core");
    });
    let ends = ends(&log_of_server);
    let counts = ends.iter().map(|end| end.get_array("endSessions").expect("a list").len());
    assert_eq!(counts.collect::<Vec<_>>(), [10_000, 1]);
    assert_eq!(BTreeSet::from_iter(ended(&ends)).len(), SESSIONS);
}

#[test]
fn a_plain_thread_shuts_its_client_down() {
    let (fake, log) = member(ok);
    let client = Client::new(options(&fake.address));
    client.database("d").run_command(doc! { "ping": 1 }).wait().expect("answered");
    client.shutdown().wait().expect("there is a core");
    assert_eq!(BTreeSet::from_iter(ended(&ends(&log))), used(&log));
}
