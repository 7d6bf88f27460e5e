//! Violations by a peer: each ends its stream or its connection with the right code, and nothing else.

use ringway_wire::http2::{
    Connection, ErrorCode, Http2Config, NewRequest, Role, Serving, Violation,
};

use crate::support::http2::*;

/// The outcome of input.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    error: Option<Violation>,
    /// The resets and GOAWAYs sent.
    ends: Vec<(u32, ErrorCode)>,
    events: Vec<String>,
}

fn feed<R: Role>(machine: &mut Connection<R>, wire: &[u8], step: usize) -> Outcome {
    let mut outcome = Outcome { error: None, ends: Vec::new(), events: Vec::new() };
    'wire: for mut piece in wire.chunks(step) {
        loop {
            match machine.receive(&mut piece, NOW) {
                Ok(Some(event)) => outcome.events.push(told(&event)),
                Ok(None) => break,
                Err(violation) => {
                    outcome.error = Some(violation);
                    break 'wire;
                }
            }
        }
    }
    outcome.ends = ends(&output(machine, usize::MAX));
    outcome
}

/// Feeds a server after the greeting, once with all input and once byte by byte.
fn served(frames: &[Vec<u8>]) -> Outcome {
    let greeting = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    let run = |step| {
        let mut server = server();
        assert_eq!(feed(&mut server, &greeting, step).error, None);
        feed(&mut server, &frames.concat(), step)
    };
    let (whole, bytes) = (run(usize::MAX), run(1));
    assert_eq!((&whole.error, &whole.ends), (&bytes.error, &bytes.ends));
    whole
}

/// Feeds a client with the open streams 1 and 3; it is still sending on 3.
fn heard(frames: &[Vec<u8>]) -> Outcome {
    let wire = [frame(SETTINGS, 0, 0, &[]), frames.concat()].concat();
    let run = |step| {
        let mut client = client();
        for end in [true, false] {
            client.open(NewRequest { head: REQUEST, end, ..NewRequest::default() }).expect("room");
        }
        feed(&mut client, &wire, step)
    };
    let (whole, bytes) = (run(usize::MAX), run(1));
    assert_eq!((&whole.error, &whole.ends), (&bytes.error, &bytes.ends));
    whole
}

/// The connection ended with this code.
fn fatal(outcome: Outcome, violation: Violation) {
    assert_eq!(outcome.error, Some(violation), "{outcome:?}");
    assert_eq!(outcome.ends.last(), Some(&(0, violation.code())), "{outcome:?}");
}

/// The stream ended with this code, and the connection lives.
fn stream_ends(outcome: Outcome, stream: u32, code: ErrorCode) {
    assert_eq!(outcome.error, None, "{outcome:?}");
    assert_eq!(outcome.ends, [(stream, code)], "{outcome:?}");
}

fn headers(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block(fields))
}

#[test]
fn what_is_not_http2_is_told_nothing() {
    for input in [&b"GET / HTTP/1.1\r\n"[..], b"PRI * HTTP/2.1", b"\x16\x03"] {
        let outcome = feed(&mut server(), input, 3);
        assert_eq!((outcome.error, outcome.ends), (Some(Violation::NotHttp2), vec![]));
    }
    let outcome = feed(&mut server(), &[PREFACE, &frame(PING, 0, 0, &[0; 8])].concat(), 5);
    fatal(outcome, Violation::NoSettings);
    let outcome = feed(&mut client(), &frame(SETTINGS, ACK, 0, &[]), 5);
    fatal(outcome, Violation::NoSettings);
}

/// One byte more than the largest frame accepted by default.
const FRAME_TOO_LONG: usize = (65 << 10) + 1;

