//! gRPC-Web over HTTP/1.1.

use ringway_net::Client;
use ringway_rpc::ServerHandle;
use ringway_rpc::testing::{TestServer, simulate};
use ringway_wire::web::{Base64Text, put_padded};

use crate::support::end;
use crate::support::web_caller::{Answer, ask, frame, post, post_in_chunks};
use crate::support::web_service::{Reports, WebServer, start};

const WEB: &str = "content-type: application/grpc-web+proto\r\nx-grpc-web: 1\r\n";
const TEXT: &str = "content-type: application/grpc-web-text\r\n";
const JSON: &str = "content-type: application/grpc-web+json\r\n";

fn call(handle: &ServerHandle, method: &str, fields: &str, body: impl AsRef<[u8]>) -> Answer {
    ask(handle, post(&format!("/web.v1.Web/{method}"), fields, body))
}

/// A string as a protobuf message.
fn message(text: &str) -> Vec<u8> {
    [&[10, text.len() as u8], text.as_bytes()].concat()
}

fn decoded(answer: &Answer) -> Vec<u8> {
    let (mut text, mut bytes) = (Base64Text::default(), Vec::new());
    text.decode(&answer.body, &mut bytes).expect("base64");
    text.finish().expect("whole");
    bytes
}

#[test]
fn a_unary_call_has_its_status_behind_its_message() {
    let handle = start(Reports::default(), |server| server);
    let answer = call(&handle, "Look", &format!("{WEB}tenant: blue\r\n"), frame(0, message("sea")));
    assert_eq!((answer.status, answer.field("seen-bin")), (200, Some("af8")));
    assert_eq!(answer.field("content-type"), Some("application/grpc-web+proto"));
    let expected =
        [frame(0, message("blue looks at sea")), frame(0x80, "grpc-status: 0\r\ncost: 7\r\n")];
    assert_eq!(answer.body, expected.concat());
    let answer = call(&handle, "Put", JSON, frame(0, "\"sea\""));
    assert_eq!(answer.stream(), (vec!["\"sea\"".into()], 0x80, "grpc-status: 0\r\n".into()));
    end(handle);
}

#[test]
fn a_stream_of_replies_ends_with_its_trailers() {
    let handle = start(Reports::default(), |server| server);
    let answer = call(&handle, "Count", WEB, frame(0, [8, 3]));
    let (messages, flags, trailers) = answer.stream();
    assert_eq!((messages.len(), flags), (3, 0x80));
    assert_eq!((&*trailers, answer.field("unit")), ("grpc-status: 0\r\ncost: 7\r\n", Some("one")));
    let failed = call(&handle, "Count", WEB, frame(0, [8, 101]));
    let (messages, _, trailers) = failed.stream();
    let expected = "grpc-status: 11\r\ngrpc-message: 100 is the most\r\ncost: 7\r\n";
    assert_eq!((messages.len(), &*trailers), (100, expected));
    let sum = [frame(0, [8, 1]), frame(0, [8, 2])].concat();
    assert_eq!(call(&handle, "Add", WEB, sum).frames()[0], (0, vec![8, 3]));
    end(handle);
}

#[test]
fn a_failure_without_a_message_is_in_the_head() {
    let handle = start(Reports::default(), |server| server.message_bytes_max(1_000));
    let missing = call(&handle, "Fail", WEB, frame(0, message("%")));
    assert_eq!((missing.status, missing.body.len()), (200, 0));
    assert_eq!(missing.field("grpc-status"), Some("5"));
    assert_eq!(missing.field("grpc-message"), Some("there is no %25"));
    assert_eq!(missing.field("grpc-status-details-bin"), Some("ndi"));
    for (method, fields, body, status) in [
        ("Fail", WEB, frame(0, message("panic")), "13"),
        ("Put", WEB, frame(0, message(&"x".repeat(120)).repeat(9)), "8"),
        ("Put", WEB, frame(0x80, "grpc-status: 0\r\n"), "3"),
        ("Put", WEB, Vec::new(), "12"),
        ("Put", WEB, [frame(0, message("a")), frame(0, message("b"))].concat(), "12"),
        ("Put", WEB, b"\0\0\0\0\x09cut".to_vec(), "3"),
        ("Put", TEXT, b"!".to_vec(), "3"),
        ("Put", TEXT, b"AAAAA".to_vec(), "3"),
        ("Put", JSON, frame(0, "7"), "3"),
        (
            "Put",
            "content-type: application/grpc-web\r\ngrpc-encoding: gzip\r\n",
            frame(1, "x"),
            "12",
        ),
        ("Put", "content-type: application/grpc-web\r\ngrpc-timeout: 1x\r\n", frame(0, ""), "3"),
        ("Wait", "content-type: application/grpc-web\r\ngrpc-timeout: 30m\r\n", frame(0, ""), "4"),
        ("Put", WEB, frame(1, ""), "13"),
        ("Put", &*format!("{WEB}origin: null\r\n"), frame(0, message("a")), "7"),
        ("Nothing", WEB, frame(0, ""), "12"),
        ("Nothing", TEXT, Vec::new(), "12"),
        ("Put", "content-type: application/grpc-web+thrift\r\n", frame(0, ""), "12"),
    ] {
        let answer = call(&handle, method, fields, body);
        assert_eq!((answer.status, answer.field("grpc-status")), (200, Some(status)), "{answer:?}");
    }
    let text = call(&handle, "Nothing", TEXT, "");
    assert_eq!(text.field("content-type"), Some("application/grpc-web-text"));
    assert_eq!(text.field("grpc-message"), Some("the server has no method /web.v1.web/nothing"));
    assert_eq!(call(&handle, "Put", "content-type: application/grpc\r\n", "").status, 415);
    end(handle);
}

#[test]
fn text_is_base_64_both_ways_however_it_is_cut() {
    let handle = start(Reports::default(), |server| server);
    let mut body = Vec::new();
    // Each message is padded by itself, as clients do that send one after another.
    for word in ["one", "three", "eleven"] {
        put_padded(&frame(0, message(word)), &mut body);
    }
    let expected: Vec<u8> =
        ["one", "three", "eleven"].iter().flat_map(|word| frame(0, message(word))).collect();
    for size in [1, 3, 4, 5, 100] {
        let answer = ask(&handle, post_in_chunks("/web.v1.Web/Echo", TEXT, &body, size));
        assert_eq!(answer.field("content-type"), Some("application/grpc-web-text"));
        let bytes = decoded(&answer);
        assert!(bytes.starts_with(&expected), "chunks of {size}: {bytes:?}");
        assert_eq!(bytes[expected.len()..], frame(0x80, "grpc-status: 0\r\n"));
    }
    end(handle);
}

/// Only streams may be silent for minutes.
#[test]
fn a_single_message_has_to_keep_a_pace() {
    simulate(5, async {
        let server = TestServer::start(WebServer::new(Reports::default()))?;
        let mut connection = Client::new(server.address())?.open().await?;
        let body = frame(0, message("late"));
        let request = post("/web.v1.Web/Put", WEB, &body);
        connection.send(request[..request.len() - 1].to_vec()).await?;
        let began = ringway_runtime::now();
        let answer = connection.recv().await?.expect("an answer");
        let waited = (ringway_runtime::now() - began).as_secs();
        assert!((25..=60).contains(&waited), "{waited} s");
        assert!(String::from_utf8_lossy(&answer).contains("grpc-status: 4\r\n"), "{answer:?}");
        Ok(())
    })
    .expect("it ends");
}
