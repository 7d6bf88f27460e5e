//! The gRPC client: the bytes that it sends, and its reading of replies that are cut at every byte.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use ringway_wire::grpc::{
    CallHead, ClientCompression, ClientConfig, Compression, ContentType, GrpcClient, Messages,
    RequestNames, compress, decompress, lines, prefix,
};
use ringway_wire::http2::{
    Decoder, Event, Fields, Http2Config, Http2Server, StreamHandle, Violation, Vocabulary,
};
use ringway_wire::native::{
    Body, ClientEvent, Gone, MetaReader, MetaWriter, Open, OpenError, Outgoing, Piece, StreamId,
    Tag,
};

use crate::support::http2::*;
use crate::support::{Random, for_seeds};

pub(crate) fn new_client() -> GrpcClient {
    GrpcClient::new(ClientConfig::new("example.org:50051"), NOW)
}

pub(crate) fn sent(client: &mut GrpcClient) -> Vec<u8> {
    let mut wire = Vec::new();
    client.transmit(usize::MAX, &mut |out| match out {
        Outgoing::Copy(bytes) => wire.extend_from_slice(bytes),
        Outgoing::Shared(bytes) => wire.extend_from_slice(&bytes),
    });
    wire
}

/// A call with exactly one message.
pub(crate) fn unary() -> Open<'static> {
    let message = Some(Body::Copy(b"hello"));
    Open { method: 1, name: "a.B/C", message, end: true, ..Open::default() }
}

pub(crate) fn streaming() -> Open<'static> {
    Open { method: 1, name: "a.B/C", ..Open::default() }
}

fn meta_text(meta: &[u8]) -> String {
    let one = |piece: Result<(Tag, &[u8]), _>| {
        let (tag, value) = piece.expect("ours");
        match tag {
            Tag::Entry => {
                let (key, value) = MetaReader::entry(value).expect("ours");
                format!("{}={}", key.escape_ascii(), value.escape_ascii())
            }
            Tag::Pushback => format!("pushback {}", MetaReader::pushback_ms(value).expect("ours")),
            _ => format!("{tag:?} {}", value.escape_ascii()),
        }
    };
    MetaReader::new(meta).map(one).collect::<Vec<_>>().join(", ")
}

fn told(event: &ClientEvent<'_>) -> String {
    match event {
        ClientEvent::Initial { stream, meta } => {
            format!("initial {} [{}]", stream.slot(), meta_text(meta))
        }
        ClientEvent::Message { stream, message } => {
            format!("message {} {}", stream.slot(), message.escape_ascii())
        }
        ClientEvent::Response { stream, status, meta, message: None } => {
            format!("response {} {status} [{}]", stream.slot(), meta_text(meta))
        }
        ClientEvent::Failed { stream, status, text, .. } => {
            format!("response {} {status} [StatusMessage {}]", stream.slot(), text.escape_debug())
        }
        ClientEvent::Leaving { code, accepted, reason, .. } => {
            format!("leaving {code} {accepted} {}", reason.escape_ascii())
        }
        other => format!("{other:?}"),
    }
}

pub(crate) fn hear(client: &mut GrpcClient, wire: &[u8]) -> Vec<String> {
    let (mut input, mut events) = (wire, Vec::new());
    while let Some(event) = client.receive(&mut input, NOW).expect("well-formed") {
        events.push(told(&event));
        if let ClientEvent::Message { stream, .. } = event {
            client.taken(stream, 1);
        }
        while let Some((stream, message)) = client.receive_message(&mut input) {
            events.push(told(&ClientEvent::Message { stream, message: Piece::Borrowed(message) }));
            client.taken(stream, 1);
        }
    }
    assert!(input.is_empty());
    events
}

/// Returns the events of a client with `calls` open calls for `frames`, wherever they are cut.
#[track_caller]
pub(crate) fn answered(
    calls: &[Open<'static>],
    frames: &[Vec<u8>],
) -> (Vec<String>, Vec<(u32, u32)>) {
    let wire = [frame(SETTINGS, 0, 0, &[]), frames.concat()].concat();
    let run = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut client = new_client();
        for call in calls {
            client.open(call.clone()).expect("room");
        }
        let events: Vec<_> = pieces.flat_map(|piece| hear(&mut client, piece)).collect();
        let ends = ends(&sent(&mut client)).into_iter().map(|(id, code)| (id, code.0)).collect();
        (events, ends)
    };
    let whole = run(&mut [&wire[..]].into_iter());
    assert_eq!(run(&mut wire.chunks(1)), whole, "byte by byte");
    for at in 1..wire.len() {
        assert_eq!(run(&mut [&wire[..at], &wire[at..]].into_iter()), whole, "cut at {at}");
    }
    whole
}

