//! Statements of the specification about the meaning of a number or the place of a bound, one by one.

use std::time::Duration;

use ringway_wire::native::{
    Body, Client, Config, Flags, FrameKind, GoAwayCode, Header, Open, Reply, Server, StreamId,
    Violation,
};

use crate::support::by_hand::feed;
use crate::support::pair::{Asked, Cut, Pair, Told, drain, idle};
use crate::support::raw::{
    CREDIT, DATA, END, MORE, NOMSG, RESPONSE, RST, SETTINGS, frame, frames, greeting, id, named,
    request, with_meta,
};

const NOW: Duration = Duration::ZERO;
const FIRST: u32 = id(0, 1);
const OPEN: u8 = 0;

fn server(config: Config) -> Server {
    let mut server = Server::new(config, NOW);
    assert_eq!(feed(&mut server, &greeting()), Ok(vec![]));
    assert_eq!(feed(&mut server, &frame(SETTINGS, 0x80, 0, 0, &[])), Ok(vec![]));
    drain(|out| server.transmit(usize::MAX, out));
    server
}

fn said(server: &mut Server) -> Vec<(Header, Vec<u8>)> {
    frames(&drain(|out| server.transmit(usize::MAX, out)))
}

#[test]
fn method_numbers_go_up_to_what_the_server_keeps() {
    let mut config = Config::default();
    config.settings.max_methods = 10_000;
    let name = b"\x01\x05a.B/C";
    for (number, is_taken) in [(4_097, true), (10_000, true), (10_001, false)] {
        let mut server = server(config.clone());
        let asked = feed(&mut server, &named(FIRST, number, name));
        let code = asked.map_err(|violation| violation.code());
        assert_eq!(code.is_ok(), is_taken, "{number}");
        assert!(is_taken || code == Err(GoAwayCode::Protocol));
    }
    // The client obeys the bound and sends the name instead.
    let mut pair = Pair::with(Cut::Nowhere, Config::default(), config);
    pair.settle(&mut idle);
    for (method, sent) in [(10_000, 10_000), (10_001, 0), (10_001, 0)] {
        let call = Open { method, name: "a.B/C", end: true, ..Open::default() };
        pair.client.open(call).expect("room");
        pair.settle(&mut idle);
        let Some(Asked::Request { head, meta, .. }) = pair.asked.last() else { panic!() };
        assert_eq!((head.method, &meta[..]), (sent, &name[..]));
    }
}

#[test]
fn the_codec_of_a_call_is_as_its_client_says_it() {
    let mut pair = Pair::new(Cut::Nowhere);
    for codec in [0, 1, 2, 128, 255] {
        pair.client.open(Open { codec, end: true, ..Open::default() }).expect("room");
        pair.settle(&mut idle);
        let Some(Asked::Request { head, .. }) = pair.asked.last() else { panic!() };
        assert_eq!(head.codec, codec);
    }
}

#[test]
fn long_fragments_are_for_a_stream_that_is_alone() {
    for streams in [1, 2] {
        let mut pair = Pair::new(Cut::Nowhere);
        pair.settle(&mut idle);
        let open = || Open { end: true, initial_credit: 8 << 20, ..Open::default() };
        let calls: Vec<_> = (0..streams).map(|_| pair.client.open(open()).expect("room")).collect();
        pair.settle(&mut idle);
        for call in calls {
            let message = Some(Body::Shared(vec![0; 600_000].into()));
            assert!(pair.server.respond(call, Reply { status: 0, meta: &[], message }).is_some());
        }
        let lens: Vec<_> = said(&mut pair.server).iter().map(|(header, _)| header.len).collect();
        let long = lens.iter().filter(|&&len| len > 65_536).count();
        match streams {
            1 => assert_eq!(lens, [262_144, 262_144, 75_712]),
            _ => assert!(lens[..16].iter().all(|&len| len == 65_536) && long <= 1, "{lens:?}"),
        }
    }
}

#[test]
fn frames_without_a_message_use_no_credit() {
    let mut server = server(Config::default());
    feed(&mut server, &request(END, FIRST, 0, b"x")).expect("in order");
    let call = StreamId::from_raw(FIRST);
    server.send_initial(call, b"\x80\x00").expect("open");
    server.send(call, &[], Body::Shared(vec![0; 65_536].into())).expect("open");
    assert!(server.respond(call, Reply { status: 0, meta: &[], message: None }).is_some());
    let kinds: Vec<_> = said(&mut server).iter().map(|(header, _)| header.kind).collect();
    assert_eq!(kinds, [FrameKind::Data, FrameKind::Data, FrameKind::Response], "all at once");

    let mut config = Config::default();
    config.settings.initial_credit = 65_536;
    let mut server = self::server(config);
    let full = frame(DATA, 0, FIRST, 0, &vec![0; 65_536]);
    let empty = frame(DATA, NOMSG, FIRST, 0, &[]);
    let input = [request(NOMSG, FIRST, 0, &[]), empty.clone(), full.clone(), full, empty].concat();
    let asked = feed(&mut server, &input).expect("within the credit, as the first was returned");
    assert_eq!(asked.len(), 3);
}

#[test]
fn nothing_is_returned_to_a_sender_that_has_ended() {
    for (end, credits) in [(0, 1), (END, 0)] {
        let mut server = server(Config::default());
        feed(&mut server, &request(NOMSG, FIRST, 0, &[])).expect("in order");
        let message = vec![0; 200_000];
        let more = frame(DATA, MORE, FIRST, 0, &message);
        let last = frame(DATA, end, FIRST, 0, &message);
        let asked = feed(&mut server, &[&more[..], &more, &last].concat()).expect("in order");
        assert_eq!(asked.len(), 1);
        let credit = said(&mut server).into_iter().filter(|(header, _)| {
            assert!(header.kind != FrameKind::Response);
            header.kind == FrameKind::Credit
        });
        assert_eq!(credit.count(), credits, "END: {}", end == END);
    }
}

