//! What gRPC says that nobody must fail for, at both ends (PROTOCOL-HTTP2.md).

use std::sync::Arc;
use std::time::Duration;

use ringway_wire::grpc::{ClientConfig, GrpcClient, prefix};
use ringway_wire::http2::{Body, ErrorCode, Http2Client, Http2Config, NewRequest, Vocabulary};
use ringway_wire::native::{
    ClientEvent, MetaReader, MetaWriter, Open, Outgoing, Reply, ServerEvent, Tag,
};

use crate::support::grpc::{AsText, Pair, Serve, but, echo, message};
use crate::support::http2::*;

/// Metadata as text.
fn text_of(meta: &[u8]) -> String {
    let one = |(tag, value): (Tag, &[u8])| match tag {
        Tag::Entry => {
            let (key, value) = MetaReader::entry(value).expect("ours");
            format!("{}={}", key.escape_ascii(), value.escape_ascii())
        }
        tag => format!("{tag:?} {}", value.escape_ascii()),
    };
    MetaReader::new(meta).flatten().map(one).collect::<Vec<_>>().join(", ")
}

/// Answers with the request's metadata.
const TELL: Serve = |server, event| {
    if let ServerEvent::Request { stream, meta, .. } = event {
        let text = text_of(meta);
        let message = Some(Body::Copy(text.as_bytes()));
        server.respond(*stream, Reply { status: 0, meta: &[], message });
    }
};

#[test]
fn what_cannot_be_metadata_is_left_out_and_blanks_are_trimmed() {
    let mut pair = Pair::new(TELL);
    let fields = [
        ("tenant", " blue \t"),
        ("cookie", "a=Zoë"),
        ("x$a", "1"),
        ("tab", "a\tb"),
        ("authorization", "Bearer ü"),
        ("plain", "yes"),
    ];
    let odd = pair.call(&fields, &message(b""), true);
    let again = pair.call(&fields, &message(b""), true); // from the table
    pair.run();
    for stream in [odd, again] {
        let content = pair.answer(stream).content.clone();
        assert_eq!(content, message(b"tenant=blue, plain=yes"), "{:?}", pair.answer(stream));
    }
    assert_eq!(pair.server.unserved().malformed, 0);
}

#[test]
fn a_content_type_is_read_without_case() {
    for written in ["Application/gRPC", "APPLICATION/GRPC+PROTO; Charset=x"] {
        let mut pair = Pair::new(echo);
        let stream = pair.open(&but("content-type", written), &message(b"x"), true);
        pair.run();
        assert_eq!(pair.status(stream), "0", "{written}");
    }
}

#[test]
fn only_a_compression_that_is_not_accepted_is_answered_with_those_that_are() {
    let names = |pair: &Pair, stream| {
        let came = pair.answer(stream);
        let fields = came.head.iter().chain(&came.trailers);
        fields.filter(|field| field.starts_with("grpc-accept-encoding")).count()
    };
    let mut pair = Pair::new(echo);
    let two = pair.call(&[], &[message(b"one"), message(b"two")].concat(), true);
    let packed = [&[1][..], &message(b"abc")[1..]].concat();
    let unknown = pair.call(&[("grpc-encoding", "br")], &packed, true);
    pair.run();
    assert_eq!(pair.status(two), "12 the method takes one message, and more were sent");
    assert!(pair.status(unknown).starts_with("12 "));
    assert_eq!((names(&pair, two), names(&pair, unknown)), (0, 1));
}

#[test]
fn no_time_at_all_is_told_as_such() {
    let serve: Serve = |server, event| {
        if let ServerEvent::Request { stream, head, meta, .. } = event {
            let said = MetaReader::new(meta).flatten().find(|(tag, _)| *tag == Tag::TimeoutUs);
            let said = said.map(|(_, value)| MetaReader::timeout_us(value).expect("a number"));
            let text = format!("{} {said:?}", head.timeout_us);
            let message = Some(Body::Copy(text.as_bytes()));
            server.respond(*stream, Reply { status: 0, meta: &[], message });
        }
    };
    let mut pair = Pair::new(serve);
    for (timeout, told) in [("0n", "1 Some(0)"), ("0S", "1 Some(0)"), ("1001n", "2 None")] {
        let stream = pair.call(&[("grpc-timeout", timeout)], &message(b""), true);
        pair.run();
        assert_eq!(pair.answer(stream).content, message(told.as_bytes()), "{timeout}");
    }
}

