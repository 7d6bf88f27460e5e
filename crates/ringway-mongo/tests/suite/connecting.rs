//! How connections are made: for whom, what they begin with, and what it means when they cannot be made.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bson::oid::ObjectId;
use bson::{Document, doc};
use ringway_mongo::{
    Client, ClientOptions, ConnectionString, DriverInfo, PoolChange, TransactionOptions, Wait,
};
use ringway_net::ClientTls;

use crate::support::fake::{Answer, Command, Fake, hello};
use crate::support::name_server::{NameServer, Record};
use crate::support::tls_front::TlsFront;
use crate::support::{client, drop_when, on_core, options, until};

/// The name of a command as it was sent.
fn sent_name(command: &Command) -> String {
    command.body.keys().next().cloned().unwrap_or_default()
}

fn ok() -> Answer {
    Answer::Reply(doc! { "ok": 1.0 })
}

/// A server that greets a connection when the test says so.
fn late() -> (Fake, std::sync::mpsc::Sender<()>) {
    let (greet, greeted) = channel();
    let greeted: Mutex<Receiver<()>> = Mutex::new(greeted);
    let fake = Fake::serve_all(move |command| match command.name() {
        "hello" => {
            let _client_has_gone = greeted.lock().expect("no panic").recv();
            Answer::Reply(hello())
        }
        _ => ok(),
    });
    (fake, greet)
}

#[test]
fn a_connection_is_made_for_the_pool_and_not_for_one_operation() {
    let (fake, greet) = late();
    on_core(async move {
        let client = client(&fake.address);
        // Each gives up before the connection is there.
        for _ in 0..5 {
            drop_when(client.database("d").ping(), || fake.commands() == 1).await;
        }
        assert_eq!(fake.connections(), 1, "one is made for whoever comes");
        greet.send(()).expect("a server");
        until(|| client.idle_connections() == 1).await;
        client.database("d").ping().await.expect("it has been made");
        assert_eq!((fake.connections(), client.pool_counts().made), (1, 1));
    });
}

#[test]
fn who_has_waited_longest_gets_the_connection_that_another_has_had_made() {
    let (fake, greet) = late();
    on_core(async move {
        let client = Client::new(options(&fake.address).pool_size_max(1));
        let gone = client.database("d").ping();
        drop_when(gone, || fake.commands() == 1).await;
        let (one, other) = (client.database("d").ping(), client.database("d").ping());
        let one = ringway_runtime::spawn(one);
        let other = ringway_runtime::spawn(other);
        ringway_runtime::yield_now().await;
        greet.send(()).expect("a server");
        one.await.expect("no panic").expect("the first");
        other.await.expect("no panic").expect("the next");
        assert_eq!(fake.connections(), 1);
    });
}

/// A server that greets so many connections and ends the others.
fn full(room: usize) -> (Fake, std::sync::mpsc::Sender<()>) {
    let (answer, held) = channel();
    let held: Mutex<Receiver<()>> = Mutex::new(held);
    let fake = Fake::serve_all(move |command| match command.name() {
        "hello" if command.connection < room => Answer::Reply(hello()),
        "hello" => Answer::End(Vec::new()),
        "hold" => {
            held.lock().expect("no panic").recv().expect("the test goes on");
            ok()
        }
        _ => ok(),
    });
    (fake, answer)
}

#[test]
fn a_server_that_takes_no_further_connection_keeps_those_that_work() {
    // The first one is the monitor's, unless there is none.
    for is_direct in [true, false] {
        let (fake, answer) = full(if is_direct { 1 } else { 2 });
        let address = match is_direct {
            true => fake.address.clone(),
            false => format!("mongodb://{}", fake.place),
        };
        let cleared = Arc::new(Mutex::new(0));
        let count = Arc::clone(&cleared);
        on_core(async move {
            let options = options(&address).on_pool(move |event| {
                if let PoolChange::Cleared { .. } = event.change {
                    *count.lock().expect("no panic") += 1;
                }
            });
            let client = Client::new(options);
            client.database("d").ping().await.expect("there is room for one");
            let database = client.database("d");
            let hold = async move { database.run_command(doc! { "hold": 1 }).await };
            let held = ringway_runtime::spawn(hold);
            until(|| client.idle_connections() == 0).await;
            let error = client.database("d").ping().await.expect_err("there is no room");
            assert!(error.is_network() && !error.may_have_happened(), "{error}");
            assert!(error.has_label("SystemOverloadedError"), "{error:?}");
            assert!(client.pool_counts().failed >= 3, "it was tried again");
            answer.send(()).expect("a server");
            held.await.expect("no panic").expect("it goes on");
            client.database("d").ping().await.expect("on the connection that works");
            assert_eq!((client.pool_counts().made, *cleared.lock().expect("no panic")), (1, 0));
        });
    }
}