#[test]
fn slots_are_below_128_at_least_and_calls_within_max_streams() {
    let mut config = Config::default();
    config.settings.max_streams = 2;
    let mut server = server(config.clone());
    let mut answers = Vec::new();
    for slot in [127, 126, 0] {
        let asked = feed(&mut server, &request(END, id(slot, 1), 0, b"x")).expect("in its table");
        let refused = said(&mut server).pop().map(|(header, body)| (header.aux, body));
        answers.push((asked.len(), refused));
    }
    let refused = Some((14, b"\x06\x00".to_vec()));
    assert_eq!(answers, [(1, None), (1, None), (0, refused)]);
    let violation = feed(&mut server, &request(END, id(128, 1), 0, b"x")).expect_err("beyond it");
    assert_eq!(violation, Violation::SlotOutOfRange { slot: 128, max: 128 });
    // The client accepts as many, whatever their slots are.
    let mut pair = Pair::with(Cut::Nowhere, Config::default(), config);
    let early: Vec<_> = (0..5).map(|_| pair.unary(b"early")).collect();
    pair.settle(&mut |server, asked| {
        if let Asked::Request { stream, .. } = asked {
            server.respond(*stream, Reply { status: 0, meta: &[], message: None });
        }
    });
    let answers: Vec<_> = early.iter().map(|&call| pair.response(call)).collect();
    assert!(answers.iter().all(Option::is_some), "{answers:?}");
    assert_eq!(pair.client.capacity(), 2);
}

#[test]
fn one_message_may_be_longer_than_all_others_may_be_together() {
    const LEN: usize = 66 << 20;
    let mut config = Config::default();
    (config.settings.max_message, config.settings.initial_credit) = (70 << 20, 80 << 20);
    let mut server = server(config);
    let piece = vec![0; 262_144];
    feed(&mut server, &request(MORE, FIRST, LEN as u32, &piece)).expect("in order");
    for _ in 0..LEN / piece.len() - 2 {
        let asked = feed(&mut server, &frame(DATA, MORE, FIRST, 0, &piece));
        assert_eq!(asked, Ok(vec![]));
    }
    assert_eq!(server.in_flight(), 1, "it goes on");
    // Nothing else fits beside it.
    feed(&mut server, &request(MORE, id(1, 1), 10 << 20, &piece)).expect("in order");
    feed(&mut server, &frame(DATA, MORE, id(1, 1), 0, &piece)).expect("in order");
    let mut last = &frame(DATA, END, FIRST, 0, &piece)[..];
    let event = server.receive(&mut last, NOW).expect("in order").map(Asked::from);
    assert!(
        matches!(event, Some(Asked::Request { message: Some(message), .. }) if message.len() == LEN)
    );
}

#[test]
fn other_numbers_in_a_reset_read_as_cancelled() {
    for (number, code) in [(0, 1), (1, 1), (4, 4), (16, 16), (17, 1), (u32::MAX, 1)] {
        let mut server = server(Config::default());
        feed(&mut server, &request(END, FIRST, 0, b"x")).expect("in order");
        let asked = feed(&mut server, &frame(RST, 0, FIRST, number, b"why")).expect("in order");
        let cancelled = Asked::Cancelled(StreamId::from_raw(FIRST), code, String::from("why"));
        assert_eq!(asked, [cancelled]);
        assert_eq!(said(&mut server)[0].0.aux, u32::from(code));
    }
}

#[test]
fn a_response_without_a_message_voids_one_that_has_begun() {
    let mut client = Client::new(Config::default(), NOW);
    client.open(Open::default()).expect("room");
    drain(|out| client.transmit(usize::MAX, out));
    let half = frame(DATA, MORE, FIRST, 100, b"half");
    let input = [greeting(), half, frame(RESPONSE, END | NOMSG, FIRST, 5, &[])].concat();
    let mut told = Vec::new();
    let mut input = &input[..];
    while let Some(event) = client.receive(&mut input, NOW).expect("in order") {
        told.push(Told::from(event));
    }
    assert!(matches!(&told[..], [Told::Response { status: 5, message: None, .. }]), "{told:?}");
    assert_eq!((client.in_flight(), client.incomplete_len()), (0, 0));
}

#[test]
fn what_is_reserved_breaks_the_protocol_where_it_cannot_be_skipped() {
    let mut summed = request(OPEN, FIRST, 0, b"x");
    summed[25] = 1; // low half of `compression`, which methods refuse
    let asked = feed(&mut server(Config::default()), &summed).expect("a call that nobody serves");
    assert!(matches!(&asked[..], [Asked::Request { head, .. }] if head.compression == 1));
    let compressed = Flags::COMPRESSED.bits();
    let tracestate =
        with_meta(0x10, END, FIRST, 0, 3, &[&request(0, 0, 0, b"")[16..], b"\x81\x01x"].concat());
    for (input, is_fine) in [
        (request(END | compressed, FIRST, 0, b"x"), false),
        (request(END, FIRST | 1 << 31, 0, b"x"), false),
        ([request(OPEN, FIRST, 0, b"x"), frame(DATA, 0x10, FIRST, 0, b"raw")].concat(), false),
        (tracestate, true),
        ([request(OPEN, FIRST, 0, b"x"), frame(CREDIT, 0, FIRST, 5_000, &[])].concat(), true),
    ] {
        let outcome = feed(&mut server(Config::default()), &input);
        let expected = if is_fine { None } else { Some(GoAwayCode::Protocol) };
        assert_eq!(outcome.err().map(|violation| violation.code()), expected);
    }
}
