//! Both machines of HTTP/2 against each other, with input cut at every byte.

use std::collections::BTreeMap;
use std::time::Duration;

use ringway_wire::http2::{
    Body, Calling, Connection, ErrorCode, Event, Gone, Http2Client, Http2Config, Http2Server, Key,
    Line, NewRequest, NoStream, Piece, Serving, StreamHandle,
};

use crate::support::http2::*;
use crate::support::{Random, for_seeds};

/// The events of one stream.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Came {
    heads: usize,
    data: Vec<u8>,
    ended: bool,
    trailers: bool,
}

/// Both ends, and the bytes in flight between them.
struct Pair {
    client: Http2Client,
    server: Http2Server,
    at_server: BTreeMap<u32, Came>,
    at_client: BTreeMap<u32, Came>,
    /// Streams as the server knows them.
    known: BTreeMap<u32, StreamHandle>,
    others: Vec<String>,
    /// The server answers a request when it has ended, with its data.
    echoes: bool,
    now: Duration,
}

impl Pair {
    fn new() -> Self {
        Self::with(client(), server())
    }

    /// Both ends accept frames of 16 KiB, as most implementations do.
    fn with_short_frames() -> Self {
        let short = |config| Http2Config { max_frame: 16 << 10, ..config };
        let client = Connection::<Calling>::new(short(Http2Config::client()), vocabulary(), NOW);
        let server = Connection::<Serving>::new(short(Http2Config::default()), vocabulary(), NOW);
        Self::with(client, server)
    }

    fn with(client: Http2Client, server: Http2Server) -> Self {
        let (at_server, at_client) = Default::default();
        let (known, others, now) = Default::default();
        Self { client, server, at_server, at_client, known, others, echoes: true, now }
    }

    fn open(&mut self, body: &[u8], end: bool) -> StreamHandle {
        let body = Some(Body::Shared(body.to_vec().into()));
        self.client.open(NewRequest { head: REQUEST, prefix: &[], body, end }).expect("room")
    }

    /// Moves bytes both ways, in pieces that `cut` makes, until nothing moves.
    fn run(&mut self, mut cut: impl FnMut(&[u8]) -> Vec<Vec<u8>>) {
        while self.client.has_output() || self.server.has_output() {
            let up = output(&mut self.client, 40_000);
            for piece in cut(&up) {
                self.serve(&piece);
            }
            let down = output(&mut self.server, 40_000);
            for piece in cut(&down) {
                self.listen(&piece);
            }
        }
    }

    fn run_whole(&mut self) {
        self.run(|wire| vec![wire.to_vec()]);
    }

    fn serve(&mut self, mut piece: &[u8]) {
        while let Some(event) = self.server.receive(&mut piece, self.now).expect("well-formed") {
            self.others.extend(note(&mut self.at_server, &event));
            let (stream, data) = match event {
                Event::Head { stream, data, .. } => {
                    self.known.insert(stream.id(), stream);
                    let head = self.server.fields().head();
                    assert_eq!(
                        (head.value(Key::PATH), head.value(Key::own(0))),
                        (Some(6), Some(1))
                    );
                    (stream, data)
                }
                Event::Data { stream, data, .. } => (stream, data),
                Event::Trailers { stream } => (stream, Piece::EMPTY),
                Event::Reset { stream, .. } | Event::Failed { stream, .. } => {
                    self.server.let_go(stream);
                    continue;
                }
                _ => continue,
            };
            self.server.taken(stream, data.len());
            if self.echoes && self.at_server[&stream.id()].ended {
                let body = self.at_server[&stream.id()].data.clone();
                let body = Body::Shared(body.into());
                self.server.respond(stream, RESPONSE, &[], body, TRAILERS).expect("open");
            }
        }
        assert!(piece.is_empty());
    }

    fn listen(&mut self, mut piece: &[u8]) {
        while let Some(event) = self.client.receive(&mut piece, self.now).expect("well-formed") {
            self.others.extend(note(&mut self.at_client, &event));
            match event {
                Event::Head { stream, data, .. } | Event::Data { stream, data, .. } => {
                    self.client.taken(stream, data.len());
                }
                _ => {}
            }
        }
        assert!(piece.is_empty());
    }
}

