//! Listeners: order, hand-over, closing, and the descriptor limit.

mod common;

use std::io::ErrorKind;
use std::net::TcpStream;
use std::rc::Rc;

use common::{Driver, any_port, block_on, connected_to, echo, exchange, in_child, listen};
use common::{left::open_descriptors, pair};
use ringway_runtime::io::{ListenOptions, Listener, Stream, StreamLimits};
use ringway_runtime::{Backend, spawn};
use rustix::process::{Resource, Rlimit, setrlimit};

on_every_driver!(
    connections_are_accepted_in_order,
    a_dropped_listener_refuses_and_frees_its_port,
    connections_nobody_accepts_are_closed_with_the_listener,
    an_accepted_connection_nobody_takes_is_closed,
    a_taken_address_is_an_error,
    a_connect_to_nobody_is_refused,
);

async fn connections_are_accepted_in_order(driver: Driver) {
    let listener = listen();
    let mut clients = Vec::new();
    for _ in 0..100 {
        let client = Stream::connect(listener.local_addr()).await;
        clients.push(client.expect("connect"));
    }
    let mut accepted = Vec::new();
    for _ in &clients {
        accepted.push(listener.accept().await.expect("accept"));
    }
    for (client, accepted) in clients.iter().zip(&accepted) {
        let address = client.local_addr().expect("connected");
        let peer = accepted.peer_addr().expect("connected");
        assert_eq!(peer, address, "{driver:?}");
    }
}

/// What opens and closes one connection beside; close is done by the kernel in a later turn.
async fn some_turns() {
    let (client, server) = pair().await;
    drop(spawn(echo(server)));
    exchange(&client, b"turn").await;
}

async fn a_dropped_listener_refuses_and_frees_its_port(_: Driver) {
    let listener = listen();
    let address = listener.local_addr().clone();
    let (client, server) = connected_to(&listener, StreamLimits::default()).await;
    drop(spawn(echo(server)));
    drop(listener);
    some_turns().await;
    let refused = Stream::connect(&address).await.expect_err("nobody listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    exchange(&client, b"connections outlive their listener").await;
    Listener::bind(&address, ListenOptions::default()).expect("the port is free");
}

async fn connections_nobody_accepts_are_closed_with_the_listener(_: Driver) {
    let listener = listen();
    let mut clients = Vec::new();
    for _ in 0..20 {
        let client = Stream::connect(listener.local_addr()).await;
        clients.push(client.expect("connect"));
    }
    some_turns().await;
    drop(listener);
    for client in clients {
        if let Ok(end) = client.recv().await {
            assert!(end.is_none());
        }
    }
}

async fn an_accepted_connection_nobody_takes_is_closed(_: Driver) {
    let listener = listen();
    let client = Stream::connect(listener.local_addr()).await;
    let client = client.expect("connect");
    drop(listener.accept().await.expect("accept"));
    assert!(client.recv().await.expect("no error").is_none());
}

async fn a_taken_address_is_an_error(_: Driver) {
    let listener = listen();
    let again = Listener::bind(listener.local_addr(), ListenOptions::default());
    assert_eq!(again.expect_err("taken").kind(), ErrorKind::AddrInUse);
}

async fn a_connect_to_nobody_is_refused(_: Driver) {
    let address = listen().local_addr().clone();
    some_turns().await;
    let error = Stream::connect(&address).await.expect_err("nobody listens");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn accepting_survives_the_descriptor_limit_on_uring() {
    if in_child("accepting_survives_the_descriptor_limit_on_uring") {
        survive_the_limit(Backend::Uring);
    }
}

#[test]
fn accepting_survives_the_descriptor_limit_on_epoll() {
    if in_child("accepting_survives_the_descriptor_limit_on_epoll") {
        survive_the_limit(Backend::Epoll);
    }
}

/// Room for a few connections at a time; every one of many is served in the end.
fn survive_the_limit(backend: Backend) {
    const CLIENTS: usize = 12;
    const ROOM: usize = 4;
    let served = block_on(backend, async {
        let listener = Listener::bind(&any_port(), ListenOptions::default())?;
        let address = listener.local_addr().as_socket().expect("inet");
        // The kernel completes these before the core's first turn accepts any.
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| TcpStream::connect(address).expect("the backlog has room"))
            .collect();
        limit_descriptors(open_descriptors() + ROOM);
        let (mut served, mut failures) = (0, 0);
        let mut open = Vec::new();
        while served < CLIENTS {
            match listener.accept().await {
                Ok(accepted) => {
                    served += 1;
                    open.push(accepted.into_stream(&Rc::default())?);
                }
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{error}");
                    failures += 1;
                    assert!(!open.is_empty(), "out of descriptors without any in use");
                    open.clear();
                }
            }
        }
        drop(clients);
        assert!(failures > 0, "the limit was never reached");
        std::io::Result::Ok(served)
    });
    assert_eq!(served.expect("the core goes on").expect("no error"), CLIENTS);
}

fn limit_descriptors(count: usize) {
    let limit = Rlimit { current: Some(count as u64), maximum: Some(count as u64) };
    setrlimit(Resource::Nofile, limit).expect("lowering is allowed");
}
