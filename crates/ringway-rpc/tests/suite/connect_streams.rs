//! Streams and GETs of the Connect protocol over HTTP/1.1.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use ringway_rpc::{Compression, ServerHandle};
use ringway_wire::grpc::{Compression as By, compress, decompress};

use crate::support::web_caller::{
    Answer, as_chunk, ask, connect, frame, head, post, post_in_chunks, read_until, rest,
};
use crate::support::web_service::{Reports, start};
use crate::support::{LIMIT, end, eventually};

const JSON: &str = "content-type: application/connect+json\r\n";
const PROTO: &str = "content-type: application/connect+proto\r\n";
const GRPC_WEB: &str = "content-type: application/grpc-web+json\r\n";
const UNARY: &str = "content-type: application/json\r\n";

fn call(handle: &ServerHandle, method: &str, fields: &str, body: impl AsRef<[u8]>) -> Answer {
    ask(handle, post(&format!("/web.v1.Web/{method}"), fields, body))
}

#[track_caller]
fn assert_failed(answer: &Answer, code: &str, says: &str) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let (_, flags, end) = answer.stream();
    let expected = format!("{{\"error\":{{\"code\":\"{code}\",");
    assert!(flags == 2 && end.starts_with(&expected) && end.contains(says), "{end}");
}