/// Records an event of a stream. Returns other events as text.
fn note(came: &mut BTreeMap<u32, Came>, event: &Event<'_>) -> Option<String> {
    match event {
        Event::Head { stream, data, end } => {
            let came = came.entry(stream.id()).or_default();
            came.heads += 1;
            came.data.extend_from_slice(data);
            came.ended |= end;
        }
        Event::Data { stream, data, end } => {
            let came = came.entry(stream.id()).or_default();
            assert!(!came.ended && (*end || !data.is_empty()));
            came.data.extend_from_slice(data);
            came.ended |= end;
        }
        Event::Trailers { stream } => {
            let came = came.entry(stream.id()).or_default();
            (came.ended, came.trailers) = (true, true);
        }
        _ => return Some(told(event)),
    }
    None
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn a_call_is_answered_however_its_bytes_are_cut() {
    let whole = {
        let mut pair = Pair::new();
        pair.open(b"hello", true);
        pair.run_whole();
        (pair.at_server, pair.at_client)
    };
    assert_eq!(whole.1[&1].data, b"hello");
    assert!(whole.1[&1].ended && whole.1[&1].trailers && whole.1[&1].heads == 1);
    for at in 0..200 {
        let mut pair = Pair::new();
        pair.open(b"hello", true);
        pair.run(|wire| {
            let (front, back) = wire.split_at(at.min(wire.len()));
            vec![front.to_vec(), back.to_vec()]
        });
        assert_eq!((pair.at_server, pair.at_client), whole, "cut at {at}");
    }
    let mut pair = Pair::new();
    pair.open(b"hello", true);
    pair.run(|wire| wire.chunks(1).map(<[u8]>::to_vec).collect());
    assert_eq!((pair.at_server, pair.at_client), whole);
}

#[test]
fn many_calls_of_all_sizes_end_and_leave_nothing_behind() {
    for_seeds(8, |random| {
        let mut pair = Pair::new();
        let mut sent = BTreeMap::new();
        for _ in 0..10 {
            for _ in 0..random.below(8) {
                let len = [0, random.below(100), random.below(20_000), random.below(300_000)];
                let body = pattern(len[random.below(4)]);
                if random.below(2) == 0 {
                    sent.insert(pair.open(&body, true).id(), body);
                } else {
                    let stream = pair.open(&body, false);
                    let more = pattern(random.below(70_000));
                    pair.client.send(stream, b"pre", Body::Copy(&more), false).expect("open");
                    pair.client.finish(stream, &[]).expect("open");
                    sent.insert(stream.id(), [&body[..], b"pre", &more].concat());
                }
            }
            let mut cuts = Random::new(random.next());
            let piece_max = [7, 100, 5_000, 100_000][random.below(4)];
            pair.run(|wire| cuts.pieces(wire, piece_max).iter().map(|p| p.to_vec()).collect());
        }
        assert_eq!(pair.at_client.len(), sent.len());
        for (id, body) in sent {
            let came = &pair.at_client[&id];
            assert!(came.data == body && came.trailers && came.heads == 1, "stream {id}");
        }
        assert_eq!((pair.client.in_flight(), pair.server.in_flight()), (0, 0));
        assert!(pair.others.iter().all(|event| event.starts_with("writable")), "{:?}", pair.others);
    });
}

#[test]
fn the_second_call_is_a_few_bytes_and_one_piece() {
    let mut pair = Pair::new();
    pair.open(&[7; 52], true);
    pair.run_whole();
    pair.open(&[7; 52], true);
    let up = output(&mut pair.client, usize::MAX);
    assert_eq!(up.len(), 9 + REQUEST.len() + 9 + 52);
    pair.serve(&up);
    let mut parts = 0;
    let mut len = 0;
    pair.server.transmit(usize::MAX, &mut |out| {
        parts += 1;
        if let ringway_wire::http2::Outgoing::Copy(bytes) = out {
            len += bytes.len();
        }
    });
    assert_eq!((parts, len), (1, 9 + 2 + 9 + 52 + 9 + 1));
}

#[test]
fn a_stream_whose_reader_stops_holds_up_no_other() {
    let mut pair = Pair::new();
    pair.echoes = false;
    // The server takes nothing of the first stream, whose data exceed the machine's window.
    let stuck = pair.open(&pattern(3 << 20), true);
    let up = output(&mut pair.client, usize::MAX);
    let mut input = &up[..];
    while pair.server.receive(&mut input, NOW).expect("well-formed").is_some() {}
    let down = output(&mut pair.server, usize::MAX);
    pair.listen(&down);
    // The rest of the stream's window goes out, and then no more of it.
    for _ in 0..100 {
        let up = output(&mut pair.client, usize::MAX);
        let mut input = &up[..];
        while pair.server.receive(&mut input, NOW).expect("well-formed").is_some() {}
        let down = output(&mut pair.server, usize::MAX);
        pair.listen(&down);
    }
    assert_eq!(pair.client.unsent(stuck), (3 << 20) - (1 << 20));
    pair.echoes = true;
    for _ in 0..100 {
        let call = pair.open(&pattern(100_000), true);
        pair.run_whole();
        assert!(pair.at_client[&call.id()].trailers, "{call}");
    }
}

#[test]
fn streams_take_turns_frame_by_frame() {
    let mut pair = Pair::new();
    pair.run_whole();
    for _ in 0..3 {
        pair.open(&pattern(200_000), true);
    }
    let small = pair.open(b"small", true);
    let up = output(&mut pair.client, usize::MAX);
    let order: Vec<u32> = frames(&up)
        .into_iter()
        .filter(|frame| frame.0 == DATA)
        .map(|(_, _, stream, _)| stream)
        .collect();
    assert_eq!(order[0], small.id(), "what is small goes first");
    assert_eq!(order[1..10], [1, 3, 5, 1, 3, 5, 1, 3, 5]);
}

#[test]
fn small_messages_do_not_keep_those_in_line_from_their_turns() {
    let mut pair = Pair::new();
    pair.run_whole();
    let large = pair.open(&pattern(100_000), true);
    let chatty =
        pair.client.open(NewRequest { head: REQUEST, ..NewRequest::default() }).expect("room");
    for _ in 0..20 {
        pair.client.send(chatty, &[], Body::Copy(b"x"), false).expect("open");
    }
    let mut others = (0..2).map(|_| {
        let request = NewRequest { head: REQUEST, ..NewRequest::default() };
        pair.client.open(request).expect("room")
    });
    let (waits, goes) = (others.next().expect("opened"), others.next().expect("opened"));
    pair.client.send(waits, &[], Body::Copy(b"z"), false).expect("open");
    assert_eq!(pair.client.unsent(waits), 1, "somebody in line is due");
    let mut up = Vec::new();
    while pair.client.unsent(large) == 100_000 {
        up.extend(output(&mut pair.client, 1));
    }
    pair.client.send(goes, &[], Body::Copy(b"z"), false).expect("open");
    assert_eq!(pair.client.unsent(goes), 0, "and has had a turn");
    up.extend(output(&mut pair.client, usize::MAX));
    let frames = frames(&up);
    let first = frames.iter().find(|frame| frame.0 == DATA).expect("content");
    assert_eq!((first.2, first.3.len()), (chatty.id(), 16));
    let rest = frames.iter().rev().find(|f| f.2 == chatty.id()).expect("the rest");
    assert_eq!(rest.3, b"xxxx", "the others waited together");
    assert!(frames.iter().any(|f| f.2 == large.id() && f.0 == DATA));
}

#[test]
fn a_writer_is_told_when_its_stream_has_room() {
    let mut pair = Pair::with_short_frames();
    pair.run_whole();
    let stream =
        pair.client.open(NewRequest { head: REQUEST, ..NewRequest::default() }).expect("room");
    assert_eq!(pair.client.send(stream, &[], Body::Copy(&pattern(60_000)), false), Ok(true));
    assert_eq!(pair.client.send(stream, &[], Body::Copy(&pattern(60_000)), false), Ok(false));
    assert!(!pair.client.has_room(stream) && pair.client.unsent(stream) == 120_000);
    pair.echoes = false;
    pair.run_whole();
    pair.listen(&[]);
    assert!(pair.client.has_room(stream));
    assert_eq!(pair.others, ["writable 1"]);
    assert_eq!(pair.at_server[&1].data.len(), 120_000);
}

#[test]
fn a_message_of_64_kib_is_one_frame_between_our_own_ends() {
    let mut pair = Pair::new();
    pair.run_whole();
    let stream =
        pair.client.open(NewRequest { head: REQUEST, ..NewRequest::default() }).expect("room");
    let message = pattern(64 << 10);
    pair.client.send(stream, &[0; 5], Body::Copy(&message), true).expect("open");
    let up = output(&mut pair.client, usize::MAX);
    let lens: Vec<_> = frames(&up).iter().filter(|f| f.0 == DATA).map(|f| f.3.len()).collect();
    assert_eq!(lens, [5 + message.len()]);
}

/// Stream, flags and length of each DATA frame.
fn data_frames(wire: &[u8]) -> Vec<(u32, u8, usize)> {
    let data = frames(wire).into_iter().filter(|frame| frame.0 == DATA);
    data.map(|(_, flags, stream, payload)| (stream, flags, payload.len())).collect()
}

#[test]
fn small_messages_sent_one_after_the_other_are_one_frame() {
    let mut pair = Pair::with_short_frames();
    pair.run_whole();
    let mut open =
        || pair.client.open(NewRequest { head: REQUEST, ..NewRequest::default() }).expect("room");
    let (one, two) = (open(), open());
    drop(output(&mut pair.client, usize::MAX));
    let send = |client: &mut Http2Client, stream: StreamHandle, len: usize, end: bool| {
        client.send(stream, &[0; 5], Body::Copy(&pattern(len)), end).expect("open");
    };
    // Up to the largest frame that the peer takes.
    (0..20).for_each(|_| send(&mut pair.client, one, 995, false));
    assert_eq!(data_frames(&output(&mut pair.client, usize::MAX)), [(1, 0, 16_000), (1, 0, 4_000)]);
    // Not what was handed out, not even in part, and not across the frames of others.
    send(&mut pair.client, one, 0, false);
    let mut wire = output(&mut pair.client, 3);
    send(&mut pair.client, one, 1, false);
    send(&mut pair.client, one, 2, false);
    send(&mut pair.client, two, 3, false);
    send(&mut pair.client, one, 4, false);
    pair.client.ping(7);
    send(&mut pair.client, one, 5, false);
    wire.extend(output(&mut pair.client, usize::MAX));
    let expected = [(1, 0, 5), (1, 0, 13), (3, 0, 8), (1, 0, 9), (1, 0, 10)];
    assert_eq!(data_frames(&wire), expected);
    // Not with what is sent from the caller's memory.
    send(&mut pair.client, one, 1, false);
    let large = Body::Shared(pattern(8_000).into());
    pair.client.send(one, &[0; 5], large, false).expect("open");
    send(&mut pair.client, one, 2, false);
    send(&mut pair.client, one, 3, true);
    send(&mut pair.client, two, 3, false);
    pair.client.finish(two, &[]).expect("open");
    let expected = [(1, 0, 6), (1, 0, 8_005), (1, 1, 15), (3, 1, 8)];
    assert_eq!(data_frames(&output(&mut pair.client, usize::MAX)), expected);
}

#[test]
fn the_server_may_answer_before_the_request_has_ended() {
    let mut pair = Pair::new();
    pair.echoes = false;
    let stream = pair.open(b"part", false);
    pair.run_whole();
    let known = pair.known[&1];
    pair.server.respond(known, RESPONSE, &[], Body::Copy(b"no more"), TRAILERS).expect("open");
    pair.client.send(stream, &[], Body::Copy(b"crosses"), false).expect("open");
    pair.run_whole();
    assert_eq!(pair.at_client[&1].data, b"no more");
    assert_eq!(pair.others, ["reset 1 NO_ERROR"]);
    assert_eq!(pair.client.send(stream, &[], Body::Copy(b"x"), false), Err(Gone));
    assert_eq!((pair.client.in_flight(), pair.server.in_flight()), (0, 0));
}

#[test]
fn a_reset_stream_counts_until_it_is_let_go() {
    let mut pair = Pair::new();
    pair.echoes = false;
    let stream = pair.open(b"part", false);
    pair.run_whole();
    pair.client.reset(stream, ErrorCode::CANCEL);
    assert_eq!(pair.client.in_flight(), 0);
    let up = output(&mut pair.client, usize::MAX);
    let event = pair.server.receive(&mut &up[..], NOW).expect("well-formed").expect("an event");
    let Event::Reset { stream, code: ErrorCode::CANCEL } = event else { panic!("{event:?}") };
    assert_eq!(pair.server.in_flight(), 1);
    assert_eq!(pair.server.respond(stream, RESPONSE, &[], Body::Copy(b""), &[]), Err(Gone));
    pair.server.let_go(stream);
    pair.server.let_go(stream);
    assert_eq!(pair.server.in_flight(), 0);
}

#[test]
fn the_servers_limit_of_streams_is_kept_and_capacity_told() {
    let mut pair = Pair::new();
    pair.echoes = false;
    pair.run_whole();
    for _ in 0..1_024 {
        pair.open(b"", false);
    }
    let full = pair.client.open(NewRequest { head: REQUEST, ..NewRequest::default() });
    assert_eq!(full, Err(NoStream::Full));
    pair.run_whole();
    let known = pair.known[&1];
    pair.server.head(known, RESPONSE, true).expect("open");
    pair.run_whole();
    // The server's early answer has come with a reset of the request.
    assert_eq!(pair.others, ["reset 1 NO_ERROR", "Capacity"]);
    pair.open(b"", false);
}

#[test]
fn trailers_behind_data_that_waits_come_behind_it() {
    let mut pair = Pair::new();
    pair.echoes = false;
    pair.open(b"", true);
    pair.run_whole();
    let stream = pair.known[&1];
    pair.server.head(stream, RESPONSE, false).expect("open");
    let body = Body::Shared(pattern(3_000_000).into());
    pair.server.send(stream, b"12345", body, false).expect("open");
    pair.server.finish(stream, TRAILERS).expect("open");
    assert_eq!(pair.server.send(stream, &[], Body::Copy(b"x"), false), Err(Gone));
    pair.run_whole();
    let came = &pair.at_client[&1];
    assert!(came.trailers && came.data.len() == 3_000_005 && came.data.starts_with(b"12345"));
    assert_eq!(pair.client.fields().head().value(Key::own(1)), Some(0));
}

#[test]
fn a_drain_serves_what_crosses_it_and_refuses_what_is_later() {
    let mut pair = Pair::new();
    pair.echoes = false;
    pair.open(b"running", false);
    pair.run_whole();
    pair.server.drain(Duration::from_secs(5));
    // It crosses the first GOAWAY.
    pair.open(b"crosses", true);
    let up = output(&mut pair.client, usize::MAX);
    let first = output(&mut pair.server, usize::MAX);
    pair.serve(&up);
    assert!(pair.at_server[&3].ended, "it is served");
    pair.listen(&first);
    assert_eq!(pair.others, ["leaving NO_ERROR 2147483647"]);
    assert_eq!(pair.client.open(NewRequest::default()), Err(NoStream::Leaving));
    pair.run_whole();
    assert_eq!(pair.others[1..], ["leaving NO_ERROR 3"]);
    // This client ignores the GOAWAY.
    let late = request(5, END_STREAM);
    pair.server.receive(&mut &late[..], NOW).expect("well-formed");
    assert_eq!(ends(&output(&mut pair.server, 100)), [(5, ErrorCode::REFUSED_STREAM)]);
    assert!(!pair.server.is_drained());
    assert_eq!(pair.server.poll_timeout(), Some(Duration::from_secs(5)));
    pair.server.handle_timeout(Duration::from_secs(5)).expect("well-behaved");
    let event = pair.server.receive(&mut &[][..], NOW).expect("well-formed");
    assert!(matches!(event, Some(Event::DrainOver)));
    for id in [1, 3] {
        pair.server.head(pair.known[&id], RESPONSE, true).expect("open");
    }
    output(&mut pair.server, usize::MAX);
    assert!(pair.server.is_drained());
}

/// The last streams that the GOAWAYs in a machine's output name.
fn last_streams(wire: &[u8]) -> Vec<u32> {
    let last = |payload: &[u8]| payload.first_chunk().copied().map(u32::from_be_bytes);
    frames(wire).iter().filter(|f| f.0 == GOAWAY).filter_map(|f| last(&f.3)).collect()
}

#[test]
fn a_drain_that_the_client_does_not_answer_still_names_the_last_stream() {
    let mut pair = Pair::new();
    pair.echoes = false;
    pair.open(b"running", false);
    pair.run_whole();
    pair.server.drain(Duration::from_secs(5));
    output(&mut pair.server, usize::MAX);
    pair.server.handle_timeout(Duration::from_secs(5)).expect("well-behaved");
    assert_eq!(last_streams(&output(&mut pair.server, usize::MAX)), [1]);
    let late = request(3, END_STREAM);
    let event = pair.server.receive(&mut &late[..], NOW).expect("well-formed");
    assert!(matches!(event, Some(Event::DrainOver)));
    pair.server.receive(&mut &late[..], NOW).expect("well-formed");
    assert_eq!(ends(&output(&mut pair.server, 100)), [(3, ErrorCode::REFUSED_STREAM)]);
}

#[test]
fn the_last_stream_of_a_go_away_never_rises() {
    let mut pair = Pair::new();
    pair.echoes = false;
    pair.open(b"running", false);
    pair.run_whole();
    pair.server.drain(Duration::from_secs(5));
    pair.run_whole();
    let wire = [request(3, END_STREAM), frame(PING, 0, 1, &[0; 8])].concat();
    let error = pair.server.receive(&mut &wire[..], NOW).expect_err("a PING with a stream");
    assert_eq!(error.code(), ErrorCode::PROTOCOL_ERROR);
    assert_eq!(last_streams(&output(&mut pair.server, usize::MAX)), [1]);
}

#[test]
fn no_event_of_a_stream_comes_after_it_was_given_up() {
    // It has room again, and then is given up.
    let mut pair = Pair::with_short_frames();
    pair.run_whole();
    let writer =
        pair.client.open(NewRequest { head: REQUEST, ..NewRequest::default() }).expect("room");
    pair.client.send(writer, &[], Body::Copy(&pattern(65_000)), false).expect("open");
    pair.client.send(writer, &[], Body::Copy(&pattern(65_000)), false).expect("open");
    output(&mut pair.client, usize::MAX);
    assert!(pair.client.has_events());
    pair.client.reset(writer, ErrorCode::CANCEL);
    assert!(pair.client.receive(&mut &[][..], NOW).expect("well-formed").is_none());
    // It has failed, and is given up before that is told.
    let mut pair = Pair::new();
    pair.echoes = false;
    pair.open(b"", true);
    pair.run_whole();
    let stream = pair.known[&1];
    let body = Body::Shared(pattern(3 << 20).into());
    pair.server.respond(stream, RESPONSE, &[], body, TRAILERS).expect("open");
    output(&mut pair.server, usize::MAX);
    let mut later = Duration::from_secs(290);
    pair.server.receive(&mut &frame(SETTINGS, ACK, 0, &[])[..], later).expect("well-formed");
    later = Duration::from_secs(300);
    pair.server.handle_timeout(later).expect("it still answers");
    assert!(pair.server.has_events());
    pair.server.reset(stream, ErrorCode::CANCEL);
    assert!(pair.server.receive(&mut &[][..], later).expect("well-formed").is_none());
    assert_eq!(pair.server.in_flight(), 0);
}

#[test]
fn a_table_that_shrinks_and_grows_in_one_settings_is_emptied() {
    let mut pair = Pair::new();
    pair.open(b"", true);
    pair.run_whole();
    let settings = [setting(1, 0), setting(1, 4096)].concat();
    pair.server.receive(&mut &frame(SETTINGS, 0, 0, &settings)[..], NOW).expect("well-formed");
    pair.open(b"", true);
    let up = output(&mut pair.client, usize::MAX);
    pair.serve(&up);
    let down = frames(&output(&mut pair.server, usize::MAX));
    let head = down.iter().find(|frame| frame.0 == HEADERS).expect("an answer");
    // First 0, then 4096 (RFC 7541, section 4.2), then literals.
    assert_eq!(head.3[..6], [0x20, 0x3f, 0xe1, 0x1f, 0x88, 0x5f]);
}

#[test]
fn the_reason_of_a_go_away_is_short() {
    let mut client = client();
    client.go_away(ErrorCode::NO_ERROR, &"long ".repeat(10_000));
    let wire = output(&mut client, usize::MAX);
    let payload = &frames(&wire).into_iter().find(|f| f.0 == GOAWAY).expect("sent").3;
    assert_eq!(payload.len(), 8 + 1024);
}

#[test]
fn what_a_go_away_does_not_cover_comes_back_as_refused() {
    let mut client = client();
    let first = client.open(NewRequest { head: REQUEST, ..NewRequest::default() }).expect("room");
    let second = client.open(NewRequest { head: REQUEST, ..NewRequest::default() }).expect("room");
    assert!(!client.was_sent(first));
    output(&mut client, usize::MAX);
    assert!(client.was_sent(first) && client.was_sent(second));
    let mut wire = frame(SETTINGS, 0, 0, &[]);
    wire.extend(frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 2, b'w', b'h', b'y']));
    let mut input = &wire[..];
    let mut events = Vec::new();
    while let Some(event) = client.receive(&mut input, NOW).expect("well-formed") {
        events.push(told(&event));
    }
    assert_eq!(events, ["leaving INTERNAL_ERROR 1", "reset 3 REFUSED_STREAM"]);
    assert_eq!(client.in_flight(), 1);
}

