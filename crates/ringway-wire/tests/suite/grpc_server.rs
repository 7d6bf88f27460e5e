//! The gRPC server against an HTTP/2 client, with input cut at every byte.

use std::time::Duration;

use bytes::Bytes;
use ringway_wire::grpc::{GrpcServer, PREFIX_LEN, prefix};
use ringway_wire::http2::{Body, ErrorCode, Http2Config};
use ringway_wire::native::{
    GoAwayCode, MetaReader, MetaWriter, Piece, Reply, ServerEvent, Side, Tag, Unserved,
};

use crate::support::grpc::*;
use crate::support::http2::{NOW, output};

#[test]
fn a_unary_call_is_told_whole_and_answered_in_three_frames() {
    let mut pair = Pair::new(echo);
    let first = pair.call(&[("te", "trailers")], &message(b"hello"), true);
    let second = pair.call(&[], &message(b""), true);
    pair.run();
    assert_eq!(pair.told, ["request 1: Some(\"hello\"), end", "request 1: Some(\"\"), end"]);
    let came = pair.answer(first);
    assert_eq!(came.head, [":status: 200", "content-type: application/grpc"]);
    assert_eq!((&came.content[..], came.has_ended), (&message(b"hello")[..], true));
    assert_eq!((&came.trailers[..], came.reset), (&["grpc-status: 0".to_owned()][..], None));
    assert_eq!(pair.answer(second).content, message(b""));
    assert_eq!((pair.server.in_flight(), pair.server.kept_len(Side::Unread)), (0, 0));
}

#[test]
fn calls_are_the_same_wherever_the_input_is_cut() {
    for len in 1..200 {
        let mut pair = Pair::new(echo);
        let short = pair.call(&[("x-a", "b")], &message(b"hello"), true);
        let late = pair.call(&[], &message(b"late"), false);
        let long = pair.call(&[], &message(&[7; 40_000]), true);
        pair.run_cut(len);
        pair.more(late, b"", true);
        pair.run_cut(len);
        for (stream, wanted) in [(short, &b"hello"[..]), (late, b"late"), (long, &[7; 40_000])] {
            assert_eq!(pair.status(stream), "0", "cut to {len}");
            assert_eq!(pair.answer(stream).content, message(wanted), "cut to {len}");
        }
        assert_eq!((pair.server.in_flight(), pair.server.kept_len(Side::Unread)), (0, 0));
    }
}

#[test]
fn a_call_after_a_rest_is_another_call() {
    let mut pair = Pair::new(echo);
    for _ in 0..3 {
        let (first, second) = (message(b"first"), message(b"second"));
        let streams = [pair.call(&[], &first, true), pair.call(&[], &second, false)];
        pair.run();
        pair.server.drop_spare();
        pair.more(streams[1], b"", true);
        pair.run();
        assert_eq!(streams.map(|stream| pair.status(stream)), ["0", "0"]);
        pair.server.drop_spare();
    }
    let mut calls = pair.ids.clone();
    calls.dedup(); // a request that was given back is told again
    assert!((1..calls.len()).all(|at| !calls[..at].contains(&calls[at])), "{calls:?}");
    let last = pair.call(&[], &message(b""), false);
    pair.run();
    let reply = || Reply { status: 0, meta: &[], message: None };
    assert!(calls.iter().all(|&ended| pair.server.respond(ended, reply()).is_none()));
    pair.more(last, b"", true);
    pair.run();
    assert_eq!(pair.status(last), "0");
}

