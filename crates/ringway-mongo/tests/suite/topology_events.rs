//! What a client tells of its servers.

use std::sync::{Arc, Mutex, OnceLock};

use bson::doc;
use ringway_mongo::{Client, ServerType, TopologyChange, TopologyType};

use crate::support::fake::{Answer, Fake, hello};
use crate::support::streaming::StreamingServer;
use crate::support::{on_core, options, until};

const HOUR: &str = "heartbeatFrequencyMS=3600000";

fn ok() -> Fake {
    Fake::serve(|_| Answer::Reply(doc! { "ok": 1.0 }))
}

fn name(change: &TopologyChange<'_>) -> String {
    match change {
        TopologyChange::Opening => "opening".to_owned(),
        TopologyChange::Changed { previous, current } => {
            let count = |topology: &ringway_mongo::Topology| topology.servers().count();
            let (before, now) = (previous.kind(), current.kind());
            format!("{before:?} of {} is {now:?} of {}", count(previous), count(current))
        }
        TopologyChange::Closed => "closed".to_owned(),
        TopologyChange::ServerOpening { .. } => "a server".to_owned(),
        TopologyChange::ServerChanged { previous, current } => {
            format!("{:?} is {:?}", previous.kind, current.kind)
        }
        TopologyChange::ServerClosed { .. } => "no server".to_owned(),
        TopologyChange::HeartbeatStarted { is_awaited, .. } => format!("started {is_awaited}"),
        TopologyChange::HeartbeatSucceeded { is_awaited, .. } => format!("succeeded {is_awaited}"),
        TopologyChange::HeartbeatFailed { is_awaited, .. } => format!("failed {is_awaited}"),
        other => panic!("unknown: {other:?}"),
    }
}

#[test]
fn the_life_of_a_deployment_is_told() {
    let server = ok();
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let options = options(&format!("mongodb://{}/?{HOUR}", server.place));
    let options = options.on_topology(move |event| {
        heard.lock().expect("no panic").push(name(&event.change));
    });
    on_core(async move {
        let client = Client::new(options);
        client.database("d").ping().await.expect("it answers");
        drop(client);
    });
    let expected = [
        "opening",
        "Unknown of 0 is Unknown of 1",
        "a server",
        "started false",
        "succeeded false",
        "Unknown is Standalone",
        "Unknown of 1 is Single of 1",
        "no server",
        "Single of 1 is Unknown of 0",
        "closed",
    ];
    assert_eq!(*told.lock().expect("no panic"), expected);
}

#[test]
fn each_answer_of_a_server_that_tells_by_itself_is_told() {
    let server = StreamingServer::start(doc! { "msg": "isdbgrid" }, |_| {
        Answer::Reply(doc! { "n": 1, "ok": 1.0 })
    });
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let options = options(&format!("mongodb://{}/?{HOUR}", server.fake.place));
    let options = options.on_topology(move |event| {
        heard.lock().expect("no panic").push(name(&event.change));
    });
    on_core(async move {
        let _client = {
            let client = Client::new(options);
            client.database("d").ping().await.expect("it answers");
            client
        };
        until(|| server.listeners().len() == 1).await;
        server.change(doc! { "msg": "isdbgrid" });
        let count =
            |what: &str| told.lock().expect("no panic").iter().filter(|it| *it == what).count();
        until(|| count("started true") == 2).await;
        assert_eq!((count("succeeded true"), count("started false")), (1, 1));
        assert_eq!((count("Mongos is Mongos"), count("Sharded of 1 is Sharded of 1")), (1, 1));
        let is_last =
            |what: &str| told.lock().expect("no panic").last().is_some_and(|it| it == what);
        assert!(is_last("started true"), "the next answer is waited for at once");
    });
}

#[test]
fn checks_that_fail_or_are_given_up_are_told() {
    let server =
        StreamingServer::start(doc! { "msg": "isdbgrid" }, |command| match command.name() {
            "ping" => Answer::End(Vec::new()),
            _ => Answer::Reply(doc! { "n": 1, "ok": 1.0 }),
        });
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let options = options(&format!("mongodb://{}/?{HOUR}", server.fake.place));
    let options = options.on_topology(move |event| {
        let reason = match event.change {
            TopologyChange::HeartbeatFailed { error, .. } => error.to_string(),
            _ => String::new(),
        };
        heard.lock().expect("no panic").push((name(&event.change), reason));
    });
    on_core(async move {
        let client = Client::new(options);
        let _begins = client.servers();
        until(|| server.listeners().len() == 1).await;
        client.database("d").ping().await.expect_err("its connection is cut");
        let is_told = || {
            let told = told.lock().expect("no panic");
            let failed = told.iter().find(|(it, _)| it == "failed true");
            failed.is_some_and(|(_, why)| why.contains("another connection to the server broke"))
                && told.iter().any(|(it, _)| it == "Mongos is Unknown")
        };
        until(is_told).await;
    });
}

#[test]
fn the_check_of_a_server_that_leaves_ends_before_the_server() {
    let place = Arc::new(OnceLock::<String>::new());
    let (own, silent) = (Arc::clone(&place), Fake::serve_all(|_| Answer::Silence));
    let (is_asked, asked) = std::sync::mpsc::channel::<()>();
    let asked = Mutex::new(asked);
    // It does not know the other server.
    let primary = Fake::serve_all(move |command| {
        if command.name() == "hello" {
            let _once = asked.lock().expect("no panic").recv();
        }
        let mut hello = hello();
        hello.insert("setName", "rs");
        hello.insert("hosts", vec![own.get().expect("it is known before anybody comes").clone()]);
        Answer::Reply(hello)
    });
    place.set(primary.place.clone()).expect("once");
    let told = Arc::new(Mutex::new(Vec::new()));
    let (heard, other) = (Arc::clone(&told), silent.place.clone());
    let address = format!("mongodb://{},{}/?replicaSet=rs&{HOUR}", primary.place, silent.place);
    let options = options(&address).on_topology(move |event| match event.change {
        TopologyChange::HeartbeatFailed { server, .. }
        | TopologyChange::ServerClosed { server }
            if server.to_string() == other =>
        {
            heard.lock().expect("no panic").push(name(&event.change));
        }
        _ => {}
    });
    on_core(async move {
        let client = Client::new(options);
        let _begins = client.servers();
        until(|| silent.commands() == 1).await;
        drop(is_asked);
        client.database("d").ping().await.expect("the primary answers");
        assert_eq!(*told.lock().expect("no panic"), ["failed false", "no server"]);
    });
}

#[test]
fn who_is_told_may_use_the_client_and_may_panic() {
    let server = ok();
    let known: Arc<OnceLock<Client>> = Arc::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (user, noted) = (Arc::clone(&known), Arc::clone(&seen));
    let options = options(&format!("mongodb://{}/?heartbeatFrequencyMS=500", server.place));
    let options = options.on_topology(move |event| {
        if let Some(client) = user.get() {
            noted.lock().expect("no panic").extend(client.servers().into_iter().map(|it| it.kind));
            let database = client.database("d");
            drop(ringway_runtime::spawn(async move { database.ping().await }));
        }
        if let TopologyChange::Changed { current, .. } = event.change {
            assert_ne!(current.kind(), TopologyType::Single, "it is told of");
        }
        panic!("it is told of");
    });
    on_core(async move {
        let client = Client::new(options);
        assert!(known.set(client.clone()).is_ok());
        client.database("d").ping().await.expect("it answers");
        until(|| seen.lock().expect("no panic").contains(&ServerType::Standalone)).await;
    });
}
