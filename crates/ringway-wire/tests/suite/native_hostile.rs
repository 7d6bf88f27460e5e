//! Peers with unusual settings, order or farewells: no machine hangs, recurses or loses count.

use std::time::Duration;

use ringway_wire::native::{
    Body, Client, Config, FrameKind, GoAway, GoAwayCode, MetaReader, MetaWriter, Open, OpenError,
    PREFACE, Reply, Server, Settings, Side, StreamId, Violation,
};

use crate::support::by_hand::{feed, hear};
use crate::support::for_seeds;
use crate::support::pair::{Asked, Cut, Pair, drain, idle};
use crate::support::raw;
use crate::support::raw::{
    ACK, END, GO_AWAY, MORE, NOMSG, PING, RESPONSE, SETTINGS, frame, frames, id, request,
};

const NOW: Duration = Duration::ZERO;

fn settings(settings: Settings) -> Vec<u8> {
    let mut body = Vec::new();
    settings.encode(&mut body);
    frame(SETTINGS, 0, 0, 0, &body)
}

/// A server whose client has sent these settings.
fn server_for(client: Settings) -> Server {
    let mut server = Server::new(Config::default(), NOW);
    let greeting = [&PREFACE[..], &settings(client)].concat();
    assert_eq!(feed(&mut server, &greeting), Ok(vec![]));
    drain(|out| server.transmit(usize::MAX, out));
    server
}

#[test]
fn every_answer_fits_what_the_client_takes_of_metadata() {
    let long = "x".repeat(300);
    let mut failure = Vec::new();
    MetaWriter::new(&mut failure).status_message(&long).refused();
    for max_meta in (0..=80).chain([299, 305, 306, 65_535]) {
        let client = Settings { max_meta, max_message: 10, ..Settings::default() };
        let mut server = server_for(client);
        let call = |server: &mut Server, slot| {
            let stream = id(slot, 1);
            feed(server, &request(END, stream, 0, b"x")).expect("in order");
            StreamId::from_raw(stream)
        };
        for (slot, status) in [(0, 0), (1, 5)] {
            let stream = call(&mut server, slot);
            assert!(
                server.respond(stream, Reply { status, meta: &failure, message: None }).is_some()
            );
        }
        let stream = call(&mut server, 2);
        let message = Some(Body::Copy(b"more than ten"));
        assert!(server.respond(stream, Reply { status: 0, meta: &[], message }).is_some());
        let stream = call(&mut server, 3);
        server.send(stream, &[], Body::Copy(b"more than ten")).expect_err("too long");
        let stream = call(&mut server, 4);
        let sent = server.send(stream, &failure, Body::Copy(b"fits"));
        assert_eq!(sent.is_ok(), failure.len() <= max_meta as usize);
        // A message that is too long, a request beyond a lease, and a call that outlives a drain.
        feed(&mut server, &request(MORE, id(5, 1), 5 << 20, b"x")).expect("in order");
        call(&mut server, 6);
        server.lease(0);
        feed(&mut server, &request(END, id(7, 1), 0, b"x")).expect("in order");
        server.go_away(GoAwayCode::NoError, NOW, "");
        server.handle_timeout(NOW).expect("in order");
        let output = frames(&drain(|out| server.transmit(usize::MAX, out)));
        let answers = output.iter().filter(|(header, _)| header.kind == FrameKind::Response);
        let mut statuses = Vec::new();
        for (header, body) in answers {
            let meta = &body[..usize::from(header.meta_len)];
            assert!(meta.len() <= max_meta as usize, "{} bytes of {max_meta}", meta.len());
            assert!(MetaReader::new(meta).all(|piece| piece.is_ok()), "whole pieces");
            statuses.push((header.stream.slot(), header.aux));
        }
        statuses.sort_unstable();
        let fits = failure.len() <= max_meta as usize;
        let (ok, last) = if fits { (0, 14) } else { (8, 8) };
        let expected = [(0, ok), (1, 5), (2, 8), (3, 8), (4, last), (5, 8), (6, 14), (7, 14)];
        assert_eq!(statuses, expected, "{max_meta}");
        assert_eq!(server.in_flight(), 0);
    }
}

#[test]
fn requests_of_a_client_that_knows_of_a_drain_are_refused() {
    let is_refused = |server: &mut Server, slot| {
        feed(server, &request(END, id(slot, 1), 0, b"x")).expect("in order");
        let output = frames(&drain(|out| server.transmit(usize::MAX, out)));
        output.iter().any(|(header, body)| {
            header.kind == FrameKind::Response && header.aux == 14 && body[..] == [0x06, 0]
        })
    };
    // The client answers the drain, or the wait for its answer is over.
    for says_so in [true, false] {
        let mut server = server_for(Settings::default());
        server.go_away(GoAwayCode::MaxAge, Duration::from_secs(60), "old");
        let output = frames(&drain(|out| server.transmit(usize::MAX, out)));
        let ping = output.iter().rfind(|(header, _)| header.kind == FrameKind::Ping);
        let nonce = ping.expect("it is asked").0.aux;
        assert!(!is_refused(&mut server, 0), "it may not know yet");
        for wrong in [nonce - 1, nonce + 1] {
            feed(&mut server, &frame(PING, ACK, 0, wrong, &[])).expect("in order");
        }
        assert!(!is_refused(&mut server, 1));
        match says_so {
            true => _ = feed(&mut server, &frame(PING, ACK, 0, nonce, &[])).expect("in order"),
            false => {
                for at in [NOW, Duration::from_secs(5)] {
                    server.handle_timeout(at).expect("alive");
                }
            }
        }
        assert!(is_refused(&mut server, 2));
        assert_eq!(server.in_flight(), 2);
    }
}