#[test]
fn messages_of_one_frame_are_handed_out_where_they_are() {
    let mut pair = Pair::new(nothing);
    let content = [message(b"one"), message(b"two"), message(b"three")].concat();
    pair.call(&[], &content, true);
    let up = output(&mut pair.client, usize::MAX);
    let (mut input, mut seen) = (&up[..], Vec::new());
    while let Some(event) = pair.server.receive(&mut input, NOW).expect("a good client") {
        let (message, end) = match event {
            ServerEvent::Request { message: Some(message), end, .. } => (message, end),
            ServerEvent::Message { message, end, .. } => (message, end),
            other => panic!("{other:?}"),
        };
        assert!(matches!(message, Piece::Borrowed(_)), "it was copied");
        seen.push((message.to_vec(), end));
    }
    let told = |text: &[u8], end| (text.to_vec(), end);
    assert_eq!(seen, [told(b"one", false), told(b"two", false), told(b"three", true)]);
}

#[test]
fn a_length_that_is_announced_changes_nothing() {
    // The right length, with its end at once and later, and wrong lengths.
    for (len, late, expected) in [
        ("10", false, Some("request 1: Some(\"hello\"), end")),
        ("10", true, Some("request 1: Some(\"hello\")")),
        ("9", false, None),
        ("11", false, None),
    ] {
        let mut pair = Pair::new(nothing);
        let stream = pair.call(&[("content-length", len)], &message(b"hello"), !late);
        pair.run();
        match expected {
            Some(told) => assert_eq!(pair.told, [told]),
            None => {
                assert_eq!(pair.answer(stream).reset, Some(ErrorCode::PROTOCOL_ERROR), "{len}")
            }
        }
    }
}

#[test]
fn content_types_say_how_messages_are_written_and_are_answered_with_the_same() {
    for (content_type, codec) in [
        ("application/grpc", 1),
        ("application/grpc;charset=utf-8", 1),
        ("application/grpc+proto", 1),
        ("application/grpc+json", 2),
        ("application/grpc+own", 0),
    ] {
        let serve: Serve = |server, event| {
            if let ServerEvent::Request { stream, head, .. } = event {
                let message = Some(Body::Copy(std::slice::from_ref(&head.codec)));
                server.respond(*stream, Reply { status: 0, meta: &[], message });
            }
        };
        let mut pair = Pair::new(serve);
        let stream = pair.open(&but("content-type", content_type), &message(b"x"), true);
        pair.run();
        let came = pair.answer(stream);
        assert_eq!(came.content, message(&[codec]), "{content_type}");
        let plain = content_type.split(';').next().unwrap_or_default();
        let plain = if codec == 0 { "application/grpc" } else { plain };
        assert_eq!(came.head[1], format!("content-type: {plain}"));
    }
}

#[test]
fn requests_that_are_no_calls_have_an_http_status() {
    for (name, value, status) in [
        ("content-type", "application/json", 415),
        ("content-type", "application/grpc-web", 415),
        (":method", "GET", 405),
        (":method", "PUT", 405),
    ] {
        for end in [true, false] {
            let mut pair = Pair::new(nothing);
            let stream = pair.open(&but(name, value), &message(b"x"), end);
            pair.run();
            let came = pair.answer(stream);
            assert_eq!(came.head, [format!(":status: {status}")]);
            let reset = (!end).then_some(ErrorCode::NO_ERROR);
            assert!(came.has_ended && came.reset == reset, "{came:?}");
            assert!(pair.told.is_empty() && pair.server.in_flight() == 0);
        }
    }
}