pub(crate) const GRPC: (&str, &str) = ("content-type", "application/grpc");

pub(crate) fn head(flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, 1, &block(fields))
}

pub(crate) fn good_head() -> Vec<u8> {
    head(0, &[(":status", "200"), GRPC])
}

pub(crate) fn trailers(fields: &[(&str, &str)]) -> Vec<u8> {
    head(END_STREAM, fields)
}

pub(crate) fn message(text: &[u8]) -> Vec<u8> {
    [&prefix(text.len() as u32, false), text].concat()
}

pub(crate) fn data(bytes: &[u8]) -> Vec<u8> {
    frame(DATA, 0, 1, bytes)
}

#[test]
fn a_reply_arrives_however_it_is_cut() {
    let ok = trailers(&[("grpc-status", "0")]);
    let frames = [good_head(), data(&message(b"hi")), ok.clone()];
    let expected = ["message 0 hi", "response 0 0 []"];
    assert_eq!(answered(&[unary()], &frames).0, expected);
    // The prefix comes in three frames, with padding.
    let parts = message(b"hi");
    let padded = frame(DATA, PADDED, 1, &[&[3][..], &parts[2..4], &[0; 3]].concat());
    let frames = [good_head(), data(&parts[..2]), padded, data(&parts[4..]), ok.clone()];
    assert_eq!(answered(&[unary()], &frames).0, expected);
    let frames = [good_head(), data(&message(b"")), ok];
    assert_eq!(answered(&[unary()], &frames).0, ["message 0 ", "response 0 0 []"]);
}

#[test]
fn messages_of_a_stream_come_one_by_one() {
    let three = [message(b"one"), message(b""), message(b"three")].concat();
    let four = message(b"four");
    let padded = [&[2][..], &message(b"six"), &message(b"seven"), &[0; 2]].concat();
    let frames = [
        good_head(),
        data(&[&three, &four[..7]].concat()),
        data(&[&four[7..], &message(b"five")[..]].concat()),
        frame(DATA, PADDED, 1, &padded),
        trailers(&[("grpc-status", "0")]),
    ];
    let (events, ends) = answered(&[streaming()], &frames);
    let messages = ["one", "", "three", "four", "five", "six", "seven"];
    let messages: Vec<_> = messages.iter().map(|text| format!("message 0 {text}")).collect();
    assert_eq!(events[..7], messages);
    assert_eq!(events[7..], ["response 0 0 []"]);
    assert_eq!(ends, [(1, 8)], "the request has not ended, and nobody wants it any more");
}

#[test]
fn metadata_comes_with_the_head_and_with_the_trailers() {
    let frames = [
        head(0, &[(":status", "200"), GRPC, ("shard", "7"), ("k-bin", "AAE=, //8")]),
        data(&message(b"hi")),
        trailers(&[
            ("grpc-status", "5"),
            ("grpc-message", "no%20such%0Auser"),
            ("grpc-status-details-bin", "AQI"),
            ("grpc-retry-pushback-ms", "250"),
            ("grpc-unknown", "left out"),
            ("left", "yes"),
        ]),
    ];
    let events = [
        r"initial 0 [shard=7, k-bin=\x00\x01, k-bin=\xff\xff]",
        "message 0 hi",
        r"response 0 5 [StatusMessage no such\nuser, StatusDetails \x01\x02, left=yes, pushback 250]",
    ];
    assert_eq!(answered(&[unary()], &frames).0, events);
    let only = [head(END_STREAM, &[(":status", "200"), GRPC, ("grpc-status", "7"), ("x", "y")])];
    assert_eq!(answered(&[unary()], &only).0, ["response 0 7 [x=y]"]);
}