#[test]
fn informational_answers_are_skipped() {
    let mut client = client();
    client.open(NewRequest { head: REQUEST, end: true, ..NewRequest::default() }).expect("room");
    let mut wire = frame(SETTINGS, 0, 0, &[]);
    for status in ["100", "103", "200"] {
        wire.extend(frame(HEADERS, END_HEADERS, 1, &block(&[(":status", status), ("x", status)])));
    }
    let mut input = &wire[..];
    let event = client.receive(&mut input, NOW).expect("well-formed").expect("an event");
    assert_eq!(told(&event), "head 1 \"\" false");
    let fields: Vec<_> = client.fields().iter().collect();
    assert_eq!(fields, [(&b"x"[..], &b"200"[..])]);
}

#[test]
fn windows_that_a_setting_makes_negative_recover() {
    let mut client = client();
    let stream = client.open(NewRequest { head: REQUEST, ..NewRequest::default() }).expect("room");
    client.send(stream, &[], Body::Copy(&pattern(16_000)), false).expect("open");
    output(&mut client, usize::MAX);
    let receive = |client: &mut Http2Client, wire: &[u8]| {
        assert!(client.receive(&mut &wire[..], NOW).expect("well-formed").is_none());
    };
    receive(&mut client, &frame(SETTINGS, 0, 0, &setting(4, 1_000)));
    output(&mut client, usize::MAX);
    client.send(stream, &[], Body::Copy(b"waits"), true).expect("open");
    assert!(!client.has_output(), "the window is 15,000 below nothing");
    receive(&mut client, &frame(WINDOW_UPDATE, 0, 1, &15_002_u32.to_be_bytes()));
    let part = frames(&output(&mut client, usize::MAX));
    assert_eq!(part, [(DATA, 0, 1, b"wa".to_vec())]);
    receive(&mut client, &frame(SETTINGS, 0, 0, &setting(4, 2_000)));
    let rest = frames(&output(&mut client, usize::MAX));
    assert!(rest.contains(&(DATA, END_STREAM, 1, b"its".to_vec())), "{rest:?}");
}

