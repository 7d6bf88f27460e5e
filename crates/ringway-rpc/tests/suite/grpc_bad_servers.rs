//! Servers that do not speak gRPC, or misbehave: calls over gRPC fail with what happened.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_net::{ClientTls, ServerTls};
use ringway_rpc::{Client, ClientBuilder, Codec, Kind, Method, Status};
use ringway_runtime::{block_on, spawn, timeout};

use crate::support::echo::{Echo, serve_at};
use crate::support::frames::*;
use crate::support::{LIMIT, end};

static SAY: Method = Method::new("echo.Echo/Say", Kind::Unary);

const RAW: Codec<Bytes> = Codec::raw();

/// Starts a listener that calls `serve` with each connection; returns its address.
pub(crate) fn listen(serve: impl Fn(Peer) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("grpc://{}", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            serve(Peer(socket));
        }
    });
    address
}

/// A connection of hand-made frames.
pub(crate) struct Peer(TcpStream);

impl Peer {
    pub(crate) fn socket(&mut self) -> &mut TcpStream {
        &mut self.0
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let _gone = self.0.write_all(bytes);
    }

    /// Returns type, stream and payload of the next frame; `None` when the client has gone.
    fn frame(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).ok()?;
        if head.starts_with(b"PRI * HTT") {
            self.0.read_exact(&mut [0; 15]).ok()?;
            self.0.read_exact(&mut head).ok()?;
        }
        let mut body = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.0.read_exact(&mut body).ok()?;
        Some((head[3], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), body))
    }

    /// Returns the stream of the next request; `None` when the client has gone.
    pub(crate) fn request(&mut self) -> Option<u32> {
        loop {
            if let (HEADERS, stream, _) = self.frame()? {
                return Some(stream);
            }
        }
    }

    /// Returns the error code of the client's GOAWAY; `None` if it left without one.
    fn go_away(&mut self) -> Option<u32> {
        loop {
            if let (GOAWAY, 0, body) = self.frame()? {
                return Some(u32::from_be_bytes([body[4], body[5], body[6], body[7]]));
            }
        }
    }

    /// Waits until the client has taken in all that was sent. No request comes meanwhile.
    fn all_is_heard(&mut self) -> Option<()> {
        self.write(&frame(PING, 0, 0, b"all of i"));
        loop {
            match self.frame()? {
                (PING, 0, _) => return Some(()),
                (HEADERS, ..) => panic!("a request beyond the limit"),
                _ => {}
            }
        }
    }

    /// Answers a request with a message.
    pub(crate) fn reply(&mut self, stream: u32) {
        let fields = [(":status", "200"), ("content-type", "application/grpc")];
        self.write(&frame(HEADERS, 0x4, stream, &head(&fields)));
        self.write(&frame(DATA, 0, stream, b"\x00\x00\x00\x00\x01!"));
        self.write(&frame(HEADERS, 0x5, stream, &head(&[("grpc-status", "0")])));
    }

    /// Answers a request with a status and no message.
    fn answer(&mut self, stream: u32, status: &str) {
        let fields = head(&[(":status", "200"), ("grpc-status", status)]);
        self.write(&frame(HEADERS, 0x5, stream, &fields));
    }

    pub(crate) fn settings(&mut self, streams: u32) {
        let body = [&[0, 3][..], &streams.to_be_bytes()].concat();
        self.write(&frame(SETTINGS, 0, 0, &body));
    }
}

/// Returns the failure of a call to such a server.
#[track_caller]
fn failure(client: ClientBuilder) -> Status {
    let client = client.build().expect("a good address");
    client.unary(&SAY, RAW, RAW, Bytes::new()).wait().expect_err("no good server")
}

#[track_caller]
fn fails_saying(address: &str, parts: &[&str]) {
    let status = failure(Client::builder().address(address));
    assert!(status.is_unavailable(), "{status:?}");
    for part in parts {
        assert!(status.message().contains(part), "{status} says nothing of {part}");
    }
}

#[test]
fn other_protocols_are_recognized_and_named() {
    let http1 = listen(|mut peer| {
        let _asked = peer.0.read(&mut [0; 64]);
        peer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    });
    fails_saying(&http1, &[&http1, "answered in HTTP/1", "`HTTP/1.1 400 Bad Request`"]);
    let garbage = listen(|mut peer| peer.write(b"\x00\x00\x00what is this?"));
    fails_saying(&garbage, &[&garbage, "another protocol"]);
    let closes = listen(drop);
    fails_saying(&closes, &[&closes, "before it sent anything", "grpcs://"]);
    let no_http2 = listen(|mut peer| {
        peer.settings(100);
        peer.write(&frame(SETTINGS, 0, 77, &[]));
        while peer.request().is_some() {}
    });
    fails_saying(&no_http2, &[&no_http2, "broke the protocol", "names a stream"]);
}

