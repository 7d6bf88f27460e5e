//! How the machines treat silent, greedy and hostile peers.

use std::time::Duration;

use ringway_wire::native::{
    Body, Config, Flags, FrameKind, GoAwayCode, HEADER_LEN, Header, Open, OpenError, Reply,
    RequestHead, Server, StreamId, Violation,
};

use crate::support::pair::{Asked, Cut, Pair, Told, drain, idle};

fn at(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn frame(kind: FrameKind, flags: Flags, stream: StreamId, aux: u32, body: &[u8]) -> Vec<u8> {
    let len = body.len() as u32;
    let header = Header { len, kind, flags, meta_len: 0, stream, aux };
    [&header.encode(), body].concat()
}

fn request(stream: StreamId, flags: Flags) -> Vec<u8> {
    frame(FrameKind::Request, flags, stream, 0, &RequestHead::default().encode())
}

/// Makes a client and a server after the greeting.
fn greeted() -> Pair {
    let mut pair = Pair::new(Cut::Nowhere);
    pair.settle(&mut idle);
    pair
}

/// Feeds the server frames that our client never sends. Returns the violation in which they end.
fn provoke(server: &mut Server, now: Duration, mut bytes: &[u8]) -> Option<Violation> {
    loop {
        match server.receive(&mut bytes, now) {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(violation) => return Some(violation),
        }
    }
}

#[test]
fn a_peer_that_takes_output_slowly_is_not_dead() {
    let mut pair = greeted();
    for _ in 0..50 {
        pair.unary(&[7; 1_000]);
    }
    let cancelled = pair.unary(&[7; 1_000]);
    pair.client.cancel(cancelled, 1, "its RST waits behind the rest as well");
    for secs in (30..200).step_by(5) {
        pair.client.handle_timeout(at(secs)).expect("it takes something");
        let some = drain(|out| pair.client.transmit(1_000, out));
        assert!(!some.is_empty(), "a PING waits behind the rest");
    }
    drain(|out| pair.client.transmit(usize::MAX, out));
    pair.client.handle_timeout(at(200)).expect("it has taken the rest");
    pair.client.handle_timeout(at(230)).expect("probes");
    drain(|out| pair.client.transmit(usize::MAX, out));
    let error = pair.client.handle_timeout(at(240)).expect_err("all has left, and no answer");
    assert_eq!(error, Violation::Unanswered { kind: FrameKind::Ping });
}

#[test]
fn a_peer_bears_a_side_that_probes_as_often_as_it_can() {
    let config = Config { ping_after: Duration::ZERO, ..Config::default() };
    let mut pair = Pair::with(Cut::Nowhere, config.clone(), config);
    for ms in 0..20_000 {
        pair.now = Duration::from_millis(ms);
        pair.client.handle_timeout(pair.now).expect("the server answers");
        pair.server.handle_timeout(pair.now).expect("the client answers");
        pair.settle(&mut idle);
    }
}

#[test]
fn a_server_that_has_not_greeted_does_not_probe() {
    let config = Config { ping_after: at(1), ..Config::default() };
    let mut server = Server::new(config, at(0));
    server.handle_timeout(at(1)).expect("the preface may still come");
    assert!(!server.has_output(), "its preface comes first");
}

#[test]
fn an_idle_connection_is_probed_and_a_dead_one_given_up() {
    let mut pair = greeted();
    assert_eq!(pair.client.poll_timeout(), Some(at(30)));
    pair.client.handle_timeout(at(29)).expect("early is harmless");
    assert!(!pair.client.has_output());
    pair.client.handle_timeout(at(30)).expect("probes");
    pair.now = at(31);
    pair.settle(&mut idle);
    assert_eq!(pair.client.poll_timeout(), Some(at(61)), "the answer was heard");
    pair.client.handle_timeout(at(61)).expect("probes");
    assert_eq!(pair.client.poll_timeout(), Some(at(71)));
    let error = pair.client.handle_timeout(at(71)).expect_err("no answer");
    assert_eq!(error, Violation::Unanswered { kind: FrameKind::Ping });
    assert_eq!(pair.client.poll_timeout(), None);
    let open = pair.client.open(Open { end: true, ..Open::default() });
    assert_eq!(open, Err(OpenError::Closed));
    assert!(pair.client.has_output(), "PING and GOAWAY");
}

#[test]
fn a_silent_peer_is_not_waited_for() {
    let mut server = Server::new(Config::default(), at(5));
    assert_eq!(server.poll_timeout(), Some(at(8)));
    let error = server.handle_timeout(at(8)).expect_err("no preface");
    assert_eq!(error, Violation::Unanswered { kind: FrameKind::Settings });
    assert!(!server.has_output(), "it may speak anything");
}

#[test]
fn a_cancelled_call_is_answered_within_a_minute_or_never() {
    let mut pair = greeted();
    let call = pair.unary(b"x");
    pair.client.cancel(call, 1, "");
    let mut now = Duration::ZERO;
    let error = loop {
        // A byte now and then shows that the connection is alive.
        now += at(1);
        let ping = frame(FrameKind::Ping, Flags::ACK, StreamId::CONNECTION, 0, &[]);
        pair.client.receive(&mut &ping[..], now).expect("well-formed");
        if let Err(violation) = pair.client.handle_timeout(now) {
            break violation;
        }
        assert!(now < at(100));
    };
    assert_eq!(error, Violation::Unanswered { kind: FrameKind::Rst });
    assert!((at(30)..=at(61)).contains(&now), "{now:?}");
    // An answer in time ends the wait.
    let mut pair = greeted();
    assert_eq!(pair.unary(b"x"), call);
    pair.client.cancel(call, 1, "");
    pair.settle(&mut idle);
    for secs in (0..200).step_by(10) {
        pair.now = at(secs);
        pair.client.handle_timeout(at(secs)).expect("answered");
        pair.settle(&mut idle);
    }
}

#[test]
fn a_drain_ends_what_outlives_it() {
    let mut pair = greeted();
    let call = pair.unary(b"x");
    pair.settle(&mut idle);
    pair.server.go_away(GoAwayCode::MaxAge, at(5), "old");
    assert_eq!(pair.server.poll_timeout(), Some(at(0)), "to learn the time");
    pair.server.handle_timeout(at(2)).expect("nothing is due");
    assert_eq!(pair.server.poll_timeout(), Some(at(7)));
    pair.server.handle_timeout(at(6)).expect("nothing is due");
    assert!(!pair.told.iter().any(|told| matches!(told, Told::Leaving { .. })));
    pair.server.handle_timeout(at(7)).expect("the drain ends");
    pair.settle(&mut idle);
    assert_eq!(pair.asked.last(), Some(&Asked::Failed(call, 14)));
    assert_eq!(pair.response(call), Some((14, None)));
    assert!(pair.server.is_finished());
}

#[test]
fn a_lease_is_a_level() {
    let mut pair = greeted();
    pair.server.lease(2);
    pair.settle(&mut idle);
    assert_eq!(pair.client.capacity(), 2);
    let calls = [pair.unary(b"1"), pair.unary(b"2")];
    let open = pair.client.open(Open { end: true, ..Open::default() });
    assert_eq!(open, Err(OpenError::Leased));
    pair.settle(&mut idle);
    pair.server.lease(3);
    pair.settle(&mut idle);
    assert_eq!(pair.told, [Told::Capacity]);
    // Requests that cross the lower lease are refused.
    let crossing = pair.unary(b"3");
    pair.server.lease(2);
    pair.settle(&mut idle);
    assert_eq!(pair.response(crossing), Some((14, None)));
    let message = || Some(Body::Copy(b""));
    for call in calls {
        assert!(
            pair.server.respond(call, Reply { status: 0, meta: &[], message: message() }).is_some()
        );
    }
    pair.settle(&mut idle);
    assert_eq!(pair.client.capacity(), 2);
}

#[test]
fn what_is_said_before_the_greeting_comes_after_it() {
    let mut pair = Pair::new(Cut::Nowhere);
    pair.server.lease(5);
    assert!(!pair.server.has_output());
    pair.settle(&mut idle);
    assert_eq!(pair.client.capacity(), 5);
    let mut pair = Pair::new(Cut::Nowhere);
    pair.server.go_away(GoAwayCode::NoError, at(1), "");
    assert!(pair.server.is_finished(), "nobody is there to be told");
    let call = pair.unary(b"x");
    pair.settle(&mut idle);
    assert_eq!(pair.response(call), Some((14, None)));
    assert_eq!(pair.client.capacity(), 0);
}

#[test]
fn requests_are_counted_for_the_farewell() {
    let mut pair = greeted();
    let calls = [pair.unary(b"1"), pair.unary(b"2")];
    pair.up(&mut idle).expect("well-formed");
    let late = pair.unary(b"3");
    assert!(pair.client.was_accepted(calls[1], 2));
    assert!(!pair.client.was_accepted(late, 2));
    assert!(pair.client.was_accepted(late, 3));
    // A server that sends this GOAWAY does not know yet which requests it will get.
    assert!(pair.client.was_accepted(late, 2 + (1 << 31)));
    // This request was never sent.
    let message = Some(Body::Shared(vec![0; 100_000].into()));
    let queued = pair.client.open(Open { message, end: true, ..Open::default() }).expect("room");
    assert!(!pair.client.was_accepted(queued, 1_000));
}

#[test]
fn requests_that_overtake_others_are_counted_in_the_order_of_the_wire() {
    let mut pair = greeted();
    let long = || Some(Body::Shared(vec![0; 100_000].into()));
    let mut calls = Vec::new();
    for _ in 0..3 {
        let open = Open { message: long(), end: true, ..Open::default() };
        calls.push(pair.client.open(open).expect("room"));
        calls.extend((0..25).map(|_| pair.unary(b"short")));
    }
    let bytes = drain(|out| pair.client.transmit(usize::MAX, out));
    let order = requests(&bytes);
    assert_eq!(order.len(), calls.len());
    assert_ne!(order, calls, "long requests let some through, and overtake some");
    for received in 0..=order.len() {
        for executed in &order[..received] {
            assert!(pair.client.was_accepted(*executed, received as u32), "{received} received");
        }
        let retried = order[received..].iter();
        let retried = retried.filter(|call| !pair.client.was_accepted(**call, received as u32));
        assert!(retried.count() + 3 >= order.len() - received, "{received} received");
    }
}

/// Returns the calls whose REQUEST frames are in `bytes`, in order.
fn requests(mut bytes: &[u8]) -> Vec<StreamId> {
    let mut calls = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk() {
        let header = Header::decode(head).expect("a frame");
        if header.kind == FrameKind::Request {
            calls.push(header.stream);
        }
        bytes = &rest[header.len as usize..];
    }
    calls
}

#[test]
fn checksums_are_made_on_request_and_checked() {
    let mut config = Config::default();
    config.settings.checksum = true;
    let mut pair = Pair::with(Cut::Nowhere, config.clone(), config);
    pair.settle(&mut idle);
    let call = pair.unary(b"hello");
    let long = Some(Body::Shared(vec![3; 100_000].into()));
    let open = Open { message: long, end: true, ..Open::default() };
    let long = pair.client.open(open).expect("room");
    let bytes = drain(|out| pair.client.transmit(usize::MAX, out));
    for place in [0, 20, 60, bytes.len() - 1, bytes.len() - 5, bytes.len() - 50_000] {
        let mut pair = greeted();
        let mut bytes = bytes.clone();
        bytes[place] ^= 0x10;
        assert!(provoke(&mut pair.server, at(0), &bytes).is_some(), "byte {place}");
    }
    let mut seen = Vec::new();
    let mut input = &bytes[..];
    while let Some(event) = pair.server.receive(&mut input, at(0)).expect("well-formed") {
        seen.push(Asked::from(event));
    }
    assert!(matches!(&seen[0], Asked::Request { stream, .. } if *stream == call));
    assert!(matches!(&seen[1], Asked::Request { stream, .. } if *stream == long));
    let flags = Header::decode(bytes.first_chunk().expect("a header")).expect("ours").flags;
    assert!(flags.contains(Flags::CRC));
}

#[test]
fn floods_end_the_connection() {
    let zero = StreamId::CONNECTION;
    let ping = frame(FrameKind::Ping, Flags::NONE, zero, 1, &[]);
    let settings = frame(FrameKind::Settings, Flags::NONE, zero, 0, &[]);
    for (bytes, kind) in [(ping, FrameKind::Ping), (settings, FrameKind::Settings)] {
        let mut pair = greeted();
        // At a sane rate the connection lives for ever.
        for second in 0..1_000 {
            assert_eq!(provoke(&mut pair.server, at(second), &bytes), None);
            drain(|out| pair.server.transmit(usize::MAX, out));
        }
        let flood = bytes.repeat(1_000);
        let violation = provoke(&mut pair.server, at(1_000), &flood);
        assert_eq!(violation, Some(Violation::Flood { kind }));
        assert!(pair.server.output_len() < 100_000);
    }
}

#[test]
fn refusals_that_are_not_read_end_the_connection() {
    let mut pair = greeted();
    pair.server.lease(0);
    let mut stream = StreamId::new(0, 1);
    let mut refused = 0;
    let violation = loop {
        let bytes = request(stream, Flags::END | Flags::NOMSG);
        if let Some(violation) = provoke(&mut pair.server, at(0), &bytes) {
            break violation;
        }
        stream = stream.next();
        refused += 1;
        assert!(refused < 100_000);
    };
    assert!(matches!(violation, Violation::Flood { .. }));
    assert!(pair.server.output_len() < 2 << 20, "{}", pair.server.output_len());
}

#[test]
fn breaches_are_noticed() {
    let (data, stream) = (FrameKind::Data, StreamId::new(0, 1));
    let open = || request(stream, Flags::NOMSG);
    let end = Flags::END | Flags::NOMSG;
    let after_end = [request(stream, end), frame(data, Flags::NONE, stream, 0, b"x")].concat();
    let mut beyond = open();
    for _ in 0..17 {
        beyond.extend(frame(data, Flags::MORE, stream, 0, &[0; 65_536]));
    }
    // The first message is being assembled, so it returns its credit; the one behind it does not.
    beyond.splice(open().len()..open().len(), frame(data, Flags::NONE, stream, 0, b"unread"));
    let longer = [
        open(),
        frame(data, Flags::MORE, stream, 10, b"12345"),
        frame(data, Flags::NONE, stream, 0, b"678901"),
    ];
    let torn =
        [open(), frame(data, Flags::MORE, stream, 10, b"12345"), frame(data, end, stream, 0, b"")];
    let credit = frame(FrameKind::Credit, Flags::NONE, stream, i32::MAX as u32, &[]);
    let slot = StreamId::new(1_024, 1);
    let cases: [(Vec<u8>, GoAwayCode); 9] = [
        (after_end, GoAwayCode::Protocol),
        (frame(data, Flags::NONE, stream, 0, b"x"), GoAwayCode::Protocol),
        ([open(), open()].concat(), GoAwayCode::Protocol),
        (request(slot, end), GoAwayCode::Protocol),
        (beyond, GoAwayCode::FlowControl),
        (longer.concat(), GoAwayCode::Protocol),
        (torn.concat(), GoAwayCode::Protocol),
        ([open(), credit].concat(), GoAwayCode::FlowControl),
        (frame(FrameKind::Lease, Flags::NONE, StreamId::CONNECTION, 1, &[]), GoAwayCode::Protocol),
    ];
    for (case, (bytes, code)) in cases.into_iter().enumerate() {
        let mut pair = greeted();
        let violation = provoke(&mut pair.server, at(0), &bytes);
        let found = violation.as_ref().map(Violation::code);
        assert_eq!(found, Some(code), "case {case}: {violation:?}");
        let farewell = drain(|out| pair.server.transmit(usize::MAX, out));
        let last = farewell.windows(HEADER_LEN).rev().find_map(|bytes| {
            let header = Header::decode(bytes.first_chunk().expect("16 bytes")).ok()?;
            (header.kind == FrameKind::GoAway).then_some(header)
        });
        assert!(last.is_some(), "case {case}: no GOAWAY");
    }
}

#[test]
fn an_announcement_alone_reserves_little() {
    let mut pair = greeted();
    let stream = StreamId::new(0, 1);
    // The peer announces 4 MiB and sends a byte: the message is neither refused nor allocated. One
    // beyond the limit is refused at its first fragment.
    let first = frame(FrameKind::Data, Flags::MORE, stream, 4 << 20, b"1");
    let bytes = [request(stream, Flags::NOMSG), first].concat();
    assert_eq!(provoke(&mut pair.server, at(0), &bytes), None);
    assert_eq!(pair.server.in_flight(), 1);
    let stream = StreamId::new(1, 1);
    let first = frame(FrameKind::Data, Flags::MORE, stream, (4 << 20) + 1, b"1");
    let bytes = [request(stream, Flags::NOMSG), first].concat();
    assert_eq!(provoke(&mut pair.server, at(0), &bytes), None);
    assert_eq!(pair.server.in_flight(), 1, "answered at once");
}
