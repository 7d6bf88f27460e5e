//! Requests over HTTP/2 that are no calls of gRPC: handlers answer them as they answer HTTP/1.1.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use ringway_http::{Body, Error, Request, Response, Router, WebSocketUpgrade, param, text};
use ringway_rpc::{Console, Server, ServerHandle};
use ringway_wire::http2::ErrorCode;

use crate::support::frames::{
    DATA, END_HEADERS, HEADERS, SETTINGS, frame as bytes_frame, head as fields_of,
};
use crate::support::grpc_caller::{Came, GrpcCaller, framed};
use crate::support::web_caller::{Answer, ask, frame, head};
use crate::support::web_service::{Reports, WebServer};
use crate::support::{LIMIT, end, eventually, socket_addr, wait};

/// A body that is produced as it is taken, until it fails or panics.
struct Pieces {
    left: usize,
    piece: Bytes,
    end: fn() -> Option<ringway_http::Result<Bytes>>,
    made: Arc<AtomicUsize>,
    /// Tells when it is dropped.
    _dropped: Sender<()>,
}

impl Stream for Pieces {
    type Item = ringway_http::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(left) = self.left.checked_sub(1) else { return Poll::Ready((self.end)()) };
        self.left = left;
        self.made.fetch_add(self.piece.len(), Ordering::Relaxed);
        Poll::Ready(Some(Ok(self.piece.clone())))
    }
}

/// What routes do when tests say so, and what tests see of them.
#[derive(Clone, Default)]
struct Stage {
    made: Arc<AtomicUsize>,
    /// Disconnects when the last body is dropped.
    dropped: Arc<Mutex<Option<Receiver<()>>>>,
    go_on: Arc<Mutex<Option<Receiver<()>>>>,
}

impl Stage {
    fn body(&self, pieces: usize, end: fn() -> Option<ringway_http::Result<Bytes>>) -> Response {
        let (dropped, is_dropped) = channel();
        *self.dropped.lock().expect("no panic") = Some(is_dropped);
        let (piece, made) = (Bytes::from(vec![b'p'; PIECE]), Arc::clone(&self.made));
        Response::new(Body::stream(Pieces { left: pieces, piece, end, made, _dropped: dropped }))
    }

    /// Lets one handler that waits go on.
    fn gate(&self) -> Sender<()> {
        let (go_on, waits) = channel();
        *self.go_on.lock().expect("no panic") = Some(waits);
        go_on
    }

    async fn wait(&self) {
        let Some(go_on) = self.go_on.lock().expect("no panic").take() else {
            return std::future::pending().await;
        };
        let waited = ringway_runtime::spawn_blocking(move || go_on.recv()).expect("a thread");
        let _told = waited.await;
    }

