//! Peers that break the native protocol: the price that they pay, and the low price that we pay.

use std::time::Duration;

use ringway_wire::native::{
    Body, Client, Config, FrameKind, GoAwayCode, Open, PREFACE, Reply, Server, Violation,
};

use crate::support::by_hand::{feed, hear};
use crate::support::pair::{Asked, Told, drain};
use crate::support::raw::{
    ACK, COMPRESSED, CRC, CREDIT, DATA, END, GO_AWAY, LEASE, MORE, NAMED, NOMSG, PING, RAW,
    REQUEST, RESPONSE, RST, SETTINGS, frame, frames, go_away_code, greeting, id, named, request,
    with_meta,
};

const NOW: Duration = Duration::ZERO;
const FIRST: u32 = id(0, 1);
const OPEN: u8 = 0;

/// A server after the greeting, which has sent its output.
fn server() -> Server {
    server_with(Config::default())
}

fn server_with(config: Config) -> Server {
    let mut server = Server::new(config, NOW);
    assert_eq!(feed(&mut server, &greeting()), Ok(vec![]));
    drain(|out| server.transmit(usize::MAX, out));
    server
}

/// A client after the greeting, with a unary call in slot 0 and an open stream in slot 1.
fn client() -> Client {
    let mut client = Client::new(Config::default(), NOW);
    assert_eq!(hear(&mut client, &greeting()), Ok(vec![]));
    for (message, end) in [(&b"unary"[..], true), (b"stream", false)] {
        let call = Open { message: Some(Body::Copy(message)), end, ..Open::default() };
        client.open(call).expect("room");
    }
    drain(|out| client.transmit(usize::MAX, out));
    client
}

/// Checks that the server ends the connection with `code` because of the last of `input`, and sends nothing more.
fn ends(name: &str, code: GoAwayCode, input: &[Vec<u8>]) {
    let mut server = server();
    let (last, before) = input.split_last().expect("something to object to");
    for (at, frame) in before.iter().enumerate() {
        if let Err(violation) = feed(&mut server, frame) {
            panic!("{name}: frame {at} is in order, not {violation}");
        }
    }
    let violation = feed(&mut server, last).expect_err(name);
    assert_eq!(violation.code(), code, "{name}: {violation}");
    let output = drain(|out| server.transmit(usize::MAX, out));
    assert_eq!(go_away_code(&output), Some(code.code()), "{name}");
    assert_eq!(feed(&mut server, &frame(PING, 0, 0, 1, &[])), Err(violation), "{name}");
    assert!(!server.has_output() && server.poll_timeout().is_none(), "{name}");
}

#[test]
fn frames_that_are_malformed() {
    let protocol = GoAwayCode::Protocol;
    for (name, bytes) in [
        ("unknown type", frame(0x05, 0, 0, 0, &[])),
        ("type 0", frame(0x00, 0, 0, 0, &[])),
        ("ACK on a request", request(ACK, FIRST, 0, &[])),
        ("NAMED on data", frame(DATA, NAMED, FIRST, 0, &[])),
        ("END and MORE", request(END | MORE, FIRST, 9, b"part")),
        ("NOMSG and MORE", request(NOMSG | MORE, FIRST, 9, &[])),
        ("NOMSG and a payload", request(NOMSG | END, FIRST, 0, b"x")),
        ("a request on the connection", request(END, 0, 0, &[])),
        ("a request of generation 0", request(END, id(3, 0), 0, &[])),
        ("a request without its head", frame(REQUEST, END, FIRST, 0, &[0; 15])),
        ("metadata beyond the body", with_meta(DATA, 0, FIRST, 0, 5, b"four")),
        ("a checksum beyond the body", frame(DATA, CRC, FIRST, 0, b"sum")),
        ("a ping of a stream", frame(PING, 0, FIRST, 0, &[])),
        ("a ping with a body", frame(PING, 0, 0, 0, b"x")),
        ("a ping with metadata", with_meta(PING, 0, 0, 0, 2, b"\x06\0")),
        ("a lease with a body", frame(LEASE, 0, 0, 1, b"x")),
        ("an ACK with settings", frame(SETTINGS, ACK, 0, 0, &[0; 6])),
        ("65 settings", frame(SETTINGS, 0, 0, 0, &[0; 65 * 6])),
        ("a goaway of seven bytes", frame(GO_AWAY, 0, 0, 0, &[0; 7])),
        ("a goaway with a story", frame(GO_AWAY, 0, 0, 0, &[b' '; 8 + 1_025])),
        ("a reset with a story", frame(RST, 0, FIRST, 1, &[b' '; 1_025])),
    ] {
        ends(name, protocol, &[bytes]);
    }
}

