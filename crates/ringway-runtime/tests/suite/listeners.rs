//! Listeners: order, hand-over, closing, and the limit of descriptors.

use std::fs::File;
use std::io::ErrorKind;
use std::iter::from_fn;
use std::net::{TcpListener, TcpStream};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use ringway_runtime::io::{ListenOptions, Listener, Stream, StreamLimits};
use ringway_runtime::{Backend, Runtime, now, spawn, yield_now};
use rustix::process::{Resource, Rlimit, setrlimit};
use socket2::SockAddr;

use crate::support;
use crate::support::alone::NoForks;
use crate::support::{Driver, alone, any_port, block_on, connected_to, echo, exchange, listen};
use crate::support::{exchange_once, held::open_descriptors, listen_apart, pair, poll_once};

on_every_driver!(
    connections_are_accepted_in_order,
    a_dropped_listener_refuses_and_frees_its_port,
    connections_nobody_accepts_are_closed_with_the_listener,
    an_accepted_connection_nobody_takes_is_closed,
    a_taken_address_is_an_error,
    a_connect_to_nobody_is_refused,
    every_task_that_waits_for_a_connection_is_woken,
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

/// Opens and closes one connection. The kernel closes in a later turn.
async fn some_turns() {
    let (client, server) = pair().await;
    drop(spawn(echo(server)));
    exchange(&client, b"turn").await;
}

async fn a_dropped_listener_refuses_and_frees_its_port(_: Driver) {
    let _no_forks = NoForks::begin();
    let listener = listen_apart();
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
    let _no_forks = NoForks::begin();
    let address = listen_apart().local_addr().clone();
    some_turns().await;
    let error = Stream::connect(&address).await.expect_err("nobody listens");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

async fn every_task_that_waits_for_a_connection_is_woken(_: Driver) {
    let listener = Rc::new(listen());
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let listener = listener.clone();
        waiting.push(spawn(async move { drop(listener.accept().await.expect("accept")) }));
    }
    yield_now().await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let client = Stream::connect(listener.local_addr()).await;
        clients.push(client.expect("connect"));
    }
    for task in waiting {
        task.await.expect("no panic");
    }
}

mod between_cores {
    use super::*;

    on_every_kernel_driver!(
        a_connection_can_be_given_to_a_core_of_another_kind,
        a_connection_taken_outside_of_a_core_is_closed,
    );
}

/// A read that fills its buffer is followed by another one. On a socket that is not prepared for
/// its core, that read would block the core.
fn a_connection_can_be_given_to_a_core_of_another_kind(backend: Backend) {
    const BUFFER: usize = 17 * 1024;
    let others = match backend {
        Backend::Uring => Backend::Epoll,
        _ => Backend::Uring,
    };
    let runtime = Runtime::builder().threads(1).backend(others).start().expect("it starts");
    let other = runtime.cores()[0].clone();
    let done = block_on(backend, async move {
        let listener = listen();
        let client = Stream::connect(listener.local_addr()).await.expect("connect");
        let accepted = listener.accept().await.expect("accept");
        let serve = async move || echo(accepted.into_stream(&Rc::default())?).await;
        let served = other.spawn(serve).expect("the mailbox has room");
        for round in 0..10 {
            exchange(&client, &support::pattern(BUFFER, round)).await;
        }
        let answer = other.spawn(async || 7).expect("the mailbox has room");
        assert_eq!(answer.await.expect("the core goes on"), 7);
        client.shutdown();
        served.await.expect("no panic").expect("no error");
    });
    done.expect("no hang");
    runtime.shutdown().expect("it ends");
}

fn a_connection_taken_outside_of_a_core_is_closed(backend: Backend) {
    let done = block_on(backend, async {
        let listener = listen();
        let client = Stream::connect(listener.local_addr()).await.expect("connect");
        let accepted = listener.accept().await.expect("accept");
        let taken = std::thread::spawn(move || accepted.into_stream(&Rc::default()).is_ok());
        assert!(taken.join().is_err(), "a stream without a core");
        assert!(client.recv().await.expect("no error").is_none());
    });
    done.expect("no hang");
}

#[test]
fn accepting_rests_at_the_descriptor_limit_on_uring() {
    alone(|| rest_at_the_limit(Backend::Uring));
}

#[test]
fn accepting_rests_at_the_descriptor_limit_on_epoll() {
    alone(|| rest_at_the_limit(Backend::Epoll));
}

/// An acceptor that asks often hears of the limit only once in each pause.
fn rest_at_the_limit(backend: Backend) {
    const PAUSE: Duration = Duration::from_millis(50);
    let ended = block_on(backend, async {
        let (one, other) = pair().await;
        for _ in 0..20 {
            exchange_once(&one, &other).await; // the pair's own listener is closed meanwhile
        }
        let listener = Listener::bind(&any_port(), ListenOptions::default())?;
        let address = listener.local_addr().as_socket().expect("inet");
        // The kernel completes these before the core's next turn accepts any.
        let clients: Vec<_> = (0..4).map(|_| TcpStream::connect(address)).collect();
        limit_descriptors(open_descriptors() + 8);
        let takes_the_rest: Vec<_> = from_fn(|| File::open("/dev/null").ok()).collect();
        let began = now();
        let mut failures = 0;
        for _ in 0..2_000 {
            match poll_once(pin!(listener.accept())).await {
                Poll::Ready(Err(_)) => failures += 1,
                Poll::Ready(Ok(_)) => panic!("accepted without a descriptor"),
                Poll::Pending => {}
            }
            exchange_once(&one, &other).await;
        }
        let pauses = (now() - began).as_millis() / PAUSE.as_millis();
        assert!(failures > 0 && failures <= pauses + 1, "{failures} in {pauses} pauses");
        drop((clients, takes_the_rest));
        std::io::Result::Ok(())
    });
    ended.expect("the core goes on").expect("no error");
}

#[test]
fn accepting_survives_the_descriptor_limit_on_uring() {
    alone(|| survive_the_limit(Backend::Uring));
}

#[test]
fn accepting_survives_the_descriptor_limit_on_epoll() {
    alone(|| survive_the_limit(Backend::Epoll));
}

/// There is room for a few connections at a time, and every one of many is served in the end.
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

#[test]
fn connecting_takes_descriptors_that_are_kept_for_peers_alone_on_uring() {
    alone(|| take_what_is_kept_for_peers(Backend::Uring));
}

#[test]
fn connecting_takes_descriptors_that_are_kept_for_peers_alone_on_epoll() {
    alone(|| take_what_is_kept_for_peers(Backend::Epoll));
}

/// Dropped streams that have sent everything wait for the ends of their peers.
fn take_what_is_kept_for_peers(backend: Backend) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = SockAddr::from(listener.local_addr().expect("bound"));
    let connected = block_on(backend, async move {
        let beside = pair().await;
        for _ in 0..4 {
            let stream = Stream::connect(&to).await?;
            stream.write(b"all of it");
            stream.flushed().await?;
        }
        for _ in 0..20 {
            exchange_once(&beside.0, &beside.1).await; // the pair's own listener is closed meanwhile
        }
        limit_descriptors(open_descriptors());
        let _takes_the_rest: Vec<_> = from_fn(|| File::open("/dev/null").ok()).collect();
        Stream::connect(&to).await.map(drop)
    });
    connected.expect("the core goes on").expect("a descriptor is given up");
}

fn limit_descriptors(count: usize) {
    let limit = Rlimit { current: Some(count as u64), maximum: Some(count as u64) };
    setrlimit(Resource::Nofile, limit).expect("lowering is allowed");
}