    #[track_caller]
    fn is_dropped(&self) {
        let dropped = self.dropped.lock().expect("no panic").take().expect("a body");
        let told = dropped.recv_timeout(LIMIT);
        assert_eq!(told, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
    }
}

const PIECE: usize = 10_000;

fn routes(stage: &Stage) -> Router {
    let [streams, cut, panics, takes, waits] = std::array::from_fn(|_| stage.clone());
    Router::new()
        .get("/hello/{name}", async |request| {
            Ok(text(format!("Hello, {}!", param(&request, "name"))))
        })
        .get("/about", async |request: Request| {
            let host = request.headers().get("host").and_then(|host| host.to_str().ok());
            let cookie = request.headers().get("cookie").and_then(|cookie| cookie.to_str().ok());
            Ok(text(format!("{} {host:?} {cookie:?}", request.uri())))
        })
        .post("/length", async |request: Request| {
            let body = request.into_body().bytes().await?;
            Ok(text(body.len().to_string()))
        })
        .get("/pieces/{count}", async move |request| {
            Ok(streams.body(param(&request, "count").parse().unwrap_or(usize::MAX), || None))
        })
        .get("/cut", async move |_| Ok(cut.body(3, || Some(Err(Error::internal("cut"))))))
        .get("/body-panics", async move |_| Ok(panics.body(3, || panic!("on purpose"))))
        .get("/panics", async |_| panic!("on purpose"))
        .get("/fails", async |_| Err(Error::not_found("there is no such thing")))
        .post("/takes", async move |request: Request| {
            takes.wait().await;
            let mut body = request.into_body().of_any_length();
            let mut length = 0;
            while let Some(chunk) = body.chunk().await? {
                length += chunk.len();
            }
            Ok(text(length.to_string()))
        })
        .get("/waits", async move |_| {
            waits.wait().await;
            Ok(text("at last"))
        })
        .get("/socket", async |request| WebSocketUpgrade::new(request).answer(async |_| Ok(())))
}

fn start(stage: &Stage, set: impl FnOnce(Server) -> Server) -> ServerHandle {
    let server = Server::bind("tcp://127.0.0.1:0").expect("an address").threads(1);
    let server = server.service(WebServer::new(Reports::default())).http_routes(routes(stage));
    set(server.message_bytes_max(100_000)).start().expect("it starts")
}

type Fields<'f> = &'f [(&'f str, &'f str)];

/// Opens a request; those of `fields` take the place of the usual ones.
fn open(
    caller: &mut GrpcCaller,
    verb: &str,
    target: &str,
    fields: Fields<'_>,
    body: Option<&[u8]>,
) -> ringway_wire::http2::StreamHandle {
    let usual = [
        (":method", verb),
        (":path", target),
        (":authority", "here"),
        ("content-type", "text/plain"),
    ];
    let is_other = |(name, _): &(&str, &str)| fields.iter().all(|(own, _)| own != name);
    let all: Vec<_> = usual.into_iter().filter(is_other).chain(fields.iter().copied()).collect();
    caller.open_with("", &all, body.unwrap_or_default(), true)
}

fn get(caller: &mut GrpcCaller, target: &str) -> Came {
    let stream = open(caller, "GET", target, &[], None);
    caller.answer(stream)
}

/// An answer as far as it has to be the same.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    status: u16,
    fields: Vec<(String, String)>,
    body: String,
}

impl Told {
    fn of(status: u16, fields: impl Iterator<Item = (String, String)>, body: &[u8]) -> Self {
        let own = ["date", "connection", "transfer-encoding", ":status"];
        let mut fields: Vec<_> = fields.filter(|(name, _)| !own.contains(&&**name)).collect();
        fields.sort();
        Self { status, fields, body: String::from_utf8_lossy(body).into_owned() }
    }

    fn of_http1(answer: &Answer) -> Self {
        let fields = answer.fields().map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self::of(answer.status, fields, &answer.body)
    }

    fn of_http2(came: &Came) -> Self {
        let status = came.field(":status").expect("a status").parse().expect("a number");
        let fields = came.fields.iter();
        let fields = fields.map(|(name, value)| (name.clone(), value.to_ascii_lowercase()));
        Self::of(status, fields, &came.content)
    }
}

const JSON: (&str, &str) = ("content-type", "application/json");
const CONNECT: (&str, &str) = ("content-type", "application/connect+json");
const WEB: (&str, &str) = ("content-type", "application/grpc-web+json");

