//! The memory that a peer can make a server hold is counted, bounded, and freed in time.

use std::time::Duration;

use ringway_wire::native::{
    Body, Config, FrameKind, MetaReader, Open, Reply, RequestHead, Server, Settings, Side,
    StreamId, Tag, Violation,
};

use crate::support::by_hand::feed_at;
use crate::support::pair::{Asked, Cut, Pair, drain, idle};
use crate::support::raw;
use crate::support::raw::{
    CREDIT, DATA, END, MORE, NOMSG, RST, SETTINGS, frame, frames, greeting, id, request, with_meta,
};

const NOW: Duration = Duration::ZERO;
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// The number of replies that a peer may cause without reading them.
const ANSWERS_MAX: u32 = 16 << 10;
/// The memory of a stream itself while one of its messages is incomplete.
const STREAM: usize = 600;
const STALL: Duration = Duration::from_secs(300);

const OK: u8 = 0;
const DEADLINE: u32 = 4;
const UNIMPLEMENTED: u32 = 12;

/// A server after the greeting: its output was sent, and its client's ACK has arrived.
fn server() -> Server {
    let mut server = Server::new(Config::default(), NOW);
    assert_eq!(feed_at(&mut server, &greeting(), NOW), Ok(vec![]));
    assert_eq!(feed_at(&mut server, &frame(SETTINGS, 0x80, 0, 0, &[]), NOW), Ok(vec![]));
    drain(|out| server.transmit(usize::MAX, out));
    server
}

/// Returns all bytes that the server holds.
fn held(server: &Server) -> usize {
    server.kept_len(Side::Unread) + server.kept_len(Side::Unsent)
}

/// Makes a REQUEST with a timeout in milliseconds and metadata.
fn timed(flags: u8, stream: u32, timeout_ms: u32, meta: &[u8], payload: &[u8]) -> Vec<u8> {
    let head = RequestHead { timeout_us: timeout_ms * 1_000, ..RequestHead::default() };
    let body = [&head.encode(), meta, payload].concat();
    with_meta(raw::REQUEST, flags, stream, 0, meta.len() as u16, &body)
}

/// Returns the server's RESPONSEs, each as slot, status and text.
fn responses(server: &mut Server) -> Vec<(u32, u32, String)> {
    let output = frames(&drain(|out| server.transmit(usize::MAX, out)));
    let ends = output.into_iter().filter(|(header, _)| header.kind == FrameKind::Response);
    let parts = ends.map(|(header, body)| {
        let meta = &body[..usize::from(header.meta_len)];
        let pieces = MetaReader::new(meta).map(|piece| piece.expect("well-formed"));
        let text = pieces.into_iter().find(|(tag, _)| *tag == Tag::StatusMessage);
        let text = text.map_or("", |(_, text)| str::from_utf8(text).expect("text"));
        (header.stream.slot(), header.aux, text.to_owned())
    });
    parts.collect()
}

/// Fires all timers due until `end`. Returns the times at which one fired.
fn run(server: &mut Server, end: Duration) -> Vec<Duration> {
    let mut times = Vec::new();
    while let Some(at) = server.poll_timeout().filter(|&at| at <= end) {
        server.handle_timeout(at).expect("nobody is gone");
        // The peer shows that it is alive.
        feed_at(server, &frame(raw::PING, 0x80, 0, 0, &[]), at).expect("in order");
        times.push(at);
        assert!(times.len() < 1_000, "no progress at {at:?}");
    }
    times
}

/// Makes a metadata entry that takes `len` bytes in all.
fn entry(len: usize) -> Vec<u8> {
    let mut meta = vec![0, 0, 0, 0, 1, b'k'];
    let value = len - meta.len();
    (meta[1], meta[2], meta[3]) = (
        ((value + 2) & 0x7f) as u8 | 0x80,
        ((value + 2) >> 7 & 0x7f) as u8 | 0x80,
        ((value + 2) >> 14) as u8,
    );
    meta.resize(len, b'v');
    meta
}

#[test]
fn what_is_not_whole_is_counted_by_its_memory() {
    let mut server = server();
    for slot in 0..1_000 {
        let request = request(MORE, id(slot, 1), 4 << 20, b"1");
        feed_at(&mut server, &request, NOW).expect("in order");
    }
    let kept = server.incomplete_len();
    assert!(kept <= 1_000 * (256 + STREAM), "{kept} bytes for 4 GiB that were announced");
    // The request has metadata; the client sends that much of it.
    let mut server = self::server();
    let meta = entry(16_000);
    feed_at(&mut server, &timed(MORE, id(0, 1), 0, &meta, b"1"), NOW).expect("in order");
    assert!((16_001..17_000).contains(&server.incomplete_len()));
    assert_eq!(held(&server), server.incomplete_len());
    assert_eq!(server.largest_len(Side::Unread), server.incomplete_len());
    assert!(server.end_largest(Side::Unread));
    assert_eq!(server.incomplete_len(), 0);
    assert_eq!(responses(&mut server)[0].1, 8);
}

