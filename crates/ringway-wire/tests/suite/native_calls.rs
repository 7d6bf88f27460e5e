//! Client and server of the native protocol against each other, with input cut at every byte.

use std::time::Duration;

use bytes::Bytes;
use ringway_wire::native::{
    Body, Client, Config, GoAwayCode, Gone, MetaReader, MetaWriter, Open, OpenError, Reply, Server,
    StreamId, Tag, Violation,
};

use crate::support::pair::{Asked, Cut, Pair, Told, drain, idle};

const OK: u8 = 0;
const CANCELLED: u8 = 1;
const NOT_FOUND: u8 = 5;
const EXHAUSTED: u8 = 8;

fn reply(server: &mut Server, stream: StreamId, message: &[u8]) -> bool {
    let message = Some(Body::Copy(message));
    server.respond(stream, Reply { status: OK, meta: &[], message }).is_some()
}

fn end(server: &mut Server, stream: StreamId, status: u8) -> bool {
    server.respond(stream, Reply { status, meta: &[], message: None }).is_some()
}

/// Answers each unary call with its message.
fn echo(server: &mut Server, asked: &Asked) {
    if let Asked::Request { stream, message: Some(message), end: true, .. } = asked {
        assert!(reply(server, *stream, message));
    }
}

/// Runs `play` with each cut and compares the events with those of uncut input.
fn check(name: &str, play: impl Fn(&mut Pair)) {
    let run = |cut| {
        let mut pair = Pair::new(cut);
        play(&mut pair);
        pair
    };
    let whole = run(Cut::Nowhere);
    let len = whole.upward.max(whole.downward);
    let cuts = (1..len.min(600)).map(Cut::At).chain([1, 2, 3, 15, 16, 17, 63].map(Cut::Every));
    for cut in cuts {
        let pair = run(cut);
        assert_eq!(pair.asked, whole.asked, "{name}: {cut:?}");
        assert_eq!(pair.told, whole.told, "{name}: {cut:?}");
    }
}

#[test]
fn unary_calls_are_one_frame_each_way() {
    check("unary", |pair| {
        pair.settle(&mut idle);
        let (up, down) = (pair.upward, pair.downward);
        let first = pair.unary(b"hello");
        pair.settle(&mut echo);
        let named = "test.Test/Do".len() + 2;
        assert_eq!((pair.upward - up, pair.downward - down), (32 + named + 5, 16 + 5));
        let (up, down) = (pair.upward, pair.downward);
        let second = pair.unary(b"again");
        pair.settle(&mut echo);
        assert_eq!((pair.upward - up, pair.downward - down), (32 + 5, 16 + 5));
        assert_eq!((second.slot(), second.generation()), (first.slot(), first.generation() + 1));
        assert_eq!(pair.response(first), Some((OK, Some(&b"hello"[..]))));
        assert_eq!(pair.response(second), Some((OK, Some(&b"again"[..]))));
        assert_eq!((pair.client.in_flight(), pair.server.in_flight()), (0, 0));
    });
}

#[test]
fn requests_may_go_before_the_server_has_greeted() {
    check("early", |pair| {
        let calls: Vec<_> = (0..128u8).map(|n| pair.unary(&[n])).collect();
        let call = Open { end: true, ..Open::default() };
        assert_eq!(pair.client.open(call.clone()), Err(OpenError::Full));
        assert_eq!(pair.client.capacity(), 0);
        pair.settle(&mut echo);
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(pair.response(call), Some((OK, Some(&[n as u8][..]))));
        }
        assert_eq!(pair.told.iter().filter(|told| **told == Told::Capacity).count(), 1);
        assert_eq!(pair.client.capacity(), 1_024, "as the server's settings say");
    });
}

#[test]
fn fixed_fields_metadata_and_status_arrive() {
    check("metadata", |pair| {
        let mut meta = Vec::new();
        MetaWriter::new(&mut meta).entry("k", b"v");
        let call = Open {
            method: 3,
            name: "a.B/C",
            timeout: Some(Duration::from_secs(3 * 3_600)),
            codec: 2,
            attempt: 4,
            priority: 5,
            initial_credit: 1 << 20,
            meta: &meta,
            message: Some(Body::Copy(b"")),
            end: true,
        };
        let stream = pair.client.open(call).expect("room");
        pair.settle(&mut |server, asked| {
            if let Asked::Request { stream, .. } = asked {
                let mut meta = Vec::new();
                MetaWriter::new(&mut meta).status_message("none");
                let status = NOT_FOUND;
                assert!(
                    server.respond(*stream, Reply { status, meta: &meta, message: None }).is_some()
                );
            }
        });
        let Asked::Request { head, meta, message, end: true, .. } = &pair.asked[0] else {
            panic!("{:?}", pair.asked);
        };
        assert_eq!((head.method, head.timeout_us, head.codec), (3, u32::MAX, 2));
        assert_eq!((head.attempt, head.priority, head.initial_credit), (4, 5, 1 << 20));
        assert_eq!(message.as_deref(), Some(&b""[..]), "an empty message is not none");
        let tags: Vec<_> = MetaReader::new(meta).map(|tag| tag.expect("well-formed").0).collect();
        assert_eq!(tags, [Tag::Method, Tag::TimeoutUs, Tag::Entry]);
        assert_eq!(pair.response(stream), Some((NOT_FOUND, None)));
        let Told::Response { meta, .. } = &pair.told[0] else {
            panic!("{:?}", pair.told);
        };
        assert_eq!(*meta, b"\x04\x04none");
    });
}

