//! `tracing` spans: they name the connection, and cost nothing without a subscriber.

use std::cell::RefCell;
use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringway_net::{Backoff, Client, Connection, Error, Handler, Peer, ServerHandle, View};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::allocations::allocations;
use crate::support::alone::alone;
use crate::support::server::{BACKENDS, connect, echo, end, eventually, server};

/// Records every span, and every event with the spans around it.
#[derive(Default)]
struct Recorder {
    /// The spans with name and fields as text; the first has the id 1.
    spans: Mutex<Vec<String>>,
    closed: AtomicU64,
    events: Mutex<Vec<(String, Vec<String>)>>,
}

thread_local! {
    /// The spans that this thread has entered.
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl Recorder {
    /// Subscribes to this process, which belongs to one test.
    fn listen() -> Arc<Self> {
        let recorder = Arc::new(Self::default());
        tracing::subscriber::set_global_default(Arc::clone(&recorder)).expect("the only one");
        recorder
    }

    /// Returns the spans around the events whose text contains `part`.
    fn spans_around(&self, part: &str) -> Vec<Vec<String>> {
        let events = self.events.lock().expect("no panic");
        let found = events.iter().filter(|(text, _)| text.contains(part));
        found.map(|(_, spans)| spans.clone()).collect()
    }

    fn span(&self, number: u64) -> String {
        self.spans.lock().expect("no panic")[number as usize - 1].clone()
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("ringway_net") || metadata.target() == module_path!()
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut text = Text(attributes.metadata().name().to_owned());
        attributes.record(&mut text);
        let mut spans = self.spans.lock().expect("no panic");
        spans.push(text.0);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let entered = ENTERED.with_borrow(Vec::clone);
        let spans = entered.into_iter().map(|number| self.span(number)).collect();
        self.events.lock().expect("no panic").push((text.0, spans));
    }

    fn enter(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(id.into_u64()));
    }

    fn exit(&self, id: &Id) {
        let left = ENTERED.with_borrow_mut(Vec::pop);
        assert_eq!(left, Some(id.into_u64()), "spans are left in the order of a stack");
    }

    fn try_close(&self, _: Id) -> bool {
        self.closed.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// Formats fields as ` name=value`.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!(" {}={value:?}", field.name()));
    }
}

/// Makes an event for each message, with the id that the span should have.
async fn telling(mut conn: Connection) -> ringway_net::Result {
    while let Some(view) = conn.recv().await? {
        tracing::info!(told = %conn.id(), "a task has a message");
        conn.send(view);
    }
    Err(Error::other("no more of this"))
}

struct Telling;

impl Handler for Telling {
    fn on_open(&mut self, peer: &Peer) {
        tracing::info!(told = %peer.id(), "a callback has a connection");
    }

    fn on_message(&mut self, peer: &Peer, view: View) {
        tracing::info!(told = %peer.id(), "a callback has a message");
        peer.send(view);
    }
}

/// Serves two connections in turn on one core; returns the addresses of their clients.
fn talk(handle: &ServerHandle) -> [String; 2] {
    let mut clients = [connect(handle), connect(handle)];
    for _ in 0..3 {
        clients.iter_mut().for_each(round_trip);
    }
    let addresses = clients.each_ref().map(|client| client.local_addr().expect("it has one"));
    drop(clients);
    end(handle);
    addresses.map(|address| address.to_string())
}

fn round_trip(client: &mut TcpStream) {
    let mut echoed = [0; 4];
    client.write_all(b"ping").expect("written");
    client.read_exact(&mut echoed).expect("an echo");
    assert_eq!(&echoed, b"ping");
}

/// Checks that `count` events of this text were each inside the one span of their own connection.
fn check(recorder: &Recorder, text: &str, peers: &[String; 2], count: usize) {
    let events = recorder.events.lock().expect("no panic").clone();
    let mine = events.iter().filter(|(event, spans)| {
        event.contains(text) && spans.iter().any(|span| peers.iter().any(|p| span.contains(p)))
    });
    let mut found = 0;
    for (event, spans) in mine {
        let (_, id) =
            event.split_once("id=").or(event.split_once("told=")).expect("it tells an id");
        let id = id.split(' ').next().unwrap_or(id);
        let [span] = &spans[..] else { panic!("{event}: {spans:?}") };
        assert!(
            span.starts_with(&format!("connection id={id} peer=127.0.0.1:")),
            "{event}: {span}"
        );
        found += 1;
    }
    assert_eq!(found, count, "{text}: {events:?}");
}

#[test]
fn task_events_are_inside_the_span_of_their_connection() {
    alone(|| {
        let recorder = Recorder::listen();
        for backend in BACKENDS {
            let handle = server(backend).threads(1).start(telling).expect("the server starts");
            let peers = talk(&handle);
            check(&recorder, "a task has a message", &peers, 6);
            check(&recorder, "ended with an error", &peers, 2);
        }
    });
}

#[test]
fn callback_events_are_inside_the_span_of_their_connection() {
    alone(|| {
        let recorder = Recorder::listen();
        for backend in BACKENDS {
            let handle =
                server(backend).threads(1).start_with(|| Telling).expect("the server starts");
            let peers = talk(&handle);
            check(&recorder, "a callback has a connection", &peers, 2);
            check(&recorder, "a callback has a message", &peers, 6);
        }
    });
}

#[test]
fn spans_end_with_their_connections() {
    alone(|| {
        let recorder = Recorder::listen();
        let handle = server(BACKENDS[0]).start(echo).expect("the server starts");
        talk(&handle);
        eventually("both spans are closed", || recorder.closed.load(Ordering::Relaxed) == 2);
    });
}

#[test]
fn connect_attempts_are_inside_a_span_with_the_address() {
    alone(|| {
        let recorder = Recorder::listen();
        let listener = TcpListener::bind("127.77.0.4:0").expect("a free port");
        let address = format!("tcp://{}", listener.local_addr().expect("it is bound"));
        drop(listener);
        let soon = Backoff::new(Duration::from_millis(1), Duration::from_millis(1));
        let client = Client::new(&*address).expect("an address").attempts_max(3).backoff(soon);
        let outcome = ringway_runtime::block_on(async move { client.open().await.err() });
        assert!(outcome.expect("a runtime").is_some(), "nobody listens");
        let expected = vec![format!("connect address={address}")];
        let of_this = |spans: &Vec<String>| *spans == expected;
        let around = recorder.spans_around("attempt to connect failed");
        assert_eq!(
            around.into_iter().filter(of_this).count(),
            2,
            "the third is the answer's error"
        );
    });
}

#[test]
fn messages_cost_no_allocation_without_a_subscriber() {
    alone(|| {
        for backend in BACKENDS {
            for face in ["task", "callback"] {
                let server = server(backend).threads(1);
                let handle = match face {
                    "task" => server.start(telling),
                    _ => server.start_with(|| Telling),
                };
                let handle = handle.expect("the server starts");
                let counted = allocations_in_the_steady_state(&handle);
                end(&handle);
                assert_eq!(counted, 0, "{backend}, {face}");
            }
        }
    });
}

/// Returns the allocations of the last run of messages, or 0 at the first run without any.
fn allocations_in_the_steady_state(handle: &ServerHandle) -> usize {
    const MESSAGES: usize = 2_000;
    const RUNS_MAX: usize = 5;
    let mut client = connect(handle);
    let mut counted = usize::MAX;
    for _ in 0..RUNS_MAX {
        let before = allocations();
        for _ in 0..MESSAGES {
            round_trip(&mut client);
        }
        counted = allocations() - before;
        if counted == 0 {
            break;
        }
    }
    counted
}