#[test]
fn a_window_grows_where_the_path_is_long_and_the_reader_keeps_up() {
    let mut pair = Pair::new();
    pair.echoes = false;
    let mut delivered = Vec::new();
    let stream = pair.open(&pattern(64 << 20), true);
    for _ in 0..30 {
        let up = output(&mut pair.client, usize::MAX);
        pair.now += Duration::from_millis(50);
        let before = pair.at_server.get(&stream.id()).map_or(0, |came| came.data.len());
        pair.serve(&up);
        delivered.push(pair.at_server[&stream.id()].data.len() - before);
        let down = output(&mut pair.server, usize::MAX);
        pair.now += Duration::from_millis(50);
        pair.listen(&down);
    }
    let (first, most) = (delivered[1], delivered.iter().max().expect("some"));
    assert!(*most >= 8 * first, "{delivered:?}");
}

#[test]
fn the_windows_of_several_streams_grow_at_a_time() {
    let mut pair = Pair::new();
    pair.echoes = false;
    let streams: Vec<_> = (0..4).map(|_| pair.open(&pattern(16 << 20), true).id()).collect();
    let came = |pair: &Pair, id| pair.at_server.get(&id).map_or(0, |came| came.data.len());
    let mut most = [0; 4];
    for _ in 0..12 {
        let up = output(&mut pair.client, usize::MAX);
        pair.now += Duration::from_millis(50);
        let before: Vec<_> = streams.iter().map(|&id| came(&pair, id)).collect();
        pair.serve(&up);
        for (at, &id) in streams.iter().enumerate() {
            most[at] = most[at].max(came(&pair, id) - before[at]);
        }
        let down = output(&mut pair.server, usize::MAX);
        pair.now += Duration::from_millis(50);
        pair.listen(&down);
    }
    assert!(most.iter().all(|&most| most >= 4 << 20), "{most:?}");
}

