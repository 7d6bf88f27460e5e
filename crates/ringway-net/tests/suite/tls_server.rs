//! A server's TLS: handshakes are counted and bounded; in a drain, replies of handlers arrive and
//! sessions end in order.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use ringway_net::{
    Backend, Backoff, Client, Connection, ConnectionId, Error, Framed, Handler, Peer, Requester,
    Server, ServerHandle, TlsStream, View,
};
use ringway_runtime::io::Stream;
use ringway_runtime::{block_on, spawn, timeout, yield_now};
use ringway_wire::Line;

use crate::support::bare_client::{client, shake_hands};
use crate::support::certificates::NAME;
use crate::support::patient::{BEGINNING, patient_server};
use crate::support::server::{BACKENDS, LIMIT, connect, echo, end, eventually, is_closed};
use crate::support::trust::Trust;

/// Whether an honest client is served.
fn is_served(handle: &ServerHandle, trust: &Trust) -> bool {
    let address = handle.addresses()[0].clone();
    let tls = trust.client.clone().server_name(NAME).expect("a name");
    let served = block_on(timeout(LIMIT, async move {
        let mut conn = Client::new(address)?.tls(tls).attempts_max(1).open().await?;
        conn.write(b"hello");
        let echoed = conn.recv().await?.expect("an echo");
        assert_eq!(&*echoed, b"hello");
        Ok::<_, ringway_net::Error>(())
    }));
    served.expect("a core").expect("in time").is_ok()
}

#[test]
fn endless_handshakes_do_not_delay_a_drain() {
    let trust = Trust::new();
    let handle = patient_server(&trust).start(echo).expect("the server starts");
    let (silent, mut begun) = (connect(&handle), connect(&handle));
    begun.write_all(&BEGINNING).expect("written");
    eventually("both are there", || handle.stats().open == 2);
    handle.shutdown();
    assert!(is_closed(&silent) && is_closed(&begun));
    drop((silent, begun));
    handle.wait().expect("an end in order");
    let stats = handle.stats();
    assert_eq!((stats.handshakes, stats.handshake_errors), (0, 2), "{stats:?}");
}

#[test]
fn handshake_beyond_the_bound_ends_the_oldest_and_honest_client_is_served() {
    let trust = Trust::new();
    let server = patient_server(&trust).handshakes_max(2);
    let handle = server.start(echo).expect("the server starts");
    let mut held: Vec<TcpStream> = Vec::new();
    for count in 1..=4 {
        held.push(connect(&handle));
        eventually("it has been accepted", || handle.stats().accepted == count);
    }
    assert!(held[..2].iter().all(is_closed), "the two oldest were ended");
    held.drain(..2);
    assert!(is_served(&handle, &trust));
    let stats = handle.stats();
    assert_eq!((stats.handshakes, stats.refused), (1, 0), "{stats:?}");
    assert!(is_closed(&held.remove(0)), "so was the next one");
    drop(held);
    end(&handle);
}

/// Sends more than the kernel takes before it receives anything.
struct Shouting {
    tell: mpsc::Sender<Told>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Opened(ConnectionId),
    Heard,
}

impl Handler for Shouting {
    fn on_open(&mut self, peer: &Peer) {
        peer.write(&vec![1; 12 << 20]);
        self.tell.send(Told::Opened(peer.id())).expect("a listener");
    }

    fn on_message(&mut self, _: &Peer, view: View) {
        assert_eq!(&*view, b"first");
        self.tell.send(Told::Heard).expect("a listener");
    }
}

#[test]
fn set_paced_off_from_outside_delivers_decrypted_bytes() {
    let trust = Trust::new();
    let (tell, told) = mpsc::channel();
    let server = patient_server(&trust).start_with(move || Shouting { tell: tell.clone() });
    let handle = server.expect("the server starts");
    let mut client = client(&trust);
    let mut socket = connect(&handle);
    shake_hands(&mut client, &mut socket);
    client.writer().write_all(b"first").expect("a session");
    let mut last_flight = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut last_flight).expect("a vector takes everything");
    }
    socket.write_all(&last_flight).expect("written");
    let Told::Opened(id) = told.recv_timeout(LIMIT).expect("it is open") else {
        panic!("it reads although its peer does not");
    };
    let take_away = handle.sessions().with(id, |peer| peer.set_paced(false));
    drop(take_away.expect("a server that goes on"));
    assert_eq!(told.recv_timeout(LIMIT).expect("it hears"), Told::Heard);
    handle.abort();
    handle.wait().expect("an end");
}

