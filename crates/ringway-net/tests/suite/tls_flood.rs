//! A server in a flood of TLS clients: honest clients get through, and other connections get their
//! turns.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, OnceLock, mpsc};

use ringway_net::{Backend, Connection, ServerHandle};
use ringway_runtime::yield_now;

use crate::support::bare_client::{client, shake_hands};
use crate::support::patient::{BEGINNING, patient_server_at};
use crate::support::server::{BACKENDS, LIMIT, connect, connect_to, socket_addr};
use crate::support::trust::Trust;

/// Returns a client's first flight.
fn hello(trust: &Trust) -> Vec<u8> {
    let mut hello = Vec::new();
    client(trust).write_tls(&mut hello).expect("written");
    hello
}

const TLS_AND_TCP: [&str; 2] = ["tls://127.0.0.1:0", "tcp://127.0.0.1:0"];

/// The number of flooding clients, what each sends, and how far the honest client has come before.
struct Flood {
    handshakes_max: usize,
    clients: usize,
    says: Vec<u8>,
    is_hello_answered_before: bool,
}

/// Returns the number of turns from the last flight of an honest client's handshake (or from its
/// first) until its connection is open. The clients of the flood are accepted before, and most of
/// what they sent has not been processed.
fn turns_amid(flood: &Flood, trust: &Trust, backend: Backend) -> u64 {
    let (hold, gate) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let gate = Arc::new(Mutex::new(gate));
    let started = Arc::new(OnceLock::<ServerHandle>::new());
    let server = Arc::clone(&started);
    let accepted = flood.clients as u64 + 2;
    let handler = async move |mut conn: Connection| {
        let stats = || server.get().expect("started").stats();
        let opened = stats().cores[0].counters.turns;
        let first = conn.recv().await?.expect("a message");
        if &*first != b"keep" {
            tell.send(opened).expect("a listener");
            conn.send(first);
            return Ok(());
        }
        let keep = || {
            tell.send(stats().cores[0].counters.turns).expect("a listener");
            gate.lock().expect("no panic").recv().expect("the test goes on");
        };
        keep();
        while stats().accepted < accepted {
            yield_now().await;
        }
        for _ in 0..TURNS_TO_HEAR {
            yield_now().await;
        }
        keep();
        Ok(())
    };
    let server = patient_server_at(trust, TLS_AND_TCP).handshakes_max(flood.handshakes_max);
    let handle = server.backend(backend).start(handler).expect("the server starts");
    started.set(handle.clone()).expect("once");

    let mut honest = client(trust);
    let mut socket = connect(&handle);
    if flood.is_hello_answered_before {
        shake_hands(&mut honest, &mut socket);
    }
    let mut keeper = connect_to(socket_addr(&handle.addresses()[1]));
    keeper.write_all(b"keep").expect("written");
    told.recv_timeout(LIMIT).expect("the core is kept");
    let crowd: Vec<TcpStream> = (0..flood.clients).map(|_| connect(&handle)).collect();
    for mut client in &crowd {
        client.write_all(&flood.says).expect("written");
    }
    hold.send(()).expect("the core waits");
    let before = told.recv_timeout(LIMIT).expect("the core is kept again");
    honest.writer().write_all(b"hello").expect("it is kept until the handshake is done");
    while honest.wants_write() {
        honest.write_tls(&mut socket).expect("written");
    }
    hold.send(()).expect("the core waits");
    let mut echoed = [0; 5];
    rustls::Stream::new(&mut honest, &mut socket).read_exact(&mut echoed).expect("an echo");
    let after = told.recv_timeout(LIMIT).expect("the turn in which it was opened");
    handle.abort();
    handle.wait().expect("an end");
    after - before
}

/// Turns from the accept of a client until its bytes are received.
const TURNS_TO_HEAR: usize = 4;

/// The most turns that the steps of one handshake take without others before it.
const TURNS_ALONE: u64 = 20;

#[test]
fn begun_handshake_completes_in_a_flood_of_hellos() {
    let trust = Trust::new();
    for (handshakes_max, clients) in [(512, 200), (64, 200)] {
        let says = hello(&trust);
        let flood = Flood { handshakes_max, clients, says, is_hello_answered_before: true };
        for backend in BACKENDS {
            let turns = turns_amid(&flood, &trust, backend);
            assert!(turns < TURNS_ALONE, "{turns} turns with {handshakes_max} places, {backend:?}");
        }
    }
}

#[test]
fn bytes_that_complete_no_message_take_no_steps() {
    let trust = Trust::new();
    let says = BEGINNING.to_vec();
    let flood = Flood { handshakes_max: 512, clients: 200, says, is_hello_answered_before: false };
    for backend in BACKENDS {
        let turns = turns_amid(&flood, &trust, backend);
        assert!(turns < TURNS_ALONE, "{turns} turns, {backend:?}");
    }
}

#[test]
fn flood_of_handshakes_leaves_turns_to_others() {
    const CLIENTS: usize = 64;
    const STEPS_PER_TURN: u64 = 4;
    for backend in BACKENDS {
        let trust = Trust::new();
        let (hold, gate) = mpsc::channel::<()>();
        let (tell, kept) = mpsc::channel();
        let gate = Arc::new(Mutex::new(gate));
        let handler = async move |mut conn: Connection| {
            if conn.recv().await?.is_some() {
                tell.send(()).expect("a listener");
                let _no_message_ever_comes = gate.lock().expect("no panic").recv();
            }
            Ok(())
        };
        let server = patient_server_at(&trust, TLS_AND_TCP);
        let handle = server.backend(backend).start(handler).expect("the server starts");
        let mut keeper = connect_to(socket_addr(&handle.addresses()[1]));
        keeper.write_all(b"x").expect("written");
        kept.recv_timeout(LIMIT).expect("the core is kept");
        let hello = hello(&trust);
        let clients: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(&handle)).collect();
        for mut client in &clients {
            client.write_all(&hello).expect("written");
        }
        let turns = || handle.stats().cores[0].counters.turns;
        let before = turns();
        drop(hold);
        for mut client in &clients {
            client.read_exact(&mut [0]).expect("the server's hello");
        }
        let took = turns() - before;
        assert!(took >= CLIENTS as u64 / STEPS_PER_TURN, "all in {took} turns");
        handle.abort();
        handle.wait().expect("an end");
    }
}