#[test]
fn requests_are_answered_the_same_over_both_versions() {
    let handle = start(&Stage::default(), |server| server);
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    let long = vec![b'x'; 100_001];
    let rpc: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"web.v1.Web/Put","params":["sea"]}"#;
    let numbers = [frame(0, "1"), frame(0, "2"), frame(2, "{}")].concat();
    let one = frame(0, "3");
    let cases: &[(&str, &str, Fields<'_>, &[u8], u16)] = &[
        ("GET", "/hello/Ada%20L", &[], b"", 200),
        ("HEAD", "/hello/Ada", &[], b"", 200),
        ("GET", "/about?a=b", &[("cookie", "a=b")], b"", 200),
        ("GET", "/nothing", &[], b"", 404),
        ("POST", "/hello/Ada", &[], b"", 405),
        ("GET", "/fails", &[], b"", 404),
        ("GET", "/panics", &[], b"", 500),
        ("GET", "/pieces/3", &[], b"", 200),
        ("HEAD", "/pieces/3", &[], b"", 200),
        ("POST", "/length", &[], b"12345", 200),
        ("POST", "/length", &[], &long, 413),
        ("GET", "/healthz", &[], b"", 200),
        ("HEAD", "/readyz", &[], b"", 200),
        ("POST", "/web.v1.Web/Put", &[JSON], b"\"sea\"", 200),
        ("POST", "/web.v1.Web/Look", &[JSON, ("tenant", "blue")], b"\"sea\"", 200),
        ("GET", "/web.v1.Web/Look?connect=v1&encoding=json&message=%22sea%22", &[], b"", 200),
        ("POST", "/web.v1.Web/Put", &[JSON], b"[", 400),
        ("POST", "/web.v1.Web/Put", &[("content-type", "text/plain")], b"sea", 415),
        ("PUT", "/web.v1.Web/Put", &[JSON], b"\"sea\"", 405),
        ("POST", "/web.v1.Web/Fail", &[JSON], b"\"it\"", 404),
        ("POST", "/web.v1.Web/Fail", &[JSON], b"\"panic\"", 500),
        ("POST", "/web.v1.Web/Count", &[CONNECT], &one, 200),
        ("POST", "/web.v1.Web/Add", &[CONNECT], &numbers[..12], 200),
        ("POST", "/web.v1.Web/Count", &[WEB, ("grpc-timeout", "10S")], &one, 200),
        ("POST", "/web.v1.Web/Put", &[WEB], &frame(0, "\"sea\""), 200),
        ("POST", "/web.v1.Web/Put", &[JSON, ("origin", "http://evil.example")], b"\"sea\"", 403),
        ("POST", "/rpc", &[JSON], rpc, 200),
    ];
    for &(verb, target, fields, body, status) in cases {
        let usual = [("content-type", "text/plain")];
        let has_type = fields.iter().any(|(name, _)| *name == "content-type");
        let all = usual.iter().filter(|_| !has_type).chain(fields);
        let mut lines: String = all.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        lines += &format!("content-length: {}\r\n", body.len());
        let over_1 = ask(&handle, [head(verb, target, &lines).as_bytes(), body].concat());
        let stream = open(&mut caller, verb, target, fields, Some(body));
        let over_2 = caller.answer(stream);
        let (over_1, over_2) = (Told::of_http1(&over_1), Told::of_http2(&over_2));
        assert_eq!((over_1.status, &over_1), (status, &over_2), "{verb} {target}");
    }
    let metrics = get(&mut caller, "/metrics");
    assert!(String::from_utf8_lossy(&metrics.content).contains("ringway_server_"), "{metrics:?}");
    drop(caller);
    end(handle);
}

#[test]
fn the_console_is_served_where_no_route_is() {
    let server = Server::bind("tcp://127.0.0.1:0").expect("an address").threads(1);
    let server = server.service(WebServer::new(Reports::default())).console(Console::local());
    let handle = server.start().expect("it starts");
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    for (path, authority, status) in [
        ("/", "localhost:1", "200"),
        ("/console/data", "127.0.0.1:1", "200"),
        ("/console/data", "evil.example", "404"),
    ] {
        let stream = open(&mut caller, "GET", path, &[(":authority", authority)], None);
        assert_eq!(caller.answer(stream).field(":status"), Some(status), "{path} {authority}");
    }
    drop(caller);
    end(handle);
}

/// Reads frames up to one of this type on the stream.
fn read_frame(socket: &mut TcpStream, kind: u8, stream: u32) {
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head).expect("a frame");
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        socket.read_exact(&mut vec![0; len]).expect("all of it");
        let on = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        if (head[3], on) == (kind, stream) {
            return;
        }
    }
}