#[test]
fn values_out_of_range() {
    let setting = |id: u8, value: u32| {
        let body = [&[id, 0][..], &value.to_le_bytes()].concat();
        frame(SETTINGS, 0, 0, 0, &body)
    };
    ends("torn settings", GoAwayCode::BadSettings, &[frame(SETTINGS, 0, 0, 0, &[0; 7])]);
    ends("small frames", GoAwayCode::BadSettings, &[setting(1, 65_535)]);
    ends("large frames", GoAwayCode::BadSettings, &[setting(1, 262_145)]);
    ends("half a checksum", GoAwayCode::BadSettings, &[setting(6, 2)]);

    let mut poor = request(END, FIRST, 0, &[]);
    poor[28..32].copy_from_slice(&65_535_u32.to_le_bytes());
    ends("no credit for replies", GoAwayCode::FlowControl, &[poor]);
    let stream = [request(OPEN, FIRST, 0, b"x"), frame(CREDIT, 0, FIRST, i32::MAX as u32, &[])];
    ends("credit beyond its bound", GoAwayCode::FlowControl, &stream);
    let stream = [request(END, FIRST, 0, b"x"), frame(CREDIT, 0, FIRST, u32::MAX, &[])];
    ends("credit beyond its bound, unary", GoAwayCode::FlowControl, &stream);

    let header = [&0x7fff_ffff_u32.to_le_bytes()[..], &request(END, FIRST, 0, &[])[4..16]].concat();
    ends("2 GiB announced", GoAwayCode::TooLarge, &[header]);
    let long = request(END, FIRST, 0, &vec![0; 262_145]);
    ends("a payload beyond max_payload", GoAwayCode::TooLarge, &[long]);

    let mut summed = request(END | CRC, FIRST, 0, b"hello\0\0\0\0");
    ends("a wrong checksum", GoAwayCode::Checksum, &[summed.clone()]);
    let len = summed.len() - 4;
    let sum = ringway_wire::native::checksum(&[&summed[..len]]);
    summed[len..].copy_from_slice(&sum.to_le_bytes());
    assert!(matches!(&feed(&mut server(), &summed).expect("right")[..], [Asked::Request { .. }]));
    summed[20] ^= 1;
    ends("one bit", GoAwayCode::Checksum, &[summed]);
}

#[test]
fn frames_that_have_no_place() {
    let protocol = GoAwayCode::Protocol;
    let open = || request(OPEN, FIRST, 0, b"x");
    let part = || request(MORE, FIRST, 10, b"half ");
    for (name, input) in [
        ("a response to a server", vec![frame(RESPONSE, END | NOMSG, FIRST, 0, &[])]),
        ("a lease to a server", vec![frame(LEASE, 0, 0, 1, &[])]),
        ("a second ACK", vec![frame(SETTINGS, ACK, 0, 0, &[]), frame(SETTINGS, ACK, 0, 0, &[])]),
        ("data of no stream", vec![frame(DATA, 0, FIRST, 0, b"x")]),
        ("credit of no stream", vec![frame(CREDIT, 0, id(9, 1), 1, &[])]),
        ("a reset of no stream", vec![frame(RST, 0, id(9, 1), 1, &[])]),
        ("data of the next generation", vec![open(), frame(DATA, 0, id(0, 2), 0, b"x")]),
        ("a slot beyond the table", vec![request(END, id(1_024, 1), 0, &[])]),
        ("a stream of the server's", vec![request(END, FIRST | 1 << 31, 0, &[])]),
        ("a slot in use", vec![open(), request(OPEN, id(0, 2), 0, b"x")]),
        ("the same stream again", vec![open(), open()]),
        ("a generation that was used", vec![open(), frame(RST, 0, FIRST, 1, &[]), open()]),
        ("data after the end", vec![request(END, FIRST, 0, b"x"), frame(DATA, 0, FIRST, 0, b"x")]),
        (
            "an end after the end",
            vec![open(), frame(DATA, END | NOMSG, FIRST, 0, &[]), frame(DATA, END, FIRST, 0, &[])],
        ),
        ("an end within a message", vec![part(), frame(DATA, END | NOMSG, FIRST, 0, &[])]),
        ("more than announced", vec![part(), frame(DATA, 0, FIRST, 0, b"and more")]),
        ("less than announced", vec![part(), frame(DATA, 0, FIRST, 0, b"less")]),
        ("more to come of nothing", vec![part(), frame(DATA, MORE, FIRST, 0, b"whole")]),
        ("compression", vec![request(END | COMPRESSED, FIRST, 0, b"x")]),
        ("compression of nothing", vec![request(END | NOMSG | COMPRESSED, FIRST, 0, b"")]),
        ("an attachment", vec![open(), frame(DATA, RAW, FIRST, 0, b"x")]),
        ("an attachment of nothing", vec![open(), frame(DATA, RAW | NOMSG, FIRST, 0, b"")]),
        ("a number without a name", vec![named(FIRST, 1, b"\x02\x01a")]),
        ("a name that is cut", vec![named(FIRST, 1, b"\x01\x05a.B")]),
        (
            "a number with two names",
            vec![named(FIRST, 1, b"\x01\x05a.B/C"), named(id(1, 1), 1, b"\x01\x05a.B/D")],
        ),
        ("the 4,097th number", vec![named(FIRST, 4_097, b"\x01\x05a.B/C")]),
    ] {
        ends(name, protocol, &input);
    }
}

