//! How clients learn how their servers are. No server here is asked again within an hour, unless a test says so: what
//! is learned earlier was told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bson::oid::ObjectId;
use bson::{Document, doc};
use ringway_mongo::{Client, ServerDescription, ServerType};

use crate::support::fake::{Answer, Command, Fake, hello, last_batch};
use crate::support::streaming::StreamingServer;
use crate::support::{on_core, options, until};

const HOUR: &str = "heartbeatFrequencyMS=3600000";

fn proper(command: &Command) -> Answer {
    match command.name() {
        "find" => Answer::Reply(last_batch(vec![])),
        _ => Answer::Reply(doc! { "n": 1, "ok": 1.0 }),
    }
}

/// What the member of a replica set of two says.
fn member(is_primary: bool, hosts: &[&str]) -> Document {
    let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
    doc! { "setName": "rs", "hosts": hosts, "isWritablePrimary": is_primary, "secondary": !is_primary }
}

fn router() -> StreamingServer {
    StreamingServer::start(doc! { "msg": "isdbgrid" }, proper)
}

fn client(server: &StreamingServer, words: &str) -> Client {
    Client::new(options(&format!("mongodb://{}/?{words}", server.fake.place)))
}

async fn insert(client: &Client) {
    let things = client.database("d").collection::<Document>("things");
    things.insert_one(&doc! {}).await.expect("a server that takes it");
}

fn kind(client: &Client, at: &str) -> ServerType {
    let servers = client.servers();
    let server = servers.iter().find(|server| server.address.to_string() == at);
    server.map_or(ServerType::Unknown, |server| server.kind)
}

#[test]
fn a_server_tells_of_changes_by_itself() {
    let [one, other] = [(), ()].map(|()| StreamingServer::start(Document::new(), proper));
    let places = [one.fake.place.clone(), other.fake.place.clone()];
    let hosts = places.each_ref().map(|place| &**place);
    one.change(member(true, &hosts));
    other.change(member(false, &hosts));
    let address = format!("mongodb://{}/?replicaSet=rs&{HOUR}", one.fake.place);
    on_core(async move {
        let client = Client::new(options(&address));
        insert(&client).await;
        until(|| one.listeners().len() == 1 && other.listeners().len() == 1).await;
        let hosts = places.each_ref().map(|place| &**place);
        one.change(member(false, &hosts));
        other.change(member(true, &hosts));
        until(|| kind(&client, hosts[1]) == ServerType::Primary).await;
        until(|| kind(&client, hosts[0]) == ServerType::Secondary).await;
        insert(&client).await;
        assert_eq!((one.count("insert"), other.count("insert")), (1, 1));
    });
}

#[test]
fn questions_name_the_view_that_is_known_and_the_round_trip_is_measured_apart() {
    let server = router();
    on_core(async move {
        let client = client(&server, "heartbeatFrequencyMS=500&minPoolSize=0");
        insert(&client).await;
        let is_measured = |server: &StreamingServer| {
            let [listener] = server.listeners()[..] else { return false };
            server.asked().iter().filter(|(at, _)| *at != listener).count() >= 4
        };
        until(|| is_measured(&server)).await;
        let [listener] = server.listeners()[..] else { panic!("one connection is enough") };
        let asked = server.asked();
        let on_it: Vec<_> = asked.iter().filter(|(at, _)| *at == listener).collect();
        let [(_, first), (_, second)] = on_it[..] else { panic!("{on_it:?}") };
        assert!(first.get_document("client").is_ok() && first.get("topologyVersion").is_none());
        assert_eq!(second.get_i64("maxAwaitTimeMS").ok(), Some(500));
        let version = second.get_document("topologyVersion").expect("it is known by then");
        assert_eq!(version.get_i64("counter").ok(), Some(1));
        // The connection of the pool was greeted once; the others were those of round trips, on one connection.
        let others = asked.iter().filter(|(at, _)| *at != listener);
        assert!(others.into_iter().all(|(_, body)| body.get("maxAwaitTimeMS").is_none()));
        assert_eq!(server.fake.connections(), 3);
    });
}