#[test]
fn a_machine_that_has_failed_has_nothing_to_tell_but_that() {
    let mut server = server_for(Settings::default());
    let streams = [id(0, 1), id(1, 1)].map(StreamId::from_raw);
    for stream in streams {
        feed(&mut server, &request(0, stream.raw(), 0, b"x")).expect("in order");
    }
    // Writers that wait for room, in both directions.
    while server.has_room(streams[0]) {
        server.send(streams[0], &[], Body::Copy(&[7; 4_000])).expect("open");
    }
    while server.has_room(streams[1]) {
        server.send(streams[1], &[], Body::Shared(vec![7; 70_000].into())).expect("open");
    }
    let violation = feed(&mut server, &frame(0, 0, 0, 0, &[])).expect_err("no frame has type 0");
    for budget in [1, 100, 70_000, usize::MAX] {
        drain(|out| server.transmit(budget, out));
        assert!(!server.has_events());
        assert_eq!(feed(&mut server, &[]), Err(violation.clone()));
    }
    assert!(!server.has_output() && server.is_finished());
    assert_eq!((server.buffered_len(), server.unsent(streams[1])), (0, 0), "and holds nothing");
    // Further actions of the caller have no effect.
    server.taken(streams[0], 1);
    server.lease(5);
    server.set_memory_pressure(true);
    server.go_away(GoAwayCode::NoError, NOW, "");
    assert!(server.send_initial(streams[0], b"\x06\0").is_err());
    assert_eq!(server.respond(streams[0], Reply { status: 0, meta: &[], message: None }), None);
    assert!(!server.end_largest(Side::Unread) && !server.has_output() && !server.has_events());
}

#[test]
fn a_client_that_has_failed_has_nothing_to_tell_but_that() {
    let mut client = Client::new(Config::default(), NOW);
    let call = client.open(Open::default()).expect("room");
    while client.has_room(call) {
        client.send(call, Body::Copy(&[7; 4_000]), false).expect("open");
    }
    let greeting = [&PREFACE[..], &settings(Settings::default())].concat();
    hear(&mut client, &greeting).expect("in order");
    let violation = hear(&mut client, &frame(0, 0, 0, 0, &[])).expect_err("no frame has type 0");
    drain(|out| client.transmit(usize::MAX, out));
    client.cancel(call, 1, "");
    client.taken(call, 1);
    assert!(!client.has_events() && !client.has_output());
    assert_eq!(hear(&mut client, &[]), Err(violation));
}

