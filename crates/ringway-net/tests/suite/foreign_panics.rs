//! Code of the program that panics in unusual places: while handlers are made, in destructors of
//! connections' values, in log subscribers. Such a panic ends at most one connection.

use std::fmt;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringway_net::{Connection, Datagram, Error, Handler, Peer, Responder, Server, View};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::alone::alone;
use crate::support::server::{BACKENDS, LIMIT, connect, echo, end, eventually};
use crate::support::server::{is_closed, round_trip, server, socket_addr};

/// Echoes; `!` makes it leave two values in the session whose destructors panic, as its own does.
struct Careless {
    is_bad: bool,
}

impl Handler for Careless {
    fn on_message(&mut self, peer: &Peer, view: View) {
        if view.first() == Some(&b'!') {
            self.is_bad = true;
            leave_bad_items(peer);
            peer.close();
            return;
        }
        peer.send(view);
    }
}

impl Drop for Careless {
    fn drop(&mut self) {
        assert!(!self.is_bad, "a bug in a handler's destructor");
    }
}

/// Panics when it is dropped; the panic's payload may be another such value.
#[derive(Debug)]
struct Bad<const KIND: u8>;

impl<const KIND: u8> Drop for Bad<KIND> {
    fn drop(&mut self) {
        panic!("a bug in a destructor");
    }
}

impl fmt::Display for Bad<0> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an error whose destructor panics")
    }
}

impl std::error::Error for Bad<0> {}

fn leave_bad_items(peer: &Peer) {
    peer.session().insert(Bad::<0>);
    peer.session().insert(Bad::<1>);
}

#[test]
fn panic_while_a_handler_is_made_ends_one_connection_and_not_the_listener() {
    for backend in BACKENDS {
        let is_bad = Arc::new(AtomicBool::new(true));
        let make = move || {
            assert!(!is_bad.swap(false, Ordering::SeqCst), "as the test asked for");
            Careless { is_bad: false }
        };
        let handle = server(backend).threads(1).start_with(make).expect("the server starts");
        assert!(is_closed(&connect(&handle)));
        round_trip(connect(&handle), b"served");
        assert_eq!(handle.stats().handler_panics, 1);
        end(&handle);
    }
}

/// Runs in its own process, because two panics of destructors at once would end the process.
#[test]
fn any_number_of_destructors_may_panic_when_a_callback_connection_ends() {
    alone(|| {
        for backend in BACKENDS {
            let make = || Careless { is_bad: false };
            let handle = server(backend).threads(1).start_with(make).expect("the server starts");
            let (mut bad, steady) = (connect(&handle), connect(&handle));
            bad.write_all(b"!").expect("written");
            assert!(is_closed(&bad));
            drop(bad);
            round_trip(&steady, b"unharmed");
            eventually("it is closed", || handle.stats().open == 1);
            assert_eq!(handle.stats().handler_panics, 1);
            drop(steady);
            end(&handle);
        }
    });
}

/// Runs in its own process, like the test above. The outcome of the handler is still counted.
#[test]
fn any_number_of_destructors_may_panic_when_a_task_connection_ends() {
    alone(|| {
        for backend in BACKENDS {
            let handler = async |mut conn: Connection| {
                leave_bad_items(&conn);
                let Some(view) = conn.recv().await? else { return Ok(()) };
                match &*view {
                    b"panic" => panic!("as the test asked for"),
                    b"error" => Err(Error::other("as the test asked for")),
                    _ => Ok(()),
                }
            };
            let handle = server(backend).threads(1).start(handler).expect("the server starts");
            for ends_by in ["panic", "error", "nothing"] {
                let mut client = connect(&handle);
                client.write_all(ends_by.as_bytes()).expect("written");
                assert!(is_closed(&client));
                drop(client);
                eventually("it is closed", || handle.stats().open == 0);
            }
            let stats = handle.stats();
            assert_eq!((stats.handler_panics, stats.handler_errors), (1, 1));
            end(&handle);
        }
    });
}

#[test]
fn failed_datagram_handlers_are_counted_and_the_next_datagram_is_served() {
    for backend in BACKENDS {
        let handler = async |datagram: Datagram, responder: Responder| {
            match &*datagram {
                b"fails" => return Err(Error::other("as the test asked for")),
                b"fails badly" => return Err(Error::other(Bad::<0>)),
                b"panics badly" => panic_any(Bad::<0>),
                _ => {}
            }
            responder.send(datagram.into_view());
            Ok(())
        };
        let udp = Server::bind("udp://127.0.0.1:0").expect("a free port").backend(backend);
        let handle = udp.threads(1).on_datagram(handler).start(echo).expect("the server starts");
        let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        client.set_read_timeout(Some(LIMIT)).expect("a socket option");
        client.connect(socket_addr(&handle.addresses()[0])).expect("an address");
        for bad in ["fails", "fails badly", "panics badly"] {
            client.send(bad.as_bytes()).expect("sent");
            client.send(b"next").expect("sent");
            assert_eq!(client.recv(&mut [0; 8]).expect("an echo"), 4);
        }
        let stats = handle.stats();
        assert_eq!((stats.handler_errors, stats.handler_panics), (2, 1));
        end(&handle);
    }
}

/// Panics at every event of this library, like a writer whose pipe was closed.
struct Broken;

impl Subscriber for Broken {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("ringway_net")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        panic!("a bug in a log subscriber");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Runs in its own process, because the subscriber is global.
#[test]
fn panicking_log_subscriber_stops_neither_a_listener_nor_a_shutdown() {
    alone(|| {
        tracing::subscriber::set_global_default(Broken).expect("the only one");
        for backend in BACKENDS {
            let server = server(backend).threads(1).connections_max(1);
            let hook = || panic!("as the test asked for");
            let handle = server.on_shutdown(hook).start(echo).expect("the server starts");
            let first = connect(&handle);
            round_trip(&first, b"inside");
            // Refusing it makes a log event.
            assert!(is_closed(&connect(&handle)));
            drop(first);
            eventually("its slot is free", || handle.stats().open == 0);
            let mut next = connect(&handle);
            round_trip(&next, b"served");
            drop(handle.clone());
            handle.shutdown();
            assert_eq!(next.read(&mut [0]).expect("an end in order"), 0);
            drop(next);
            handle.wait().expect("an end in order");
        }
    });
}