#[test]
fn memory_of_a_message_follows_its_bytes() {
    for (step, announced) in [(1, 0), (1, 4 << 20), (100, 0), (1_000, 300_000), (65_536, 0)] {
        let mut server = server();
        let mut came = step;
        feed_at(&mut server, &request(MORE, id(0, 1), announced, &vec![7; step]), NOW)
            .expect("opens");
        while came + step < 300_000.min(step * 3_000) {
            feed_at(&mut server, &frame(DATA, MORE, id(0, 1), 0, &vec![7; step]), NOW)
                .expect("more");
            came += step;
            let kept = server.incomplete_len();
            // A message of the announced length never takes this much memory.
            let whole = if announced == 0 { usize::MAX } else { announced as usize };
            let most = 256.max(came * 2).min(whole);
            assert!(
                (came..=most + STREAM).contains(&kept),
                "{kept} bytes for {came} of {announced}"
            );
        }
    }
}

/// Messages of one length; together they have 60 MB, less than the bound of a connection.
#[test]
fn two_hundred_uploads_at_once_are_all_taken() {
    const LEN: usize = 300_000;
    const STEP: usize = 16_384;
    let mut config = Config::default();
    config.settings.initial_credit = 1 << 20;
    let mut server = Server::new(config, NOW);
    feed_at(&mut server, &greeting(), NOW).expect("in order");
    feed_at(&mut server, &frame(SETTINGS, 0x80, 0, 0, &[]), NOW).expect("in order");
    let piece = |at: usize| vec![7; STEP.min(LEN - at)];
    for slot in 0..200 {
        let first = request(MORE, id(slot, 1), LEN as u32, &piece(0));
        feed_at(&mut server, &first, NOW).expect("in order");
    }
    for at in (STEP..LEN).step_by(STEP) {
        let flags = if at + STEP < LEN { MORE } else { END };
        for slot in 0..200 {
            let next = frame(DATA, flags, id(slot, 1), 0, &piece(at));
            feed_at(&mut server, &next, NOW).expect("in order");
        }
    }
    assert_eq!(responses(&mut server), [], "none is refused");
}

#[test]
fn a_request_that_is_not_whole_has_its_time() {
    for (name, first) in [
        ("a fragment", timed(MORE, id(0, 1), 50, &[], b"1")),
        ("no message", timed(NOMSG, id(0, 1), 50, &entry(1_000), &[])),
        ("no end", timed(0, id(0, 1), 50, &[], b"whole")),
    ] {
        let mut server = server();
        let asked = feed_at(&mut server, &first, SECOND).expect("in order");
        give_back(&mut server, &asked);
        assert!(held(&server) > 0, "{name}");
        assert_eq!(server.poll_timeout(), Some(SECOND + 50 * MS), "{name}");
        server.handle_timeout(SECOND + 49 * MS).expect("early is harmless");
        assert_eq!(server.in_flight(), 1, "{name}");
        server.handle_timeout(SECOND + 50 * MS).expect("in order");
        let [(0, DEADLINE, text)] = &responses(&mut server)[..] else { panic!("{name}") };
        assert_eq!(text, "the request did not arrive completely in time", "{name}");
        assert_eq!((server.in_flight(), held(&server)), (0, 0), "{name}");
        let late = frame(DATA, END, id(0, 1), 0, b"late");
        assert_eq!(feed_at(&mut server, &late, 2 * SECOND), Ok(vec![]), "{name}");
    }
}

#[test]
fn the_time_of_a_call_counts_from_its_first_byte() {
    for (first, rest) in [
        (timed(MORE, id(0, 1), 50, &[], b"1"), frame(DATA, END, id(0, 1), 0, b"2")),
        (timed(0, id(0, 1), 50, &[], b"12"), frame(DATA, END | NOMSG, id(0, 1), 0, b"")),
    ] {
        for (after, left) in [(20, 30_000), (50, 1), (70, 1)] {
            let mut server = server();
            let asked = feed_at(&mut server, &first, SECOND).expect("in order");
            give_back(&mut server, &asked);
            let asked = feed_at(&mut server, &rest, SECOND + after * MS).expect("in order");
            let [Asked::Request { head, message: Some(message), end: true, .. }] = &asked[..]
            else {
                panic!("{asked:?}")
            };
            assert_eq!((head.timeout_us, &message[..]), (left, &b"12"[..]));
        }
    }
}