#[test]
fn answers_that_are_no_replies_have_the_status_of_the_tables() {
    let check = |frames: &[Vec<u8>], status: u8, is_reset: bool| {
        let (events, ends) = answered(&[unary()], frames);
        let last = events.last().expect("an end");
        assert!(last.starts_with(&format!("response 0 {status} [StatusMessage ")), "{events:?}");
        assert_eq!(ends, if is_reset { vec![(1, 8)] } else { vec![] }, "{last}");
    };
    for (http, status) in
        [("503", 14), ("404", 12), ("401", 16), ("400", 13), ("431", 2), ("500", 2)]
    {
        check(&[head(0, &[(":status", http), ("content-type", "text/html")])], status, true);
        check(&[head(END_STREAM, &[(":status", http)])], status, false);
    }
    check(&[head(0, &[(":status", "200"), ("content-type", "text/html")]), data(b"<p>")], 2, true);
    // There is no status.
    check(&[good_head(), trailers(&[("x", "y")])], 2, false);
    check(&[head(END_STREAM, &[(":status", "200"), GRPC])], 2, false);
    check(&[good_head(), frame(DATA, END_STREAM, 1, &message(b"hi"))], 2, false);
    check(&[good_head(), frame(DATA, END_STREAM, 1, &[])], 2, false);
    check(
        &[
            head(0, &[(":status", "200"), GRPC, ("x", "y")]),
            frame(DATA, END_STREAM, 1, &message(b"hi")),
        ],
        2,
        false,
    );
    let two = [message(b"one"), message(b"two"), vec![0, 0]].concat();
    let (events, _) = answered(&[unary()], &[good_head(), frame(DATA, END_STREAM, 1, &two)]);
    assert_eq!(
        (&events[..2], events.len()),
        (&["message 0 one", "message 0 two"].map(String::from)[..], 3)
    );
    // The content is not gRPC's.
    let ok = || trailers(&[("grpc-status", "0")]);
    check(&[good_head(), data(&message(b"hi")[..6]), ok()], 13, false);
    check(&[good_head(), data(&[2, 0, 0, 0, 0])], 13, true);
    check(&[good_head(), data(&prefix((4 << 20) + 1, false))], 8, true);
    check(&[good_head(), data(&[1, 0, 0, 0, 1, 7])], 13, true);
    let zipped = head(0, &[(":status", "200"), GRPC, ("grpc-encoding", "gzip")]);
    check(&[zipped, data(&[1, 0, 0, 0, 1, 7])], 13, true);
    // A failure in the middle of a message takes precedence.
    let (events, _) = answered(
        &[unary()],
        &[good_head(), data(&message(b"hi")[..6]), trailers(&[("grpc-status", "14")])],
    );
    assert_eq!(events, ["response 0 14 []"]);
}

/// A block with a long field after those of a reply's end.
pub(crate) fn bomb(fields: &[(&str, &str)]) -> Vec<u8> {
    let (name, commas) = ([b'k'; 2_996], [b','; 3_000]);
    // // 3,000 as an integer with a prefix of seven bits.
    let len = [0x7f, 0xb9, 0x16];
    let long = [&[0], &len[..], &name, b"-bin", &len, &commas].concat();
    frame(HEADERS, END_HEADERS | END_STREAM, 1, &[block(fields), long].concat())
}

#[test]
fn values_that_a_comma_joins_count_as_fields_of_their_own() {
    for (status, expected) in [("0", "response 0 8 [StatusMessage "), ("5", "response 0 5 []")] {
        let end = [good_head(), bomb(&[("grpc-status", status)])];
        let alone = [bomb(&[(":status", "200"), GRPC, ("grpc-status", status)])];
        for frames in [&end[..], &alone] {
            let mut client = new_client();
            client.open(unary()).expect("room");
            let wire = [frame(SETTINGS, 0, 0, &[]), frames.concat()].concat();
            let events = hear(&mut client, &wire);
            assert!(events.len() == 1 && events[0].starts_with(expected), "{events:?}");
        }
    }
}

#[test]
fn an_authorization_that_no_metadata_can_hold_does_not_change_the_outcome() {
    let odd = [&b"\x00\x0dauthorization\x04caf\xe9"[..], &block(&[("grpc-status", "0")])].concat();
    let end = frame(HEADERS, END_HEADERS | END_STREAM, 1, &odd);
    let (events, _) = answered(&[unary()], &[good_head(), data(&message(b"hi")), end]);
    assert_eq!(events, ["message 0 hi", "response 0 0 []"]);
}