#[test]
fn the_beginning() {
    let mut server = Server::new(Config::default(), NOW);
    let early = [&PREFACE[..], &request(END, FIRST, 0, &[])].concat();
    let violation = feed(&mut server, &early).expect_err("settings come first");
    assert_eq!(violation, Violation::SettingsExpected { kind: FrameKind::Request });
    let output = drain(|out| server.transmit(usize::MAX, out));
    assert_eq!(go_away_code(&output), Some(GoAwayCode::Protocol.code()));

    let mut server = Server::new(Config::default(), NOW);
    let violation = feed(&mut server, b"\xf7RWY\x02\0\0\0").expect_err("another version");
    assert_eq!(violation.code(), GoAwayCode::Version);
    let output = drain(|out| server.transmit(usize::MAX, out));
    assert!(output.starts_with(&PREFACE));
    assert_eq!(go_away_code(&output), Some(GoAwayCode::Version.code()));

    let mut server = Server::new(Config::default(), NOW);
    assert_eq!(feed(&mut server, b"GET / HTTP/1.1"), Err(Violation::NotNative));
    assert!(!server.has_output(), "strangers are told nothing");
}

#[test]
fn half_a_preface_is_waited_for_only_so_long() {
    for input in [&PREFACE[..5], &PREFACE[..]] {
        let mut server = Server::new(Config::default(), NOW);
        assert_eq!(feed(&mut server, input), Ok(vec![]));
        let deadline = server.poll_timeout().expect("it waits");
        assert_eq!(deadline, Duration::from_secs(3));
        assert_eq!(server.handle_timeout(deadline - Duration::from_millis(1)), Ok(()));
        let violation = server.handle_timeout(deadline).expect_err("too late");
        assert_eq!(violation.code(), GoAwayCode::Timeout);
    }
}

#[test]
fn late_frames_of_a_stream_that_has_ended_are_dropped() {
    let mut server = server();
    let events = feed(&mut server, &request(OPEN, FIRST, 0, b"x")).expect("in order");
    assert!(matches!(events[..], [Asked::Request { .. }]));
    let stream = ringway_wire::native::StreamId::from_raw(FIRST);
    assert!(server.respond(stream, Reply { status: 0, meta: &[], message: None }).is_some());
    drain(|out| server.transmit(usize::MAX, out));
    for late in [
        frame(DATA, MORE, FIRST, 100, b"late"),
        frame(DATA, END, FIRST, 0, b"late"),
        frame(CREDIT, 0, FIRST, u32::MAX, &[]),
        frame(RST, 0, FIRST, 1, b"late"),
        frame(0x80, !CRC, 77, 7, b"of a later version"),
    ] {
        assert_eq!(feed(&mut server, &late), Ok(vec![]));
        assert!(!server.has_output() && server.incomplete_len() == 0);
    }
    assert_eq!(feed(&mut server, &frame(PING, 0, 0, 5, &[])), Ok(vec![]), "still alive");
    assert_eq!(drain(|out| server.transmit(usize::MAX, out)), frame(PING, ACK, 0, 5, &[]));
}