/// Gives a request back, to be delivered once it is complete.
fn give_back(server: &mut Server, asked: &[Asked]) {
    for asked in asked {
        if let Asked::Request { stream, head, meta, message, end: false } = asked {
            server.await_rest(*stream, *head, meta, message.as_deref());
        }
    }
}

#[test]
fn a_request_without_a_time_may_take_as_long_as_enough_comes() {
    let mut server = server();
    feed_at(&mut server, &timed(MORE, id(0, 1), 0, &[], b"1"), NOW).expect("in order");
    let mut now = NOW;
    for _ in 0..3 {
        now += STALL - SECOND;
        run(&mut server, now);
        let enough = frame(DATA, MORE, id(0, 1), 0, &[2; 3_000]);
        feed_at(&mut server, &enough, now).expect("in order");
    }
    assert_eq!(server.in_flight(), 1);
    run(&mut server, now + STALL - MS);
    assert_eq!(server.in_flight(), 1);
    run(&mut server, now + STALL);
    assert_eq!(server.in_flight(), 0);
}

/// For two hours, so many bytes of a request come just before it would be late. Whether it is late.
fn trickles(bytes: usize) -> bool {
    let mut server = server();
    feed_at(&mut server, &timed(MORE, id(0, 1), 0, &[], b"1"), NOW).expect("in order");
    for round in 1..25 {
        let now = (STALL - SECOND) * round;
        run(&mut server, now);
        let more = frame(DATA, MORE, id(0, 1), 0, &vec![2; bytes]);
        feed_at(&mut server, &more, now).expect("in order");
    }
    server.unserved().overdue > 0
}

#[test]
fn a_request_that_comes_byte_by_byte_is_late() {
    assert_eq!([1, 1_000, 4_096].map(trickles), [true, true, false]);
}

/// For two hours, a client gives so much credit for a reply just before that would be given up. Whether it is given up.
fn is_taken_by(bytes: u32) -> bool {
    let mut server = server();
    feed_at(&mut server, &timed(END, id(0, 1), 0, &[], b"x"), NOW).expect("in order");
    let message = Some(Body::Shared(vec![7; 4 << 20].into()));
    let call = StreamId::from_raw(id(0, 1));
    assert!(server.respond(call, Reply { status: OK, meta: &[], message }).is_some());
    for round in 0..25 {
        let now = (STALL - SECOND) * round;
        run(&mut server, now);
        let credit = frame(CREDIT, 0, id(0, 1), bytes, &[]);
        feed_at(&mut server, &credit, now).expect("in order");
        drain(|out| server.transmit(usize::MAX, out));
    }
    server.unserved().stalled > 0
}

#[test]
fn a_reply_that_is_taken_byte_by_byte_is_given_up() {
    assert_eq!([1, 1_000, 4_096].map(is_taken_by), [true, true, false]);
}

#[test]
fn a_reply_that_nobody_takes_has_the_time_of_its_call() {
    for timeout_ms in [700, 0] {
        let mut server = server();
        let call = StreamId::from_raw(id(0, 1));
        feed_at(&mut server, &timed(END, id(0, 1), timeout_ms, &[], b"x"), SECOND)
            .expect("in order");
        let message = Some(Body::Shared(vec![7; 4 << 20].into()));
        assert!(server.respond(call, Reply { status: OK, meta: &[], message }).is_some());
        drain(|out| server.transmit(usize::MAX, out));
        assert_eq!(held(&server), (4 << 20) - 65_536 + 16, "without credit it is kept");
        assert_eq!(server.buffered_len(), 0);
        let end = if timeout_ms == 0 { SECOND + STALL } else { SECOND + 700 * MS };
        run(&mut server, end - MS);
        assert_eq!(server.in_flight(), 1);
        let granted = frame(CREDIT, 0, id(0, 1), 100_000, &[]);
        feed_at(&mut server, &granted, end - MS).expect("in order");
        drain(|out| server.transmit(usize::MAX, out));
        run(&mut server, end);
        // Taking a message extends only the time of a call that has no deadline.
        assert_eq!(server.in_flight(), usize::from(timeout_ms == 0));
        run(&mut server, end + STALL);
        drain(|out| server.transmit(usize::MAX, out));
        assert_eq!((server.in_flight(), held(&server)), (0, 0));
        assert!(!server.has_events(), "its handler has ended before");
    }
}