#[test]
fn frames_that_make_no_sense() {
    use Violation::*;
    for (wire, violation) in [
        (frame(DATA, 0, 1, &[0; FRAME_TOO_LONG]), FrameTooLong),
        (frame(99, 0, 1, &[0; FRAME_TOO_LONG]), FrameTooLong),
        (frame(DATA, 0, 0, &[]), NeedsStream),
        (frame(HEADERS, END_HEADERS, 0, &[]), NeedsStream),
        (frame(PRIORITY, 0, 1, &[0; 4]), WrongLength),
        (frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 0]), SelfDependency),
        (frame(RST_STREAM, 0, 1, &[0; 3]), WrongLength),
        (frame(RST_STREAM, 0, 0, &[0; 4]), NeedsStream),
        (frame(RST_STREAM, 0, 1, &[0; 4]), IdleStream),
        (frame(SETTINGS, 0, 0, &[0; 5]), WrongLength),
        (frame(SETTINGS, 0, 1, &[]), NeedsConnection),
        (frame(SETTINGS, ACK, 0, &[0; 6]), WrongLength),
        (frame(SETTINGS, 0, 0, &setting(2, 2)), WrongPushSetting),
        (frame(SETTINGS, 0, 0, &setting(4, 1 << 31)), WindowSettingTooLarge),
        (frame(SETTINGS, 0, 0, &setting(5, 1)), WrongFrameSizeSetting),
        (frame(PUSH_PROMISE, END_HEADERS, 1, &[0; 4]), Pushed),
        (frame(PING, 0, 0, &[0; 7]), WrongLength),
        (frame(PING, 0, 1, &[0; 8]), NeedsConnection),
        (frame(GOAWAY, 0, 0, &[0; 7]), WrongLength),
        (frame(WINDOW_UPDATE, 0, 0, &[0; 3]), WrongLength),
        (frame(WINDOW_UPDATE, 0, 0, &[0; 4]), ZeroIncrement),
        (frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]), WindowOverflow),
        (frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]), IdleStream),
        (frame(WINDOW_UPDATE, 0, 2, &[0, 0, 0, 1]), IdleStream),
        (frame(DATA, END_STREAM, 1, b"x"), IdleStream),
        (frame(CONTINUATION, END_HEADERS, 1, &[]), NothingToContinue),
        (frame(HEADERS, END_HEADERS, 1, &[0x80]), NoSuchIndex),
        (frame(HEADERS, END_HEADERS | PADDED, 1, &[9, 0]), PaddingTooLong),
        (request(2, END_STREAM), WrongParity),
    ] {
        fatal(served(&[wire]), violation);
    }
}

#[test]
fn frames_of_the_largest_size_are_taken_whatever_they_are() {
    let largest = [0; FRAME_TOO_LONG - 1];
    let settings = &largest[..largest.len() / 6 * 6]; // of an unknown setting
    for other in [
        frame(99, 0, 0, &largest),
        frame(99, 0, 1, &largest),
        frame(99, 0xff, 7, &largest[..(64 << 10) + 1]),
        frame(GOAWAY, 0, 0, &largest),
        frame(SETTINGS, 0, 0, settings),
    ] {
        let outcome = served(&[other, request(1, END_STREAM)]);
        assert_eq!((outcome.error, outcome.ends), (None, vec![]));
        assert_eq!(outcome.events.last().map(String::as_str), Some("head 1 \"\" true"));
    }
}

#[test]
fn frames_of_unknown_types_are_not_kept() {
    let config = Http2Config { max_frame: 1 << 20, ..Http2Config::default() };
    let mut server = Connection::<Serving>::new(config, vocabulary(), NOW);
    let wire = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(99, 0, 0, &[0; 1 << 20])].concat();
    for mut piece in wire.chunks(1_000) {
        assert!(server.receive(&mut piece, NOW).expect("well-formed").is_none());
        assert!(server.incomplete_len() < 1_000);
    }
    for kind in [SETTINGS, GOAWAY, PRIORITY] {
        let config = Http2Config { max_frame: 1 << 20, ..Http2Config::default() };
        let mut server = Connection::<Serving>::new(config, vocabulary(), NOW);
        let long = frame(kind, 0, u32::from(kind == PRIORITY), &[0; 6 * 20_000]);
        let wire = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &long].concat();
        assert_eq!(feed(&mut server, &wire, 1_000).error, Some(Violation::FrameTooLong));
    }
}

#[test]
fn blocks_that_are_interrupted_or_never_end() {
    let open = frame(HEADERS, 0, 1, &[]);
    for other in [
        frame(DATA, 0, 1, &[]),
        frame(PING, 0, 0, &[0; 8]),
        frame(99, 0, 0, &[]),
        frame(CONTINUATION, END_HEADERS, 3, &[]),
        request(1, 0),
    ] {
        fatal(served(&[open.clone(), other]), Violation::NotContinued);
    }
    let empty = frame(CONTINUATION, 0, 1, &[]);
    fatal(served(&[vec![open.clone()], vec![empty; 64]].concat()), Violation::BlockTooLong);
    let full = frame(CONTINUATION, 0, 1, &[0; 16_384]);
    fatal(served(&[vec![open], vec![full; 5]].concat()), Violation::BlockTooLong);
    let mut server = server();
    feed(
        &mut server,
        &[PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(HEADERS, 0, 1, &[])].concat(),
        99,
    );
    let until = server.poll_timeout().expect("a deadline");
    assert_eq!(until, std::time::Duration::from_secs(10));
    assert_eq!(server.handle_timeout(until), Err(Violation::BlockTimeout));
}

