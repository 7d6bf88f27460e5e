//! The order of streams: windows, slow readers, and long messages beside short ones.

use std::time::Duration;

use bytes::Bytes;
use ringway_wire::native::{
    Body, Config, Open, Outgoing, Reply, ServerEvent, StreamId, UNSENT_MARK,
};

use crate::support::pair::{Asked, Cut, Pair, Told, drain, idle};

const NOW: Duration = Duration::ZERO;

/// A pair with a running call whose reply credit is the smallest possible.
fn running() -> (Pair, StreamId) {
    let mut pair = Pair::new(Cut::Nowhere);
    let call = pair.unary(b"watch");
    pair.settle(&mut idle);
    (pair, call)
}

/// Gives `bytes` to the client without taking messages. Returns how many arrived for `stream`.
fn deliver(pair: &mut Pair, bytes: &[u8], stream: StreamId) -> usize {
    let mut came = 0;
    let mut input = bytes;
    while let Some(event) = pair.client.receive(&mut input, NOW).expect("well-formed") {
        came += usize::from(matches!(Told::from(event), Told::Message(id, _) if id == stream));
    }
    came
}

fn all_down(pair: &mut Pair) -> Vec<u8> {
    drain(|out| pair.server.transmit(usize::MAX, out))
}

#[test]
fn a_slow_reader_gets_one_window_and_stalls_nobody() {
    let (mut pair, slow) = running();
    let fast = pair.unary(b"other");
    pair.settle(&mut idle);
    for _ in 0..500 {
        pair.server.send(slow, &[], Body::Copy(&[1; 1_000])).expect("open");
    }
    let bytes = all_down(&mut pair);
    // The window, and the first message, which has returned its own credit but not yet half a window.
    assert_eq!(deliver(&mut pair, &bytes, slow), 65);
    assert!(!pair.server.has_output());
    assert!(pair.server.unsent(slow) > 400_000);
    for _ in 0..500 {
        pair.server.send(fast, &[], Body::Copy(&[2; 1_000])).expect("open");
        pair.down().expect("well-formed");
        pair.up(&mut idle).expect("well-formed");
    }
    assert_eq!(pair.messages(fast).len(), 500);
    // The reader reads again.
    for _ in 0..65 {
        pair.client.taken(slow, 1);
    }
    pair.settle(&mut idle);
    assert_eq!(pair.messages(slow).len(), 435);
    assert_eq!(pair.server.unsent(slow), 0);
    assert!(pair.asked.contains(&Asked::Writable(slow)), "{:?}", pair.asked);
}

#[test]
fn messages_of_no_bytes_are_not_free() {
    let (mut pair, stream) = running();
    for _ in 0..10_000 {
        pair.server.send(stream, &[], Body::Copy(b"")).expect("open");
    }
    let bytes = all_down(&mut pair);
    assert_eq!(deliver(&mut pair, &bytes, stream), 65_536 / 16);
}

#[test]
fn a_message_longer_than_the_window_arrives_behind_others() {
    for taken_late in [false, true] {
        let (mut pair, stream) = running();
        let long: Bytes = vec![5; 3_000_000].into();
        pair.server.send(stream, &[], Body::Copy(b"first")).expect("open");
        pair.server.send(stream, &[], Body::Shared(long.clone())).expect("open");
        pair.server.send(stream, &[], Body::Copy(b"last")).expect("open");
        let bytes = all_down(&mut pair);
        assert!(bytes.len() < 70_000, "one window");
        assert_eq!(deliver(&mut pair, &bytes, stream), 1);
        if taken_late {
            pair.up(&mut idle).expect("well-formed");
            assert!(!pair.server.has_output(), "the first message was not taken");
        }
        pair.client.taken(stream, 1);
        pair.settle(&mut idle);
        assert_eq!(pair.messages(stream), [&long[..], b"last"]);
    }
}