#[test]
fn timeouts_are_told_and_wrong_ones_are_internal() {
    let told = |text: &'static str| {
        let serve: Serve = |server, event| {
            if let ServerEvent::Request { stream, head, meta, .. } = event {
                let long = MetaReader::new(meta).map_while(Result::ok).find_map(|(tag, value)| {
                    (tag == Tag::TimeoutUs).then(|| MetaReader::timeout_us(value).expect("whole"))
                });
                let text = format!("{} {long:?}", head.timeout_us);
                let message = Some(Body::Copy(text.as_bytes()));
                server.respond(*stream, Reply { status: 0, meta: &[], message });
            }
        };
        let mut pair = Pair::new(serve);
        let stream = pair.call(&[("grpc-timeout", text)], &message(b""), true);
        pair.run();
        match &pair.answer(stream).content[..] {
            [] => pair.status(stream),
            content => String::from_utf8_lossy(&content[5..]).into_owned(),
        }
    };
    assert_eq!(told("20m"), "20000 None");
    assert_eq!(told("1n"), "1 None", "0 would be no timeout");
    assert_eq!(told("2H"), format!("{} Some(7200000000)", u32::MAX));
    for wrong in ["", "5", "m", "123456789m", "-1m", "1x"] {
        assert_eq!(told(wrong), "13 grpc-timeout is malformed");
    }
    // The next call takes the slot of a call with another content type.
    let mut pair = Pair::new(echo);
    let json = pair.open(&but("content-type", "application/grpc+json"), &message(b""), true);
    pair.run();
    assert!(pair.answer(json).head.contains(&"content-type: application/grpc+json".to_owned()));
    let wrong = pair.call(&[("grpc-timeout", "5")], &message(b""), true);
    pair.run();
    assert!(pair.answer(wrong).head.contains(&"content-type: application/grpc".to_owned()));
}