/// Takes the input for a server's streams and returns no credit. Returns the bytes and the streams.
fn hoard(pair: &mut Pair) -> (usize, Vec<StreamHandle>) {
    let (mut len, mut streams) = (0, Vec::new());
    while pair.client.has_output() || pair.server.has_output() {
        let up = output(&mut pair.client, usize::MAX);
        let mut input = &up[..];
        while let Some(event) = pair.server.receive(&mut input, NOW).expect("well-formed") {
            if let Event::Head { stream, data, .. } | Event::Data { stream, data, .. } = event {
                len += data.len();
                streams.push(stream);
            }
        }
        let down = output(&mut pair.server, usize::MAX);
        pair.listen(&down);
    }
    streams.dedup();
    (len, streams)
}

#[test]
fn windows_shrink_under_memory_pressure_and_grow_afterwards() {
    let mut pair = Pair::new();
    pair.open(&pattern(8 << 20), true);
    let (before, streams) = hoard(&mut pair);
    assert_eq!(before, 1 << 20);
    pair.server.set_memory_pressure(true);
    assert_eq!(hoard(&mut pair).0, 0, "what was granted is used up");
    // As the reader takes it, the window falls to 64 KiB.
    let mut came = before;
    for taken in (0..before).step_by(1 << 10) {
        assert!(came - taken <= 1 << 20);
        pair.server.taken(streams[0], 1 << 10);
        came += hoard(&mut pair).0;
    }
    assert!((32_000..=65_535).contains(&(came - before)), "{}", came - before);
    pair.open(&pattern(1 << 20), true);
    let (new, _) = hoard(&mut pair);
    assert_eq!(new, 65_535, "and those of new streams begin so");
    pair.server.set_memory_pressure(false);
    let (more, _) = hoard(&mut pair);
    assert_eq!(more, 2 * ((1 << 20) - 65_535), "for both");
}