#[test]
fn a_request_longer_than_the_window_arrives() {
    let mut config = Config::default();
    config.settings.initial_credit = 65_536;
    let mut pair = Pair::with(Cut::Every(10_000), config.clone(), config);
    let long: Bytes = vec![6; 4_000_000].into();
    let call = pair.client.open(Open::default()).expect("room");
    pair.client.send(call, Body::Shared(long.clone()), false).expect("open");
    pair.client.send(call, Body::Shared(long.clone()), true).expect("open");
    let mut lens = Vec::new();
    pair.settle(&mut |server, asked| {
        if let Asked::Message { stream, message, .. } = asked {
            lens.push(message.len());
            server.taken(*stream, 1);
        }
    });
    assert_eq!(lens, [long.len(), long.len()]);
}

/// The order in which messages and ends of calls arrive at the client.
fn arrivals(pair: &Pair) -> Vec<StreamId> {
    let of_calls = pair.told.iter().filter_map(|told| match told {
        Told::Response { stream, .. } => Some(*stream),
        _ => None,
    });
    of_calls.collect()
}

#[test]
fn short_replies_overtake_long_ones() {
    let mut pair = Pair::new(Cut::Nowhere);
    pair.settle(&mut idle);
    let open = || Open { end: true, initial_credit: 8 << 20, ..Open::default() };
    let long = pair.client.open(open()).expect("room");
    let short = pair.client.open(open()).expect("room");
    pair.settle(&mut idle);
    let message = Some(Body::Shared(vec![0; 4 << 20].into()));
    assert!(pair.server.respond(long, Reply { status: 0, meta: &[], message }).is_some());
    // The socket takes some of it before the short reply is there.
    let some = drain(|out| pair.server.transmit(100_000, out));
    assert!((100_000..110_000).contains(&some.len()), "{}", some.len());
    assert_eq!(deliver(&mut pair, &some, long), 0);
    let message = Some(Body::Copy(b"short"));
    assert!(pair.server.respond(short, Reply { status: 0, meta: &[], message }).is_some());
    pair.settle(&mut idle);
    assert_eq!(arrivals(&pair), [short, long]);
}

#[test]
fn a_fragment_passes_after_sixteen_short_messages() {
    let (mut pair, long) = running();
    let short = pair.unary(b"other");
    pair.settle(&mut idle);
    pair.server.send(long, &[], Body::Shared(vec![0; 100_000].into())).expect("open");
    for _ in 0..200 {
        pair.server.send(short, &[], Body::Copy(&[1; 100])).expect("open");
    }
    // A socket that takes little at a time.
    let mut before_long = 0;
    while pair.server.has_output() {
        let bytes = drain(|out| pair.server.transmit(1_000, out));
        before_long += deliver(&mut pair, &bytes, short);
        if pair.server.unsent(long) < 100_000 {
            break;
        }
    }
    assert!((1..=16).contains(&before_long), "{before_long} messages before the first fragment");
}

#[test]
fn streams_take_turns() {
    let mut pair = Pair::new(Cut::Nowhere);
    pair.settle(&mut idle);
    let open = || Open { end: true, initial_credit: 8 << 20, ..Open::default() };
    let calls: Vec<_> = (0..4).map(|_| pair.client.open(open()).expect("room")).collect();
    pair.settle(&mut idle);
    for call in &calls {
        let message = Some(Body::Shared(vec![0; 1 << 20].into()));
        assert!(pair.server.respond(*call, Reply { status: 0, meta: &[], message }).is_some());
    }
    let mut least_behind = 0;
    while calls.iter().all(|call| pair.server.unsent(*call) > 0) {
        let unsent: Vec<_> = calls.iter().map(|call| pair.server.unsent(*call)).collect();
        let (most, least) = (unsent.iter().max(), unsent.iter().min());
        least_behind = least_behind.max(most.expect("four") - least.expect("four"));
        let bytes = drain(|out| pair.server.transmit(1, out));
        deliver(&mut pair, &bytes, calls[0]);
    }
    assert!(least_behind <= 65_536, "{least_behind} bytes between first and last");
    pair.settle(&mut idle);
    assert_eq!(pair.client.in_flight(), 0);
}