#[test]
fn the_servers_limit_is_room() {
    let mut client = new_client();
    hear(&mut client, &frame(SETTINGS, 0, 0, &setting(3, 1)));
    assert_eq!(client.capacity(), 1);
    let first = client.open(unary()).expect("room");
    assert_eq!(client.open(unary()), Err(OpenError::Full));
    let end = [good_head(), trailers(&[("grpc-status", "0")])].concat();
    assert_eq!(hear(&mut client, &end), ["response 0 0 []", "Capacity"]);
    let second = client.open(unary()).expect("room");
    assert_eq!((first.slot(), second.slot()), (0, 0));
    assert_ne!(first, second, "the slot is used again");
    client.cancel(first, 1, "");
    assert_eq!(client.in_flight(), 1, "that has ended before");
}

#[test]
fn a_cancelled_call_has_no_event() {
    let mut client = new_client();
    hear(&mut client, &frame(SETTINGS, 0, 0, &[]));
    let call = client.open(unary()).expect("room");
    sent(&mut client);
    client.cancel(call, 4, "late");
    assert_eq!(ends(&sent(&mut client)), [(1, ringway_wire::http2::ErrorCode::CANCEL)]);
    let late = [good_head(), data(&message(b"hi")), trailers(&[("grpc-status", "0")])].concat();
    assert_eq!(hear(&mut client, &late), [""; 0]);
    assert_eq!(client.send(call, Body::Copy(b"x"), false), Err(Gone));
    // The end of this one has not been delivered yet.
    let call = client.open(unary()).expect("room");
    let end = [
        frame(HEADERS, END_HEADERS, 3, &block(&[(":status", "200"), GRPC])),
        frame(DATA, END_STREAM, 3, &message(b"hi")),
    ];
    let (wire, mut client_event) = (end.concat(), None);
    let mut input = &wire[..];
    while client_event.is_none() {
        client_event = client.receive(&mut input, NOW).expect("well-formed").map(|e| told(&e));
    }
    assert_eq!(client_event.as_deref(), Some("message 0 hi"));
    assert!(client.has_events());
    client.cancel(call, 1, "");
    assert!(!client.has_events());
    assert_eq!((client.in_flight(), client.incomplete_len()), (0, 0));
}

/// Makes a server's machine that knows `/a.B/C` as method 7.
fn new_server(config: Http2Config) -> Http2Server {
    let vocabulary = Vocabulary::new(RequestNames::new([("/a.B/C", 7)]));
    Http2Server::new(config, Arc::new(vocabulary), NOW)
}

#[test]
fn a_request_says_all_that_the_caller_does() {
    let mut client = new_client();
    let mut server = new_server(Http2Config::default());
    let mut meta = Vec::new();
    MetaWriter::new(&mut meta).entry("shard", b"7").entry("k-bin", &[1, 2]).authorization(b"key");
    let timeout = Some(Duration::from_millis(1_500));
    let call = Open { timeout, attempt: 2, meta: &meta, ..unary() };
    client.open(call).expect("room");
    let wire = sent(&mut client);
    let event = server.receive(&mut &wire[..], NOW).expect("well-formed").expect("a request");
    let Event::Head { data, end: true, .. } = event else { panic!("{event:?}") };
    let call = CallHead::read(server.fields().head()).expect("a call");
    assert_eq!((call.method, call.timeout, call.attempts), (Some(7), timeout, 2));
    let fields: Vec<_> = server.fields().iter().collect();
    let expected: [(&[u8], &[u8]); 3] =
        [(b"shard", b"7"), (b"k-bin", b"AQI"), (b"authorization", b"key")];
    assert_eq!(fields, expected);
    assert_eq!(
        Messages::new(9).next(&mut data.clone()).expect("whole").expect("one").bytes,
        Piece::Borrowed(b"hello")
    );
    // The second time, each field takes one byte, except the timeout.
    client.open(Open { timeout, ..unary() }).expect("room");
    assert_eq!(frames(&sent(&mut client))[0].3.len(), 7 + 2 + 1 + 8);
    // One request has no message, and one has a longer message than the server accepts.
    let mut client = new_client();
    client.open(Open { end: true, ..streaming() }).expect("room");
    let wire = sent(&mut client);
    let opened = frames(&wire).into_iter().find(|frame| frame.0 == HEADERS).expect("sent");
    assert_eq!(opened.1, END_HEADERS | END_STREAM);
    hear(&mut client, &frame(SETTINGS, 0, 0, &setting(6, 1_000)));
    meta.clear();
    MetaWriter::new(&mut meta).entry("long", &[b'x'; 1_000]);
    assert_eq!(client.open(Open { meta: &meta, ..unary() }), Err(OpenError::TooLarge));
    assert_eq!(client.in_flight(), 1);
}