#[test]
fn windows_may_fall_and_rise_at_any_time() {
    for_seeds(30, |random| {
        let mut pair = Pair::new();
        let lens = [random.below(3 << 20), random.below(100_000), random.below(400_000)];
        for len in lens {
            pair.open(&pattern(len), true);
        }
        let mut untaken: BTreeMap<StreamHandle, usize> = BTreeMap::new();
        let (mut came, mut toggles) = (0, 0);
        while came < lens.iter().sum() || pair.client.has_output() || pair.server.has_output() {
            let up = output(&mut pair.client, random.below(100_000));
            let mut input = &up[..];
            while let Some(event) = pair.server.receive(&mut input, NOW).expect("well-formed") {
                if let Event::Head { stream, data, .. } | Event::Data { stream, data, .. } = event {
                    *untaken.entry(stream).or_default() += data.len();
                    came += data.len();
                }
            }
            for (stream, left) in &mut untaken {
                let now = if up.is_empty() { *left } else { random.below(*left + 1) };
                pair.server.taken(*stream, now);
                *left -= now;
            }
            if random.below(8) == 0 && toggles < 12 {
                toggles += 1;
                pair.server.set_memory_pressure(toggles % 2 == 1);
            }
            let down = output(&mut pair.server, random.below(100));
            pair.listen(&down);
        }
    });
}

