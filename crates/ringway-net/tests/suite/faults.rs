//! Faults that a server survives: no descriptors, resets, floods of connects.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringway_net::{Backend, Client, Connection, ServerHandle};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};

use crate::support::alone::alone;
use crate::support::server;
use crate::support::server::{BACKENDS, connect, descriptors, echo, end, eventually};
use crate::support::server::{connect_from, round_trip, server};

fn reset(client: &TcpStream) {
    let socket = socket2::SockRef::from(client);
    socket.set_linger(Some(Duration::ZERO)).expect("a socket option");
}

#[test]
fn resets_end_only_their_own_connections() {
    for backend in BACKENDS {
        let handle = server(backend).start(echo).expect("the server starts");
        let steady = connect(&handle);
        for round in 0..100usize {
            let mut client = connect(&handle);
            reset(&client);
            if round % 2 == 0 {
                // Bytes are under way in both directions.
                client.write_all(&vec![1; round * 2_000]).expect("written");
            }
            drop(client);
            round_trip(&steady, b"unharmed");
        }
        drop(steady);
        // A core may still have some in its listener's queue.
        eventually("all were accepted", || handle.stats().accepted == 101);
        eventually("all have ended", || handle.stats().open == 0);
        end(&handle);
        assert_eq!((handle.stats().accepted, handle.stats().handler_panics), (101, 0));
    }
}

#[test]
fn server_survives_running_out_of_descriptors() {
    alone(|| {
        for backend in BACKENDS {
            survive_emfile(backend);
        }
    });
}

fn survive_emfile(backend: Backend) {
    // An io_uring accept keeps the limit that was in force when it was armed, so the limit is set
    // before the server starts.
    let limit = Rlimit { current: Some(256), maximum: getrlimit(Resource::Nofile).maximum };
    setrlimit(Resource::Nofile, limit).expect("a lower limit");
    let handle = server(backend).start(echo).expect("the server starts");
    let first = connect(&handle);
    round_trip(&first, b"before");
    // The clients belong to this process too, so their sockets are made while descriptors are left.
    let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let waiting: Vec<_> = (0..40).map(|_| socket()).collect();
    let mut fillers = Vec::new();
    while let Ok(filler) = std::fs::File::open("/dev/null") {
        fillers.push(filler);
    }
    fillers.truncate(fillers.len() - 8);
    let address = server::socket_addr(&handle.addresses()[0]);
    for client in &waiting {
        client.connect(&address.into()).expect("the kernel completes it");
    }
    eventually("accepting has failed", || handle.stats().accept_errors > 0);
    assert!(handle.stats().accepted < 41);
    round_trip(&first, b"meanwhile");
    drop(fillers);
    for client in waiting {
        client.set_read_timeout(Some(server::LIMIT)).expect("a socket option");
        round_trip(TcpStream::from(client), b"after");
    }
    drop(first);
    end(&handle);
    assert_eq!(handle.stats().accepted, 41);
}

#[test]
fn client_without_descriptors_gets_a_limit_error() {
    alone(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let outcome = ringway_runtime::block_on(async move {
            let limit = Rlimit { current: Some(256), maximum: getrlimit(Resource::Nofile).maximum };
            setrlimit(Resource::Nofile, limit).expect("a lower limit");
            let mut fillers = Vec::new();
            while let Ok(filler) = std::fs::File::open("/dev/null") {
                fillers.push(filler);
            }
            Client::new(address)?.attempts_max(1).open().await
        });
        let error = outcome.expect("a core").expect_err("no descriptor is left");
        assert!(error.is_limit(), "{error:?}");
        assert!(error.as_io().and_then(std::io::Error::raw_os_error).is_some(), "{error:?}");
    });
}

#[test]
fn flood_of_connects_leaks_no_descriptor() {
    alone(|| {
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, ..limit };
        setrlimit(Resource::Nofile, raised).expect("up to the hard limit");
        for backend in BACKENDS {
            let before = descriptors();
            storm(backend);
            // The server's own thread drops the cores a moment after it has reported the end.
            eventually("the server's descriptors are closed", || descriptors() == before);
        }
    });
}

/// Makes 50,000 connects from two threads while one connection is served all the time.
fn storm(backend: Backend) {
    let handle = server(backend).start(echo).expect("the server starts");
    let steady = connect(&handle);
    round_trip(&steady, b"before");
    let before = descriptors();
    let began = Instant::now();
    let over = AtomicBool::new(false);
    let (served, slowest) = std::thread::scope(|scope| {
        let storms = [0, 1].map(|thread| {
            let handle = &handle;
            scope.spawn(move || (0..BATCHES).for_each(|batch| connect_batch(handle, batch, thread)))
        });
        let served = scope.spawn(|| serve_until(&over, &steady));
        for storm in storms {
            storm.join().expect("every connect succeeds");
        }
        over.store(true, Ordering::Relaxed);
        served.join().expect("the steady connection is served")
    });
    eventually("all are accepted", || handle.stats().accepted == 1 + CONNECTS as u64);
    eventually("all have ended", || handle.stats().open == 1);
    // The other core may have opened the second descriptor of its listener only then.
    eventually("all are closed", || (before..=before + 1).contains(&descriptors()));
    round_trip(connect(&handle), b"after");
    println!(
        "{backend}: {CONNECTS} connects in {:?}; {served} echoes beside, the slowest {slowest:?}",
        began.elapsed()
    );
    drop(steady);
    end(&handle);
    assert!(served > 0);
    assert_eq!((handle.stats().handler_panics, handle.stats().accept_errors), (0, 0));
}

const CONNECTS: usize = 50_000;
const BATCHES: usize = CONNECTS / 2 / BATCH;

/// The number of connections that one thread has open at once.
const BATCH: usize = 250;

/// Echoes until `over`; returns the number of echoes and the time of the slowest.
fn serve_until(over: &AtomicBool, steady: &TcpStream) -> (usize, Duration) {
    let (mut served, mut slowest) = (0, Duration::ZERO);
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        round_trip(steady, b"meanwhile");
        (served, slowest) = (served + 1, slowest.max(began.elapsed()));
    }
    (served, slowest)
}

/// Opens connections from an address of the batch's own, so that ports do not run out, and closes
/// each in one of several ways.
fn connect_batch(handle: &ServerHandle, batch: usize, thread: usize) {
    let from = [127, 1, thread as u8, batch as u8];
    let clients: Vec<_> = (0..BATCH).map(|_| connect_from(from, handle)).collect();
    for (number, mut client) in clients.into_iter().enumerate() {
        match number % 4 {
            0 => reset(&client),
            1 => round_trip(&client, b"storm"),
            2 => client.write_all(b"unread").expect("written"),
            // Closed at once, which leaves the port in TIME_WAIT for a minute.
            _ => {}
        }
    }
}

#[test]
fn peer_that_vanishes_during_a_large_reply_frees_its_memory() {
    for backend in BACKENDS {
        let handler = async |mut conn: Connection| {
            conn.recv().await?;
            let block = bytes::Bytes::from(vec![3; 1 << 20]);
            for _ in 0..1_000 {
                conn.send(block.clone()).await?;
            }
            Ok(())
        };
        let handle = server(backend).start(handler).expect("the server starts");
        let mut client = connect(&handle);
        client.write_all(b"x").expect("written");
        client.read_exact(&mut [0; 4_096]).expect("the reply has begun");
        reset(&client);
        drop(client);
        eventually("the handler has seen it", || handle.stats().handler_errors == 1);
        end(&handle);
    }
}