#[test]
fn requests_that_are_malformed_end_their_streams_only() {
    let with = |more: &[(&'static str, &'static str)]| [GOOD, more].concat();
    for fields in [
        vec![],
        vec![(":method", "POST"), (":scheme", "http")],
        vec![(":method", "POST"), (":path", "/a.B/C")],
        vec![(":scheme", "http"), (":path", "/a.B/C")],
        vec![(":method", "POST"), (":scheme", "http"), (":path", "")],
        vec![("x", "y"), (":method", "POST"), (":scheme", "http"), (":path", "/")],
        with(&[(":method", "POST")]),
        with(&[(":status", "200")]),
        with(&[(":unknown", "x")]),
        with(&[("Upper", "x")]),
        with(&[("a b", "x")]),
        with(&[("", "x")]),
        with(&[("x", "a\nb")]),
        with(&[("te", " trailers")]),
        with(&[("content-length", "0 ")]),
        with(&[("connection", "close")]),
        with(&[("keep-alive", "1")]),
        with(&[("proxy-connection", "x")]),
        with(&[("transfer-encoding", "chunked")]),
        with(&[("upgrade", "h2c")]),
        with(&[("te", "gzip")]),
        with(&[("content-length", "x")]),
        with(&[("content-length", "1")]),
        with(&[("content-length", "1"), ("content-length", "0")]),
    ] {
        let outcome = served(&[headers(1, &fields), request(3, END_STREAM)]);
        assert_eq!(outcome.events, ["head 3 \"\" true"], "{fields:?}");
        stream_ends(outcome, 1, ErrorCode::PROTOCOL_ERROR);
    }
    let good = with(&[("te", "trailers"), ("content-length", "0"), (":x", "")][..2]);
    assert_eq!(served(&[headers(1, &good)]).ends, []);
    let twice = with(&[("content-length", "0"), ("content-length", "0")]);
    assert_eq!(served(&[headers(1, &twice)]).ends, []);
}

#[test]
fn content_must_have_the_length_that_was_said() {
    let said = |len: &'static str| {
        frame(HEADERS, END_HEADERS, 1, &block(&[GOOD, &[("content-length", len)]].concat()))
    };
    let data = |flags, data: &[u8]| frame(DATA, flags, 1, data);
    let trailers = headers(1, &[("x", "y")]);
    let fine = served(&[said("4"), data(0, b"ab"), data(END_STREAM, b"cd")]);
    assert_eq!((fine.error, fine.ends), (None, vec![]));
    for frames in [
        vec![said("4"), data(END_STREAM, b"abc")],
        vec![said("4"), data(0, b"abcde")],
        vec![said("4"), data(0, b"ab"), data(END_STREAM, b"")],
        vec![said("4"), data(0, b"ab"), trailers.clone()],
    ] {
        stream_ends(served(&frames), 1, ErrorCode::PROTOCOL_ERROR);
    }
}

#[test]
fn trailers_that_are_none() {
    for second in [
        frame(HEADERS, END_HEADERS, 1, &block(&[("x", "y")])),
        headers(1, &[(":status", "200")]),
        headers(1, &[("X", "y")]),
    ] {
        let outcome = served(&[request(1, 0), second]);
        assert_eq!(outcome.events[1..], ["failed 1 PROTOCOL_ERROR"]);
        stream_ends(outcome, 1, ErrorCode::PROTOCOL_ERROR);
    }
}

#[test]
fn streams_that_the_peer_has_ended() {
    // Half-closed: the request has ended and its reply has not.
    let ended = request(1, END_STREAM);
    for frames in [vec![frame(DATA, 0, 1, b"x")], vec![request(1, END_STREAM)]] {
        let outcome = served(&[vec![ended.clone()], frames].concat());
        assert_eq!(outcome.events[1..], ["failed 1 STREAM_CLOSED"]);
        stream_ends(outcome, 1, ErrorCode::STREAM_CLOSED);
    }
    let reset = frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]);
    let closed = [ended, reset];
    for frames in [vec![frame(DATA, 0, 1, b"x")], vec![request(1, END_STREAM)]] {
        fatal(served(&[closed.to_vec(), frames].concat()), Violation::StreamClosed);
    }
    // These may have been sent before the peer knew.
    for late in [
        frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]),
        frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]),
        frame(PRIORITY, 0, 1, &[0; 5]),
    ] {
        let outcome = served(&[closed.to_vec(), vec![late]].concat());
        assert_eq!((outcome.error, outcome.ends), (None, vec![]));
    }
    fatal(served(&[request(5, END_STREAM), request(3, END_STREAM)]), Violation::StreamIdWentBack);
}

#[test]
fn a_priority_of_a_wrong_length_ends_its_stream_only() {
    let wrong = |stream| frame(PRIORITY, 0, stream, &[0; 4]);
    let outcome = served(&[request(1, 0), wrong(1), request(3, 0)]);
    assert_eq!(outcome.events[1..], ["failed 1 FRAME_SIZE_ERROR", "head 3 \"\" false"]);
    stream_ends(outcome, 1, ErrorCode::FRAME_SIZE_ERROR);
    let over = [request(1, 0), frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]), wrong(1)];
    stream_ends(served(&over), 1, ErrorCode::FRAME_SIZE_ERROR);
    // An unopened stream cannot be reset.
    fatal(served(&[wrong(1)]), Violation::WrongLength);
}