#[test]
fn tls_server_without_h2_does_not_serve_grpc() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let tls = ServerTls::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
    let tls = tls.expect("they belong together").alpn(["http/1.1"]);
    let address = "tls://localhost:0".parse().expect("an address");
    let server = serve_at(address, &Echo::default(), |server| server.tls(tls));
    let address = server.addresses()[0].to_string().replace("tls:", "grpcs:");
    let trusting = ClientTls::new().roots_pem(made.cert.pem()).expect("a certificate");
    let status = failure(Client::builder().address(&*address).tls(trusting));
    assert!(status.is_unavailable() && status.is_not_executed(), "{status:?}");
    assert!(status.message().to_lowercase().contains("protocol"), "{status}");
    end(server);
}

#[test]
fn endless_header_list_ends_the_connection() {
    let address = listen(|mut peer| {
        peer.settings(100);
        let Some(stream) = peer.request() else { return };
        peer.write(&frame(HEADERS, 0, stream, &head(&[(":status", "200")])));
        let field = head(&[("a", &"b".repeat(100))]);
        let more = frame(CONTINUATION, 0, stream, &field.repeat(100));
        while peer.0.write_all(&more).is_ok() {}
    });
    fails_saying(&address, &["broke the protocol", "field block"]);
}

/// Turns every client away as soon as it has connected or called, in several ways by turns. Counts
/// the clients in `came`.
fn sends_all_away(listener: &TcpListener, came: &AtomicUsize) {
    while let Ok((socket, _)) = listener.accept() {
        let mut peer = Peer(socket);
        peer.settings(100);
        match came.fetch_add(1, Ordering::SeqCst) % 3 {
            0 => peer.write(&frame(GOAWAY, 0, 0, &[0; 8])),
            1 => peer.write(&frame(HEADERS, 0x5, 77, &head(&[(":status", "200")]))),
            _ => {
                let _called = peer.request();
                peer.write(&frame(GOAWAY, 0, 0, &[0; 8]));
            }
        }
        while peer.frame().is_some() {}
    }
}

#[test]
fn server_that_turns_clients_away_is_not_reconnected_in_a_loop() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("grpc://{}", listener.local_addr().expect("it is bound"));
    let came = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&came);
    std::thread::spawn(move || sends_all_away(&listener, &counted));
    let client = Client::connect(&*address).expect("an address");
    let end = Instant::now() + Duration::from_secs(1);
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        let call = client.unary(&SAY, RAW, RAW, Bytes::new()).timeout(left);
        let status = call.wait_for_ready(true).wait().expect_err("nobody answers");
        assert!(status.is_deadline_exceeded() || status.is_unavailable(), "{status:?}");
    }
    // The second connect comes at once; then there are pauses of at least 100, 200 and 400 ms.
    let came = came.load(Ordering::SeqCst);
    assert!((1..=6).contains(&came), "it came {came} times");
}

#[test]
fn unsolicited_frames_end_the_connection_with_go_away() {
    let head = || head(&[(":status", "200"), ("grpc-status", "5")]);
    let reply = || frame(HEADERS, 0x5, 1, &head());
    for (unasked, code) in [
        (frame(HEADERS, 0x5, 77, &head()), PROTOCOL_ERROR),
        (frame(HEADERS, 0x5, 2, &head()), PROTOCOL_ERROR),
        (frame(DATA, 0x1, 77, b"?"), PROTOCOL_ERROR),
        (frame(RST_STREAM, 0, 77, &[0; 4]), PROTOCOL_ERROR),
        (frame(WINDOW_UPDATE, 0, 77, &[0, 0, 0, 1]), PROTOCOL_ERROR),
        (frame(PUSH_PROMISE, 0x4, 1, &[0, 0, 0, 2]), PROTOCOL_ERROR),
        ([reply(), reply()].concat(), STREAM_CLOSED),
    ] {
        let (told, is_told) = mpsc::channel();
        let what = format!("{unasked:?}");
        let address = listen(move |mut peer| {
            peer.settings(100);
            if peer.request().is_some() {
                peer.write(&unasked);
                told.send(peer.go_away()).expect("the test waits");
            }
        });
        let status = failure(Client::builder().address(&*address));
        assert!(status.is_unavailable() || status.is_not_found(), "{status:?}");
        assert_eq!(is_told.recv_timeout(LIMIT), Ok(Some(code)), "{what}");
    }
}