/// Like `Shouting`, and turns pacing on again with each message.
struct Wavering {
    tell: mpsc::Sender<Wavered>,
}

enum Wavered {
    Opened(ConnectionId),
    Heard(usize),
    Closed { failed: bool },
}

impl Wavering {
    fn tell(&self, what: Wavered) {
        self.tell.send(what).expect("a listener");
    }
}

impl Handler for Wavering {
    fn on_open(&mut self, peer: &Peer) {
        peer.write(&vec![1; 12 << 20]);
        self.tell(Wavered::Opened(peer.id()));
    }

    fn on_message(&mut self, peer: &Peer, view: View) {
        peer.set_paced(true);
        self.tell(Wavered::Heard(view.len()));
    }

    fn on_close(&mut self, _: &Peer, error: Option<&Error>) {
        self.tell(Wavered::Closed { failed: error.is_some() });
    }
}

/// Checks that a handler gets all bytes and a clean end, when the session and the stream have ended
/// while most of the decrypted bytes still wait: because pacing is turned off from outside, or
/// because the client reads at last.
fn hears_all_and_the_end(trust: &Trust, backend: Backend, client_reads: bool) {
    const BYTES: usize = 200 << 10;
    let (tell, told) = mpsc::channel();
    let server = patient_server(trust).backend(backend);
    let handle = server.start_with(move || Wavering { tell: tell.clone() });
    let handle = handle.expect("the server starts");
    let (mut client, mut socket) = (client(trust), connect(&handle));
    client.set_buffer_limit(None);
    shake_hands(&mut client, &mut socket);
    client.writer().write_all(&vec![7; BYTES]).expect("a session");
    client.send_close_notify();
    while client.wants_write() {
        client.write_tls(&mut socket).expect("written");
    }
    socket.shutdown(Shutdown::Write).expect("connected");
    let hear = || told.recv_timeout(LIMIT).expect("it goes on");
    let Wavered::Opened(id) = hear() else { panic!("it reads although its peer does not") };
    let mut heard = 0;
    let failed = loop {
        if client_reads && heard > BYTES / 2 {
            std::io::copy(&mut socket, &mut std::io::sink()).expect("an end in order");
        } else {
            let taken_away = handle.sessions().with(id, |peer| peer.set_paced(false));
            drop(taken_away.expect("a server that goes on"));
        }
        match hear() {
            Wavered::Heard(bytes) => heard += bytes,
            Wavered::Closed { failed } => break failed,
            Wavered::Opened(id) => panic!("{id} again"),
        }
    };
    assert_eq!((heard, failed), (BYTES, false), "{backend:?}, the client reads: {client_reads}");
    handle.abort();
    handle.wait().expect("an end");
}

#[test]
fn handler_that_turns_pacing_on_again_gets_all_bytes_and_a_clean_end() {
    let trust = Trust::new();
    for backend in BACKENDS {
        hears_all_and_the_end(&trust, backend, false);
        hears_all_and_the_end(&trust, backend, true);
    }
}

#[test]
fn connection_with_a_failed_handshake_counts_until_closed() {
    let trust = Trust::new();
    let server = patient_server(&trust).connections_max(3);
    let handle = server.start(echo).expect("the server starts");
    let clients: Vec<TcpStream> = (0..12).map(|_| connect(&handle)).collect();
    eventually("all are accepted", || handle.stats().accepted == 12);
    for mut client in &clients {
        // Writing fails on connections that were closed at once.
        let _written = client.write_all(b"GET / HTTP/1.1\r\n\r\n");
    }
    eventually("three have failed", || handle.stats().handshake_errors == 3);
    let stats = handle.stats();
    assert!(stats.open <= 3 && stats.peak == 3 && stats.refused == 9, "{stats:?}");
    for mut client in clients {
        let _alert_or_reset = client.read_to_end(&mut Vec::new());
    }
    eventually("all have gone", || handle.stats().open == 0);
    assert!(is_served(&handle, &trust));
    end(&handle);
}

