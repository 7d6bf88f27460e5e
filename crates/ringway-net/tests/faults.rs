//! What must not bring a server down: descriptors that run out, resets, storms.

mod server_support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use ringway_net::{Backend, Connection};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server_support::{BACKENDS, connect, descriptors, echo, end, eventually, round_trip, server};
use socket2::{Domain, Socket, Type};

/// Runs one test of this program in a process of its own, where it may change limits and count
/// descriptors.
fn in_a_process(test: &str) {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--exact", test, "--nocapture"])
        .env("RINGWAY_TEST_CHILD", "1")
        .output()
        .expect("a process");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test}: {}\n{text}", output.status);
}

fn is_child() -> bool {
    std::env::var_os("RINGWAY_TEST_CHILD").is_some()
}

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
                // Something is under way in both directions.
                client.write_all(&vec![1; round * 2_000]).expect("written");
            }
            drop(client);
            round_trip(&steady, b"unharmed");
        }
        drop(steady);
        eventually("all have ended", || handle.stats().open == 0);
        end(&handle);
        assert_eq!((handle.stats().accepted, handle.stats().handler_panics), (101, 0));
    }
}

#[test]
fn descriptors_may_run_out() {
    if !is_child() {
        return in_a_process("descriptors_may_run_out");
    }
    for backend in BACKENDS {
        survive_emfile(backend);
    }
}

fn survive_emfile(backend: Backend) {
    // An io_uring accept keeps the limit that was in force when it was armed, so the limit stands
    // before the server does.
    let limit = Rlimit { current: Some(256), maximum: getrlimit(Resource::Nofile).maximum };
    setrlimit(Resource::Nofile, limit).expect("a lower limit");
    let handle = server(backend).start(echo).expect("the server starts");
    let first = connect(&handle);
    round_trip(&first, b"before");
    // The clients are of this process too, so their sockets are made while there is room.
    let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let waiting: Vec<_> = (0..40).map(|_| socket()).collect();
    let mut fillers = Vec::new();
    while let Ok(filler) = std::fs::File::open("/dev/null") {
        fillers.push(filler);
    }
    fillers.truncate(fillers.len() - 8);
    let address = server_support::socket_addr(&handle.addresses()[0]);
    for client in &waiting {
        client.connect(&address.into()).expect("the kernel completes it");
    }
    eventually("accepting has failed", || handle.stats().accept_errors > 0);
    assert!(handle.stats().accepted < 41);
    round_trip(&first, b"meanwhile");
    drop(fillers);
    for client in waiting {
        client.set_read_timeout(Some(server_support::LIMIT)).expect("a socket option");
        round_trip(TcpStream::from(client), b"after");
    }
    drop(first);
    end(&handle);
    assert_eq!(handle.stats().accepted, 41);
}

#[test]
fn a_storm_of_connects_leaks_no_descriptor() {
    if !is_child() {
        return in_a_process("a_storm_of_connects_leaks_no_descriptor");
    }
    for backend in BACKENDS {
        let before = descriptors();
        storm(backend);
        // The server's own thread lets go of the cores a moment after it has told its end.
        eventually("the server's descriptors are closed", || descriptors() == before);
    }
}

fn storm(backend: Backend) {
    const CONNECTS: usize = 5_200;
    let handle = server(backend).start(echo).expect("the server starts");
    round_trip(connect(&handle), b"before");
    eventually("it has ended", || handle.stats().open == 0);
    let before = descriptors();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let handle = &handle;
            scope.spawn(move || {
                for number in 0..CONNECTS / 2 {
                    let mut client = connect(handle);
                    match (number + thread) % 4 {
                        0 => reset(&client),
                        1 => round_trip(&client, b"storm"),
                        2 => client.write_all(b"unread").expect("written"),
                        // Closed at once, in order, which leaves the port waiting for a minute.
                        _ => {}
                    }
                }
            });
        }
    });
    eventually("all are accepted", || handle.stats().accepted > CONNECTS as u64);
    eventually("all have ended", || handle.stats().open == 0);
    eventually("all are closed", || descriptors() == before);
    round_trip(connect(&handle), b"after");
    end(&handle);
}

#[test]
fn a_peer_that_vanishes_in_the_middle_of_a_large_reply_frees_its_memory() {
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
