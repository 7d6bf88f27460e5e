//! The end of a server under difficulties: cores with full mailboxes, handlers that block their
//! cores, slow shutdown hooks, clients that connect at the last moment.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use ringway_net::{Address, Connection, ConnectionId, Handler, Peer, Server, ServerHandle, View};

use crate::support::server::{
    BACKENDS, LIMIT, connect, echo, end, eventually, is_closed, round_trip, server, socket_addr,
};

/// Blocks a handler and its core until the sender is dropped.
type Gate = Arc<Mutex<mpsc::Receiver<()>>>;

fn gate() -> (mpsc::Sender<()>, Gate) {
    let (hold, wait) = mpsc::channel();
    (hold, Arc::new(Mutex::new(wait)))
}

/// Blocks the calling core until the gate's sender is dropped.
fn wait_at(gate: &Gate) {
    let _no_message_ever_comes = gate.lock().expect("no panic").recv();
}

/// Echoes, and writes "bye" at the end; a message that begins with `!` blocks the core at the gate,
/// which is reported.
fn held_by(
    gate: &Gate,
    tell: &mpsc::Sender<ConnectionId>,
) -> impl AsyncFn(Connection) -> ringway_net::Result + Clone + Send + 'static {
    let (gate, tell) = (Arc::clone(gate), tell.clone());
    async move |mut conn: Connection| {
        while let Some(view) = conn.recv().await? {
            if view.starts_with(b"!") {
                tell.send(conn.id()).expect("a listener");
                wait_at(&gate);
            }
            conn.send(view);
        }
        conn.write(b"bye");
        Ok(())
    }
}

/// Sends messages to the core of a connection until its mailbox is full.
fn fill_mailbox(handle: &ServerHandle, at: ConnectionId) {
    let refused = (0..).find_map(|_| handle.sessions().with(at, |_| ()).err());
    assert!(refused.expect("some time").is_limit());
}

#[test]
fn core_with_a_full_mailbox_drains() {
    for backend in BACKENDS {
        let ((hold, gate), (tell, told)) = (gate(), mpsc::channel());
        let handle = server(backend).threads(1).start(held_by(&gate, &tell));
        let handle = handle.expect("the server starts");
        let (mut idle, mut busy) = (connect(&handle), connect(&handle));
        round_trip(&idle, b"open");
        busy.write_all(b"!").expect("written");
        let kept = told.recv_timeout(LIMIT).expect("the core is kept");
        fill_mailbox(&handle, kept);
        handle.shutdown();
        drop(hold);
        for (client, expected) in [(&mut idle, "bye"), (&mut busy, "!bye")] {
            let mut heard = String::new();
            client.read_to_string(&mut heard).expect("an end in order");
            assert!(heard.ends_with(expected), "{heard:?}");
        }
        handle.wait().expect("an end in order");
    }
}

#[test]
fn connection_stays_if_the_other_core_cannot_take_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("spread.sock");
    let ((hold, gate), (tell, told)) = (gate(), mpsc::channel());
    let server = Server::bind(Address::Unix(path.clone())).expect("a free path").threads(2);
    let handle = server.start(held_by(&gate, &tell)).expect("the server starts");
    // One listener spreads over two cores: it hands the first connection over.
    let mut there = UnixStream::connect(&path).expect("connected");
    round_trip(&there, b"there");
    assert_eq!(handle.stats().handed_off, 1);
    there.write_all(b"!").expect("written");
    let kept = told.recv_timeout(LIMIT).expect("the other core is kept");
    fill_mailbox(&handle, kept);
    let here: Vec<_> = (0..4).map(|_| UnixStream::connect(&path).expect("connected")).collect();
    for client in &here {
        client.set_read_timeout(Some(LIMIT)).expect("a socket option");
        round_trip(client, b"served");
    }
    assert_eq!((handle.stats().handed_off, handle.stats().refused), (1, 0));
    drop((hold, here, there));
    end(&handle);
}

#[test]
fn handler_cannot_wait_for_the_end_of_its_own_server() {
    for backend in BACKENDS {
        let (give, given) = mpsc::channel::<ServerHandle>();
        let given = Arc::new(Mutex::new(given));
        let handler = async move |conn: Connection| {
            let own = given.lock().expect("no panic").recv().expect("the test gives it");
            let refused = own.wait().and_then(|()| own.wait_for_signal());
            let refused = refused.expect_err("it would wait for itself").to_string();
            conn.send(refused.into_bytes());
            Ok(())
        };
        let handle = server(backend).start(handler).expect("the server starts");
        give.send(handle.clone()).expect("a handler");
        let mut told = String::new();
        connect(&handle).read_to_string(&mut told).expect("an end in order");
        assert!(told.contains("a core must not block"), "{told:?}");
        end(&handle);
    }
}