#[test]
fn pings_are_answered_and_silence_is_not() {
    let mut pair = Pair::new();
    pair.client.ping(7);
    pair.run_whole();
    assert_eq!(pair.others, ["Pong { nonce: 7 }"]);
    let at = Duration::from_secs;
    assert_eq!(pair.server.poll_timeout(), Some(at(30)));
    pair.server.handle_timeout(at(30)).expect("a probe");
    let probe = output(&mut pair.server, usize::MAX);
    assert_eq!(frames(&probe)[0].0, PING);
    assert_eq!(pair.server.poll_timeout(), Some(at(40)));
    let error = pair.server.handle_timeout(at(40)).expect_err("dead");
    assert_eq!(error.code(), ErrorCode::NO_ERROR);
    assert_eq!(pair.server.receive(&mut &[][..], at(40)).map(|_| ()), Err(error));
    assert_eq!(pair.server.poll_timeout(), None);
}

#[test]
fn long_blocks_go_out_in_pieces_and_come_back_whole() {
    let mut pair = Pair::with_short_frames();
    pair.run_whole();
    let value = "v".repeat(5_000);
    let line = Line::Once { name: b"long", value: value.as_bytes() };
    let head: Vec<_> = REQUEST.iter().copied().chain([line; 3]).collect();
    pair.client.open(NewRequest { head: &head, end: true, ..NewRequest::default() }).expect("room");
    let up = output(&mut pair.client, usize::MAX);
    pair.serve(&up);
    let count = |server: &Http2Server| server.fields().iter().filter(|f| f.0 == b"long").count();
    assert_eq!((count(&pair.server), pair.server.fields().is_cut()), (3, false));
    let head: Vec<_> = REQUEST.iter().copied().chain([line; 4]).collect();
    pair.client.open(NewRequest { head: &head, end: true, ..NewRequest::default() }).expect("room");
    let up = output(&mut pair.client, usize::MAX);
    assert!(frames(&up).iter().any(|frame| frame.0 == CONTINUATION));
    pair.serve(&up);
    assert_eq!((count(&pair.server), pair.server.fields().is_cut()), (3, true));
}