#[test]
fn a_connection_that_is_not_made_in_time_is_a_failure_of_the_network() {
    let fake = Fake::serve_all(|_| Answer::Silence);
    on_core(async move {
        let options = options(&format!("{}&connectTimeoutMS=20", fake.address));
        let client = Client::new(options.adaptive_retries_max(1));
        let error = client.database("d").ping().await.expect_err("nobody answers");
        assert!(error.is_network() && error.is_timeout(), "{error:?}");
        assert!(error.has_label("SystemOverloadedError") && error.has_label("RetryableError"));
        assert_eq!(client.pool_counts().failed, 2);
        let session = client.start_session();
        session.start_transaction(TransactionOptions::new()).expect("none is under way");
        let things = client.database("d").collection::<Document>("c");
        let error =
            things.insert_one(&doc! {}).session(&session).await.expect_err("nobody answers");
        assert!(error.is_transient_transaction(), "{error:?}");
    });
}

/// What a server was asked first, and later.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<(usize, Document)>>>);

impl Asked {
    fn note(&self, command: &Command) {
        self.list().push((command.connection, command.body.clone()));
    }

    fn list(&self) -> MutexGuard<'_, Vec<(usize, Document)>> {
        self.0.lock().expect("no panic")
    }

    fn names(&self, connection: usize) -> Vec<String> {
        let of_connection = |(at, body): &(usize, Document)| {
            (*at == connection).then(|| body.keys().next().cloned().unwrap_or_default())
        };
        self.list().iter().filter_map(of_connection).collect()
    }
}

#[test]
fn servers_that_know_no_hello_are_greeted() {
    for knows_hello in [false, true] {
        let asked = Asked::default();
        let noted = asked.clone();
        let fake = Fake::serve_all(move |command| {
            noted.note(command);
            match &*sent_name(command) {
                "hello" if !knows_hello => Answer::Reply(
                    doc! { "ok": 0.0, "code": 59, "errmsg": "no such command: 'hello'" },
                ),
                "isMaster" => {
                    let mut reply = hello();
                    if knows_hello {
                        reply.insert("helloOk", true);
                    }
                    Answer::Reply(reply)
                }
                "hello" => Answer::Reply(hello()),
                _ => ok(),
            }
        });
        on_core(async move {
            let address = format!("mongodb://{}/?heartbeatFrequencyMS=500", fake.place);
            let client = client(&address);
            client.database("d").ping().await.expect("it was greeted");
            // The monitor's connection is the first, and asks again.
            until(|| asked.names(0).len() >= 2).await;
            let later = if knows_hello { "hello" } else { "isMaster" };
            assert_eq!(asked.names(0)[..2], ["isMaster", later]);
            assert_eq!(asked.names(1)[..1], ["isMaster"]);
            let list = asked.list();
            let first = &list.iter().find(|(at, _)| *at == 1).expect("it was asked").1;
            assert_eq!(first.get_bool("helloOk").ok(), Some(true));
            assert_eq!(first.get_str("backpressure").ok(), Some("2"));
            let later = &list.iter().filter(|(at, _)| *at == 0).nth(1).expect("again").1;
            assert!(!later.contains_key("client") && !later.contains_key("backpressure"));
        });
    }
}

#[test]
fn behind_a_load_balancer_hello_comes_first() {
    let asked = Asked::default();
    let noted = asked.clone();
    let fake = Fake::serve_all(move |command| {
        noted.note(command);
        let mut reply = hello();
        reply.insert("serviceId", ObjectId::from_bytes([7; 12]));
        Answer::Reply(reply)
    });
    on_core(async move {
        let client = client(&format!("mongodb://{}/?loadBalanced=true", fake.place));
        client.database("d").ping().await.expect("it was greeted");
        assert_eq!(asked.names(0), ["hello", "ping"]);
    });
}

#[test]
fn servers_are_told_of_libraries_around_the_client() {
    let asked = Asked::default();
    let noted = asked.clone();
    let fake = Fake::serve_all(move |command| {
        noted.note(command);
        match command.name() {
            "hello" => Answer::Reply(hello()),
            "end" => Answer::End(Vec::new()),
            _ => ok(),
        }
    });
    on_core(async move {
        let info = DriverInfo::new("orm").version("2.0").platform("of the test");
        let options = options(&fake.address).driver_info(info.clone()).expect("a name");
        let client = Client::new(options);
        client.database("d").ping().await.expect("it was greeted");
        client.append_driver_info(info).expect("it is there already");
        client.append_driver_info(DriverInfo::new("shop")).expect("a name");
        client.database("d").ping().await.expect("on the same connection");
        assert_eq!(fake.connections(), 1, "none is made for it");
        client.database("d").run_command(doc! { "end": 1 }).await.expect_err("it ends");
        client.database("d").ping().await.expect("on another connection");
        let told = |at: usize| {
            let list = asked.list();
            let hello = list.iter().find(|(connection, _)| *connection == at).expect("greeted");
            hello.1.get_document("client").expect("a description").clone()
        };
        let field = |at, name: &str| {
            let told = told(at);
            told.get_document("driver").expect("one").get_str(name).expect("a text").to_owned()
        };
        assert_eq!(field(0, "name"), "ringway|orm");
        assert!(field(0, "version").ends_with("|2.0"));
        assert!(told(0).get_str("platform").is_ok_and(|it| it.ends_with("|of the test")));
        assert_eq!(field(1, "name"), "ringway|orm|shop");
        assert_eq!(field(1, "version"), field(0, "version"), "it has none");
        let wrong =
            client.append_driver_info(DriverInfo::new("a|b")).expect_err("the sign between");
        assert!(wrong.is_options(), "{wrong}");
    });
}