#[test]
fn metadata_goes_both_ways() {
    let serve: Serve = |server, event| {
        let ServerEvent::Request { stream, meta, .. } = event else { return };
        let mut text = String::new();
        for (tag, value) in MetaReader::new(meta).map(|piece| piece.expect("whole")) {
            let (key, value) = match tag {
                Tag::Entry => MetaReader::entry(value).expect("whole"),
                _ => (&b""[..], value),
            };
            text += &format!("{tag:?} {}={} ", key.escape_ascii(), value.escape_ascii());
        }
        let mut out = Vec::new();
        MetaWriter::new(&mut out).entry("first", b"1").entry("first-bin", &[0xfe]);
        server.send_initial(*stream, &out).expect("open");
        out.clear();
        MetaWriter::new(&mut out).entry("last", b"2").authorization(b"t");
        let message = Some(Body::Copy(text.as_bytes()));
        server.respond(*stream, Reply { status: 0, meta: &out, message });
    };
    let mut pair = Pair::new(serve);
    let more = [
        ("user-agent", "grpc-test"),
        ("x-tenant", "blue"),
        ("seen-bin", "AQ==, Ag"),
        ("authorization", "Bearer x"),
        ("grpc-trace-bin", "AA"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ];
    let stream = pair.call(&more, &message(b""), true);
    pair.run();
    let came = pair.answer(stream);
    let text = String::from_utf8_lossy(&came.content[5..]).into_owned();
    let (entries, trace) = text.split_once("TraceParent").expect("a trace");
    assert_eq!(
        entries,
        "Entry x-tenant=blue Entry seen-bin=\\x01 Entry seen-bin=\\x02 Authorization =Bearer x "
    );
    assert!(trace.starts_with(" =\\n\\xf7e\\x19"), "{trace}");
    assert_eq!(came.head[2..], ["first: 1", "first-bin: /g"]);
    assert_eq!(came.trailers, ["grpc-status: 0", "last: 2", "authorization: t"]);

    let wrong = pair.call(&[("x-bin", "!")], &message(b""), true);
    pair.run();
    assert_eq!(pair.status(wrong), "13 binary metadata is not in base64");
}

#[test]
fn failures_are_one_block_of_fields() {
    let serve: Serve = |server, event| {
        let ServerEvent::Request { stream, .. } = event else { return };
        let mut meta = Vec::new();
        MetaWriter::new(&mut meta).status_message("no é").status_details(b"why").pushback_ms(250);
        assert_eq!(
            server.respond(*stream, Reply { status: 5, meta: &meta, message: None }),
            Some(5)
        );
        let again = server.respond(*stream, Reply { status: 0, meta: &[], message: None });
        assert_eq!(again, None, "a call ends once");
    };
    for end in [true, false] {
        let mut pair = Pair::new(serve);
        let stream = pair.call(&[], &message(b"x"), end);
        pair.run();
        let came = pair.answer(stream);
        assert_eq!(
            came.head,
            [
                ":status: 200",
                "content-type: application/grpc",
                "grpc-status: 5",
                "grpc-message: no %C3%A9",
                "grpc-status-details-bin: d2h5",
                "grpc-retry-pushback-ms: 250",
            ]
        );
        let reset = (!end).then_some(ErrorCode::NO_ERROR);
        assert!(came.has_ended && came.trailers.is_empty() && came.reset == reset, "{came:?}");
        assert_eq!(pair.server.in_flight(), 0);
    }
}

#[test]
fn a_call_that_was_not_executed_is_refused_by_the_protocol() {
    let serve: Serve = |server, event| {
        let ServerEvent::Request { stream, .. } = event else { return };
        let mut meta = Vec::new();
        MetaWriter::new(&mut meta).refused().status_message("full");
        server.respond(*stream, Reply { status: 14, meta: &meta, message: None });
    };
    let mut pair = Pair::new(serve);
    let stream = pair.call(&[], &message(b"x"), true);
    pair.run();
    assert_eq!(pair.answer(stream).reset, Some(ErrorCode::REFUSED_STREAM));
    assert_eq!(pair.server.in_flight(), 0);
}

#[test]
fn trailers_that_are_too_much_for_the_client_are_left_out() {
    let serve: Serve = |server, event| {
        let ServerEvent::Request { stream, head, .. } = event else { return };
        let mut meta = Vec::new();
        let mut writer = MetaWriter::new(&mut meta);
        writer.status_message("no such user").entry("much", &[b'x'; 20_000]);
        let status = if head.method == 1 { 0 } else { 5 };
        server.respond(*stream, Reply { status, meta: &meta, message: None });
    };
    let mut pair = Pair::new(serve);
    let success = pair.call(&[], &message(b"x"), true);
    let failure = pair.open(&but(":path", "/a.B/D"), &message(b"x"), true);
    pair.run();
    assert_eq!(
        pair.status(success),
        "8 the metadata of the reply is longer than the client accepts"
    );
    assert_eq!(pair.status(failure), "5 no such user");
}

#[test]
fn content_that_is_no_sequence_of_messages_ends_its_call() {
    let flagged = [&[1][..], &message(b"abc")[1..]].concat();
    let too_long = prefix(MESSAGE_MAX + 1, false).to_vec();
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a [u8], &'a str);
    let cases: [Case<'_>; 8] = [
        (&[], &flagged, "13 a message is compressed, and grpc-encoding does not say how"),
        (&[("grpc-encoding", "identity")], &flagged, "13 a message is compressed, and"),
        (&[("grpc-encoding", "gzip")], &flagged, "12 a message uses a compression"),
        (&[("grpc-encoding", "own")], &flagged, "12 a message uses a compression"),
        (&[], &too_long, "8 a message of 1048577 bytes is longer than the limit of 1048576"),
        (&[], &[2, 0, 0, 0, 0], "13 a message has the unknown flag 0x2"),
        (&[], &[0, 0], "13 the stream ended inside a message"),
        (&[], &message(b"abc")[..7], "13 the stream ended inside a message"),
    ];
    for (more, content, status) in cases {
        for serve in [echo as Serve, echo_stream] {
            for parts in [1, content.len()] {
                let mut pair = Pair::new(serve);
                let is_whole = parts == 1;
                let stream = pair.call(more, if is_whole { content } else { &[] }, is_whole);
                pair.run();
                if !is_whole {
                    // The server may report the error before the message is complete.
                    for (at, byte) in content.iter().enumerate() {
                        let end = at + 1 == content.len();
                        let _ended = pair.client.send(stream, &[], Body::Copy(&[*byte]), end);
                        pair.run();
                    }
                }
                let found = pair.status(stream);
                assert!(found.starts_with(status), "{found}, not {status}");
                assert_eq!((pair.server.in_flight(), pair.server.kept_len(Side::Unread)), (0, 0));
                let fields =
                    [&pair.answer(stream).head[..], &pair.answer(stream).trailers].concat();
                let says = fields.iter().any(|it| it == "grpc-accept-encoding: identity");
                assert_eq!(says, status.starts_with("12"), "{fields:?}");
            }
        }
    }
}

#[test]
fn an_encoding_that_no_message_uses_does_no_harm() {
    let mut pair = Pair::new(echo);
    let stream = pair.call(&[("grpc-encoding", "gzip")], &message(b"plain"), true);
    pair.run();
    assert_eq!(
        (pair.status(stream).as_str(), &pair.answer(stream).content[5..]),
        ("0", &b"plain"[..])
    );
}

#[test]
fn a_method_of_one_message_gets_neither_two_nor_half_of_one() {
    let mut pair = Pair::new(echo);
    let two = pair.call(&[], &[message(b"one"), message(b"two")].concat(), true);
    let late = pair.call(&[], &message(b"one"), false);
    pair.run();
    pair.more(late, &message(b"two"), false);
    pair.run();
    for stream in [two, late] {
        let text = "12 the method takes one message, and more were sent";
        assert_eq!(pair.status(stream), text);
    }
    pair.call(&[], b"", true);
    pair.told.clear();
    pair.run();
    assert_eq!(pair.told, ["request 1: None, end"], "the caller answers it");
}

#[test]
fn a_request_that_is_given_back_comes_again_whole_or_ends_in_time() {
    let mut pair = Pair::new(echo);
    let whole = pair.call(&[("grpc-timeout", "10S")], b"", false);
    let never = pair.call(&[("grpc-timeout", "2S")], &message(b"x"), false);
    pair.run();
    assert_eq!(pair.told, ["request 1: None", "request 1: Some(\"x\")"]);
    pair.now += Duration::from_secs(1);
    pair.more(whole, &message(b"hello"), false);
    pair.run();
    pair.more(whole, b"", true);
    pair.run();
    assert_eq!(pair.told[2..], ["request 1: Some(\"hello\"), end"]);
    assert_eq!(pair.status(whole), "0");

    pair.now = pair.server.poll_timeout().expect("it is watched");
    assert_eq!(pair.now, Duration::from_secs(2));
    pair.server.handle_timeout(pair.now).expect("a good client");
    pair.run();
    assert_eq!(pair.status(never), "4 the request did not arrive completely in time");
    assert_eq!((pair.server.unserved().overdue, pair.server.in_flight()), (1, 0));
}

#[test]
fn what_is_refused_malformed_or_not_taken_is_counted() {
    let mut pair = Pair::new(large_reply);
    pair.reads = false;
    let wrong = pair.call(&[("Upper", "x")], &message(b"x"), true);
    let unread = pair.call(&[], &message(b"x"), true);
    pair.run();
    assert_eq!(pair.answer(wrong).reset, Some(ErrorCode::PROTOCOL_ERROR));
    let never = |pair: &Pair| pair.answer(unread).reset.is_none();
    while never(&pair) && pair.now < Duration::from_secs(600) {
        pair.now += Duration::from_secs(20);
        let pong = pair.now.as_secs() as u32;
        pair.client.ping(pong);
        pair.run();
        pair.server.handle_timeout(pair.now).expect("it is not silent");
        pair.run();
    }
    assert_eq!(pair.answer(unread).reset, Some(ErrorCode::CANCEL));
    let expected = Unserved { malformed: 1, stalled: 1, ..Unserved::default() };
    assert_eq!(pair.server.unserved(), expected);
    let before = Unserved { malformed: 1, ..Unserved::default() };
    assert_eq!(expected.since(before), Unserved { stalled: 1, ..Unserved::default() });
}

/// Replies with more than a window holds.
fn large_reply(server: &mut GrpcServer, event: &ServerEvent<'_>) {
    if let ServerEvent::Request { stream, .. } = event {
        let message = Some(Body::Shared(vec![7; 3 << 20].into()));
        server.respond(*stream, Reply { status: 0, meta: &[], message });
    }
}

#[test]
fn messages_of_streams_come_one_by_one_however_they_are_packed() {
    let all: Vec<Vec<u8>> = (0..40_u8).map(|at| vec![at; usize::from(at) * 9]).collect();
    let content: Vec<u8> = all.iter().flat_map(|bytes| message(bytes)).collect();
    for len in [1, 2, 3, 5, 8, 100, 1_000, usize::MAX] {
        for end in [true, false] {
            let mut pair = Pair::new(echo_stream);
            let stream = pair.call(&[], &content, end);
            pair.run_cut(len);
            if !end {
                pair.more(stream, b"", true);
                pair.run_cut(len);
            }
            assert_eq!(pair.answer(stream).content, content, "cut to {len}");
            assert_eq!(pair.status(stream), "0");
            assert_eq!((pair.server.in_flight(), pair.server.kept_len(Side::Unread)), (0, 0));
        }
    }
}

#[test]
fn a_client_sends_no_more_than_a_window_to_a_reader_that_does_not_read() {
    let mut pair = Pair::new(nothing);
    let stream = pair.call(&[], &message(&[1; 1_000]), false);
    pair.run();
    let id = pair.ids[0];
    for _ in 0..5_000 {
        let _queued = pair.client.send(stream, &[], Body::Copy(&message(&[1; 1_000])), false);
    }
    pair.run();
    let came = pair.told.len();
    let window = Http2Config::default().initial_window as usize;
    let kept = pair.server.kept_len(Side::Unread);
    assert!(came < window / 1_000 && kept <= window + 1_005, "{came}");
    assert_eq!(pair.server.largest_len(Side::Unread), pair.server.kept_len(Side::Unread));
    let mut taken = 0;
    while taken < 5_001 {
        let waiting = pair.told.len() - taken;
        assert!(waiting > 0, "all that was granted has come: {taken}");
        pair.server.taken(id, waiting);
        taken += waiting;
        pair.run();
    }
    assert_eq!(pair.server.kept_len(Side::Unread), 0);
}

#[test]
fn messages_longer_than_a_window_come_and_are_paced_by_their_reader() {
    let window = Http2Config::default().initial_window as usize;
    let len = MESSAGE_MAX as usize;
    assert!(len > window / 2, "several are more than a window");
    let mut pair = Pair::new(nothing);
    let stream = pair.call(&[], b"", false);
    pair.run();
    let id = pair.ids[0];
    for _ in 0..8 {
        let whole = message(&vec![3; len]);
        let _queued = pair.client.send(stream, &[], Body::Shared(whole.into()), false);
    }
    let mut most = 0;
    for at in 1..=8 {
        pair.run();
        assert!(pair.told.len() > at, "the next one comes when the one before is taken");
        most = most.max(pair.server.kept_len(Side::Unread));
        pair.server.taken(id, 1);
    }
    assert!(most <= window + 2 * len, "{most} bytes kept");
    assert_eq!(pair.server.kept_len(Side::Unread), 0);
}

#[test]
fn a_call_that_is_given_up_is_told_once() {
    let mut pair = Pair::new(nothing);
    let stream = pair.call(&[], &message(b"x"), true);
    pair.run();
    pair.client.reset(stream, ErrorCode::CANCEL);
    pair.run();
    assert_eq!(pair.told, ["request 1: Some(\"x\"), end", "cancelled 1"]);
    let late = pair.server.respond(pair.ids[0], Reply { status: 0, meta: &[], message: None });
    assert_eq!((late, pair.server.in_flight()), (None, 0));
    assert!(pair.server.send(pair.ids[0], &[], Body::Copy(b"x")).is_err());
    let next = pair.call(&[], &message(b"y"), true);
    pair.run();
    assert_ne!(pair.ids[1], pair.ids[0], "the same slot, another call");
    pair.server.respond(pair.ids[1], Reply { status: 0, meta: &[], message: None });
    pair.run();
    assert_eq!(pair.status(next), "0");
}

#[test]
fn a_path_that_is_no_method_is_told_by_its_name() {
    let serve: Serve = |server, event| {
        let ServerEvent::Request { stream, head, meta, .. } = event else { return };
        assert_eq!(head.method, 0);
        let name = MetaReader::new(meta).map_while(Result::ok).find(|(tag, _)| *tag == Tag::Method);
        let mut out = Vec::new();
        MetaWriter::new(&mut out).status_message(&String::from_utf8_lossy(name.expect("told").1));
        server.respond(*stream, Reply { status: 12, meta: &out, message: None });
    };
    let mut pair = Pair::new(serve);
    for _ in 0..2 {
        let stream = pair.open(&but(":path", "/a.B/Unknown"), &message(b"x"), true);
        pair.run();
        assert_eq!(pair.status(stream), "12 a.B/Unknown");
    }
}

#[test]
fn a_drain_serves_what_crosses_it_and_refuses_what_comes_later() {
    let mut pair = Pair::new(nothing);
    let running = pair.call(&[], &message(b"1"), true);
    pair.run();
    pair.server.go_away(GoAwayCode::NoError, Duration::from_secs(30), "");
    // The client does not know of the drain yet.
    let crossing = pair.call(&[], &message(b"2"), true);
    let up = output(&mut pair.client, usize::MAX);
    pair.receive(&up).expect("a good client");
    assert_eq!(pair.told.len(), 2, "it is served");
    assert!(!pair.server.is_drained());
    pair.run();
    for (id, stream) in [(0, running), (1, crossing)] {
        let id = pair.ids[id];
        pair.server.respond(id, Reply { status: 0, meta: &[], message: None });
        pair.run();
        assert_eq!(pair.status(stream), "0");
    }
    assert!(pair.server.is_drained());
    assert_eq!(pair.client.capacity(), 0, "the client opens no more");
}

#[test]
fn a_drain_without_an_answer_waits_for_calls_to_cross() {
    let mut pair = Pair::new(nothing);
    pair.run();
    pair.server.go_away(GoAwayCode::NoError, Duration::from_secs(30), "");
    assert!(!pair.server.is_drained(), "a call may be under way");
    pair.run();
    assert!(pair.server.is_drained());

    let mut silent = Pair::new(nothing);
    silent.run();
    silent.server.go_away(GoAwayCode::NoError, Duration::from_secs(30), "");
    silent.server.handle_timeout(silent.now).expect("a good client");
    silent.now = silent.server.poll_timeout().expect("an answer is waited for");
    assert!(silent.now < Duration::from_secs(30) && !silent.server.is_drained());
    silent.server.handle_timeout(silent.now).expect("a good client");
    assert!(silent.server.is_drained(), "it has had its time");
}

#[test]
fn calls_that_outlive_the_drain_are_unavailable_and_those_that_are_not_whole_refused() {
    let mut pair = Pair::new(echo);
    let waits = pair.call(&[], &message(b"1"), false);
    pair.run();
    pair.serve = nothing;
    let runs = pair.call(&[], &message(b"2"), true);
    pair.run();
    pair.server.go_away(GoAwayCode::NoError, Duration::from_secs(30), "");
    let due = pair.server.poll_timeout().expect("at once");
    assert!(due <= pair.now);
    pair.server.handle_timeout(pair.now).expect("a good client");
    pair.run();
    pair.now = pair.server.poll_timeout().expect("the end of the drain");
    assert_eq!(pair.now, Duration::from_secs(30));
    pair.told.clear();
    pair.server.handle_timeout(pair.now).expect("a good client");
    assert_eq!(pair.server.failure(pair.ids[1]), Some(14));
    pair.run();
    assert_eq!(pair.told, ["failed 14"]);
    assert_eq!(
        pair.status(runs),
        "14 the server is shutting down and the time to finish open calls is over"
    );
    assert_eq!(pair.answer(waits).reset, Some(ErrorCode::REFUSED_STREAM));
    assert!(pair.server.is_drained() && pair.server.unserved().refused == 1);
}

#[test]
fn the_call_that_keeps_most_is_ended_first() {
    let mut pair = Pair::new(nothing);
    let streams: Vec<_> =
        [100, 300, 200].map(|len| pair.call(&[], &message(&vec![1; len]), false)).into();
    pair.run();
    assert_eq!(pair.server.largest_len(Side::Unread), PREFIX_LEN + 300);
    assert!(pair.server.end_largest(Side::Unread));
    pair.run();
    assert_eq!(pair.server.largest_len(Side::Unread), PREFIX_LEN + 200);
    let text = "8 the server is short of memory and ended the call that held the most";
    assert_eq!(pair.status(streams[1]), text);

    pair.server.send(pair.ids[0], &[], Body::Shared(Bytes::from(vec![2; 4 << 20]))).expect("open");
    assert!(pair.server.kept_len(Side::Unsent) > 4 << 20);
    assert!(pair.server.end_largest(Side::Unsent));
    pair.run();
    assert_eq!(pair.answer(streams[0]).reset, Some(ErrorCode::ENHANCE_YOUR_CALM));
    assert_eq!(pair.server.kept_len(Side::Unsent), 0);
    assert_eq!(pair.told[3..], ["failed 8", "failed 8"]);
}

#[test]
fn a_message_that_fails_leaves_no_credit_to_the_next_call_of_its_place() {
    let mut pair = Pair::new(nothing);
    let failed = pair.call(&[], &prefix(30_000, true), false);
    for _ in 0..30 {
        let _unless_it_failed = pair.client.send(failed, &[], Body::Copy(&[1; 1_000]), false);
        pair.run();
    }
    assert!(pair.status(failed).starts_with("13 "));
    let next = pair.call(&[], &message(b"short"), false);
    pair.run();
    pair.server.taken(pair.ids[1], 1);
    pair.more(next, &message(&[2; 40_000]), true);
    pair.run();
    assert_eq!(pair.told.last().map(String::as_str), Some("message 40000 bytes, end"));
}

#[test]
fn messages_without_a_byte_count_for_what_they_take_up() {
    let mut pair = Pair::new(nothing);
    pair.call(&[], &message(b"").repeat(1_000), false);
    pair.run();
    assert!(pair.server.largest_len(Side::Unread) >= 1_000 * 24);
}

#[test]
fn what_nobody_reads_is_dropped_and_its_end_is_told() {
    let mut pair = Pair::new(nothing);
    let stream = pair.call(&[], &message(b"1"), false);
    pair.run();
    pair.server.ignore(pair.ids[0]);
    assert_eq!(pair.server.kept_len(Side::Unread), 0);
    pair.more(stream, &[message(b"2"), message(b"3")].concat(), false);
    pair.run();
    pair.more(stream, &message(b"4"), true);
    pair.run();
    assert_eq!(pair.told, ["request 1: Some(\"1\")", "end"]);
    assert_eq!(pair.server.kept_len(Side::Unread), 0);
}

#[test]
fn values_that_a_comma_joins_count_as_fields_of_their_own() {
    let mut pair = Pair::new(echo);
    let (name, commas) = (format!("{}-bin", "k".repeat(7_000)), ",".repeat(7_000));
    let bomb = pair.call(&[(&name, &commas)], &message(b"!"), true);
    let usual = pair.call(&[("key-bin", "Zg==,Zm8,,Zm9v")], &message(b"!"), true);
    pair.run();
    assert!(pair.status(bomb).ends_with("metadata is longer than the server accepts"));
    assert_eq!(pair.status(usual), "0");
    assert_eq!(pair.told.len(), 1, "{:?}", pair.told);
}