#[test]
fn a_writer_hears_when_there_is_room() {
    let mut pair = Pair::new(Cut::Nowhere);
    let call = pair.client.open(Open::default()).expect("room");
    pair.settle(&mut idle);
    let mut sent = 0;
    while pair.client.unsent(call) <= UNSENT_MARK {
        pair.client.send(call, Body::Copy(&[0; 1_000]), false).expect("open");
        sent += 1;
    }
    assert!(!pair.client.has_events());
    pair.settle(&mut |server, asked| {
        if let Asked::Message { stream, .. } = asked {
            server.taken(*stream, 1);
        }
    });
    assert_eq!(pair.told, [Told::Writable(call)]);
    assert_eq!(pair.asked.len(), 1 + sent);
}

#[test]
fn a_writer_waits_while_much_is_written_and_goes_on_when_it_has_left() {
    let (mut pair, call) = running();
    let mut sent = 0;
    // This is within the window, so that only the output holds it back.
    while pair.server.send(call, &[], Body::Copy(&[1; 100])).expect("open") {
        sent += 100;
        assert!(pair.server.has_room(call) && sent < UNSENT_MARK, "{sent} bytes");
    }
    assert!(!pair.server.has_room(call) && !pair.server.has_events());
    drain(|out| pair.server.transmit(1_000, out));
    assert!(!pair.server.has_room(call) && !pair.server.has_events(), "most of it is left");
    all_down(&mut pair);
    assert!(pair.server.has_room(call));
    let event = pair.server.receive(&mut &[][..], NOW).expect("well-formed");
    assert!(matches!(event, Some(ServerEvent::Writable { stream }) if stream == call), "{event:?}");
    assert!(!pair.server.has_events(), "it is told once");
}

/// The parts in which `server` hands out what it has, at most `budget` bytes each time.
fn parts(pair: &mut Pair, budget: usize) -> Vec<Result<Bytes, Vec<u8>>> {
    let mut parts = Vec::new();
    while pair.server.has_output() {
        pair.server.transmit(budget, &mut |out| {
            parts.push(match out {
                Outgoing::Shared(bytes) => Ok(bytes),
                Outgoing::Copy(bytes) => Err(bytes.to_vec()),
            });
        });
    }
    parts
}

#[test]
fn a_reply_of_one_frame_goes_out_in_its_place_and_is_not_copied() {
    for (with_crc, budget) in [(false, usize::MAX), (true, usize::MAX), (false, 10_000), (true, 7)]
    {
        let mut config = Config::default();
        config.settings.checksum = with_crc;
        let mut pair = Pair::with(Cut::Nowhere, config, Config::default());
        pair.settle(&mut idle);
        let calls: Vec<_> = (0..3).map(|_| pair.unary(b"ask")).collect();
        pair.settle(&mut idle);
        let long = Bytes::from((0..60_000u32).map(|at| at as u8).collect::<Vec<_>>());
        let bodies = [Body::Copy(b"before"), Body::Shared(long.clone()), Body::Copy(b"behind")];
        for (call, body) in calls.iter().zip(bodies) {
            let reply = Reply { status: 0, meta: &[], message: Some(body) };
            assert_eq!(pair.server.respond(*call, reply), Some(0));
        }
        let parts = parts(&mut pair, budget);
        let shared = parts.iter().filter_map(|part| part.as_ref().ok());
        let first = shared.clone().next().expect("a shared part");
        assert_eq!(first.as_ptr(), long.as_ptr(), "the caller's own bytes");
        assert_eq!(shared.map(Bytes::len).sum::<usize>(), long.len());
        let wire: Vec<u8> = parts
            .iter()
            .flat_map(|part| part.as_ref().map_or_else(|copied| &copied[..], |shared| &shared[..]))
            .copied()
            .collect();
        let mut input = &wire[..];
        while let Some(event) = pair.client.receive(&mut input, NOW).expect("well-formed") {
            pair.told.push(Told::from(event));
        }
        assert_eq!(arrivals(&pair), calls[..], "in the order in which they were given");
        let long = |told: &Told| matches!(told, Told::Response { message: Some(message), .. } if *message == long);
        assert_eq!(pair.told.iter().filter(|told| long(told)).count(), 1);
    }
}