/// RFC 9110, section 10.1.1. Clients leave interim answers out, so the frames are looked at.
#[test]
fn a_client_that_waits_to_be_asked_for_its_content_is_asked() {
    let handle = start(&Stage::default(), |server| server);
    let mut socket = TcpStream::connect(socket_addr(&handle)).expect("it listens");
    socket.set_read_timeout(Some(LIMIT)).expect("a timeout");
    let preface = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &bytes_frame(SETTINGS, 0, 0, &[])];
    socket.write_all(&preface.concat()).expect("a preface");
    let head = fields_of(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/length"),
        (":authority", "here"),
        ("expect", "100-continue"),
    ]);
    socket.write_all(&bytes_frame(HEADERS, END_HEADERS, 1, &head)).expect("a head");
    read_frame(&mut socket, HEADERS, 1); // nothing else has been sent
    const END_STREAM: u8 = 1;
    socket.write_all(&bytes_frame(DATA, END_STREAM, 1, b"hello")).expect("the content");
    read_frame(&mut socket, HEADERS, 1);
    read_frame(&mut socket, DATA, 1);
    drop(socket);
    end(handle);
}

#[test]
fn calls_and_other_requests_share_a_connection() {
    let handle = start(&Stage::default(), |server| server);
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    let message = framed(b"\n\x03sea");
    for round in 0..20 {
        // The first calls make the server expect more of them.
        for _ in 0..=round % 3 {
            let call = caller.open_with("web.v1.Web/Put", &[("tenant", "blue")], &message, true);
            let came = caller.answer(call);
            assert_eq!(
                (came.status(), &came.messages()[..]),
                ((0, ""), &[Bytes::from(message[5..].to_vec())][..])
            );
        }
        let (target, number) = (format!("/about?{round}"), round.to_string());
        let fields = [("cookie", &*number), ("cookie", "b")];
        let stream = open(&mut caller, "GET", &target, &fields, None);
        let came = caller.answer(stream);
        let expected = format!("{target} Some(\"here\") Some(\"{number}; b\")");
        assert_eq!(String::from_utf8_lossy(&came.content), expected);
    }
    drop(caller);
    end(handle);
}

#[test]
fn an_upload_waits_for_its_reader() {
    let stage = Stage::default();
    let handle = start(&stage, |server| server);
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    let go_on = stage.gate();
    let fields = [(":method", "POST"), (":path", "/takes"), ("content-type", "text/plain")];
    let stream = caller.open_with("", &fields, b"", false);
    let much = vec![b'u'; 8 << 20];
    caller.put(stream, &much, true);
    let hello = get(&mut caller, "/hello/Ada"); // and with it the server's windows
    assert_eq!(hello.content, b"Hello, Ada!");
    eventually("a window of it is there", || handle.stats().unread_bytes >= 1 << 20);
    let beside = handle.stats().unread_bytes - (1 << 20);
    assert!(beside < 32 << 10, "and no more than what the request itself takes: {beside}");
    assert!(caller.machine.unsent(stream) >= 6 << 20);
    go_on.send(()).expect("it waits");
    let came = caller.answer(stream);
    assert_eq!(String::from_utf8_lossy(&came.content), much.len().to_string());
    eventually("nothing is kept", || handle.stats().unread_bytes == 0);
    drop(caller);
    end(handle);
}

#[test]
fn a_download_waits_for_its_reader_and_ends_with_it() {
    let stage = Stage::default();
    let handle = start(&stage, |server| server);
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    caller.reads = false;
    let stream = open(&mut caller, "GET", "/pieces/all", &[], None);
    let window = 1 << 20;
    caller.until("a window of it", |came| {
        came.get(&stream.id()).is_some_and(|came| came.content.len() >= window)
    });
    assert_eq!(get(&mut caller, "/hello/Ada").content, b"Hello, Ada!");
    let made = stage.made.load(Ordering::Relaxed);
    assert!((window..window + (64 << 10) + 2 * PIECE).contains(&made), "{made} bytes were made");
    // Credit lets it go on.
    caller.machine.taken(stream, window);
    caller.until("more of it", |came| came[&stream.id()].content.len() >= 3 * window / 2);
    caller.reset(stream);
    stage.is_dropped();
    caller.reads = true;
    assert_eq!(get(&mut caller, "/pieces/300").content.len(), 300 * PIECE);
    drop(caller);
    end(handle);
}