#[test]
fn capacity_and_open_agree_whatever_the_server_says() {
    for_seeds(200, |random| {
        let mut client = Client::new(Config::default(), NOW);
        hear(&mut client, &PREFACE).expect("in order");
        hear(&mut client, &settings(Settings::default())).expect("in order");
        let mut open = Vec::new();
        let (mut streams_max, mut lease, mut now) = (128, usize::MAX, NOW);
        for _ in 0..300 {
            let drained = drain(|out| client.transmit(usize::MAX, out));
            drop(drained);
            match random.below(8) {
                0 => {
                    streams_max = [0, 1, 100, 127, 128, 129, 200, 300, 1_000][random.below(9)];
                    let max_streams = streams_max as u32;
                    let bytes = settings(Settings { max_streams, ..Settings::default() });
                    now += Duration::from_secs(1); // a sane rate
                    let mut input = &bytes[..];
                    while client.receive(&mut input, now).expect("in order").is_some() {}
                }
                1 => {
                    lease = [0, 1, 50, 150, 400, 1 << 30][random.below(6)];
                    hear(&mut client, &frame(raw::LEASE, 0, 0, lease as u32, &[]))
                        .expect("in order");
                }
                2 | 3 => {
                    for _ in 0..random.below(open.len() + 1) {
                        let stream: StreamId = open.swap_remove(random.below(open.len()));
                        let end = frame(RESPONSE, END | NOMSG, stream.raw(), 0, &[]);
                        hear(&mut client, &end).expect("in order");
                    }
                }
                4 => {
                    // The call was given up before it was sent.
                    let message = Some(Body::Shared(vec![0; 100_000].into()));
                    let call = Open { message, end: true, ..Open::default() };
                    if let Ok(stream) = client.open(call) {
                        client.cancel(stream, 4, "");
                    }
                }
                _ => {
                    for _ in 0..random.below(300) {
                        let room = client.capacity();
                        assert_eq!(room, streams_max.min(lease).saturating_sub(open.len()));
                        let opened = client.open(Open { end: true, ..Open::default() });
                        match opened {
                            Ok(stream) => {
                                assert!(room > 0);
                                assert!((stream.slot() as usize) < streams_max.max(128));
                                assert!(!open.contains(&stream), "{stream} is in use");
                                open.push(stream);
                            }
                            Err(OpenError::Full | OpenError::Leased) => assert_eq!(room, 0),
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            }
        }
    });
}

/// A call that is cut waits behind small ones while the server changes the credit of new streams.
/// The client reads the change before it sends; the request must come whole in spite of it.
fn credit_changes(pair: &mut Pair, change: impl FnOnce(&mut Server)) {
    let big = Some(Body::Shared(vec![7; 300_000].into()));
    let call = pair.client.open(Open { message: big, end: true, ..Open::default() }).expect("room");
    for _ in 0..40 {
        pair.unary(b"small");
    }
    change(&mut pair.server);
    pair.down().expect("in order");
    pair.settle(&mut idle);
    let is_whole = |asked: &Asked| matches!(asked, Asked::Request { stream, message: Some(message), .. } if *stream == call && message.len() == 300_000);
    assert!(pair.asked.iter().any(is_whole), "the long request never came whole");
    assert_eq!(pair.asked.len(), 41);
}

#[test]
fn a_request_does_not_overtake_the_ack_of_a_lower_credit() {
    let mut pair = Pair::new(Cut::Nowhere);
    pair.settle(&mut idle);
    credit_changes(&mut pair, |server| server.set_memory_pressure(true));
}

#[test]
fn a_request_does_not_overtake_the_ack_of_a_higher_credit() {
    let mut pair = Pair::new(Cut::Nowhere);
    // The server has the client's settings, and its own are on their way.
    pair.up(&mut idle).expect("in order");
    credit_changes(&mut pair, |_| {});
}

#[test]
fn calls_that_are_given_up_unsent_leave_their_slot_as_it_was() {
    let mut pair = Pair::new(Cut::Nowhere);
    pair.settle(&mut idle);
    for _ in 0..2 {
        let call = pair.unary(b"served");
        pair.settle(&mut idle);
        let reply = Reply { status: 0, meta: &[], message: Some(Body::Copy(b"")) };
        assert!(pair.server.respond(call, reply).is_some());
        pair.settle(&mut idle);
        // The socket takes nothing for a while, and calls run into their deadlines.
        for _ in 0..2_100 {
            let message = Some(Body::Shared(vec![7; 100_000].into()));
            let call = Open { message, end: true, ..Open::default() };
            let call = pair.client.open(call).expect("room");
            pair.client.cancel(call, 4, "");
        }
    }
    let call = pair.unary(b"served");
    assert_eq!(call, StreamId::new(0, 3));
    pair.settle(&mut idle);
    assert_eq!(pair.asked.len(), 3);
}

/// A GOAWAY for a call that runs.
fn go_away(code: u32) -> Vec<u8> {
    let mut body = Vec::new();
    GoAway { code, drain_ms: 5_000, reason: b"\x1b]0;bye" }.encode(&mut body);
    frame(GO_AWAY, 0, 0, 1, &body)
}

#[test]
fn a_farewell_with_an_error_closes_at_once_at_either_end() {
    for code in 0..13 {
        let is_orderly = [GoAwayCode::NoError.code(), GoAwayCode::MaxAge.code()].contains(&code);
        let reason = String::from(" ]0;bye");
        let left = Violation::PeerLeft { code, reason: reason.clone() };

        let mut pair = Pair::new(Cut::Nowhere);
        let call = pair.unary(b"runs");
        pair.settle(&mut idle);
        let events = feed(&mut pair.server, &go_away(code));
        let reply = Reply { status: 0, meta: &[], message: Some(Body::Copy(b"done")) };
        assert_eq!(pair.server.respond(call, reply).is_some(), is_orderly, "code {code}");
        match is_orderly {
            true => assert!(matches!(&events.expect("in order")[..], [Asked::Leaving(..)])),
            false => assert_eq!(events, Err(left.clone())),
        }
        assert_eq!(pair.server.has_output(), is_orderly);

        let mut pair = Pair::new(Cut::Nowhere);
        let calls = [pair.unary(b"runs"), pair.unary(b"crosses it")];
        pair.settle(&mut idle);
        let mut input = &go_away(code)[..];
        let event = pair.client.receive(&mut input, NOW).expect("the event comes first");
        assert!(matches!(event, Some(ringway_wire::native::ClientEvent::Leaving { .. })));
        let accepted = calls.map(|call| pair.client.was_accepted(call, 1));
        assert_eq!(accepted, [true, false], "what was executed is known in any case");
        let end = hear(&mut pair.client, &[]);
        assert_eq!(end, if is_orderly { Ok(vec![]) } else { Err(left) });
        assert!(!pair.client.has_output() && pair.client.capacity() == 0);
    }
}