#[test]
fn an_answer_that_none_follows_is_asked_for_again() {
    let server = router();
    on_core(async move {
        let client = client(&server, HOUR);
        let _begins = client.servers();
        for changes in 1..4_i64 {
            until(|| server.listeners().len() == 1).await;
            let [listener] = server.listeners()[..] else { panic!("one listens") };
            server.tell_last();
            until(|| server.listeners() == [listener]).await;
            let asked = server.asked();
            let last = asked.iter().rfind(|(at, _)| *at == listener).expect("it was asked");
            let version = last.1.get_document("topologyVersion").expect("the view that is known");
            assert_eq!(version.get_i64("counter").ok(), Some(changes));
            server.change(doc! { "msg": "isdbgrid" });
            let is_told = |server: &ServerDescription| {
                server.topology_version.is_some_and(|version| version.counter == changes + 1)
            };
            until(|| client.servers().iter().any(is_told)).await;
        }
    });
}

#[test]
fn a_client_that_may_not_listen_asks() {
    let server = router();
    on_core(async move {
        let client = client(&server, "heartbeatFrequencyMS=500&serverMonitoringMode=poll");
        insert(&client).await;
        until(|| server.asked().len() >= 4).await;
        assert!(server.asked().iter().all(|(_, body)| body.get("topologyVersion").is_none()));
        assert_eq!(server.fake.connections(), 2, "one to ask on and one of the pool");
    });
}

#[test]
fn when_a_connection_breaks_the_one_that_listens_is_made_anew() {
    let server =
        StreamingServer::start(doc! { "msg": "isdbgrid" }, |command| match command.name() {
            "ping" => Answer::End(Vec::new()),
            _ => proper(command),
        });
    on_core(async move {
        let client = client(&server, HOUR);
        insert(&client).await;
        until(|| server.listeners().len() == 1).await;
        let before = server.fake.connections();
        client.database("d").ping().await.expect_err("its connection is cut");
        // One that listens, one that measures and one of the pool.
        insert(&client).await;
        until(|| server.listeners().len() == 2 && server.fake.ended() >= 3).await;
        until(|| server.fake.connections() >= before + 3).await;
    });
}

#[test]
fn a_listening_connection_that_is_silent_for_too_long_is_made_anew() {
    let server = router();
    on_core(async move {
        // The server has to say something every 1.5 s.
        let client = client(&server, "heartbeatFrequencyMS=500&connectTimeoutMS=1000");
        insert(&client).await;
        until(|| server.listeners().len() >= 2).await;
        insert(&client).await;
    });
}

#[test]
fn a_server_that_tells_too_much_delays_no_operation() {
    let server = router();
    on_core(async move {
        let client = client(&server, HOUR);
        insert(&client).await;
        until(|| server.listeners().len() == 1).await;
        const FLOOD: usize = 100_000;
        server.flood(FLOOD);
        let counter = |client: &Client| {
            let version = client.servers()[0].topology_version;
            version.map_or(0, |version| version.counter)
        };
        until(|| counter(&client) > 5).await;
        for _ in 0..100 {
            insert(&client).await;
        }
        assert!(counter(&client) < FLOOD as i64 / 2, "it listens to all of them");
    });
}

#[test]
fn listening_ends_with_the_client() {
    let server = router();
    on_core(async move {
        let client = client(&server, HOUR);
        insert(&client).await;
        until(|| server.listeners().len() == 1 && server.fake.connections() == 3).await;
        drop(client);
        until(|| server.fake.ended() == 3).await;
    });
}

/// It tells a new client how it is, and ends each connection on which it is to tell of changes.
#[test]
fn a_server_that_ends_connections_is_not_asked_as_fast_as_it_ends_them() {
    let ended = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ended);
    let fake = Fake::serve_all(move |command| {
        if command.body.contains_key("topologyVersion") {
            count.fetch_add(1, Ordering::SeqCst);
            return Answer::End(Vec::new());
        }
        if command.name() != "hello" {
            return proper(command);
        }
        let version = doc! { "processId": ObjectId::from_bytes([9; 12]), "counter": 1_i64 };
        let mut hello = hello();
        hello.insert("topologyVersion", version);
        Answer::Reply(hello)
    });
    on_core(async move {
        let client = Client::new(options(&format!("mongodb://{}/?{HOUR}", fake.place)));
        let _begins_to_ask = client.servers();
        until(|| ended.load(Ordering::SeqCst) > 1).await;
        // A connection and two questions, as each time that it is asked.
        for _ in 0..40 {
            let other = Client::new(options(&fake.address));
            other.database("d").ping().await.expect("answered");
        }
        // Meanwhile it could have been asked as often. A third time is that of a machine that stands still in between.
        let ended = ended.load(Ordering::SeqCst);
        assert!(ended <= 8, "{ended}");
    });
}