#[test]
fn whoever_resets_a_request_ends_its_handler() {
    let reports = Reports::default();
    let (say, said) = channel();
    *reports.said.lock().expect("no panic") = Some(say);
    let handle = crate::support::web_service::start(reports, |server| server);
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    let hear = || said.recv_timeout(LIMIT).expect("in time");
    for leaves in [false, true] {
        let stream = open(&mut caller, "POST", "/web.v1.Web/Wait", &[JSON], Some(b"\"it\""));
        assert_eq!(hear(), "waits");
        match leaves {
            false => caller.reset(stream),
            true => break,
        }
        assert_eq!(hear(), "dropped");
    }
    drop(caller);
    assert_eq!(hear(), "dropped");
    eventually("nothing is in flight", || handle.stats().in_flight == 0);
    end(handle);
}

#[test]
fn a_body_that_fails_is_cut_off_and_others_go_on() {
    let stage = Stage::default();
    let handle = start(&stage, |server| server);
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    for path in ["/cut", "/body-panics"] {
        let came = get(&mut caller, path);
        assert_eq!((came.field(":status"), came.has_ended), (Some("200"), false), "{path}");
        assert_eq!(came.reset, Some(ErrorCode::INTERNAL_ERROR), "{path}");
    }
    assert_eq!(get(&mut caller, "/hello/Ada").content, b"Hello, Ada!");
    drop(caller);
    end(handle);
}

#[test]
fn heads_that_no_handler_may_see_are_refused() {
    let handle = start(&Stage::default(), |server| server);
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    let long = "x".repeat(20_000);
    let refused: [(Fields<'_>, &str); 7] = [
        (&[(":authority", "a"), ("host", "b")], "400"),
        (&[(":authority", "user@here")], "400"),
        (&[(":path", "no-slash")], "400"),
        (&[(":path", "*")], "400"),
        (&[("x-long", &long)], "431"),
        (&[(":path", &format!("/{}", &long[..9_000]))], "414"),
        (&[(":path", "/socket")], "501"),
    ];
    for (fields, status) in refused {
        let stream = open(&mut caller, "GET", "/", fields, None);
        assert_eq!(caller.answer(stream).field(":status"), Some(status), "{fields:?}");
    }
    let reset: [Fields<'_>; 6] = [
        &[("connection", "keep-alive")],
        &[("upgrade", "websocket")],
        &[("transfer-encoding", "chunked")],
        &[("te", "gzip")],
        &[("content-length", "5")],
        &[(":method", "CONNECT"), (":protocol", "websocket")],
    ];
    for fields in reset {
        let stream = open(&mut caller, "GET", "/hello/Ada", fields, None);
        assert_eq!(caller.answer(stream).reset, Some(ErrorCode::PROTOCOL_ERROR), "{fields:?}");
    }
    assert_eq!(get(&mut caller, "/hello/Ada").content, b"Hello, Ada!");
    drop(caller);
    end(handle);
}

#[test]
fn a_drain_lets_open_requests_end() {
    let stage = Stage::default();
    let handle = start(&stage, |server| server);
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    assert_eq!(get(&mut caller, "/readyz").field(":status"), Some("200"));
    let go_on = stage.gate();
    let waits = open(&mut caller, "GET", "/waits", &[], None);
    assert_eq!(get(&mut caller, "/hello/Ada").content, b"Hello, Ada!");
    handle.shutdown();
    caller.until_left();
    go_on.send(()).expect("it waits");
    assert_eq!(caller.answer(waits).content, b"at last");
    while caller.read() {}
    wait(handle);
}

#[test]
fn requests_that_outlive_the_drain_are_told() {
    let stage = Stage::default();
    let handle = start(&stage, |server| server.drain_timeout(Duration::from_millis(200)));
    let mut caller = GrpcCaller::connect(socket_addr(&handle));
    let waits = open(&mut caller, "GET", "/waits", &[], None);
    let endless = open(&mut caller, "GET", "/pieces/all", &[], None);
    caller.reads = false;
    caller.until("both have begun", |came| came.contains_key(&endless.id()));
    handle.shutdown();
    assert_eq!(caller.answer(waits).field(":status"), Some("503"));
    assert!(caller.answer(endless).reset.is_some());
    while caller.read() {}
    wait(handle);
}