#[test]
fn what_is_too_long_ends_its_call_only() {
    let mut config = Config::default();
    config.settings.max_message = 100;
    config.settings.max_meta = 20;
    let mut server = server_with(config);
    let long_meta = [&b"\x02\x13"[..], &[b'x'; 19]].concat();
    let mut with_long_meta = named(id(4, 1), 0, &long_meta);
    with_long_meta[5] = END | NOMSG;
    for (name, stream, input) in [
        ("one frame", id(0, 1), request(END, id(0, 1), 0, &[0; 101])),
        ("announced", id(1, 1), request(MORE, id(1, 1), 101, &[0; 10])),
        (
            "by its fragments",
            id(2, 1),
            [request(MORE, id(2, 1), 0, &[0; 60]), frame(DATA, MORE, id(2, 1), 0, &[0; 60])]
                .concat(),
        ),
        ("metadata", id(4, 1), with_long_meta),
    ] {
        assert_eq!(feed(&mut server, &input), Ok(vec![]), "{name}");
        let output = frames(&drain(|out| server.transmit(usize::MAX, out)));
        let [(header, _)] = &output[..] else { panic!("{name}: {output:?}") };
        let answer = (header.kind, header.stream.raw(), header.aux);
        assert_eq!(answer, (FrameKind::Response, stream, 8), "{name}");
        assert_eq!((server.in_flight(), server.incomplete_len()), (0, 0), "{name}");
    }
}

/// The buffer of a message that did not announce its length grows by doubling, and not beyond what the message may
/// have.
#[test]
fn a_message_of_the_largest_size_need_not_be_announced() {
    const MAX: usize = 64 << 20;
    const PIECE: usize = 65_536;
    let mut config = Config::default();
    config.settings.max_message = MAX as u32;
    for (last, is_taken) in [(PIECE, true), (PIECE + 1, false)] {
        let mut server = server_with(config.clone());
        let piece = vec![0; PIECE];
        let mut feed_next = |input: &[u8]| {
            let told = feed(&mut server, input).expect("within its credit");
            (told, frames(&drain(|out| server.transmit(usize::MAX, out))))
        };
        feed_next(&request(MORE, FIRST, 0, &piece));
        for _ in 0..MAX / PIECE - 2 {
            feed_next(&frame(DATA, MORE, FIRST, 0, &piece));
        }
        feed_next(&frame(DATA, MORE, FIRST, 0, &piece[..PIECE - 1]));
        let (told, output) = feed_next(&frame(DATA, END, FIRST, 0, &piece[..last + 1 - PIECE]));
        let refusal = output.iter().find(|(header, _)| header.kind == FrameKind::Response);
        assert_eq!((told.len(), refusal.is_none()), (usize::from(is_taken), is_taken));
        if let Some((_, body)) = refusal {
            let text = String::from_utf8_lossy(body);
            assert!(text.contains("longer than the server takes"), "{text}");
        }
    }
}

#[test]
fn bytes_beyond_the_credit() {
    let full = vec![0; 65_536];
    let data = || frame(DATA, 0, FIRST, 0, &full);
    // The message in front returns its credit at once, and those behind it do not.
    let input = [request(OPEN, FIRST, 0, &full), data(), data()];
    ends("a third window", GoAwayCode::FlowControl, &input);
    let mut input = vec![request(OPEN, FIRST, 0, &[])];
    let empty = frame(DATA, 0, FIRST, 0, &[]).repeat(2 * 65_536 / 16);
    input.push(empty);
    ends("messages of no bytes", GoAwayCode::FlowControl, &input);
}

