//! What a server does for those who ask properly.

use std::io::Write;
use std::pin::Pin;
use std::sync::{Arc, Weak, mpsc};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use ringway_http::{Body, Error, HttpLimits, Request, Response, Result, Router, json, param, text};
use ringway_net::{Server, SlowReader};

use crate::support::{Running, read_to_end, read_until};

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: here\r\n\r\n")
}

async fn length(request: Request) -> Result<Response> {
    json(&request.into_body().bytes().await?.len())
}

fn router() -> Router {
    Router::new()
        .get("/", async |_| Ok(text("root")))
        .get("/users/{id}", async |request| Ok(text(format!("user {}", param(&request, "id")))))
        .get("/users/all", async |_| Ok(text("everybody")))
        .get("/files/{*path}", async |request| Ok(text(param(&request, "path").to_owned())))
        .post("/length", length)
        .get("/panic", async |_| -> Result<Response> { panic!("on purpose") })
        .get("/teapot", async |_| Err(Error::not_found("there is no teapot")))
}

#[test]
fn routes_are_found_by_path_and_method() {
    let server = Running::start(router());
    let body =
        |path: &str| server.tell(get(path)).split("\r\n\r\n").nth(1).unwrap_or("").to_owned();
    assert_eq!(body("/"), "root");
    assert_eq!(body("/?x=1"), "root");
    assert_eq!(body("/users/7"), "user 7");
    assert_eq!(body("/users/a%20b%2Fc"), "user a b/c");
    assert_eq!(body("/users/all"), "everybody");
    assert_eq!(body("/files/a/b/c.txt"), "a/b/c.txt");
    assert_eq!(body("/nowhere"), "there is nothing at this path\n");
    assert_eq!(body("/teapot"), "there is no teapot\n");
    assert!(server.tell(get("/nowhere")).starts_with("HTTP/1.1 404 Not Found\r\n"));
    assert!(server.tell(get("/users/%ff")).starts_with("HTTP/1.1 400 Bad Request\r\n"));
}

/// RFC 9112 section 3.2.2: the host of a whole URL counts, whatever `Host` says.
#[test]
fn a_handler_sees_the_same_request_in_whichever_form_it_comes() {
    let server = Running::start(Router::new().get("/about", async |request: Request| {
        let host = request.headers().get("host").and_then(|host| host.to_str().ok());
        Ok(text(format!("{} of {}", request.uri(), host.unwrap_or("nobody"))))
    }));
    for (target, host, told) in [
        ("/about?x=1", "host: here\r\n", "/about?x=1 of here"),
        ("http://there:80/about?x=1", "host: here\r\n", "/about?x=1 of there:80"),
        ("https://[::1]/about", "host:\r\n", "/about of [::1]"),
        ("/about", "host:\r\n", "/about of "),
        ("/about", "host: [::1]:80\r\n", "/about of [::1]:80"),
        ("/about", "host: a_b.example.\r\n", "/about of a_b.example."),
    ] {
        let answer = server.tell(format!("GET {target} HTTP/1.1\r\n{host}\r\n"));
        assert!(answer.ends_with(&format!("\r\n\r\n{told}")), "{target}: {answer}");
    }
    let old = server.tell("GET http://there/about HTTP/1.0\r\n\r\n");
    assert!(old.ends_with("/about of there"), "{old}");
    let bare = server.tell("GET http://there HTTP/1.1\r\nhost: here\r\n\r\n");
    assert!(bare.starts_with("HTTP/1.1 404 "), "{bare}");
}