#[test]
fn a_client_that_does_not_say_how_much_it_takes_gets_a_short_message() {
    let serve: Serve = |server, event| {
        let ServerEvent::Request { stream, head, .. } = event else { return };
        let (mut meta, long) = (Vec::new(), "é".repeat(35_000));
        let mut writer = MetaWriter::new(&mut meta);
        writer.status_message(&long).entry("left", b"yes");
        if head.method == 2 {
            writer.status_details(&[7; 70_000]);
        }
        server.respond(*stream, Reply { status: 5, meta: &meta, message: None });
    };
    // What C's gRPC announces; and it refuses some of what is above half of that.
    let limit = &[0, 6, 0, 0, 0x40, 0][..];
    for (path, is_whole, said) in
        [("/a.B/C", true, &[][..]), ("/a.B/D", false, &[]), ("/a.B/C", true, limit)]
    {
        let mut pair = Pair::new(serve);
        // In place of the client's own SETTINGS.
        let mut up = [PREFACE, &frame(SETTINGS, 0, 0, said)].concat();
        up.extend(headers(path));
        pair.receive(&[&up[..], &frame(DATA, END_STREAM, 1, &message(b""))].concat())
            .expect("a good client");
        let mut down = Vec::new();
        pair.server.transmit(usize::MAX, &mut |out| match out {
            Outgoing::Copy(bytes) => down.extend_from_slice(bytes),
            Outgoing::Shared(bytes) => down.extend_from_slice(&bytes),
        });
        let config = Http2Config { max_header_list: 1 << 20, ..Http2Config::client() };
        let mut client = Http2Client::new(config, Arc::new(Vocabulary::new(AsText)), NOW);
        client
            .open(NewRequest { head: REQUEST, end: true, ..NewRequest::default() })
            .expect("room");
        let mut input = &down[..];
        while client.receive(&mut input, NOW).expect("a good server").is_some() {}
        let len = |wanted: &str| {
            let mut fields = client.fields().iter().filter(|(name, _)| *name == wanted.as_bytes());
            fields.next().map(|(_, value)| value.len())
        };
        assert_eq!(len("grpc-status"), Some(1));
        let sizes = client.fields().iter().map(|(name, value)| name.len() + value.len() + 32);
        let size: usize = sizes.sum();
        assert!((8_100..=8 << 10).contains(&size), "{size}");
        assert_eq!(len("grpc-message").map(|len| len % 6), Some(0), "whole characters");
        assert_eq!(len("left").is_some(), is_whole, "the rest is sent where it fits");
    }
}

fn headers(path: &str) -> Vec<u8> {
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        ("content-type", "application/grpc"),
    ];
    frame(HEADERS, END_HEADERS, 1, &block(&fields))
}

fn new_client() -> GrpcClient {
    GrpcClient::new(ClientConfig::new("here:1"), NOW)
}

fn unary() -> Open<'static> {
    let message = Some(Body::Copy(b"hello"));
    Open { method: 1, name: "a.B/C", message, end: true, ..Open::default() }
}

/// How a client's call ends when its server sends these frames.
fn ended(frames: &[Vec<u8>]) -> (u8, String) {
    let mut client = new_client();
    client.open(unary()).expect("room");
    let wire = [frame(SETTINGS, 0, 0, &[]), frames.concat()].concat();
    let (mut input, mut end) = (&wire[..], None);
    while let Some(event) = client.receive(&mut input, NOW).expect("well-formed") {
        if let ClientEvent::Response { status, meta, .. } = &event {
            end = Some((*status, text_of(meta)));
        }
    }
    end.expect("a status of the server")
}

const GRPC: (&str, &str) = ("content-type", "application/grpc");

fn head(flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, 1, &block(fields))
}