#[test]
fn blocking_waits_fail_in_a_task_of_tokio() {
    let tokio = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    tokio.block_on(async {
        let handle = server(BACKENDS[0]).start(echo).expect("the server starts");
        let refused = handle.wait().expect_err("it would stop the runtime").to_string();
        assert!(refused.contains("a task of tokio must not block"), "{refused}");
        handle.shutdown();
        handle.ended().await.expect("an end in order");
        let refused = server(BACKENDS[0]).serve(echo).expect_err("it would stop the runtime");
        assert!(refused.to_string().contains("a task of tokio must not block"), "{refused}");
    });
}

#[test]
fn drain_with_unlimited_time_ends_when_nothing_is_left() {
    let server = server(BACKENDS[0]).drain_timeout(Duration::MAX);
    let handle = server.start(echo).expect("the server starts");
    let client = connect(&handle);
    round_trip(&client, b"open");
    handle.shutdown();
    assert!(is_closed(&client));
    drop(client);
    handle.wait().expect("an end in order");
    let handle = self::server(BACKENDS[0]).drain_delay(Duration::MAX);
    let handle = handle.start(echo).expect("the server starts");
    handle.shutdown();
    round_trip(connect(&handle), b"the delay never ends");
    handle.abort();
    handle.wait().expect("an end all the same");
}

#[test]
fn connections_are_told_of_a_drain_when_its_delay_is_over() {
    let tell_state = async |mut conn: Connection| {
        let token = conn.drain_token().expect("it belongs to a server");
        while let Some(view) = conn.recv().await? {
            let told = [conn.is_draining(), token.is_cancelled()];
            conn.write(if told == [false; 2] { b"serves" } else { b"drains" });
            drop(view);
        }
        assert!(conn.is_draining() && token.is_cancelled());
        conn.draining().await;
        conn.write(b"drained");
        Ok(())
    };
    for (delay, expected) in [(Duration::MAX, "servesserves"), (Duration::ZERO, "servesdrained")] {
        let handle = server(BACKENDS[0]).drain_delay(delay).start(tell_state);
        let handle = handle.expect("the server starts");
        let mut client = connect(&handle);
        let mut ask = || {
            let mut told = [0; 6];
            client.write_all(b"?").expect("written");
            client.read_exact(&mut told).expect("an answer");
            String::from_utf8_lossy(&told).into_owned()
        };
        let mut heard = ask();
        assert!(!handle.is_draining());
        handle.shutdown();
        assert!(handle.is_draining(), "it was asked to");
        match delay {
            Duration::ZERO => _ = client.read_to_string(&mut heard).expect("an end in order"),
            _ => heard += &ask(),
        }
        assert_eq!(heard, expected);
        handle.abort();
        handle.wait().expect("an end in order");
    }
}

#[test]
fn slow_shutdown_hook_delays_neither_the_drain_nor_an_abort() {
    for aborts in [false, true] {
        let (hold, gate) = gate();
        let (tell, told) = mpsc::channel();
        let farewell = move || {
            tell.send(()).expect("a listener");
            wait_at(&gate);
        };
        let server = server(BACKENDS[0]).on_shutdown(farewell).drain_timeout(LIMIT * 10);
        let handle = server.start(echo).expect("the server starts");
        let client = connect(&handle);
        round_trip(&client, b"open");
        handle.shutdown();
        told.recv_timeout(LIMIT).expect("the hook runs");
        let began = Instant::now();
        if aborts {
            handle.abort();
            handle.wait().expect("an end all the same");
        }
        assert!(is_closed(&client), "closed while the hook still runs");
        drop((hold, client));
        handle.wait().expect("an end in order");
        assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
    }
}

#[test]
fn shutdown_hooks_run_in_order_and_survive_a_panic() {
    let (tell, told) = mpsc::channel();
    let [first, third] = ["first", "third"].map(|name| {
        let tell = tell.clone();
        move || tell.send(name).expect("a listener")
    });
    let server = server(BACKENDS[0]).on_shutdown(first);
    let server = server.on_shutdown(|| panic!("as foreign code may")).on_shutdown(third);
    let handle = server.start(echo).expect("the server starts");
    drop(tell);
    handle.shutdown();
    handle.wait().expect("an end in order");
    assert_eq!(told.iter().collect::<Vec<_>>(), ["first", "third"]);
}

#[test]
fn handler_that_blocks_its_core_is_reported_and_abandoned() {
    let ((hold, gate), (tell, told)) = (gate(), mpsc::channel());
    let handle = server(BACKENDS[0]).threads(1).start(held_by(&gate, &tell));
    let handle = handle.expect("the server starts");
    let mut client = connect(&handle);
    client.write_all(b"!").expect("written");
    told.recv_timeout(LIMIT).expect("the core is kept");
    handle.abort();
    let error = handle.wait().expect_err("it has not ended wholly");
    assert!(error.is_timeout() && error.to_string().contains("blocks its thread"), "{error}");
    drop(hold);
    client.read_to_end(&mut Vec::new()).expect("its core ends when it can");
}