#[test]
fn every_head_says_what_its_call_does_whatever_was_sent_before() {
    const NAMES: [&str; 6] = ["/a.B/C", "/a.B/D", "/a.B/E", "/a.B/F", "/a.B/G", "/a.B/H"];
    let shortest = Cell::new(usize::MAX);
    for_seeds(200, |random| {
        let paths = NAMES.iter().enumerate().map(|(at, path)| (*path, at as u32));
        let names = Vocabulary::new(RequestNames::new(paths));
        let (mut client, mut decoder) = (new_client(), Decoder::default());
        let mut fields = Fields::new(16 << 10);
        sent(&mut client);
        hear(&mut client, &frame(SETTINGS, 0, 0, &[]));
        for _ in 0..100 {
            if random.below(20) == 0 {
                let size = [0, 100, 300, 4_096][random.below(4)];
                hear(&mut client, &frame(SETTINGS, 0, 0, &setting(1, size)));
                decoder.set_limit(size);
            }
            let at = random.below(NAMES.len());
            let timeout = [None, Some(20), Some(30), Some(1 + random.below(1_000))]
                [random.below(4)]
            .map(|ms| Duration::from_millis(ms as u64));
            let (attempt, has_meta) = (u8::from(random.below(8) == 0), random.below(8) == 0);
            let mut meta = Vec::new();
            if has_meta {
                MetaWriter::new(&mut meta).entry("shard", b"7");
            }
            let codec = if random.below(4) == 0 { 2 } else { 1 };
            let (method, name) = (at as u32 + 1, &NAMES[at][1..]);
            // Most callers repeat their heads.
            for _ in 0..1 + random.below(20) {
                let call = Open { method, name, codec, timeout, attempt, meta: &meta, ..unary() };
                let stream = client.open(call).expect("room");
                let wire = sent(&mut client);
                let all = frames(&wire);
                let (_, _, _, block) =
                    all.iter().find(|frame| frame.0 == HEADERS).expect("a request");
                decoder.decode(block, &names, &mut fields).expect("well-formed");
                let call = CallHead::read(fields.head()).expect("a call");
                assert_eq!((call.method, call.timeout), (Some(at as u32), timeout));
                assert_eq!((call.attempts, fields.is_empty()), (attempt.into(), !has_meta));
                assert_eq!(call.content_type == ContentType::Json, codec == 2);
                shortest.set(shortest.get().min(block.len()));
                client.cancel(stream, 1, "");
                sent(&mut client);
            }
        }
    });
    assert_eq!(shortest.get(), 7, "fields become one byte each");
}

/// A client, and a server that echoes the messages of each call.
struct Pair {
    client: GrpcClient,
    server: Http2Server,
    /// The server's calls by slot.
    messages: Vec<Messages>,
}

impl Pair {
    fn new() -> Self {
        let server = new_server(Http2Config::default());
        Self { client: new_client(), server, messages: Vec::new() }
    }

    fn serve(&mut self, mut input: &[u8]) {
        while let Some(event) = self.server.receive(&mut input, NOW).expect("well-formed") {
            match event {
                Event::Head { stream, data, end } => {
                    let head = [
                        lines::HTTP_OK,
                        lines::content_type(ringway_wire::grpc::ContentType::Plain),
                    ];
                    self.server.head(stream, &head, false).expect("open");
                    self.messages.resize_with(self.messages.len().max(stream.slot() + 1), || {
                        Messages::new(u32::MAX)
                    });
                    self.messages[stream.slot()] = Messages::new(u32::MAX);
                    self.echo(stream, data, end);
                }
                Event::Data { stream, data, end } => self.echo(stream, data, end),
                Event::Reset { stream, .. } | Event::Failed { stream, .. } => {
                    self.server.let_go(stream)
                }
                _ => {}
            }
        }
    }

