//! Answers that come before the end of their request.

use std::io::Write;
use std::net::TcpStream;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use http::header::CONTENT_TYPE;
use ringway_http::{
    Body, Error, HttpLimits, Request, RequestBody, Response, Result, Router, json, text,
};

use crate::support::{Running, read_to_end, read_until};

const NEXT: &str = "GET / HTTP/1.1\r\nhost: h\r\n\r\n";

fn server() -> Running {
    let mut limits = HttpLimits::default();
    limits.body_bytes_max = 1000;
    let router = Router::new()
        .get("/", async |_| Ok(text("root")))
        .post("/length", async |request: Request| json(&request.into_body().bytes().await?.len()))
        .post("/refused", async |_| Err(Error::bad_request("not this")))
        .post("/first", async |request: Request| {
            let mut body = request.into_body().of_any_length();
            Ok(text(body.chunk().await?.unwrap_or_default()))
        })
        .post("/stream", async |request: Request| {
            let (body, first) = (request.into_body(), Some(Bytes::from_static(b"first")));
            Ok(Response::new(Body::stream(Early { body: Some(body), first })))
        });
    Running::within(router, limits)
}

/// A stream that ends before the body that it could read.
struct Early {
    body: Option<RequestBody>,
    first: Option<Bytes>,
}

impl Stream for Early {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        let first = self.first.take();
        if first.is_none() {
            self.body = None;
        }
        Poll::Ready(first.map(Ok))
    }
}

fn head(path: &str, fields: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: h\r\n{fields}\r\n")
}

fn by_length(path: &str, length: usize) -> (String, String) {
    (head(path, &format!("content-length: {length}\r\n")), "x".repeat(length))
}

fn in_chunks(path: &str, length: usize) -> (String, String) {
    let chunk = format!("{:x}\r\n{}\r\n", length / 10, "x".repeat(length / 10));
    (head(path, "transfer-encoding: chunked\r\n"), chunk.repeat(10) + "0\r\n\r\n")
}

/// Reads one answer with its content, and returns its head.
fn answer(socket: &mut TcpStream) -> String {
    let head = read_until(socket, "\r\n\r\n");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.expect("a length").parse().expect("a number");
    let mut content = vec![0; length];
    std::io::Read::read_exact(socket, &mut content).expect("the content");
    head
}

/// RFC 9112, sections 9.3 and 9.6.
#[test]
fn the_next_request_is_answered_unless_the_answer_says_that_none_can_follow() {
    let server = server();
    for (path, status) in [
        ("/nothing", "404"),
        ("/", "405"),
        ("/refused", "400"),
        ("/first", "200"),
        ("/length", "413"),
    ] {
        for (request, is_kept) in [
            (by_length(path, 2_000), true),
            (by_length(path, 200_000), true),
            (by_length(path, 300_000), false),
            (in_chunks(path, 200_000), true),
            (in_chunks(path, 400_000), false),
        ] {
            for is_apart in [false, true] {
                let (head, body) = &request;
                let mut socket = server.connect();
                socket.set_nodelay(true).expect("an option");
                if is_apart {
                    socket.write_all(head.as_bytes()).expect("the head");
                    socket.write_all(body.as_bytes()).expect("the body");
                } else {
                    socket.write_all(format!("{head}{body}").as_bytes()).expect("a request");
                }
                let first = answer(&mut socket);
                assert!(first.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {first}");
                let says_so = first.contains("\r\nconnection: close\r\n");
                assert_eq!(says_so, !is_kept, "{path}, {} bytes: {first}", body.len());
                if is_kept {
                    socket.write_all(NEXT.as_bytes()).expect("the next request");
                    assert!(answer(&mut socket).starts_with("HTTP/1.1 200"), "{path}");
                } else {
                    assert_eq!(read_to_end(&mut socket), "");
                }
            }
        }
    }
}

/// RFC 9110, section 10.1.1.
#[test]
fn a_body_that_waits_to_be_asked_for_is_not_asked_for_to_be_dropped() {
    let server = server();
    let fields = "content-length: 5\r\nexpect: 100-continue\r\n";
    let mut socket = server.connect();
    socket.write_all(head("/nothing", fields).as_bytes()).expect("a head");
    let refused = answer(&mut socket);
    assert!(
        refused.starts_with("HTTP/1.1 404") && refused.contains("connection: close"),
        "{refused}"
    );
    assert_eq!(read_to_end(&mut socket), "");
    let mut socket = server.connect();
    socket.write_all(head("/length", fields).as_bytes()).expect("a head");
    assert!(read_until(&mut socket, "\r\n\r\n").starts_with("HTTP/1.1 100"));
    socket.write_all(format!("hello{NEXT}").as_bytes()).expect("the body");
    assert!(!answer(&mut socket).contains("connection: close"));
    assert!(answer(&mut socket).starts_with("HTTP/1.1 200"));
}

#[test]
fn a_body_that_does_not_come_costs_its_connection_and_the_answer_says_so() {
    let server = server();
    for (request, status) in [
        (by_length("/nothing", 5).0, "404"),
        (head("/length", "transfer-encoding: chunked\r\n") + "zz\r\n", "400"),
    ] {
        let mut socket = server.connect();
        socket.write_all(request.as_bytes()).expect("a request");
        let told = answer(&mut socket);
        assert!(told.starts_with(&format!("HTTP/1.1 {status}")), "{told}");
        assert!(told.contains("\r\nconnection: close\r\n"), "{told}");
        assert_eq!(read_to_end(&mut socket), "");
    }
}

#[test]
fn a_stream_may_end_before_that_of_its_client() {
    let server = server();
    let mut socket = server.connect();
    let fields = format!("transfer-encoding: chunked\r\n{CONTENT_TYPE}: text/plain\r\n");
    socket.write_all(head("/stream", &fields).as_bytes()).expect("a head");
    let streamed = read_until(&mut socket, "0\r\n\r\n");
    assert!(streamed.contains("first") && !streamed.contains("connection: close"), "{streamed}");
    socket.write_all(format!("5\r\nhello\r\n0\r\n\r\n{NEXT}").as_bytes()).expect("the rest");
    assert!(answer(&mut socket).starts_with("HTTP/1.1 200"));
}