#[test]
fn long_messages_go_in_fragments_both_ways() {
    for len in [4_097, 65_536, 65_537, 300_000, 2_000_000] {
        for cut in [Cut::Nowhere, Cut::Every(1_000), Cut::Every(65_536), Cut::At(100_000)] {
            let mut pair = Pair::new(cut);
            let message: Bytes = (0..len).map(|n| (n % 251) as u8).collect();
            let body = Some(Body::Shared(message.clone()));
            let call = Open { message: body, end: true, ..Open::default() };
            let stream = pair.client.open(call).expect("room");
            pair.settle(&mut |server, asked| {
                if let Asked::Request { stream, message: Some(message), end: true, .. } = asked {
                    let message = Some(Body::Shared(Bytes::from(message.clone())));
                    assert!(
                        server.respond(*stream, Reply { status: OK, meta: &[], message }).is_some()
                    );
                }
            });
            assert_eq!(pair.response(stream), Some((OK, Some(&message[..]))), "{len} {cut:?}");
            assert_eq!((pair.client.in_flight(), pair.server.in_flight()), (0, 0));
        }
    }
}

#[test]
fn client_streams_end_in_one_response() {
    check("client stream", |pair| {
        let first = Some(Body::Copy(b"a"));
        let call = pair.client.open(Open { message: first, ..Open::default() }).expect("room");
        pair.client.send(call, Body::Copy(b"b"), false).expect("open");
        pair.client.send(call, Body::Copy(b"c"), true).expect("open");
        assert!(pair.client.send(call, Body::Copy(b"d"), true).is_err());
        let mut sum = Vec::new();
        pair.settle(&mut |server, asked| {
            let (stream, message, is_last) = match asked {
                Asked::Request { stream, message, end, .. } => (stream, message.clone(), end),
                Asked::Message { stream, message, end } => (stream, Some(message.clone()), end),
                _ => return,
            };
            sum.extend(message.expect("each has one"));
            server.taken(*stream, 1);
            if *is_last {
                assert!(reply(server, *stream, &sum));
            }
        });
        assert_eq!(pair.response(call), Some((OK, Some(&b"abc"[..]))));
    });
}

#[test]
fn server_streams_carry_initial_metadata_messages_and_trailers() {
    check("server stream", |pair| {
        let call = pair.unary(b"watch");
        pair.settle(&mut |server, asked| {
            let Asked::Request { stream, .. } = asked else { return };
            let mut meta = Vec::new();
            MetaWriter::new(&mut meta).entry("i", b"1");
            server.send(*stream, &meta, Body::Copy(b"one")).expect("open");
            server.send(*stream, &[], Body::Copy(b"")).expect("open");
            server.send(*stream, &[], Body::Shared(vec![3; 10_000].into())).expect("open");
            server.send(*stream, &[], Body::Copy(b"four")).expect("open");
            assert!(end(server, *stream, OK));
            assert!(!end(server, *stream, OK), "a call ends once");
            assert!(server.send(*stream, &[], Body::Copy(b"five")).is_err());
        });
        assert_eq!(pair.told[0], Told::Initial(call, b"\x00\x03\x01i1".to_vec()));
        assert_eq!(pair.messages(call), [&b"one"[..], b"", &[3; 10_000], b"four"]);
        assert_eq!(pair.response(call), Some((OK, None)));
        assert_eq!((pair.client.in_flight(), pair.server.in_flight()), (0, 0));
    });
}