#[test]
fn times_of_calls_that_have_ended_do_not_pile_up() {
    let mut server = server();
    let mut stream = StreamId::from_raw(id(0, 1));
    for turn in 0..4_000 {
        let now = Duration::from_millis(turn);
        feed_at(&mut server, &timed(MORE, stream.raw(), 1_000_000, &[], b"1"), now).expect("opens");
        feed_at(&mut server, &frame(RST, 0, stream.raw(), 1, &[]), now).expect("in order");
        drain(|out| server.transmit(usize::MAX, out));
        stream = stream.next();
    }
    let times = run(&mut server, Duration::from_secs(2_000));
    assert!(times.len() < 150, "{} times are kept: PINGs and a few more", times.len());
}

#[test]
fn a_method_of_one_message_gets_it_whole_or_not_at_all() {
    let stream = id(0, 1);
    let data = |flags, body: &[u8]| frame(DATA, flags, stream, 0, body);
    let whole = |message: Option<&[u8]>| {
        vec![Asked::Request {
            stream: StreamId::from_raw(stream),
            head: RequestHead::default(),
            meta: Vec::new(),
            message: message.map(<[u8]>::to_vec),
            end: true,
        }]
    };
    for (name, first, rest, expected) in [
        ("the end alone", request(0, stream, 0, b"m"), vec![data(END | NOMSG, b"")], Some(b"m")),
        (
            "the message with the end",
            request(NOMSG, stream, 0, &[]),
            vec![data(END, b"m")],
            Some(b"m"),
        ),
        (
            "the message, then the end",
            request(NOMSG, stream, 0, &[]),
            vec![data(0, b"m"), data(NOMSG, b""), data(END | NOMSG, b"")],
            Some(b"m"),
        ),
        (
            "a fragment, the rest, then the end",
            request(MORE, stream, 0, b"m"),
            vec![data(0, b""), data(END | NOMSG, b"")],
            Some(b"m"),
        ),
        ("no message", request(NOMSG, stream, 0, &[]), vec![data(END | NOMSG, b"")], None),
    ] {
        let mut server = server();
        let mut asked = feed_at(&mut server, &first, NOW).expect("in order");
        for frame in &rest {
            give_back(&mut server, &asked);
            asked = feed_at(&mut server, frame, NOW).expect("in order");
        }
        assert_eq!(asked, whole(expected.map(|message| &message[..])), "{name}");
        assert_eq!(held(&server), 0, "{name}: it is the handler's now");
        let message = Some(Body::Copy(b"reply"));
        let reply = Reply { status: OK, meta: &[], message };
        assert!(server.respond(StreamId::from_raw(stream), reply).is_some(), "{name}");
    }
    // A second message is always too many, whether or not the first came at once.
    for first in [request(0, stream, 0, b"1"), request(NOMSG, stream, 0, &[])] {
        let mut server = server();
        let asked = feed_at(&mut server, &first, NOW).expect("in order");
        give_back(&mut server, &asked);
        for _ in 0..2 {
            assert_eq!(feed_at(&mut server, &data(0, b"2"), NOW), Ok(vec![]));
        }
        let answers = responses(&mut server);
        assert_eq!((answers[0].1, server.in_flight(), held(&server)), (UNIMPLEMENTED, 0, 0));
    }
    // Nobody handles an abandoned request.
    let mut server = server();
    let asked = feed_at(&mut server, &request(0, stream, 0, b"1"), NOW).expect("in order");
    give_back(&mut server, &asked);
    assert_eq!(feed_at(&mut server, &frame(RST, 0, stream, 1, &[]), NOW), Ok(vec![]));
    assert_eq!((server.in_flight(), server.buffered_len()), (0, 0));
}

#[test]
fn a_thousand_streams_that_nobody_reads_keep_little_each() {
    let mut server = server();
    let streams: Vec<_> = (0..1_000).map(|slot| StreamId::from_raw(id(slot, 1))).collect();
    for stream in &streams {
        feed_at(&mut server, &request(END, stream.raw(), 0, b"x"), NOW).expect("in order");
    }
    for stream in &streams {
        while server.send(*stream, &[], Body::Copy(&[7; 4_000])).expect("open") {}
    }
    let kept = held(&server);
    assert!(kept <= (4 << 20) + 1_000 * 5_000 + 100_000, "{kept} bytes");
    // Streams that cannot send do not hold up one that can.
    let (reader, granted) = (streams[999], frame(CREDIT, 0, streams[999].raw(), 1 << 20, &[]));
    feed_at(&mut server, &granted, NOW).expect("in order");
    let mut rounds = 0;
    for _ in 0..100 {
        drain(|out| server.transmit(usize::MAX, out));
        let told = feed_at(&mut server, &[], NOW).expect("in order");
        if told.contains(&Asked::Writable(reader)) || server.has_room(reader) {
            server.send(reader, &[], Body::Copy(&[7; 4_000])).expect("open");
            rounds += 1;
        }
    }
    assert_eq!(rounds, 100);
}

