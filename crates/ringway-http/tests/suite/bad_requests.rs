//! What a server does against those who do not.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use ringway_http::{HttpLimits, Router, json, text};

use crate::support::{LIMIT, Running, read_to_end};

fn router() -> Router {
    Router::new()
        .get("/", async |_| Ok(text("root")))
        .post("/length", async |request| json(&request.into_body().bytes().await?.len()))
}

#[track_caller]
fn assert_refused(server: &Running, request: &str, status: &str) {
    let answer = server.tell(request);
    assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request:?} is told {answer:?}");
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{request:?} is told {answer:?}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{request:?} is told {answer:?}");
}

#[track_caller]
fn assert_too_long(server: &Running, request: &str) {
    let answer = server.tell(request);
    assert!(answer.starts_with("HTTP/1.1 413"), "{request:?} is told {answer:?}");
}

#[test]
fn malformed_requests_are_answered_400_and_nothing_behind_them_is_read() {
    let server = Running::start(router());
    let smuggled = "GET / HTTP/1.1\r\nhost: h\r\n\r\n";
    for head in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: h\r\nna me: x\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: h\r\nname : x\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: h\r\nname: x\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: h\r\nname: x\ry\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: h\r\nname: x\0y\r\n\r\n",
        "GET / HTTP/9.9\r\nhost: h\r\n\r\n",
        "G@T / HTTP/1.1\r\nhost: h\r\n\r\n",
        "POST /length HTTP/1.1\r\nhost: h\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "POST /length HTTP/1.1\r\nhost: h\r\ncontent-length: 1, 2\r\n\r\nab",
        "POST /length HTTP/1.1\r\nhost: h\r\ncontent-length: -1\r\n\r\n",
        "POST /length HTTP/1.1\r\nhost: h\r\ncontent-length: +1\r\n\r\na",
        "POST /length HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked, gzip\r\n\r\n",
        "POST /length HTTP/1.1\r\nhost: h\r\ntransfer-encoding: xchunked\r\n\r\n",
        "POST /length HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /length HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        "GET h:80 HTTP/1.1\r\nhost: h\r\n\r\n",
        "POST /length HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        "POST /length HTTP/1.1\r\nhost: h\r\ncontent-length: 0x1\r\n\r\na",
        "POST /length HTTP/1.1\r\nhost: h\r\ncontent-length : 1\r\n\r\na",
        "POST /length HTTP/1.1\r\nhost: h\r\ncontent-length: 1 1\r\n\r\na",
        "POST /length HTTP/1.1\r\nhost: h\r\ncontent-length: 99999999999999999999\r\n\r\na",
        "POST /length HTTP/1.1\r\nhost: h\r\ntransfer-encoding: identity\r\n\r\n",
        "POST /length HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n",
        "POST /length HTTP/1.1\r\nhost: h\r\ntransfer-encoding:\x0bchunked\r\n\r\n",
        "POST /length HTTP/1.0\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /length HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n",
        "POST /length HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n1ffffffffffffffff\r\n",
        "POST /length HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n",
        "POST /length HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n1\na\n0\n\n",
        "GET / HTTP/1.1\rhost: h\r\r",
        "GET /\0 HTTP/1.1\r\nhost: h\r\n\r\n",
        "GET / HTTP/1.1\r\n host: h\r\n\r\n",
        "GET  / HTTP/1.1\r\nhost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a, b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: user@h\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: http://h/\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: [::1\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: h:x\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: h:65536\r\n\r\n",
        "GET http://h:+80/ HTTP/1.1\r\nhost: h\r\n\r\n",
        "GET http://user@h/ HTTP/1.1\r\nhost: h\r\n\r\n",
        "GET / HTTP/1.1 \r\nhost: h\r\n\r\n",
    ] {
        assert_refused(&server, &format!("{head}{smuggled}"), "400");
    }
}

/// RFC 9112 section 6.1.
#[test]
fn a_body_in_an_unknown_coding_is_not_given_to_a_handler() {
    let server = Running::start(router());
    let request = "POST /length HTTP/1.1\r\nhost: h\r\ntransfer-encoding: gzip, chunked\r\n\r\n";
    assert_refused(&server, &format!("{request}1\r\na\r\n0\r\n\r\n"), "501");
}

#[test]
fn a_tunnel_is_not_opened() {
    let server = Running::start(router().fallback(async |_| Ok(text("anything"))));
    assert_refused(&server, "CONNECT other:443 HTTP/1.1\r\nhost: other:443\r\n\r\n", "501");
}

#[test]
fn long_heads_are_refused_and_cost_their_connection() {
    let server = Running::start(router());
    let field = format!("GET / HTTP/1.1\r\nhost: h\r\nname: {}\r\n\r\n", "x".repeat(40 << 10));
    assert_refused(&server, &field, "431");
    let many: String = (0..200).map(|n| format!("name-{n}: x\r\n")).collect();
    assert_refused(&server, &format!("GET / HTTP/1.1\r\nhost: h\r\n{many}\r\n"), "431");
    let path = format!("GET /{} HTTP/1.1\r\nhost: h\r\n\r\n", "x".repeat(9 << 10));
    assert_refused(&server, &path, "414");
}