#[test]
fn a_length_that_a_handler_passes_on_from_elsewhere_does_not_count() {
    let with_length = async |request: Request| {
        let mut response = text("hello");
        let length = param(&request, "length").parse().expect("a number");
        response.headers_mut().insert("content-length", length);
        Ok(response)
    };
    let server = Running::start(Router::new().get("/{length}", with_length));
    for length in ["3", "5", "500"] {
        let answers = server.tell([get(&format!("/{length}")), get("/5")].concat());
        let mut answers = answers.split_inclusive("hello");
        for _ in 0..2 {
            let answer = answers.next().expect("two answers");
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{length}: {answer}");
            assert!(answer.contains("content-length: 5\r\n"), "{length}: {answer}");
        }
    }
    let head = server.tell("HEAD /500 HTTP/1.1\r\nhost: h\r\n\r\n");
    assert!(head.contains("content-length: 5\r\n") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn how_another_message_was_transferred_is_not_passed_on() {
    let proxied = async |request: Request| {
        let mut response = text("hello");
        for (name, value) in
            param(&request, "fields").split(',').filter_map(|it| it.split_once('='))
        {
            let name = http::HeaderName::try_from(name).expect("a name");
            response.headers_mut().append(name, value.parse().expect("a value"));
        }
        Ok(response)
    };
    let server = Running::start(Router::new().get("/{fields}", proxied));
    for fields in [
        "transfer-encoding=chunked,content-length=9",
        "content-length=5,transfer-encoding=chunked",
        "transfer-encoding=gzip",
        "transfer-encoding=identity",
    ] {
        let answers = server.tell([get(&format!("/{fields}")), get("/")].concat());
        let answers = answers.split_once("hello").expect("the first answer");
        assert!(answers.0.starts_with("HTTP/1.1 200 OK\r\n"), "{fields}: {answers:?}");
        assert!(answers.0.contains("content-length: 5\r\n"), "{fields}: {answers:?}");
        assert!(!answers.0.contains("transfer-encoding"), "{fields}: {answers:?}");
        assert!(answers.1.starts_with("HTTP/1.1 404 "), "{fields}: {answers:?}");
    }
}

#[test]
fn a_path_without_the_method_names_those_that_it_has() {
    let server = Running::start(router().route(http::Method::PUT, "/length", length));
    let answer = server.tell(get("/length"));
    assert!(answer.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"), "{answer}");
    assert!(answer.contains("\r\nallow: POST, PUT\r\n"), "{answer}");
}

#[test]
fn head_is_answered_as_get_without_the_body() {
    let server = Running::start(router());
    let answer = server.tell("HEAD /users/7 HTTP/1.1\r\nhost: here\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-length: 6\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[test]
fn pipelined_requests_are_answered_in_order_on_one_connection() {
    let server = Running::start(router());
    let answers = server.tell([get("/users/1"), get("/users/2"), get("/users/3")].concat());
    let found: Vec<_> = ["user 1", "user 2", "user 3"].map(|it| answers.find(it)).into();
    assert!(found.iter().all(Option::is_some) && found.is_sorted(), "{answers}");
}

#[test]
fn bodies_come_whole_by_length_and_in_chunks_cut_anywhere() {
    let server = Running::start(router());
    let by_length = "POST /length HTTP/1.1\r\nhost: h\r\ncontent-length: 10\r\n\r\n0123456789";
    let chunked = "POST /length HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n\
                   4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n";
    for request in [by_length, chunked] {
        for cut in 1..request.len() {
            let mut socket = server.connect();
            socket.set_nodelay(true).expect("an option");
            socket.write_all(&request.as_bytes()[..cut]).expect("the front");
            socket.write_all(&request.as_bytes()[cut..]).expect("the rest");
            assert!(
                read_until(&mut socket, "\r\n\r\n").starts_with("HTTP/1.1 200"),
                "cut at {cut}"
            );
            assert_eq!(read_until(&mut socket, "0"), "10", "cut at {cut}");
        }
    }
}

#[test]
fn a_handler_that_panics_costs_its_own_answer_alone() {
    let server = Running::start(router());
    let answers = server.tell([get("/panic"), get("/users/1")].concat());
    assert!(answers.starts_with("HTTP/1.1 500 Internal Server Error\r\n"), "{answers}");
    assert!(answers.ends_with("user 1") && !answers.contains("on purpose"), "{answers}");
}

/// Gives so many pieces, then fails if it is told to.
struct Pieces(usize, bool);

impl Stream for Pieces {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        if self.0.is_multiple_of(2) {
            cx.waker().wake_by_ref();
            self.0 += 1;
            return Poll::Pending;
        }
        match (self.0, self.1) {
            (5, true) => Poll::Ready(Some(Err(Error::internal("no more")))),
            (5, false) => Poll::Ready(None),
            (piece, _) => {
                self.0 += 1;
                Poll::Ready(Some(Ok(Bytes::from(format!("piece {piece};")))))
            }
        }
    }
}

#[test]
fn a_stream_is_sent_in_chunks_and_its_failure_lacks_their_end() {
    let server = Running::start(
        Router::new()
            .get("/whole", async |_| Ok(Response::new(Body::stream(Pieces(0, false)))))
            .get("/torn", async |_| Ok(Response::new(Body::stream(Pieces(0, true))))),
    );
    let whole = server.tell(get("/whole"));
    assert!(whole.contains("transfer-encoding: chunked"), "{whole}");
    assert!(whole.ends_with("8\r\npiece 1;\r\n8\r\npiece 3;\r\n0\r\n\r\n"), "{whole}");
    let torn = server.tell(get("/torn"));
    assert!(torn.contains("piece 1;") && !torn.ends_with("0\r\n\r\n"), "{torn}");
}

/// Gives one long piece, then tells whether its memory is still in use.
struct LongPiece(Option<Weak<()>>);

/// Memory that can be seen to be in use.
struct Watched(Vec<u8>, Arc<()>);

impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Stream for LongPiece {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        let Some(watch) = &self.0 else {
            let watched = Watched(vec![b'x'; 32 << 10], Arc::new(()));
            self.0 = Some(Arc::downgrade(&watched.1));
            return Poll::Ready(Some(Ok(Bytes::from_owner(watched))));
        };
        let told = if watch.strong_count() > 0 { &b"moved"[..] } else { b"copied" };
        Poll::Ready(Some(Ok(Bytes::from_static(told))))
    }
}

#[test]
fn a_long_piece_of_a_reply_is_sent_from_its_own_memory() {
    let server = Running::start(Router::new().get("/", async |_| {
        let length = (32 << 10) + 5;
        Ok(Response::new(Body::sized_stream(length, LongPiece(None))))
    }));
    let answer = server.tell(get("/"));
    assert!(answer.ends_with("xmoved"), "{}", &answer[answer.len() - 10..]);
    assert_eq!(answer.bytes().filter(|byte| *byte == b'x').count(), 32 << 10);
}

/// Gives so many pieces as long as those of files.
struct FilePieces(u32);

impl Stream for FilePieces {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or_default();
        Poll::Ready(left.map(|_| Ok(vec![b'x'; 128 << 10].into())))
    }
}

/// Such a server closes a connection whose queue is longer than its high-water mark.
#[test]
fn answers_that_are_longer_than_the_queue_may_be_are_no_slow_readers() {
    let long = async |_| Ok(text("x".repeat(1 << 20)));
    let pieces = async |_| Ok(Response::new(Body::sized_stream(1 << 20, FilePieces(8))));
    for high_water in [4 << 10, 128 << 10] {
        let server = Server::bind("tcp://127.0.0.1:0").expect("an address");
        let server = server.high_water(high_water).slow_reader(SlowReader::Close);
        let router = Router::new().get("/long", long).get("/pieces", pieces);
        let server = Running::of(server, router, HttpLimits::default());
        for path in ["/long", "/pieces"] {
            let answer = server.tell(get(path));
            let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
            assert_eq!(body.len(), 1 << 20, "{path}, {high_water}");
        }
    }
}

#[test]
fn a_drain_lets_requests_end_and_closes_what_is_kept_alive() {
    let (began, has_begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(Some(may_go_on)));
    let server = Running::start(router().get("/slow", async move |_| {
        let may_go_on = gate.lock().expect("one request").take().expect("one request");
        began.send(()).expect("the test waits");
        let waited = ringway_runtime::spawn_blocking(move || may_go_on.recv()).expect("a thread");
        let _told = waited.await;
        Ok(text("done"))
    }));
    let (mut idle, mut busy) = (server.connect(), server.connect());
    idle.write_all(get("/").as_bytes()).expect("a request");
    assert!(read_until(&mut idle, "root").contains("200 OK"));
    busy.write_all(get("/slow").as_bytes()).expect("a request");
    has_begun.recv().expect("the handler begins");
    server.handle().shutdown();
    assert_eq!(read_to_end(&mut idle), "", "it is closed while the other one goes on");
    go_on.send(()).expect("the handler waits");
    let answer = read_to_end(&mut busy);
    assert!(answer.contains("connection: close") && answer.ends_with("done"), "{answer}");
}