#[test]
fn meaningless_frames_are_tolerated() {
    let address = listen(move |mut peer| {
        peer.settings(100);
        while let Some(stream) = peer.request() {
            peer.write(&frame(PING, 0x1, 0, &[9; 8]));
            peer.write(&frame(0x77, 0xff, 5, b"unknown"));
            peer.write(&frame(SETTINGS, 0x1, 0, &[]));
            peer.answer(stream, "5");
        }
    });
    assert!(failure(Client::builder().address(&*address)).is_not_found());
}

#[test]
fn plain_http_response_maps_to_its_grpc_status() {
    for (http, code) in [
        ("400", "INTERNAL"),
        ("401", "UNAUTHENTICATED"),
        ("403", "PERMISSION_DENIED"),
        ("404", "UNIMPLEMENTED"),
        ("503", "UNAVAILABLE"),
        ("500", "UNKNOWN"),
        ("200", "UNKNOWN"),
    ] {
        let address = listen(move |mut peer| {
            peer.settings(100);
            while let Some(stream) = peer.request() {
                let fields = head(&[(":status", http), ("content-type", "text/html")]);
                peer.write(&frame(HEADERS, 0x5, stream, &fields));
            }
        });
        let status = failure(Client::builder().address(&*address));
        assert_eq!(status.code().to_string(), code, "{http}: {status}");
        assert!(status.message().contains(http), "{http}: {status}");
    }
}

#[test]
fn call_refused_by_every_server_was_not_executed() {
    let address = listen(|mut peer| {
        peer.settings(100);
        while let Some(stream) = peer.request() {
            peer.write(&frame(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes()));
        }
    });
    let status = failure(Client::builder().address(&*address));
    assert!(status.is_unavailable() && status.is_not_executed(), "{status:?}");
}

#[test]
fn call_after_the_last_stream_of_go_away_uses_another_connection() {
    let came = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&came);
    let address = listen(move |mut peer| {
        peer.settings(100);
        let Some(stream) = peer.request() else { return };
        match counted.fetch_add(1, Ordering::SeqCst) {
            0 => peer.write(&frame(GOAWAY, 0, 0, &[0; 8])),
            _ => peer.reply(stream),
        }
        while peer.request().is_some() {}
    });
    let client = Client::connect(&*address).expect("an address");
    let reply = client.unary(&SAY, RAW, RAW, Bytes::new()).wait();
    assert_eq!(reply.expect("the second answers"), "!");
    assert_eq!(came.load(Ordering::SeqCst), 2);
}

#[test]
fn call_whose_stream_is_refused_uses_another_connection() {
    let came = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&came);
    // One stream per connection, so that the first two calls make two connections.
    let address = listen(move |mut peer| {
        let came = Arc::clone(&counted);
        std::thread::spawn(move || {
            peer.settings(1);
            while let Some(stream) = peer.request() {
                match came.fetch_add(1, Ordering::SeqCst) {
                    0 | 1 => {
                        while came.load(Ordering::SeqCst) < 2 {
                            std::thread::yield_now();
                        }
                        peer.answer(stream, "5");
                    }
                    2 => peer.write(&frame(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes())),
                    _ => peer.reply(stream),
                }
            }
        });
    });
    let test = async move {
        let client = Client::builder().address(&*address).connections(2).build()?;
        let call = || client.unary(&SAY, RAW, RAW, Bytes::new());
        for first in [spawn(call()), spawn(call())] {
            let status = first.await.expect("no panic").expect_err("as it answers");
            assert!(status.is_not_found(), "{status:?}");
        }
        assert_eq!(call().await?, "!");
        Ok::<_, Status>(())
    };
    let outcome = block_on(timeout(LIMIT, test)).expect("a core").expect("no hang");
    outcome.expect("the other connection answers");
    assert_eq!(came.load(Ordering::SeqCst), 4);
}

#[test]
fn silent_server_is_pinged_and_closed() {
    let (told, is_told) = mpsc::channel();
    let address = listen(move |mut peer| {
        peer.settings(100);
        while let Some((kind, _, body)) = peer.frame() {
            if kind == PING {
                told.send(body.len()).expect("the test waits");
            }
        }
    });
    let time = Duration::from_millis(20);
    let client = Client::builder().address(&*address).keep_alive(time, time).build();
    let client = client.expect("an address");
    let call = client.unary(&SAY, RAW, RAW, Bytes::new()).no_timeout();
    let status = call.wait().expect_err("nobody answers");
    assert!(status.is_unavailable() && !status.is_not_executed(), "{status:?}");
    assert!(status.message().contains("did not answer a PING"), "{status}");
    assert_eq!(is_told.recv_timeout(LIMIT), Ok(8));
}