#[test]
fn floods() {
    let limit = GoAwayCode::TooManyResets;
    ends("pings", limit, &[frame(PING, 0, 0, 0, &[]).repeat(256), frame(PING, 0, 0, 0, &[])]);
    let settings = frame(SETTINGS, 0, 0, 0, &[]);
    // The first was the greeting.
    ends("settings", limit, &[settings.repeat(15), settings]);

    // Each of these frames has no effect, and nobody asked for it.
    let many = 16_384;
    let open = || request(OPEN, FIRST, 0, b"x");
    for (name, begin, bytes) in [
        ("goaways", vec![], frame(GO_AWAY, 0, 0, 0, &[0; 8])),
        ("unknown frames", vec![], frame(0x81, 0, 0, 0, &[])),
        ("answers to no ping", vec![], frame(PING, ACK, 0, 1, &[])),
        ("credit", open(), frame(CREDIT, 0, FIRST, 1, &[])),
        ("empty data", open(), frame(DATA, NOMSG, FIRST, 0, &[])),
        (
            "resets of what has ended",
            [open(), frame(RST, 0, FIRST, 1, &[])].concat(),
            frame(RST, 0, FIRST, 1, &[]),
        ),
    ] {
        let mut server = server();
        feed(&mut server, &begin).expect(name);
        feed(&mut server, &bytes.repeat(many)).expect(name);
        let violation = feed(&mut server, &bytes).expect_err(name);
        assert_eq!(violation.code(), limit, "{name}: {violation}");
    }
}

#[test]
fn refusals_that_nobody_reads() {
    let mut server = server();
    server.lease(0);
    let mut stream = ringway_wire::native::StreamId::from_raw(FIRST);
    for sent in 1.. {
        let answer = feed(&mut server, &request(END, stream.raw(), 0, b"x"));
        if let Err(violation) = answer {
            assert_eq!(violation.code(), GoAwayCode::TooManyResets);
            assert_eq!(sent, 16_385);
            break;
        }
        assert!(server.output_len() < 1 << 20, "a megabyte at most");
        stream = stream.next();
    }
}

#[test]
fn incomplete_messages_are_bounded_together() {
    const MAX: usize = 64 << 20;
    /// The largest memory of each stream itself.
    const STREAM: usize = 600;
    let mut server = server();
    let piece = vec![0; 65_536];
    let mut refused = 0;
    for slot in 0..1_024 {
        feed(&mut server, &request(MORE, id(slot, 1), 2 << 20, &piece)).expect("within its credit");
        feed(&mut server, &frame(DATA, MORE, id(slot, 1), 0, &piece)).expect("credit came back");
        assert!(server.incomplete_len() <= MAX + 512 * STREAM);
        drain(|out| server.transmit(usize::MAX, out));
        refused = slot as usize + 1 - server.in_flight();
    }
    assert!(server.incomplete_len() > MAX);
    assert_eq!(refused, 512);
    // Requests that were not refused can still be given up, which frees their memory.
    for slot in 0..1_024 {
        feed(&mut server, &frame(RST, 0, id(slot, 1), 1, &[])).expect("in order");
    }
    assert_eq!((server.incomplete_len(), server.in_flight()), (0, 0));
}

#[test]
fn a_frame_that_never_comes_is_bounded() {
    let mut server = server();
    feed(&mut server, &frame(SETTINGS, ACK, 0, 0, &[])).expect("it knows the larger window");
    let bytes = request(END, FIRST, 0, &vec![0; 262_144]);
    let (last, front) = bytes.split_last().expect("not empty");
    for chunk in front.chunks(1_000) {
        assert_eq!(feed(&mut server, chunk), Ok(vec![]));
    }
    let kept = server.incomplete_len();
    assert!((front.len()..=bytes.len()).contains(&kept), "{kept} bytes");
    let events = feed(&mut server, &[*last]).expect("in order");
    assert!(matches!(&events[..], [Asked::Request { message: Some(message), .. }]
        if message.len() == 262_144));
    assert_eq!(server.incomplete_len(), 0);
}

#[test]
fn names_are_learnt_of_calls_that_are_refused() {
    let mut server = server();
    server.lease(0);
    let meta = b"\x01\x05a.B/C";
    let asked = feed(&mut server, &named(FIRST, 9, meta)).expect("in order");
    assert_eq!(asked, [Asked::Named(9, meta.to_vec())]);
    let output = frames(&drain(|out| server.transmit(usize::MAX, out)));
    let kinds: Vec<_> = output.iter().map(|(header, _)| (header.kind, header.aux)).collect();
    assert_eq!(kinds, [(FrameKind::Lease, 0), (FrameKind::Response, 14)]);
    assert_eq!(output[1].1, b"\x06\0", "refused");
}