#[test]
fn blanks_around_what_a_server_says_are_trimmed() {
    let alone = [(":status", "200"), GRPC, ("grpc-status", "5"), ("grpc-message", "no user: ")];
    let expected = (5, "StatusMessage no user:".to_owned());
    assert_eq!(ended(&[head(END_STREAM, &alone)]), expected);
    let message = [&prefix(2, false)[..], b"hi"].concat();
    let trailers = [("grpc-status", " 0"), ("x-a", "b "), ("x-b", "\tc"), ("x-c", "  ")];
    let frames = [
        head(0, &[(":status", "200"), GRPC]),
        frame(DATA, 0, 1, &message),
        head(END_STREAM, &trailers),
    ];
    assert_eq!(ended(&frames), (0, "x-a=b, x-b=c, x-c=".to_owned()));
}

#[test]
fn a_failure_in_the_head_counts_although_an_empty_frame_ends_the_stream() {
    let fields = [
        (":status", "200"),
        GRPC,
        ("grpc-status", "5"),
        ("grpc-message", "no user"),
        ("left", "yes"),
        ("grpc-retry-pushback-ms", "-1"),
    ];
    let expected = (5, r"StatusMessage no user, left=yes, Pushback \x01".to_owned());
    let end = frame(DATA, END_STREAM, 1, &[]);
    assert_eq!(ended(&[head(0, &fields), end.clone()]), expected);
    let padding = frame(DATA, 0, 1, &[]);
    assert_eq!(ended(&[head(0, &fields), padding, end]), expected);
    for error in [ErrorCode::NO_ERROR, ErrorCode::CANCEL, ErrorCode::REFUSED_STREAM] {
        let reset = frame(RST_STREAM, 0, 1, &error.0.to_be_bytes());
        assert_eq!(ended(&[head(0, &fields), reset]), expected, "{error}");
    }
    let trailers = head(END_STREAM, &[("grpc-status", "7")]);
    assert_eq!(ended(&[head(0, &fields), trailers]), (7, String::new()), "what comes last");
}

#[test]
fn a_failure_in_a_head_with_content_does_not_count() {
    let mut client = new_client();
    client.open(unary()).expect("room");
    let settings = frame(SETTINGS, 0, 0, &[]);
    let failure = head(0, &[(":status", "200"), GRPC, ("grpc-status", "5")]);
    let content = frame(DATA, END_STREAM, 1, &[&prefix(2, false)[..], b"hi"].concat());
    let wire = [settings, failure, content].concat();
    let (mut input, mut end) = (&wire[..], None);
    while let Some(event) = client.receive(&mut input, NOW).expect("well-formed") {
        if let ClientEvent::Failed { status, text, .. } = event {
            end = Some((status, text.into_owned()));
        }
    }
    let expected = "the server ended the call without a grpc-status".to_owned();
    assert_eq!(end, Some((2, expected)), "what has content is no head alone");
}

#[test]
fn an_idle_client_sends_no_ping_and_one_with_a_call_does() {
    let hour = Duration::from_secs(3_600);
    let settled = [frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat();
    let pings = |client: &mut GrpcClient| {
        let mut wire = Vec::new();
        client.transmit(usize::MAX, &mut |out| match out {
            Outgoing::Copy(bytes) => wire.extend_from_slice(bytes),
            Outgoing::Shared(bytes) => wire.extend_from_slice(&bytes),
        });
        let wire = wire.strip_prefix(PREFACE).unwrap_or(&wire);
        frames(wire).iter().filter(|it| it.0 == PING).count()
    };
    let mut client = new_client();
    client.receive(&mut &settled[..], NOW).expect("well-formed");
    client.handle_timeout(hour).expect("nobody has to answer");
    client.handle_timeout(2 * hour).expect("nobody has to answer");
    assert_eq!((pings(&mut client), client.poll_timeout()), (0, None));
    // The silence before a call counts: the server may be gone.
    client.open(unary()).expect("room");
    assert!(client.poll_timeout() <= Some(2 * hour));
    client.handle_timeout(2 * hour).expect("it has just begun");
    assert_eq!(pings(&mut client), 1);
    client.handle_timeout(3 * hour).expect_err("its server has not answered");
}
