//! Servers that register while they serve, and roll-outs that fail no call.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use ringway_discovery::{
    Announcement, Discovery, Endpoint, EtcdConfig, EtcdRegistry, Local, Registry, RegistryAdmin,
    RegistryResolver,
};
use ringway_rpc::{CallOptions, Client, Policy, Server, ServerHandle};

use crate::support::etcd::Etcd;
use crate::support::load::Load;
use crate::support::who::{Named, WhoClient};
use crate::support::{LIMIT, authority, end, eventually, serve};

/// Long enough for clients of the same machine to hear of a change.
const DRAIN_DELAY: Duration = Duration::from_millis(200);

fn announced(registry: impl Discovery + 'static, named: &Named) -> ServerHandle {
    let announcement = Announcement::new(registry, "who").drain_delay(DRAIN_DELAY);
    let server = announcement.on(named.server()).expect("an address of this machine");
    server.start().expect("the server starts")
}

fn client(registry: impl Discovery + 'static) -> WhoClient {
    let options = CallOptions::new().timeout(LIMIT);
    let builder = Client::builder().resolver(RegistryResolver::new(registry, "who"));
    // The default policy calls new servers seldom for some seconds.
    let builder = builder.balance(Policy::RoundRobin);
    WhoClient::new(builder.options(options).build().expect("a client"))
}

#[test]
fn a_server_is_registered_while_it_serves() {
    let registry = Local::new();
    let who = registry.service("who");
    let server = Named::new("first").server();
    let announcement = Announcement::new(registry.clone(), "who").weight(3).zone("a").version("2");
    let server = announcement.with("rack", "7").on(server).expect("an address of this machine");
    assert!(who.endpoints().is_empty(), "it does not serve yet");
    let handle = server.start().expect("the server starts");
    let expected = Endpoint::new(handle.addresses()[0].to_string());
    let expected = expected.weight(3).zone("a").version("2").with("rack", "7");
    assert_eq!(*who.endpoints()[0], expected);
    handle.shutdown();
    eventually("it is deregistered", || who.endpoints().is_empty());
    // Clients that have not heard of it yet are served.
    assert!(handle.is_draining());
    let late = WhoClient::connect(expected.address()).expect("an address");
    assert_eq!(late.who().wait().expect("it serves on"), "first");
    handle.abort();
    handle.wait().expect("it ends");
    // One that is cut off is deregistered as well.
    let handle = announced(registry, &Named::new("second"));
    assert_eq!(who.endpoints().len(), 1);
    handle.abort();
    handle.wait().expect("it ends");
    eventually("it is deregistered", || who.endpoints().is_empty());
}

#[test]
fn an_address_that_clients_cannot_call_has_to_be_replaced() {
    let registry = Local::new();
    let bind = || Server::bind("tcp://0.0.0.0:0").expect("a free port");
    let error = Announcement::new(registry.clone(), "who").on(bind()).expect_err("everywhere");
    assert!(error.to_string().contains("`Announcement::address`"), "{error}");
    let given = Announcement::new(registry.clone(), "who").address("grpc://10.0.0.1:9000");
    let handle = given.on(bind()).expect("an address").start().expect("the server starts");
    assert_eq!(registry.service("who").endpoints()[0].address(), "grpc://10.0.0.1:9000");
    handle.abort();
    handle.wait().expect("it ends");
}

/// The rows of a server's first table on the console.
fn console_rows(handle: &ServerHandle) -> Vec<Vec<String>> {
    let mut socket = TcpStream::connect(authority(handle)).expect("it listens");
    let request = "GET /console/data HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    socket.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    let (_, content) = answer.split_once("\r\n\r\n").expect("a head");
    let data: serde_json::Value = serde_json::from_str(content).expect("JSON");
    serde_json::from_value(data["tables"][0]["rows"].clone()).expect("rows of texts")
}

#[test]
fn consoles_show_who_is_registered() {
    let holder = serve(&Registry::new());
    assert_eq!(console_rows(&holder), [[""; 0]; 0]);
    let config = EtcdConfig::new([authority(&holder)]).expect("an address");
    let handle = announced(EtcdRegistry::new(config), &Named::new("first"));
    let address = handle.addresses()[0].to_string();
    eventually("it is registered", || {
        console_rows(&handle) == [["who", &address, "10.0 s", "registered"]]
    });
    let rows = console_rows(&holder);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    let [key, shown, lease, ttl, renewed, left] = &row[..] else { panic!("{row:?}") };
    assert!(key.contains("who"), "{row:?}");
    assert_eq!((shown, &**ttl), (&address, "10.0 s"));
    assert_eq!(lease.len(), 16, "{row:?}");
    let seconds = |text: &str| -> f64 { text.split(' ').next().expect("one").parse().expect("s") };
    assert!(renewed.ends_with(" s ago") && seconds(renewed) + seconds(left) < 10.2, "{row:?}");
    end(handle);
    eventually("it is gone", || console_rows(&holder).is_empty());
    let at = authority(&holder);
    let put = async move {
        let admin = RegistryAdmin::connect(&[&at], None).await.expect("an address");
        admin.put("who", &Endpoint::new("tcp://10.0.0.9:1")).await
    };
    ringway_runtime::block_on(put).expect("a core").expect("it is put");
    let rows = console_rows(&holder);
    let by_hand = ["ringway/who/tcp://10.0.0.9:1", "tcp://10.0.0.9:1", "none", "", "", ""];
    assert_eq!(rows, [by_hand], "an endpoint without a lease is shown, too");
    end(holder);
}

/// Replaces three servers one after another, five times, while clients call.
fn roll<D: Discovery + Clone + 'static>(registry: &D) {
    let named = ["first", "second", "third"].map(Named::new);
    let mut handles = named.each_ref().map(|named| Some(announced(registry.clone(), named)));
    let clients = (0..3).map(|_| client(registry.clone())).collect();
    let load = Load::begin(clients);
    eventually("calls are answered", || load.answered() > 100);
    for round in 0..5 {
        for (at, named) in named.iter().enumerate() {
            end(handles[at].take().expect("it runs"));
            let before = named.calls.load(std::sync::atomic::Ordering::SeqCst);
            handles[at] = Some(announced(registry.clone(), named));
            eventually("the new one is called", || {
                assert_eq!(load.failed(), 0, "round {round}, server {at}");
                named.calls.load(std::sync::atomic::Ordering::SeqCst) > before
            });
        }
    }
    let answered = load.answered();
    let failures = load.end();
    assert!(failures.is_empty(), "{} of {answered} calls: {:?}", failures.len(), failures[0]);
    handles.into_iter().flatten().for_each(end);
}

#[test]
fn rolling_restarts_fail_no_call_with_a_registry_of_the_process() {
    roll(&Local::new());
}

#[test]
fn rolling_restarts_fail_no_call_with_a_registry_server() {
    let registry = serve(&Registry::new());
    let config = EtcdConfig::new([authority(&registry)]).expect("an address");
    roll(&EtcdRegistry::new(config));
    end(registry);
}

#[test]
fn rolling_restarts_fail_no_call_with_etcd() {
    let Some(etcd) = Etcd::start() else {
        eprintln!("etcd is not installed");
        return;
    };
    roll(&EtcdRegistry::new(EtcdConfig::new([&*etcd.authority]).expect("an address")));
}