#[test]
fn servers_that_break_the_protocol() {
    let (unary, stream) = (id(0, 1), id(1, 1));
    let protocol = GoAwayCode::Protocol;
    for (name, code, input) in [
        ("a request", protocol, request(END, id(5, 1), 0, &[])),
        ("a reset", protocol, frame(RST, 0, stream, 1, &[])),
        ("a response to nothing", protocol, frame(RESPONSE, END | NOMSG, id(5, 1), 0, &[])),
        ("a response of the next generation", protocol, frame(RESPONSE, END, id(0, 2), 0, &[])),
        ("a response that goes on", protocol, frame(RESPONSE, END | MORE, unary, 0, b"x")),
        ("a response without an end", protocol, frame(RESPONSE, NOMSG, unary, 0, &[])),
        ("compression", protocol, frame(RESPONSE, END | COMPRESSED, unary, 0, b"x")),
        ("an attachment of nothing", protocol, frame(RESPONSE, END | NOMSG | RAW, unary, 0, b"")),
        ("data of nothing", protocol, frame(DATA, 0, id(7, 1), 0, b"x")),
        ("the server's own stream", protocol, frame(DATA, 0, stream | 1 << 31, 0, b"x")),
        (
            "data after the end",
            protocol,
            [frame(DATA, END, stream, 0, b"x"), frame(DATA, 0, stream, 0, b"x")].concat(),
        ),
        ("an end after the end", protocol, frame(DATA, END | NOMSG, stream, 0, &[]).repeat(2)),
        (
            "a last message after the end",
            protocol,
            [frame(DATA, END, stream, 0, b"x"), frame(RESPONSE, END, stream, 0, b"x")].concat(),
        ),
        (
            "an empty frame within a message",
            protocol,
            [frame(DATA, MORE, stream, 0, b"x"), frame(DATA, NOMSG, stream, 0, &[])].concat(),
        ),
        (
            "less than announced",
            protocol,
            [frame(DATA, MORE, stream, 9, b"x"), frame(DATA, 0, stream, 0, b"y")].concat(),
        ),
        ("an ACK too many", protocol, frame(SETTINGS, ACK, 0, 0, &[]).repeat(2)),
        (
            "a reply beyond the credit",
            GoAwayCode::FlowControl,
            frame(RESPONSE, END, unary, 0, &vec![0; 65_537]),
        ),
        (
            "messages beyond the credit",
            GoAwayCode::FlowControl,
            frame(DATA, 0, stream, 0, &vec![0; 65_536]).repeat(3),
        ),
        (
            "credit beyond its bound",
            GoAwayCode::FlowControl,
            frame(CREDIT, 0, stream, i32::MAX as u32, &[]),
        ),
        ("pings", GoAwayCode::TooManyResets, frame(PING, 0, 0, 0, &[]).repeat(257)),
        ("leases", GoAwayCode::TooManyResets, frame(LEASE, 0, 0, 9, &[]).repeat(17_000)),
        ("goaways", GoAwayCode::TooManyResets, frame(GO_AWAY, 0, 0, 0, &[0; 8]).repeat(17_000)),
        ("credit", GoAwayCode::TooManyResets, frame(CREDIT, 0, stream, 1, &[]).repeat(17_000)),
        (
            "empty data",
            GoAwayCode::TooManyResets,
            frame(DATA, NOMSG, stream, 0, &[]).repeat(17_000),
        ),
    ] {
        let mut client = client();
        let violation = hear(&mut client, &input).expect_err(name);
        assert_eq!(violation.code(), code, "{name}: {violation}");
        let output = drain(|out| client.transmit(usize::MAX, out));
        assert_eq!(go_away_code(&output), Some(code.code()), "{name}");
        assert_eq!(hear(&mut client, &[]), Err(violation), "{name}");
    }
}