/// Connects, asks, reads the reply, closes, and repeats until no server listens.
fn keep_asking<C: Read + Write>(connect: impl Fn() -> io::Result<C>) -> Asked {
    let mut clients = Asked { count: 0, unanswered: Vec::new() };
    while let Ok(mut client) = connect() {
        let connected = Instant::now();
        let asked = client.write_all(b"?");
        if connected.elapsed() > SLOW {
            continue;
        }
        clients.count += 1;
        match (asked, client.read(&mut [0; 8])) {
            (Ok(()), Ok(1)) => {}
            (asked, read) => clients.unanswered.push(format!("{asked:?}, {read:?}")),
        }
    }
    clients
}

/// Clients that have asked, and the outcomes of those without a reply.
struct Asked {
    count: usize,
    unanswered: Vec<String>,
}

/// A client that takes longer from its connect to its question need not be answered.
const SLOW: Duration = Duration::from_millis(250);

/// Time for a connect. While a listener is about to close, the kernel does not answer at all.
const CONNECT: Duration = Duration::from_millis(20);

/// Answers one question, even while the server drains.
async fn answer(mut conn: Connection) -> ringway_net::Result {
    if let Some(view) = conn.recv().await? {
        conn.send(view);
    }
    Ok(())
}

/// Shuts a server down, again and again, while it serves one client after another.
fn ask_during_shutdowns(rounds: usize, threads: usize, unix: Option<&Path>) -> Asked {
    let mut all = Asked { count: 0, unanswered: Vec::new() };
    for round in 0..rounds {
        let path = unix.map(|directory| directory.join(format!("{threads}-{round}.sock")));
        let address = match &path {
            Some(path) => Address::Unix(path.clone()),
            None => "tcp://127.0.0.1:0".parse().expect("an address"),
        };
        let server = Server::bind(address).expect("free").threads(threads);
        let handle = server.start(answer).expect("the server starts");
        let clients = match path {
            Some(path) => thread::spawn(move || keep_asking(|| UnixStream::connect(&path))),
            None => {
                let address = socket_addr(&handle.addresses()[0]);
                thread::spawn(move || keep_asking(|| TcpStream::connect_timeout(&address, CONNECT)))
            }
        };
        eventually("some are served", || handle.stats().accepted > 3);
        handle.shutdown();
        handle.wait().expect("an end in order");
        let asked = clients.join().expect("no panic");
        all.count += asked.count;
        all.unanswered.extend(asked.unanswered);
    }
    all
}

#[test]
fn connected_clients_are_answered_during_a_shutdown() {
    const ROUNDS: usize = 80;
    let directory = tempfile::tempdir().expect("a directory");
    for threads in [1, 2] {
        let Asked { count, unanswered } =
            ask_during_shutdowns(ROUNDS, threads, Some(directory.path()));
        assert!(unanswered.is_empty(), "{threads} cores, of {count}: {unanswered:?}");
        // The last segment of a TCP handshake may come late if the machine is busy.
        let Asked { count, unanswered } = ask_during_shutdowns(ROUNDS, threads, None);
        let late_max = ROUNDS / 20;
        assert!(unanswered.len() <= late_max, "{threads} cores, of {count}: {unanswered:?}");
    }
}

#[test]
fn clients_that_connect_during_the_start_are_served() {
    let directory = tempfile::tempdir().expect("a directory");
    for round in 0..20 {
        let path = directory.path().join(format!("{round}.sock"));
        let at = path.clone();
        let client = thread::spawn(move || {
            let connected = loop {
                match UnixStream::connect(&at) {
                    Ok(connected) => break connected,
                    Err(_not_yet) => thread::yield_now(),
                }
            };
            connected.set_read_timeout(Some(LIMIT)).expect("a socket option");
            round_trip(&connected, b"first");
        });
        let server = Server::bind(Address::Unix(path)).expect("a free path").threads(4);
        let handle = server.start(echo).expect("the server starts");
        client.join().expect("served");
        end(&handle);
    }
}

/// Waits for a message, and fails in the way that it names; the `Handler` below does the same.
async fn fails(mut conn: Connection) -> ringway_net::Result {
    let word = conn.recv().await?;
    conn.write(b"!");
    match conn.recv().await {
        Err(_) if word.is_some_and(|word| &*word == b"panic") => panic!("a bug of the program"),
        ended => ended.map(drop),
    }
}

struct Waits;

impl Handler for Waits {
    fn on_message(&mut self, peer: &Peer, _: View) {
        peer.write(b"!");
    }
}

#[test]
fn handlers_ended_by_an_abort_are_counted() {
    let check = |handle: ServerHandle, panics: u64| {
        let clients = ["panic", "error", "error"].map(|word| {
            let mut client = connect(&handle);
            client.write_all(word.as_bytes()).expect("written");
            client.read_exact(&mut [0]).expect("it is being served");
            client
        });
        handle.abort();
        handle.wait().expect("an end");
        let stats = handle.stats();
        assert_eq!((stats.handler_errors, stats.handler_panics), (3 - panics, panics), "{stats:?}");
        drop(clients);
    };
    for backend in BACKENDS {
        check(server(backend).start(fails).expect("the server starts"), 1);
        check(server(backend).start_with(|| Waits).expect("the server starts"), 0);
    }
}