#[test]
fn the_stream_that_keeps_most_is_found_and_ended() {
    let mut server = server();
    let small = |slot| request(MORE, id(slot, 1), 0, &[7; 900]);
    for slot in 0..900 {
        feed_at(&mut server, &small(slot), NOW).expect("in order");
    }
    // In the order of their memory: a reply, messages that nobody takes, and a request.
    let call = |slot| StreamId::from_raw(id(slot, 1));
    feed_at(&mut server, &request(END, id(1_000, 1), 0, b"x"), NOW).expect("in order");
    let message = Some(Body::Shared(vec![7; 1_000_000].into()));
    assert!(server.respond(call(1_000), Reply { status: OK, meta: &[], message }).is_some());
    feed_at(&mut server, &request(NOMSG, id(1_001, 1), 0, &[]), NOW).expect("in order");
    for _ in 0..10 {
        feed_at(&mut server, &frame(DATA, 0, id(1_001, 1), 0, &[7; 50_000]), NOW)
            .expect("in order");
    }
    feed_at(&mut server, &request(MORE, id(1_002, 1), 0, &[7; 60_000]), NOW).expect("in order");
    let mut ended = Vec::new();
    for side in [Side::Unsent, Side::Unread] {
        while server.largest_len(side) > 10_000 {
            let kept = server.kept_len(side);
            assert!(server.end_largest(side) && server.kept_len(side) < kept);
            let told = feed_at(&mut server, &[], NOW).expect("in order");
            let answers = responses(&mut server).into_iter();
            ended.extend(answers.map(|(slot, status, _)| (slot, status, told.len())));
        }
    }
    // The handler of a running call learns of its end.
    assert_eq!(ended, [(1_000, 8, 0), (1_001, 8, 1), (1_002, 8, 0)]);
    assert!(!server.end_largest(Side::Unsent), "no call has anything to be sent");
    let mut count = 0;
    while server.end_largest(Side::Unread) {
        count += 1;
    }
    assert_eq!((count, server.kept_len(Side::Unread)), (900, 0));
}

#[test]
fn streams_that_keep_next_to_nothing_are_found_as_well() {
    let mut pair = Pair::new(Cut::Nowhere);
    pair.settle(&mut idle);
    for _ in 0..100 {
        let call = pair.client.open(Open::default()).expect("room");
        pair.client.send(call, Body::Copy(b"unread"), false).expect("open");
    }
    pair.settle(&mut idle);
    let mut ended = 0;
    while pair.server.end_largest(Side::Unread) {
        ended += 1;
    }
    assert_eq!((ended, pair.server.buffered_len()), (100, 0));
}

#[test]
fn a_connection_that_fails_when_it_makes_room_says_so_without_input() {
    let settings = Settings { max_streams: 1, ..Settings::default() };
    let mut server = Server::new(Config { settings, ..Config::default() }, NOW);
    feed_at(&mut server, &greeting(), NOW).expect("in order");
    feed_at(&mut server, &request(MORE, id(0, 1), 0, b"half of it"), NOW).expect("in order");
    // As many unread refusals as may wait for one acknowledgement.
    for number in 1..ANSWERS_MAX {
        let call = id(1 + number / 4_000, 1 + number % 4_000);
        feed_at(&mut server, &request(END, call, 0, b""), NOW).expect("in order");
    }
    assert!(!server.has_events());
    assert!(server.end_largest(Side::Unread), "which needs one more answer");
    assert!(server.has_events(), "the failure, which the caller does not know");
    let told = feed_at(&mut server, &[], NOW);
    assert_eq!(told, Err(Violation::Flood { kind: FrameKind::Response }));
    assert!(!server.has_events(), "it is told once");
    let output = frames(&drain(|out| server.transmit(usize::MAX, out)));
    assert!(output.last().is_some_and(|(header, _)| header.kind == FrameKind::GoAway));
    assert!(server.is_finished());
}