#[test]
fn a_stream_of_replies_has_its_metadata_messages_and_trailers() {
    let handle = start(Reports::default(), |server| server);
    let answer = call(&handle, "Count", JSON, frame(0, "3"));
    assert_eq!((answer.status, answer.field("unit")), (200, Some("one")));
    assert_eq!(answer.field("content-type"), Some("application/connect+json"));
    let end = r#"{"metadata":{"cost":["7"]}}"#.to_owned();
    assert_eq!(answer.stream(), (["1", "2", "3"].map(String::from).to_vec(), 2, end));
    let answer = call(&handle, "Count", PROTO, frame(0, [8, 2]));
    let (messages, _, _) = answer.stream();
    assert_eq!(messages, ["\u{8}\u{1}", "\u{8}\u{2}"]);
    let failed = call(&handle, "Count", JSON, frame(0, "101"));
    assert_eq!(failed.frames().len(), 101);
    assert_failed(&failed, "out_of_range", r#""message":"100 is the most""#);
    assert!(failed.stream().2.ends_with(r#""metadata":{"cost":["7"]}}"#));
    let none = call(&handle, "Count", JSON, frame(0, "0"));
    assert_eq!(none.frames().len(), 1);
    end_with_calls(handle, 4);
}

fn end_with_calls(handle: ServerHandle, calls: u64) {
    let counted: u64 = handle.metrics().methods.iter().map(|method| method.ended()).sum();
    assert_eq!(counted, calls);
    end(handle);
}

#[test]
fn requests_say_the_same_however_they_are_cut() {
    let handle = start(Reports::default(), |server| server);
    let body = [frame(0, "1"), frame(0, "20"), frame(0, "300")].concat();
    for size in [1, 2, 3, 5, 7, 100] {
        let answer = ask(&handle, post_in_chunks("/web.v1.Web/Add", JSON, &body, size));
        let (messages, _, end) = answer.stream();
        assert_eq!((messages, &*end), (vec!["\"321\"".to_owned()], "{}"), "chunks of {size}");
    }
    for at in 1..body.len() {
        let chunks = [as_chunk(&body[..at]), as_chunk(&body[at..]), b"0\r\n\r\n".to_vec()];
        let fields = format!("{JSON}transfer-encoding: chunked\r\n");
        let head = head("POST", "/web.v1.Web/Add", &fields).into_bytes();
        let answer = ask(&handle, [head, chunks.concat()].concat());
        assert_eq!(answer.stream().0, ["\"321\""], "cut at {at}");
    }
    end(handle);
}

#[test]
fn what_is_no_sequence_of_messages_ends_the_call() {
    let handle = start(Reports::default(), |server| server.message_bytes_max(1_000));
    let long = frame(0, vec![b'1'; 1_001]);
    let stream = |body: Vec<u8>| call(&handle, "Add", JSON, body);
    assert_failed(&stream(long.clone()), "resource_exhausted", "1001 bytes");
    assert_failed(&stream([frame(0, "1"), long].concat()), "resource_exhausted", "1001 bytes");
    assert_failed(&stream(frame(2, "{}")), "invalid_argument", "unknown flag 0x2");
    assert_failed(&stream(frame(1, "1")), "internal", "no header says how");
    assert_failed(&stream(frame(1, "")), "internal", "no header says how");
    assert_failed(&stream(frame(0, "x")), "invalid_argument", "google.protobuf.UInt32Value");
    for cut in 1..6 {
        let body = frame(0, "1")[..cut].to_vec();
        match cut {
            6.. => unreachable!(),
            _ => assert_failed(&stream(body), "invalid_argument", "inside a message"),
        }
    }
    let single = |body: Vec<u8>| call(&handle, "Count", JSON, body);
    assert_failed(&single(Vec::new()), "unimplemented", "none was sent");
    assert_failed(&single([frame(0, "1"), frame(0, "1")].concat()), "unimplemented", "more were");
    let stats = handle.stats();
    assert_eq!((stats.malformed, stats.panicked), (11, 0), "{stats:?}");
    end(handle);
}

#[test]
fn content_types_belong_to_kinds_of_methods() {
    let handle = start(Reports::default(), |server| server);
    for (method, fields) in [("Count", UNARY), ("Add", UNARY), ("Put", JSON), ("Count", "")] {
        let answer = call(&handle, method, fields, frame(0, "1"));
        assert_eq!(answer.status, 415, "{method} {fields}");
        assert!(answer.field("accept-post").is_some_and(|it| it.contains("connect+json")));
    }
    let version = format!("{JSON}connect-protocol-version: 2\r\n");
    assert_failed(&call(&handle, "Count", &version, frame(0, "1")), "invalid_argument", "be 1");
    let foreign = format!("{JSON}origin: http://elsewhere\r\n");
    assert_eq!(call(&handle, "Count", &foreign, frame(0, "1")).status, 403);
    end_with_calls(handle, 0);
}

#[test]
fn both_ends_of_a_stream_may_talk_at_the_same_time() {
    let handle = start(Reports::default(), |server| server);
    let mut socket = connect(&handle);
    let fields = format!("{JSON}transfer-encoding: chunked\r\n");
    socket.write_all(head("POST", "/web.v1.Web/Echo", &fields).as_bytes()).expect("a head");
    let mut received = Vec::new();
    for word in ["\"one\"", "\"two\"", "\"three\""] {
        socket.write_all(&as_chunk(&frame(0, word))).expect("a message");
        received.extend(read_until(&mut socket, word.as_bytes()));
    }
    socket.write_all(b"0\r\n\r\n").expect("the end");
    received.extend(read_until(&mut socket, b"0\r\n\r\n"));
    let (messages, _, end_said) = Answer::read(&received).stream();
    assert_eq!((messages.len(), &*end_said), (3, "{}"));
    end(handle);
}

#[test]
fn a_reader_that_is_dropped_stops_no_client_that_sends_everything_first() {
    let handle = start(Reports::default(), |server| server);
    let message = frame(0, format!("\"{}\"", "x".repeat(100_000)));
    let answer = call(&handle, "DropAll", JSON, message.repeat(40));
    assert_eq!(answer.stream().0, ["\"0\""]);
    end(handle);
}

#[test]
fn a_handler_waits_for_a_client_that_does_not_read() {
    let (said, says) = mpsc::channel();
    let reports = Reports::default();
    *reports.said.lock().expect("no panic") = Some(said);
    let handle = start(reports.clone(), |server| server);
    let mut socket = connect(&handle);
    let count = 256;
    let fields = "content-type: application/connect+proto\r\n";
    let body = frame(0, [8, 0x80, 2]); // 256
    socket.write_all(&post("/web.v1.Web/Flood", fields, body)).expect("a request");
    assert_eq!(says.recv_timeout(LIMIT), Ok("waits"));
    let sent = reports.sent.load(Ordering::Relaxed);
    assert!(sent < count, "{sent} MiB for a client that reads nothing");
    let answer = rest(socket);
    assert_eq!(answer.frames().len(), count + 1);
    assert!(answer.frames()[..count].iter().all(|(_, message)| message.len() == 1 << 20));
    end(handle);
}

#[test]
fn a_call_ends_with_its_client() {
    let (said, says) = mpsc::channel();
    let reports = Reports::default();
    *reports.said.lock().expect("no panic") = Some(said);
    let handle = start(reports, |server| server);
    // One call has begun to reply, and one has not.
    for (method, fields, message) in [("Watch", JSON, "5"), ("Wait", GRPC_WEB, "\"\"")] {
        let mut socket = connect(&handle);
        let request = post(&format!("/web.v1.Web/{method}"), fields, frame(0, message));
        socket.write_all(&request).expect("a request");
        match method {
            "Watch" => _ = read_until(&mut socket, b"5"),
            _ => assert_eq!(says.recv_timeout(LIMIT), Ok("waits")),
        }
        drop(socket);
        assert_eq!(says.recv_timeout(LIMIT), Ok("dropped"));
    }
    eventually("the calls are counted", || handle.stats().cancelled == 2);
    end(handle);
}

#[test]
fn deadlines_hold_for_streams_and_for_requests_that_do_not_come_whole() {
    let (said, says) = mpsc::channel();
    let reports = Reports::default();
    *reports.said.lock().expect("no panic") = Some(said);
    let handle = start(reports, |server| server);
    let fields = format!("{JSON}connect-timeout-ms: 30\r\n");
    let answer = call(&handle, "Watch", &fields, frame(0, "5"));
    assert_failed(&answer, "deadline_exceeded", "");
    assert_eq!(answer.stream().0, ["5"]);
    assert_eq!(says.recv_timeout(LIMIT), Ok("dropped"));
    for (method, kind) in [("Count", JSON), ("Put", UNARY)] {
        let mut socket = connect(&handle);
        let fields = format!("{kind}connect-timeout-ms: 30\r\ncontent-length: 100\r\n");
        let head = head("POST", &format!("/web.v1.Web/{method}"), &fields);
        socket.write_all(head.as_bytes()).expect("a head");
        let answer = rest(socket);
        assert!(answer.text().contains("deadline_exceeded"), "{answer:?}");
    }
    assert!(says.try_recv().is_err(), "nothing ran");
    end_with_calls(handle, 1);
}

#[test]
fn a_stream_that_outlives_the_drain_is_told_so() {
    let handle =
        start(Reports::default(), |server| server.drain_timeout(Duration::from_millis(50)));
    let mut socket = connect(&handle);
    socket.write_all(&post("/web.v1.Web/Watch", JSON, frame(0, "5"))).expect("a request");
    let mut received = read_until(&mut socket, b"5");
    handle.shutdown();
    received.extend(read_until(&mut socket, b"0\r\n\r\n"));
    assert_failed(&Answer::read(&received), "unavailable", "shut down");
    let stats = handle.stats();
    end(handle);
    assert_eq!(stats.cut_off, 1, "{stats:?}");
}

#[test]
fn get_calls_what_has_no_side_effects() {
    let (said, says) = mpsc::channel();
    let reports = Reports::default();
    *reports.said.lock().expect("no panic") = Some(said);
    let handle = start(reports, |server| server);
    let get = |target: &str, fields: &str| ask(&handle, head("GET", target, fields));
    let answer = get(
        "/web.v1.Web/Look?connect=v1&encoding=json&message=%22the%20sea%22",
        "tenant: blue\r\n",
    );
    assert_eq!((answer.status, &*answer.text()), (200, "\"blue looks at the sea\""));
    assert_eq!((answer.field("trailer-cost"), answer.field("seen-bin")), (Some("7"), Some("af8")));
    let proto = get("/web.v1.Web/Look?encoding=proto&base64=1&message=CgNza3k", "");
    assert_eq!(proto.text(), "\n\u{13}nobody looks at sky");
    for (target, status, says) in [
        ("Look?encoding=json", 400, "no parameter `message`"),
        ("Look?encoding=json&message=%", 400, "malformed"),
        ("Look?encoding=json&message=1", 400, "StringValue"),
        ("Look?encoding=xml&message=1", 415, "application/json"),
        ("Look?connect=v2&encoding=json&message=1", 400, "has to be v1"),
        ("Look?compression=gzip&encoding=json&message=1", 501, "identity"),
        ("Put?encoding=json&message=%22x%22", 405, "by POST"),
        ("Count?encoding=json&message=1", 405, "by POST"),
    ] {
        let answer = get(&format!("/web.v1.Web/{target}"), "");
        assert_eq!(answer.status, status, "{target}: {answer:?}");
        assert!(answer.text().contains(says), "{target}: {answer:?}");
    }
    let put = ask(&handle, head("PUT", "/web.v1.Web/Look", ""));
    assert_eq!((put.status, put.field("allow")), (405, Some("get, head, post")));
    assert!(says.try_recv().is_err(), "nothing was put");
    end(handle);
}

#[test]
fn messages_are_compressed_where_both_sides_want_it() {
    let settings = Compression::of_all_services().reply_bytes_min(10);
    let handle =
        start(Reports::default(), |server| server.compression(settings).message_bytes_max(100_000));
    let text = format!("\"{}\"", "sea ".repeat(200));
    let packed = |by, text: &str| compress(by, text.as_bytes()).expect("shorter");
    let fields = "connect-content-encoding: gzip\r\nconnect-accept-encoding: gzip;q=1.0\r\n";
    let body = [frame(1, packed(By::Gzip, &text)), frame(0, "\"small\"")].concat();
    let answer = call(&handle, "Echo", &format!("{JSON}{fields}"), body);
    assert_eq!(answer.field("connect-content-encoding"), Some("gzip"));
    let [(1, long), (0, short), (2, _)] = &answer.frames()[..] else { panic!("{answer:?}") };
    let long = decompress(By::Gzip, long, 1_000).expect("gzip");
    assert_eq!((&long[..], &short[..]), (text.as_bytes(), &b"\"small\""[..]));

    let fields = format!("{UNARY}content-encoding: zstd\r\n");
    let answer = call(&handle, "Put", &fields, packed(By::Zstd, &text));
    assert_eq!(answer.field("content-encoding"), Some("zstd"), "what is sent is accepted");
    let long = decompress(By::Zstd, &answer.body, 1_000).expect("zstd");
    assert_eq!(&long[..], text.as_bytes());
    let plain = call(&handle, "Put", &format!("{UNARY}accept-encoding: br\r\n"), &text);
    assert_eq!((plain.field("content-encoding"), plain.text()), (None, text));

    let look = format!("/web.v1.Web/Look?encoding=json&message=%22{}%22", "sea".repeat(100));
    for (fields, encoding) in [("accept-encoding: gzip\r\n", Some("gzip")), ("", None)] {
        let answer = ask(&handle, head("GET", &look, fields));
        assert_eq!((answer.status, answer.field("content-encoding")), (200, encoding));
        assert_eq!(answer.field("vary"), Some("accept-encoding"), "caches are told");
    }

    let bomb = packed(By::Gzip, &"a".repeat(1_000_000));
    let fields = format!("{JSON}connect-content-encoding: gzip\r\n");
    let answer = call(&handle, "Echo", &fields, frame(1, &bomb));
    assert_failed(&answer, "resource_exhausted", "decompressed");
    let answer = call(&handle, "Put", &format!("{UNARY}content-encoding: gzip\r\n"), bomb);
    assert_eq!(answer.status, 429);
    let fields = format!("{JSON}connect-content-encoding: br\r\n");
    assert_failed(&call(&handle, "Echo", &fields, ""), "unimplemented", "identity, zstd, gzip");
    end(handle);
}