#[test]
fn both_sides_may_stream() {
    check("bidi", |pair| {
        let call = pair.client.open(Open::default()).expect("room");
        let mut answer = |server: &mut Server, asked: &Asked| match asked {
            Asked::Message { stream, message, .. } => {
                server.taken(*stream, 1);
                server.send(*stream, &[], Body::Copy(message)).expect("open");
            }
            Asked::End(stream) => assert!(end(server, *stream, OK)),
            _ => {}
        };
        for n in 0..5 {
            pair.client.send(call, Body::Copy(&[n]), false).expect("open");
            pair.settle(&mut answer);
            assert_eq!(pair.messages(call).len(), usize::from(n) + 1);
        }
        pair.client.finish(call);
        pair.client.finish(call);
        pair.settle(&mut answer);
        assert_eq!(pair.messages(call), [[0], [1], [2], [3], [4]]);
        assert_eq!(pair.response(call), Some((OK, None)));
    });
}

#[test]
fn an_early_response_ends_the_clients_stream() {
    check("early response", |pair| {
        let call = pair.client.open(Open::default()).expect("room");
        pair.settle(&mut idle);
        pair.client.send(call, Body::Copy(b"1"), false).expect("open");
        pair.up(&mut |server, asked| {
            if let Asked::Message { stream, .. } = asked {
                assert!(end(server, *stream, NOT_FOUND));
            }
        })
        .expect("well-formed");
        // These frames cross the response and are dropped.
        pair.client.send(call, Body::Copy(b"2"), false).expect("open");
        pair.client.send(call, Body::Shared(vec![0; 100_000].into()), false).expect("open");
        pair.settle(&mut idle);
        assert_eq!(pair.response(call), Some((NOT_FOUND, None)));
        assert!(pair.client.send(call, Body::Copy(b"3"), false).is_err());
        let next = pair.unary(b"next");
        pair.settle(&mut echo);
        assert_eq!(pair.response(next), Some((OK, Some(&b"next"[..]))));
        assert_eq!((pair.client.in_flight(), pair.server.in_flight()), (0, 0));
    });
}

/// Cancels a call after `prepare`, and checks that its slot becomes free.
fn check_cancelled(name: &str, prepare: impl Fn(&mut Pair) -> StreamId, is_seen: bool) {
    check(name, |pair| {
        let call = prepare(pair);
        pair.client.cancel(call, CANCELLED, "no longer wanted");
        pair.client.cancel(call, CANCELLED, "twice");
        let answered = pair.response(call).is_some();
        pair.settle(&mut idle);
        let cancelled = Asked::Cancelled(call, CANCELLED, "no longer wanted".into());
        assert_eq!(pair.asked.contains(&cancelled), is_seen, "{name}");
        assert_eq!(pair.response(call).is_some(), answered, "no event after cancel");
        assert!(!reply(&mut pair.server, call, b"too late"));
        assert_eq!((pair.client.in_flight(), pair.server.in_flight()), (0, 0), "{name}");
        let next = pair.unary(b"next");
        pair.settle(&mut echo);
        assert_eq!(pair.response(next), Some((OK, Some(&b"next"[..]))), "{name}");
    });
}

#[test]
fn calls_are_cancelled_in_every_state() {
    let long = || Body::Shared(vec![1; 200_000].into());
    check_cancelled("not arrived", |pair| pair.unary(b"x"), true);
    let running = |pair: &mut Pair| {
        let call = pair.unary(b"x");
        pair.settle(&mut idle);
        call
    };
    check_cancelled("running", running, true);
    let open = |pair: &mut Pair| {
        let call = pair.client.open(Open::default()).expect("room");
        pair.settle(&mut idle);
        call
    };
    check_cancelled("open", open, true);
    let half_closed = |pair: &mut Pair| {
        let call = open(pair);
        pair.client.finish(call);
        pair.settle(&mut idle);
        call
    };
    check_cancelled("half-closed", half_closed, true);
    let unsent = |pair: &mut Pair| {
        let message = Some(long());
        pair.client.open(Open { message, end: true, ..Open::default() }).expect("room")
    };
    check_cancelled("unsent", unsent, false);
    let half_sent = |pair: &mut Pair| {
        pair.settle(&mut idle);
        let call = unsent(pair);
        let bytes = drain(|out| pair.client.transmit(10_000, out));
        let mut input = &bytes[..];
        let event = pair.server.receive(&mut input, Duration::ZERO).expect("well-formed");
        assert!(event.is_none(), "the message is not complete");
        call
    };
    check_cancelled("half sent", half_sent, false);
    let crossing = |pair: &mut Pair| {
        let call = pair.unary(b"x");
        pair.up(&mut echo).expect("well-formed");
        call
    };
    check_cancelled("crossing the response", crossing, false);
    let streaming = |pair: &mut Pair| {
        let call = pair.unary(b"x");
        pair.settle(&mut |server, asked| {
            if let Asked::Request { stream, .. } = asked {
                server.send(*stream, &[], Body::Copy(b"m")).expect("open");
            }
        });
        pair.server.send(call, &[], long()).expect("open");
        call
    };
    check_cancelled("streaming", streaming, true);
    let answering = |pair: &mut Pair| {
        let call = running(pair);
        let message = Some(long());
        assert!(pair.server.respond(call, Reply { status: OK, meta: &[], message }).is_some());
        call
    };
    check_cancelled("answered with much", answering, false);
}