/// Returns what a client receives after its question: bytes, and whether the end was clean.
fn hears(handle: &ServerHandle, trust: &Trust, question: &'static str) -> (String, bool) {
    let address = handle.addresses()[0].clone();
    let tls = trust.client.clone().server_name(NAME).expect("a name");
    let heard = block_on(timeout(LIMIT, async move {
        let client = Client::new(address).expect("an address").tls(tls).attempts_max(1);
        let mut conn = client.open().await.expect("connected");
        conn.write(question.as_bytes());
        let mut heard = String::new();
        loop {
            match conn.recv().await {
                Ok(Some(view)) => heard.push_str(std::str::from_utf8(&view).expect("text")),
                Ok(None) => return (heard, true),
                Err(_) => return (heard, false),
            }
        }
    }));
    heard.expect("a core").expect("in time")
}

#[test]
fn outcome_of_a_handler_decides_how_its_session_ends() {
    let trust = Trust::new();
    let handler = async |mut conn: Connection| {
        let question = conn.recv().await?.expect("a question");
        conn.write(b"an answer");
        match &*question {
            b"fails" => return Err(Error::other("as the test asked for")),
            b"panics" => {
                conn.flushed().await?;
                panic!("as the test asked for");
            }
            b"drops it before" => {
                drop(conn);
                yield_now().await;
            }
            b"gives it away" => drop(spawn(async move {
                yield_now().await;
                conn.write(b" of another task");
                conn.shutdown();
            })),
            _ => {}
        }
        Ok(())
    };
    let handle = patient_server(&trust).start(handler).expect("the server starts");
    for (question, answer, is_ended) in [
        ("is done", "an answer", true),
        ("fails", "an answer", false),
        ("panics", "an answer", false),
        ("drops it before", "an answer", false),
        ("gives it away", "an answer of another task", true),
    ] {
        let (heard, ended) = hears(&handle, &trust, question);
        // After a reset the client may lose bytes that it has not read.
        let as_said = heard == answer || question == "panics" && heard.is_empty();
        assert!(as_said && ended == is_ended, "{question}: {heard:?}, {ended}");
    }
    end(&handle);
    assert_eq!((handle.stats().handler_errors, handle.stats().handler_panics), (1, 1));
}

#[test]
fn last_bytes_and_close_notify_arrive_in_a_drain() {
    let trust = Trust::new();
    let (tell, served) = mpsc::channel();
    let handle = Server::bind("tls://127.0.0.1:0")
        .expect("a free port")
        .tls(trust.server.clone())
        .threads(1)
        .start(async move |mut conn: Connection| {
            while let Some(view) = conn.recv().await? {
                conn.send(view);
                tell.send(()).expect("a listener");
            }
            conn.write(b"farewell");
            Ok(())
        })
        .expect("the server starts");
    let address = handle.addresses()[0].clone();
    let address: std::net::SocketAddr =
        address.to_string().trim_start_matches("tls://").parse().expect("an address");
    let ended = block_on(timeout(LIMIT, async move {
        let stream = Stream::connect(&address.into()).await?;
        let tls = TlsStream::connect(stream, &trust.client, NAME).await?;
        tls.write(b"hello");
        let mut heard = tls.recv().await?.expect("an echo").to_vec();
        served.recv().expect("the server has answered");
        handle.shutdown();
        while let Some(view) = tls.recv().await? {
            heard.extend_from_slice(&view);
        }
        Ok::<_, ringway_net::Error>(heard)
    }));
    let heard = ended.expect("a core").expect("in time").expect("a session that ends in order");
    assert_eq!(heard, b"hellofarewell");
}

/// How receiving ends at the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Drain,
    CloseById,
}