#[test]
fn metadata_is_initial_on_the_first_data_only() {
    let stream = id(1, 1);
    let data = |flags, meta: &[u8], payload: &[u8]| {
        with_meta(DATA, flags, stream, 0, meta.len() as u16, &[meta, payload].concat())
    };
    let meta = b"\x00\x02\x01k";
    let initial = Told::Initial(ringway_wire::native::StreamId::from_raw(stream), meta.to_vec());
    for (name, first, has_initial) in [
        ("with a message", data(0, meta, b"1"), true),
        ("alone", data(NOMSG, meta, b""), true),
        ("with a fragment", [data(MORE, meta, b"1"), data(0, b"", b"1")].concat(), true),
        ("behind a message", [data(0, b"", b"1"), data(0, meta, b"2")].concat(), false),
        (
            "behind a message that was looked at",
            [data(CRC, b"", b"1\0\0\0\0"), data(0, meta, b"2")].concat(),
            false,
        ),
        ("behind an empty frame", [data(NOMSG, b"", b""), data(0, meta, b"2")].concat(), false),
        ("on a later fragment", [data(MORE, b"", b"1"), data(0, meta, b"2")].concat(), false),
    ] {
        let mut first = first;
        if first[5] & CRC != 0 {
            let sum = ringway_wire::native::checksum(&[&first[..17]]);
            first[17..21].copy_from_slice(&sum.to_le_bytes());
        }
        let mut client = client();
        let told = hear(&mut client, &first).expect(name);
        assert_eq!(told.contains(&initial), has_initial, "{name}: {told:?}");
        let more = hear(&mut client, &data(0, meta, b"3")).expect(name);
        assert!(matches!(&more[..], [Told::Message(..)]), "{name}: {more:?}");
    }
}

#[test]
fn initial_metadata_of_an_unknown_kind_ends_its_call_only() {
    let mut client = client();
    for (meta, expected) in [(b"\xf0\x01x", None), (b"\x20\x01x", Some(12))] {
        let data = with_meta(DATA, 0, id(1, 1), 0, 3, &[&meta[..], b"message"].concat());
        let told = hear(&mut client, &data).expect("in order");
        let ended = told.iter().find_map(|told| match told {
            Told::Response { status, .. } => Some(*status),
            _ => None,
        });
        assert_eq!(ended, expected, "{told:?}");
        if expected.is_none() {
            client = self::client();
        }
    }
    let output = frames(&drain(|out| client.transmit(usize::MAX, out)));
    let resets = output.iter().filter(|(header, _)| header.kind == FrameKind::Rst);
    assert_eq!(resets.map(|(header, _)| header.aux).collect::<Vec<_>>(), [12]);
    assert_eq!(client.in_flight(), 2, "one that runs, and one that is given up");
}

#[test]
fn a_reply_that_is_too_long_is_given_up() {
    let mut config = Config::default();
    (config.settings.max_message, config.settings.max_meta) = (100, 20);
    let long_meta = [&b"\x00\x16\x01k"[..], &[b'v'; 20]].concat();
    let with_long_meta = |kind, flags| with_meta(kind, flags, FIRST, 0, 24, &long_meta);
    for (name, input, is_reset) in [
        ("a message of a stream", frame(DATA, 0, FIRST, 0, &[0; 101]), true),
        ("an announced one", frame(DATA, MORE, FIRST, 101, &[0; 10]), true),
        ("a reply", frame(RESPONSE, END, FIRST, 0, &[0; 101]), false),
        ("initial metadata", with_long_meta(DATA, NOMSG), true),
        ("trailers", with_long_meta(RESPONSE, END | NOMSG), false),
    ] {
        let mut client = Client::new(config.clone(), NOW);
        hear(&mut client, &greeting()).expect("in order");
        client.open(Open::default()).expect("room");
        drain(|out| client.transmit(usize::MAX, out));
        let told = hear(&mut client, &input).expect(name);
        assert!(matches!(told[..], [Told::Response { status: 8, .. }]), "{name}: {told:?}");
        let output = frames(&drain(|out| client.transmit(usize::MAX, out)));
        let reset = output.iter().any(|(header, _)| header.kind == FrameKind::Rst);
        assert_eq!((reset, client.in_flight()), (is_reset, usize::from(is_reset)), "{name}");
    }
}

#[test]
fn a_second_response_is_too_late_to_matter() {
    let mut client = client();
    let response = frame(RESPONSE, END, id(0, 1), 99, b"reply");
    let told = hear(&mut client, &response).expect("in order");
    assert!(matches!(told[..], [Told::Response { status: 2, .. }]), "99 reads as UNKNOWN");
    assert_eq!(hear(&mut client, &response), Ok(vec![]));
    assert_eq!(client.in_flight(), 1);
}