#[test]
fn the_kernel_watches_idle_connections() {
    let fake = Fake::serve(|_| ok());
    on_core(async move {
        let client = client(&fake.address);
        client.database("d").ping().await.expect("a server");
        let port: u16 = fake.place.rsplit(':').next().and_then(|it| it.parse().ok()).expect("one");
        let table = std::fs::read_to_string("/proc/self/net/tcp").expect("Linux");
        let peer = format!(":{port:04X}");
        let row = table.lines().find(|line| {
            line.split_whitespace().nth(2).is_some_and(|remote| remote.ends_with(&peer))
        });
        // The kind of the timer is 2 for that of keepalive.
        let timer = row.and_then(|row| row.split_whitespace().nth(5)).expect("the connection");
        assert!(timer.starts_with("02:"), "{row:?}");
    });
}

#[test]
fn tls_that_is_set_in_the_program_is_on() {
    let fake = Fake::serve(|_| ok());
    let front = TlsFront::start(&fake.place, false);
    let plain = front.address.replace("&tls=true", "");
    let options = ClientOptions::parse(&plain).expect("an address").tls(front.trust());
    on_core(async move {
        Client::new(options).database("d").ping().await.expect("over TLS");
        drop(front);
    });
}

#[test]
fn what_would_go_in_plain_text_by_mistake_is_refused() {
    let refused = [
        "mongodb://db.test/?tlsCAFile=/nowhere.pem",
        "mongodb://db.test/?tls=false&tlsInsecure=true",
        "mongodb://db.test/?tls=True",
        "mongodb://db.test/?ssl=1",
        "mongodb://%2Ftmp%2Fringway.sock/?tls=true",
        "mongodb://db.test/?proxyHost=proxy.test",
    ];
    for uri in refused {
        let error = ClientOptions::parse(uri).expect_err(uri);
        assert!(error.is_options(), "{uri}: {error}");
    }
    let options = ClientOptions::parse("mongodb://%2Ftmp%2Fringway.sock/?directConnection=true");
    let options = options.expect("a socket").tls(ClientTls::new());
    on_core(async move {
        let error = Client::new(options).database("d").ping().await.expect_err("no TLS there");
        assert!(error.is_options() && error.to_string().contains("Unix socket"), "{error}");
    });
}

#[test]
fn names_are_looked_up_wherever_that_is_awaited() {
    const URI: &str = "mongodb+srv://cluster0.example.test/shop";
    let rows = [("_mongodb._tcp.cluster0.example.test", Record::Service(27017, "a.example.test"))];
    let server = NameServer::start(&rows);
    let hosts = |found: ConnectionString| found.hosts[0].to_string();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
    let tokio = tokio.expect("a thread");
    let at = Some(server.at);
    let found = tokio.block_on(tokio.spawn(ConnectionString::look_up(URI, at)));
    assert_eq!(hosts(found.expect("no panic").expect("found")), "a.example.test:27017");
    let found = ConnectionString::look_up(URI, at).wait().expect("found");
    assert_eq!(hosts(found), "a.example.test:27017");
    on_core(async move {
        let found = ConnectionString::look_up(URI, at).await.expect("found");
        assert_eq!(hosts(found), "a.example.test:27017");
    });
}

#[test]
fn an_error_says_which_servers_are_of_another_set() {
    let (set, alone) = (
        Fake::serve_all(|_| {
            let mut reply = hello();
            reply.insert("setName", "rs0");
            Answer::Reply(reply)
        }),
        Fake::serve(|_| ok()),
    );
    on_core(async move {
        for (server, expected) in [
            (&set, "its replica set is rs0, and the replica set other is wanted"),
            (&alone, "it stands alone, and the replica set other is wanted"),
        ] {
            let uri = format!("mongodb://{}/?replicaSet=other", server.place);
            let options = options(&uri).selection_timeout(Duration::from_millis(200));
            let error = Client::new(options).database("d").ping().await.expect_err("none suits");
            let said = error.to_string();
            assert!(said.contains(&server.place) && said.contains(expected), "{said}");
        }
    });
}

#[test]
fn a_time_of_zero_to_find_a_server_is_no_limit() {
    let fake = Fake::serve(|_| ok());
    on_core(async move {
        let uri = format!("mongodb://{}/?serverSelectionTimeoutMS=0", fake.place);
        client(&uri).database("d").ping().await.expect("there is time to ask it how it is");
    });
}