#[test]
fn a_message_longer_than_the_receiver_takes_ends_its_call_only() {
    let mut small = Config::default();
    small.settings.max_message = 100_000;
    let fits = vec![1u8; 100_000];
    let exceeds = vec![1u8; 100_001];
    let mut pair = Pair::with(Cut::Nowhere, small.clone(), small);
    let open = |message: &[u8]| Open {
        message: Some(Body::Shared(message.to_vec().into())),
        end: true,
        ..Open::default()
    };
    let [good, bad] =
        [&fits, &exceeds].map(|message| pair.client.open(open(message)).expect("room"));
    pair.settle(&mut echo);
    assert_eq!(pair.response(good), Some((OK, Some(&fits[..]))));
    assert_eq!(pair.response(bad), Some((EXHAUSTED, None)));
    // In the other direction, the server knows the client's limit, and the handler is told.
    let call = pair.unary(b"more");
    pair.settle(&mut |server, asked| {
        if let Asked::Request { stream, .. } = asked {
            let sent = server.send(*stream, &[], Body::Shared(exceeds.clone().into()));
            assert_eq!(sent, Err(Gone));
        }
    });
    assert_eq!(pair.response(call), Some((EXHAUSTED, None)));
    assert_eq!(pair.asked.last(), Some(&Asked::Failed(call, EXHAUSTED)));
    assert_eq!((pair.client.in_flight(), pair.server.in_flight()), (0, 0));
}

#[test]
fn calls_that_cross_a_goaway_are_served_and_no_others_are_opened() {
    check("drain", |pair| {
        let running = pair.unary(b"x");
        pair.settle(&mut idle);
        pair.server.go_away(GoAwayCode::NoError, Duration::from_secs(5), "restart");
        let crossing = pair.unary(b"y");
        assert!(!pair.server.is_finished());
        pair.settle(&mut idle);
        let steps = [(1 + (1 << 31), "restart"), (2, "")].map(|(accepted, reason)| Told::Leaving {
            code: 0,
            drain_ms: 5_000,
            accepted,
            reason: reason.into(),
        });
        let leaving = pair.told.iter().filter(|told| matches!(told, Told::Leaving { .. }));
        assert!(leaving.eq(&steps), "{:?}", pair.told);
        assert!(reply(&mut pair.server, crossing, b"served"));
        let call = Open { end: true, ..Open::default() };
        assert_eq!(pair.client.open(call), Err(OpenError::Draining));
        assert_eq!(pair.client.capacity(), 0);
        assert!(reply(&mut pair.server, running, b"done"));
        pair.settle(&mut idle);
        assert_eq!(pair.response(running), Some((OK, Some(&b"done"[..]))));
        assert_eq!(pair.response(crossing), Some((OK, Some(&b"served"[..]))));
        assert!(pair.server.is_finished());
    });
}

#[test]
fn a_violation_is_told_and_repeated() {
    let mut server = Server::new(Config::default(), Duration::ZERO);
    let mut client = Client::new(Config::default(), Duration::ZERO);
    let mut bytes = drain(|out| client.transmit(usize::MAX, out));
    // CREDIT for a stream that was never opened.
    bytes.extend([0, 0, 0, 0, 0x13, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
    let mut input = &bytes[..];
    let error = server.receive(&mut input, Duration::ZERO).expect_err("a violation");
    assert!(matches!(error, Violation::NeverOpened { .. }));
    assert_eq!(server.receive(&mut input, Duration::ZERO).expect_err("again"), error);
    assert!(!server.is_finished());
    let farewell = drain(|out| server.transmit(usize::MAX, out));
    assert!(server.is_finished());
    let event = client.receive(&mut &farewell[..], Duration::ZERO).expect("well-formed");
    let told = event.map(Told::from);
    assert!(matches!(told, Some(Told::Leaving { code: 2, accepted: 0, .. })), "{told:?}");
    let end = client.receive(&mut &[][..], Duration::ZERO).expect_err("closed at once");
    assert!(
        matches!(&end, Violation::PeerLeft { code: 2, reason } if *reason == error.to_string())
    );
    assert!(!client.has_output() && !client.has_events(), "nobody is there to be told");
}