/// Whoever sends one line without an end is told so, or cut off. What it sends behind that is thrown away while
/// the connection closes, so the answer is looked for meanwhile.
#[test]
fn what_has_no_end_costs_its_connection() {
    let chunked = "POST /length HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n";
    let server = Running::start(router());
    for (front, again) in [
        ("".to_owned(), "G"),
        ("GET /".to_owned(), "x"),
        ("GET / HTTP/1.1\r\nhost: h\r\n".to_owned(), "n"),
        ("GET / HTTP/1.1\r\nhost: h\r\nname: ".to_owned(), "x"),
        ("GET / HTTP/1.1\r\nhost: h\r\n".to_owned(), "name: x\r\n"),
        (format!("{chunked}1;"), "x"),
        (chunked.to_owned(), "1;name=value\r\na\r\n"),
        (format!("{chunked}0\r\n"), "name: x\r\n"),
        (format!("{chunked}0\r\nname: "), "x"),
    ] {
        let mut socket = server.connect();
        socket.write_all(front.as_bytes()).expect("the front");
        socket.set_nonblocking(true).expect("an option");
        let piece = again.repeat(10_000);
        let begun = Instant::now();
        loop {
            let is_cut = match socket.write(piece.as_bytes()) {
                Err(error) => error.kind() != ErrorKind::WouldBlock,
                Ok(_) => false,
            };
            let mut answer = [0; 12];
            match socket.read(&mut answer) {
                Ok(count) if count > 0 => {
                    let answer = String::from_utf8_lossy(&answer[..count]);
                    assert!(answer.starts_with("HTTP/1.1 4"), "{front:?} {again:?}: {answer}");
                    break;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock && !is_cut => {}
                _ended_or_reset => break,
            }
            assert!(begun.elapsed() < LIMIT, "{front:?} and {again:?} for ever are taken");
        }
    }
}

#[test]
fn a_head_that_comes_byte_by_byte_has_no_more_time_than_others() {
    let mut limits = HttpLimits::default();
    limits.head_timeout = Duration::from_millis(100);
    let server = Running::within(router(), limits);
    let mut socket = server.connect();
    socket.write_all(b"GET / HTTP/1.1\r\nhost: h\r\nname: ").expect("the front");
    socket.set_read_timeout(Some(Duration::from_millis(5))).expect("a timeout");
    let begun = Instant::now();
    while begun.elapsed() < LIMIT {
        let is_cut = socket.write_all(b"x").is_err();
        match socket.read(&mut [0; 1024]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock && !is_cut => {}
            _ended_or_refused => return,
        }
    }
    panic!("the head may go on for ever");
}

#[test]
fn a_body_over_the_limit_is_refused_whether_its_length_is_said_or_not() {
    let mut limits = HttpLimits::default();
    limits.body_bytes_max = 10;
    let server = Running::within(router(), limits);
    let said = "POST /length HTTP/1.1\r\nhost: h\r\ncontent-length: 11\r\n\r\n01234567890";
    assert_too_long(&server, said);
    let chunked = "POST /length HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n\
                   b\r\n01234567890\r\n0\r\n\r\n";
    assert_too_long(&server, chunked);
}

/// RFC 9112 section 6.1: chunks count, and the connection ends behind the answer, so that nobody in front of the
/// server who counted the other length can put a request of another client behind it.
#[test]
fn a_request_with_two_lengths_is_the_last_of_its_connection() {
    let server = Running::start(router());
    let answer = server.tell(
        "POST /length HTTP/1.1\r\nhost: h\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n\
         2\r\nab\r\n0\r\n\r\nGET / HTTP/1.1\r\nhost: h\r\n\r\n",
    );
    assert!(answer.ends_with("\r\n\r\n2") && answer.contains("connection: close"), "{answer}");
}

#[test]
fn a_body_that_nobody_reads_ends_with_its_connection() {
    let server = Running::start(router());
    let head = "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 1000000000000\r\n\r\n";
    let answer = server.tell(format!("{head}{}", "x".repeat(100_000)));
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
}

/// Many clients read nothing before they have sent everything. A reset would take the answer from them.
#[test]
fn a_client_that_sends_its_whole_request_first_reads_why_it_was_refused() {
    let mut limits = HttpLimits::default();
    limits.body_bytes_max = 10;
    let server = Running::within(router(), limits);
    let body = "x".repeat(48 << 20);
    let said = format!("content-length: {}\r\n\r\n", body.len());
    let chunked = format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n", body.len());
    for (head, framing, status) in [
        ("POST /length HTTP/1.1\r\nhost: h\r\n", &said, "413"),
        ("POST /length HTTP/1.1\r\nhost: h\r\n", &chunked, "413"),
        ("POST /none HTTP/1.1\r\nhost: h\r\n", &said, "404"),
        ("POST / HTTP/1.1\r\nhost: h\r\n", &chunked, "405"),
        ("POST / HTTP/1.1\r\n", &said, "400"),
        ("POST / HTTP/9.1\r\n", &said, "400"),
        ("POST / HTTP/1.1\r\nhost: h\r\nexpect: x\r\n", &said, "405"),
        ("POST / HTTP/1.1\r\nhost: h\r\nlong:", &body, "431"),
    ] {
        let mut socket = server.connect();
        socket.write_all(format!("{head}{framing}").as_bytes()).expect("a head");
        for piece in body.as_bytes().chunks(64 << 10) {
            socket.write_all(piece).unwrap_or_else(|error| panic!("{head:?}: {error}"));
        }
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap_or_else(|error| panic!("{head:?}: {error}"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{head:?} is told {answer:?}");
    }
}

#[test]
fn a_head_that_does_not_come_in_time_costs_its_connection() {
    let mut limits = HttpLimits::default();
    limits.head_timeout = Duration::from_millis(50);
    let server = Running::within(router(), limits);
    let mut socket = server.connect();
    socket.write_all(b"GET / HTTP/1.1\r\nhost").expect("a part of a head");
    assert_eq!(read_to_end(&mut socket), "");
    let mut silent = server.connect();
    assert_eq!(read_to_end(&mut silent), "");
    let mut kept = server.connect();
    kept.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").expect("a request");
    let answer = read_to_end(&mut kept);
    assert!(answer.ends_with("root"), "it is answered, and closed later: {answer}");
}