#[test]
fn frames_of_streams_that_we_reset_are_borne() {
    let wrong = headers(1, &[]);
    let late = [
        frame(DATA, 0, 1, b"late"),
        frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]),
        headers(1, &[("x", "y")]),
        frame(RST_STREAM, 0, 1, &[0; 4]),
    ];
    stream_ends(served(&[vec![wrong], late.to_vec()].concat()), 1, ErrorCode::PROTOCOL_ERROR);
}

#[test]
fn more_data_than_the_window() {
    let mut frames = vec![request(1, 0)];
    frames.extend(vec![frame(DATA, 0, 1, &[0; 16_384]); 64]);
    assert_eq!(served(&frames).error, None, "1 MiB");
    frames.push(frame(DATA, 0, 1, b"x"));
    fatal(served(&frames), Violation::WindowExceeded);
}

#[test]
fn padding_counts_and_is_given_back() {
    let mut server = server();
    feed(&mut server, &[PREFACE, &frame(SETTINGS, 0, 0, &[]), &request(1, 0)].concat(), 99);
    output(&mut server, usize::MAX);
    let padded = [&[255][..], b"x", &[0; 255]].concat();
    for _ in 0..20_000 {
        let outcome = feed(&mut server, &frame(DATA, PADDED, 1, &padded), 100);
        assert_eq!((outcome.error, outcome.events), (None, vec!["data 1 \"x\" false".to_owned()]));
    }
    let end = frame(DATA, PADDED | END_STREAM, 1, &[2, 0, 0]);
    assert_eq!(feed(&mut server, &end, 1).events, ["data 1 \"\" true"]);
    fatal(served(&[request(1, 0), frame(DATA, PADDED, 1, &[1])]), Violation::PaddingTooLong);
    fatal(served(&[request(1, 0), frame(DATA, PADDED, 1, &[])]), Violation::WrongLength);
}

#[test]
fn windows_of_streams_that_cannot_be_counted() {
    let update = |increment: u32| frame(WINDOW_UPDATE, 0, 1, &increment.to_be_bytes());
    let most = i32::MAX as u32;
    stream_ends(served(&[request(1, 0), update(0)]), 1, ErrorCode::PROTOCOL_ERROR);
    stream_ends(served(&[request(1, 0), update(most)]), 1, ErrorCode::FLOW_CONTROL_ERROR);
    let setting = frame(SETTINGS, 0, 0, &setting(4, most));
    fatal(served(&[request(1, 0), update(100_000), setting]), Violation::WindowOverflow);
}

#[test]
fn streams_beyond_the_limit_are_refused() {
    let mut frames: Vec<_> = (0..1_024).map(|at| request(2 * at + 1, 0)).collect();
    frames.push(request(2_049, END_STREAM));
    stream_ends(served(&frames), 2_049, ErrorCode::REFUSED_STREAM);
}

#[test]
fn responses_that_are_malformed() {
    let response =
        |flags, fields: &[(&str, &str)]| frame(HEADERS, flags | END_HEADERS, 3, &block(fields));
    for frames in [
        vec![response(0, &[])],
        vec![response(0, &[("x", "y")])],
        vec![response(0, &[(":status", "20")])],
        vec![response(0, &[(":status", "200"), (":path", "/")])],
        vec![response(END_STREAM, &[(":status", "100")])],
        vec![frame(DATA, 0, 3, b"x")],
        vec![response(0, &[(":status", "200")]), response(0, &[("x", "y")])],
        vec![response(0, &[(":status", "200"), ("content-length", "1")]), frame(DATA, 1, 3, b"xy")],
    ] {
        let outcome = heard(&frames);
        assert!(outcome.events.contains(&"failed 3 PROTOCOL_ERROR".to_owned()), "{outcome:?}");
        stream_ends(outcome, 3, ErrorCode::PROTOCOL_ERROR);
    }
}

#[test]
fn what_a_server_may_not_do() {
    use Violation::*;
    for (wire, violation) in [
        (frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2]), Pushed),
        (frame(SETTINGS, 0, 0, &setting(2, 1)), WrongPushSetting),
        (frame(HEADERS, END_HEADERS, 5, &block(&[(":status", "200")])), IdleStream),
        (frame(HEADERS, END_HEADERS, 2, &block(&[(":status", "200")])), IdleStream),
        (frame(RST_STREAM, 0, 5, &[0; 4]), IdleStream),
    ] {
        fatal(heard(&[wire]), violation);
    }
    // Both sides have ended stream 1.
    let end = frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[(":status", "200")]));
    fatal(heard(&[end, frame(DATA, 0, 1, b"x")]), StreamClosed);
}