#[test]
fn bytes_received_before_the_end_are_delivered_although_replies_wait() {
    for scheme in ["tcp", "tls"] {
        for ends_by in [End::Drain, End::CloseById] {
            receive_to_the_end(scheme, ends_by);
        }
    }
}

fn receive_to_the_end(scheme: &str, ends_by: End) {
    // More than the kernel takes of a reply that the client does not read.
    const ANSWER: usize = 12 << 20;
    // Several views, none of which fills its buffer: a stream that has switched to larger buffers
    // while its replies wait reads no more until they have left.
    const PIECES: u64 = 8;
    const PIECE: usize = 12_000;
    const BEHIND: usize = PIECES as usize * PIECE;
    let trust = Trust::new();
    let (tell, told) = mpsc::channel();
    let server = Server::bind(format!("{scheme}://127.0.0.1:0")).expect("a free port");
    let handle = server
        .tls(trust.server.clone())
        .threads(1)
        .start(async move |mut conn: Connection| {
            tell.send(conn.id()).expect("the test listens");
            conn.recv().await?;
            conn.write(&vec![1; ANSWER]);
            let mut behind = 0;
            while let Some(view) = conn.recv().await? {
                behind += view.len();
            }
            conn.send(behind.to_string().into_bytes());
            Ok(())
        })
        .expect("the server starts");
    let tls = trust.client.clone().server_name(NAME).expect("a name");
    let client = Client::new(&handle.addresses()[0]).expect("its address").tls(tls);
    let server = handle.clone();
    let answered = block_on(timeout(LIMIT, async move {
        let mut conn = client.open().await?;
        conn.write(b"first");
        let mut answer = conn.recv().await?.expect("it has begun").to_vec();
        let arrived = || server.stats().cores[0].counters.bytes_received;
        let before = arrived();
        for sent in 1..=PIECES {
            conn.write(&[2; PIECE]);
            conn.flushed().await?;
            eventually("the next piece has arrived", || arrived() - before >= sent * PIECE as u64);
        }
        match ends_by {
            End::Drain => server.shutdown(),
            End::CloseById => server.sessions().close(told.recv().expect("its id"))?,
        }
        while let Some(view) = conn.recv().await? {
            answer.extend_from_slice(&view);
        }
        Ok::<_, ringway_net::Error>(answer)
    }));
    let answer = answered.expect("a core").expect("in time").expect("a clean end");
    let behind = String::from_utf8_lossy(&answer[ANSWER..]).into_owned();
    assert_eq!(behind, BEHIND.to_string(), "{scheme}, {ends_by:?}");
    end(&handle);
}

#[test]
fn maximum_duration_means_for_ever() {
    const FOR_EVER: Duration = Duration::MAX;
    let trust = Trust::new();
    let tls = trust.server.clone().handshake_timeout(FOR_EVER);
    let server = Server::bind("tls://127.0.0.1:0").expect("a free port").threads(1).tls(tls);
    let server = server.idle_timeout(FOR_EVER).lifetime(FOR_EVER);
    let server = server.write_stall_timeout(Some(FOR_EVER)).keepalive(FOR_EVER);
    let handle = server.drain_timeout(FOR_EVER).start(echo).expect("the server starts");
    let name = trust.client.clone().server_name(NAME).expect("a name");
    let client = Client::new(&handle.addresses()[0]).expect("its address");
    let client = client.tls(name.handshake_timeout(FOR_EVER)).connect_timeout(FOR_EVER);
    let client = client.stable_after(FOR_EVER).keepalive(FOR_EVER);
    let asked = block_on(timeout(LIMIT, async move {
        let conn = client.backoff(Backoff::new(FOR_EVER, FOR_EVER)).reconnecting().next().await?;
        conn.set_idle_timeout(Some(FOR_EVER));
        conn.set_lifetime(Some(FOR_EVER));
        let server = Requester::in_order(Framed::new(conn, Line::new(64)), 1);
        server.request(b"for ever", FOR_EVER).await
    }));
    let reply = asked.expect("a core").expect("in time").expect("a reply");
    assert_eq!(reply, "for ever");
    end(&handle);
}