#[test]
fn ending_client_sends_go_away() {
    let (told, is_told) = mpsc::channel();
    let address = listen(move |mut peer| {
        peer.settings(100);
        let stream = peer.request().expect("a call");
        peer.answer(stream, "5");
        told.send(peer.go_away()).expect("the test waits");
    });
    let test = async move {
        let client = Client::connect(&*address).expect("an address");
        let status = client.unary(&SAY, RAW, RAW, Bytes::new()).await.expect_err("as it answers");
        assert!(status.is_not_found(), "{status:?}");
        drop(client);
        loop {
            match is_told.try_recv() {
                Ok(told) => return assert_eq!(told, Some(NO_ERROR)),
                Err(_) => ringway_runtime::yield_now().await,
            }
        }
    };
    block_on(timeout(LIMIT, test)).expect("a core").expect("no hang");
}

/// Allows two streams. It answers when all connections have as many as they may.
struct TakesTwo {
    /// The waiting requests of all connections.
    held: AtomicUsize,
    /// The most requests that waited on one connection.
    most: AtomicUsize,
    connections: AtomicUsize,
}

impl TakesTwo {
    /// Serves one of `connections` connections.
    fn serve(&self, socket: TcpStream, connections: usize) {
        self.connections.fetch_add(1, Ordering::SeqCst);
        let mut answering = Peer(socket.try_clone().expect("a descriptor"));
        let mut peer = Peer(socket);
        peer.settings(2);
        let (came, has_come) = mpsc::channel();
        let open = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for stream in has_come {
                    // All connections are full once; then every request is answered at once.
                    while self.held.load(Ordering::SeqCst) < 2 * connections {
                        std::thread::yield_now();
                    }
                    open.fetch_sub(1, Ordering::SeqCst);
                    answering.answer(stream, "5");
                }
            });
            while let Some(stream) = peer.request() {
                let open = open.fetch_add(1, Ordering::SeqCst) + 1;
                self.most.fetch_max(open, Ordering::SeqCst);
                self.held.fetch_add(1, Ordering::SeqCst);
                came.send(stream).expect("it answers");
            }
            drop(came);
        });
    }
}

#[test]
fn server_with_few_streams_gets_more_connections() {
    const CONNECTIONS: usize = 3;
    let zero = || AtomicUsize::new(0);
    let server = Arc::new(TakesTwo { held: zero(), most: zero(), connections: zero() });
    let serving = Arc::clone(&server);
    let address = listen(move |peer| {
        let serving = Arc::clone(&serving);
        std::thread::spawn(move || serving.serve(peer.0, CONNECTIONS));
    });
    let test = async move {
        let client = Client::builder().address(&*address).connections_max(CONNECTIONS).build()?;
        let call = || spawn(client.unary(&SAY, RAW, RAW, Bytes::new()));
        for call in (0..60).map(|_| call()).collect::<Vec<_>>() {
            let status = call.await.expect("no panic").expect_err("as it answers");
            assert!(status.is_not_found(), "{status:?}");
        }
        Ok::<_, Status>(())
    };
    let outcome = block_on(timeout(LIMIT, test)).expect("a core").expect("no hang");
    outcome.expect("success");
    assert_eq!(server.connections.load(Ordering::SeqCst), CONNECTIONS);
    assert_eq!(server.most.load(Ordering::SeqCst), 2);
    assert_eq!(server.held.load(Ordering::SeqCst), 60);
}

/// Lowers and raises its limit of streams while calls run, no more often than clients bear.
fn changes_its_limit(mut peer: Peer) -> Option<()> {
    peer.settings(4);
    for _ in 0..6 {
        let four = [peer.request()?, peer.request()?, peer.request()?, peer.request()?];
        peer.settings(1);
        peer.all_is_heard()?;
        four.into_iter().for_each(|stream| peer.reply(stream));
        for _ in 0..3 {
            let alone = peer.request()?;
            peer.all_is_heard()?;
            peer.reply(alone);
        }
        let last = peer.request()?;
        peer.settings(4);
        let more = [peer.request()?, peer.request()?, peer.request()?];
        peer.all_is_heard()?;
        more.into_iter().chain([last]).for_each(|stream| peer.reply(stream));
    }
    while let Some(stream) = peer.request() {
        peer.reply(stream);
    }
    Some(())
}

#[test]
fn a_server_that_lowers_and_raises_its_limit_gets_no_more_streams_and_no_fewer() {
    let address = listen(|peer| _ = changes_its_limit(peer));
    let test = async move {
        let client = Client::builder().address(&*address).connections_max(1).build()?;
        let call = || spawn(client.unary(&SAY, RAW, RAW, Bytes::new()));
        for call in (0..6 * 8 + 50).map(|_| call()).collect::<Vec<_>>() {
            assert_eq!(call.await.expect("no panic")?, "!");
        }
        Ok::<_, Status>(())
    };
    let outcome = block_on(timeout(LIMIT, test)).expect("a core").expect("no hang");
    outcome.expect("success");
}