    fn echo(&mut self, stream: StreamHandle, mut data: Piece<'_>, end: bool) {
        self.server.taken(stream, data.len());
        while let Some(message) = self.messages[stream.slot()].next(&mut data).expect("well-formed")
        {
            let prefix = prefix(message.bytes.len() as u32, false);
            let body = Body::Shared(message.bytes.into_bytes());
            self.server.send(stream, &prefix, body, false).expect("open");
        }
        if end {
            self.server.finish(stream, &[lines::OK]).expect("open");
        }
    }
}

#[test]
fn messages_of_all_sizes_go_both_ways() {
    for_seeds(10, |random| {
        let mut pair = Pair::new();
        let mut calls: Vec<(StreamId, Vec<Vec<u8>>, usize)> = Vec::new();
        for _ in 0..random.below(5) + 1 {
            let id = pair.client.open(streaming()).expect("room");
            let mut messages = Vec::new();
            for _ in 0..random.below(6) {
                let len = [0, random.below(50), random.below(40_000), random.below(3 << 20)];
                let message = vec![messages.len() as u8; len[random.below(4)]];
                pair.client.send(id, Body::Shared(message.clone().into()), false).expect("open");
                messages.push(message);
            }
            pair.client.finish(id);
            calls.push((id, messages, 0));
        }
        let mut open = calls.len();
        while open > 0 {
            let up = sent(&mut pair.client);
            pair.serve(&up);
            let down = output(&mut pair.server, 1 + random.below(200_000));
            for mut piece in Random::new(random.next()).pieces(&down, 70_000) {
                while let Some(event) = pair.client.receive(&mut piece, NOW).expect("well-formed") {
                    match event {
                        ClientEvent::Message { stream, message } => {
                            let call =
                                calls.iter_mut().find(|call| call.0 == stream).expect("open");
                            assert!(call.1[call.2][..] == *message, "message {}", call.2);
                            call.2 += 1;
                            pair.client.taken(stream, 1);
                        }
                        ClientEvent::Response { stream, status: 0, .. } => {
                            let call = calls.iter().find(|call| call.0 == stream).expect("open");
                            assert_eq!(call.1.len(), call.2);
                            open -= 1;
                        }
                        ClientEvent::Writable { .. } => {}
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
        assert_eq!((pair.client.in_flight(), pair.client.incomplete_len()), (0, 0));
    });
}

#[test]
fn what_the_reader_does_not_take_stops_the_server_and_one_long_message_does_not() {
    let mut pair = Pair::new();
    // The message is longer than the window of 1 MiB.
    let call = pair.client.open(streaming()).expect("room");
    let long = vec![7; 3 << 20];
    for _ in 0..2 {
        pair.client.send(call, Body::Shared(long.clone().into()), false).expect("open");
    }
    let mut came = Vec::new();
    let mut run = |pair: &mut Pair| loop {
        let up = sent(&mut pair.client);
        pair.serve(&up);
        let down = output(&mut pair.server, usize::MAX);
        if up.is_empty() && down.is_empty() {
            return came.len();
        }
        let mut input = &down[..];
        while let Some(event) = pair.client.receive(&mut input, NOW).expect("well-formed") {
            if let ClientEvent::Message { message, .. } = event {
                came.push(message.len());
            }
        }
    };
    assert_eq!(run(&mut pair), 1, "the first comes, and the second waits for its reader");
    assert!(pair.client.incomplete_len() <= 2 << 20);
    pair.client.taken(call, 1);
    assert_eq!(run(&mut pair), 2);
    assert_eq!(pair.client.incomplete_len(), 0);
}

/// Makes a client that compresses requests of a hundred bytes or more with this encoding.
fn compressing(requests: Compression) -> GrpcClient {
    let mut config = ClientConfig::new("example.org:50051");
    config.compression = Some(ClientCompression { requests, request_min: 100 });
    config.max_message = 1 << 20;
    let mut client = GrpcClient::new(config, NOW);
    hear(&mut client, &frame(SETTINGS, 0, 0, &[]));
    client
}

#[test]
fn requests_are_compressed_if_that_makes_them_shorter() {
    for by in [Compression::Gzip, Compression::Zstd, Compression::Identity] {
        let mut client = compressing(by);
        let stream = client.open(streaming()).expect("room");
        sent(&mut client);
        for (len, is_long) in [(99, false), (100, true), (50_000, true)] {
            let text = vec![7; len];
            client.send(stream, Body::Copy(&text), false).expect("open");
            let data = frames(&sent(&mut client)).into_iter().filter(|(kind, ..)| *kind == DATA);
            let content: Vec<u8> = data.flat_map(|(.., bytes)| bytes).collect();
            let used = if is_long { by } else { Compression::Identity };
            let is_compressed = used != Compression::Identity;
            assert_eq!(content[0], u8::from(is_compressed), "{by:?} {len}");
            assert!(content.len() < 1_000 || !is_compressed, "{by:?} {len}");
            assert_eq!(decompress(used, &content[5..], len).as_deref(), Ok(&text[..]));
        }
    }
}

/// A reply with one compressed message.
fn packed_reply(by: &str, content: &[u8]) -> Vec<u8> {
    let head = head(0, &[(":status", "200"), GRPC, ("grpc-encoding", by)]);
    let message = [&prefix(content.len() as u32, true)[..], content].concat();
    let parts = message.chunks(16_000).flat_map(data).collect();
    [head, parts, trailers(&[("grpc-status", "0")])].concat()
}

#[test]
fn compressed_replies_are_read_and_bombs_are_not() {
    let ask = |mut client: GrpcClient, wire: &[u8]| {
        client.open(unary()).expect("room");
        hear(&mut client, wire)
    };
    for (name, by) in [("gzip", Compression::Gzip), ("zstd", Compression::Zstd)] {
        let text = compress(by, &[b'7'; 300]).expect("shorter");
        let bomb = compress(by, &vec![0; 8 << 20]).expect("shorter");
        let taking = || compressing(Compression::Identity);
        let told = ask(taking(), &packed_reply(name, &text));
        assert_eq!(told, [&format!("message 0 {}", "7".repeat(300)), "response 0 0 []"]);
        for (content, name, status) in [
            (&bomb[..], name, "response 0 8 "),
            (&text[..text.len() - 1], name, "response 0 13 "),
            (&text[..], "br", "response 0 13 "),
            (&text[..], "identity", "response 0 13 "),
        ] {
            let told = ask(taking(), &packed_reply(name, content));
            assert!(told.len() == 1 && told[0].starts_with(status), "{name}: {told:?}");
        }
        // The client offered no encoding.
        let greeted = [frame(SETTINGS, 0, 0, &[]), packed_reply(name, &text)].concat();
        let told = ask(new_client(), &greeted);
        assert!(told[0].starts_with("response 0 13 "), "{told:?}");
    }
}

#[test]
fn a_server_may_not_fill_the_memory_with_few_bytes() {
    let mib = compress(Compression::Gzip, &vec![0; 1 << 20]).expect("shorter");
    let message = data(&[&prefix(mib.len() as u32, true)[..], &mib].concat());
    // Returns the length of the next message, or why it is none.
    let next = |client: &mut GrpcClient| {
        let event = client.receive(&mut &message[..], NOW).expect("well-formed");
        told(&event.expect("a message is whole"))
    };
    let mut client = compressing(Compression::Identity);
    let stream = client.open(streaming()).expect("room");
    hear(&mut client, &head(0, &[(":status", "200"), GRPC, ("grpc-encoding", "gzip")]));
    for _ in 0..100 {
        assert!(next(&mut client).starts_with("message"), "what is read makes room for more");
        client.taken(stream, 1);
    }
    let unread = (0..100).take_while(|_| next(&mut client).starts_with("message")).count();
    assert!((60..70).contains(&unread), "{unread} MiB");
    // The end of the call has made room again.
    let stream = client.open(streaming()).expect("room");
    let head = block(&[(":status", "200"), GRPC, ("grpc-encoding", "gzip")]);
    hear(&mut client, &frame(HEADERS, END_HEADERS, 3, &head));
    let other = [&message[..8], &[3][..], &message[9..]].concat();
    let event = client.receive(&mut &other[..], NOW).expect("well-formed").expect("a message");
    assert!(told(&event).starts_with("message"), "{}", told(&event));
    client.taken(stream, 1);
}

#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    let mut client = new_client();
    client.open(unary()).expect("room");
    let wire = [frame(SETTINGS, 0, 0, &[]), frame(PING, 0, 1, &[0; 8])].concat();
    let mut input = &wire[..];
    let error = client.receive(&mut input, NOW).map(|_| ()).expect_err("a PING of a stream");
    assert_eq!(error, Violation::NeedsConnection);
    assert_eq!(client.open(unary()), Err(OpenError::Closed));
    assert_eq!(client.poll_timeout(), None);
}

#[test]
fn a_silent_server_is_asked_and_given_up() {
    let mut client = new_client();
    hear(&mut client, &[frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat());
    client.open(unary()).expect("room");
    sent(&mut client);
    let at = client.poll_timeout().expect("alive");
    client.handle_timeout(at).expect("a probe");
    assert_eq!(frames(&sent(&mut client))[0].0, PING);
    let at = client.poll_timeout().expect("alive");
    assert_eq!(client.handle_timeout(at), Err(Violation::Silent));
}

#[test]
fn a_server_that_takes_requests_slowly_is_not_dead() {
    let mut client = new_client();
    hear(&mut client, &frame(SETTINGS, 0, 0, &[]));
    for _ in 0..100 {
        client.open(unary()).expect("room");
    }
    let mut at = NOW;
    for _ in 0..20 {
        at += Duration::from_secs(9);
        client.handle_timeout(at).expect("it takes something");
        client.transmit(50, &mut |_| {});
        assert!(client.has_output(), "a PING and the ACK of SETTINGS wait behind the rest");
    }
    sent(&mut client);
    let mut ended = Ok(());
    while ended.is_ok() {
        at = client.poll_timeout().expect("alive");
        ended = client.handle_timeout(at);
        sent(&mut client);
    }
    assert_eq!(ended, Err(Violation::SettingsTimeout), "all has left, and no answer");
}

#[test]
fn a_long_request_has_its_time_however_long_its_connection_was_quiet() {
    let mut client = new_client();
    hear(&mut client, &[frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat());
    sent(&mut client);
    // Longer than a stream may stand still, and less than a client is silent.
    let at = Duration::from_secs(305);
    assert_eq!(client.poll_timeout(), None, "nobody tells it the time");
    let long = || Some(Body::Shared(vec![7; 1 << 20].into()));
    let call = client.open(Open { message: long(), ..unary() }).expect("room");
    assert!(client.poll_timeout() <= Some(at), "it asks for the time");
    client.handle_timeout(at).expect("nothing is due");
    assert!(!client.has_events(), "it has just begun");
    assert!(!sent(&mut client).is_empty() && client.unsent(call) > 0);
    let late = at + Duration::from_secs(300);
    client.receive(&mut &frame(PING, 0, 0, &[0; 8])[..], late).expect("it is alive");
    let other = client.open(Open { message: long(), ..unary() }).expect("room");
    client.handle_timeout(late).expect("it is alive");
    assert!(client.has_events(), "its server takes nothing of the first");
    let told = client.receive(&mut &[][..], late).expect("it is alive");
    assert!(matches!(told, Some(ClientEvent::Failed { stream, .. }) if stream == call));
    assert!(!client.has_events() && client.unsent(other) > 0, "the other has just begun");
}

#[test]
fn a_call_whose_server_takes_nothing_ends_although_another_begins_before_that_is_told() {
    let mut client = new_client();
    hear(&mut client, &[frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat());
    let message = Some(Body::Shared(vec![7; 1 << 20].into()));
    let stalled = client.open(Open { message, ..unary() }).expect("room");
    sent(&mut client);
    let mut at = NOW;
    while !client.has_events() {
        at += Duration::from_secs(20);
        let ping = frame(PING, 0, 0, &[0; 8]);
        assert!(client.receive(&mut &ping[..], at).expect("it is alive").is_none());
        client.handle_timeout(at).expect("it is alive");
        sent(&mut client);
        assert!(at < Duration::from_secs(1_000), "it takes nothing");
    }
    let next = client.open(unary()).expect("room");
    assert_ne!(next.slot(), stalled.slot(), "the slot is the first call's until its end is told");
    let told = client.receive(&mut &[][..], at).expect("it is alive");
    let Some(ClientEvent::Failed { stream, status: 14, .. }) = told else { panic!("{told:?}") };
    assert_eq!((stream, client.in_flight(), client.has_events()), (stalled, 1, false));
    let last = client.open(unary()).expect("room");
    assert_eq!(last.slot(), stalled.slot(), "now it is free");
}
