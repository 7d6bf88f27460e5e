//! Windows that grow with the path, and their bounds.

use std::collections::VecDeque;
use std::time::Duration;

use ringway_wire::native::{
    Body, Config, FrameKind, Header, Open, Reply, Server, ServerEvent, Side, StreamId,
};

use crate::support::pair::{Asked, Cut, Pair, drain, idle};
use crate::support::path;
use crate::support::path::{Line, Path, Reader};
use crate::support::raw;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;
const STEP: u64 = 1 << 19;
const GIGABIT: u64 = 125_000_000;

/// A line that shows its sender at once that it is busy.
fn line(bytes_per_second: u64, delay: Duration) -> Line {
    Line { bytes_per_second, delay, queue_max: bytes_per_second / 1_000 + 4_096 }
}

fn config(initial_credit: u32) -> Config {
    let mut config = Config::default();
    config.settings.initial_credit = initial_credit;
    config
}

fn fixed() -> Config {
    Config { window_max: 0, ..Config::default() }
}

/// The bytes that arrive in a second, after `warm_up`.
fn bytes_in_a_second(path: &mut Path, warm_up: Duration) -> u64 {
    path.run(warm_up);
    let before = path.arrived();
    path.run(SECOND);
    path.arrived() - before
}

/// The bytes that arrive when readers stop: the windows, without the credit that was not returned yet, at most
/// [`STEP`] for each stream.
fn window(path: &mut Path) -> u64 {
    for flow in &mut path.flows {
        flow.reader = Reader::Stalled;
    }
    path.run(2 * SECOND);
    let before = path.server.buffered_len() as u64;
    path.run(SECOND);
    assert_eq!(path.server.buffered_len() as u64, before, "credit is used up");
    before
}

#[test]
fn a_long_path_is_filled_by_a_window_that_grows() {
    for is_upward in [true, false] {
        let line = line(GIGABIT, 50 * MS);
        let start = |config: &Config| Path::new(config, line, is_upward, &[Reader::All], 65_536);
        let fixed = bytes_in_a_second(&mut start(&fixed()), SECOND);
        // A window each round trip of 100 ms.
        assert!((9 * MIB..=11 * MIB).contains(&fixed), "{fixed} bytes with a fixed window");
        let mut path = start(&Config::default());
        let first = bytes_in_a_second(&mut path, Duration::ZERO);
        let then = bytes_in_a_second(&mut path, Duration::ZERO);
        assert!(first > 40 * MIB, "{first} bytes in the first second");
        assert!(then > GIGABIT * 95 / 100, "{then} bytes of {GIGABIT}");
        assert!((4..=20).contains(&path.pings), "{} PINGs in two seconds", path.pings);
    }
}

#[test]
fn a_window_is_no_larger_than_its_path_needs() {
    // A fast line in a data centre, a slow one far away, and what lies between.
    for (rate, delay, least, most) in [
        (10 * GIGABIT, 25, 1, 1),
        (10 * GIGABIT, 200, 1, 1),
        (GIGABIT, 500, 1, 1),
        (GIGABIT / 10, 50_000, 2, 4),
        (GIGABIT / 10, 5_000, 1, 1),
        (GIGABIT / 100, 100_000, 1, 1),
        (GIGABIT / 100, 300_000, 2, 2),
        (10 * GIGABIT, 4_000, 16, 16),
    ] {
        let line = line(rate, Duration::from_micros(delay));
        let mut path = Path::new(&Config::default(), line, true, &[Reader::All], 65_536);
        path.run(3 * SECOND);
        let pings_max = if delay < 400 { 1 } else { 31 };
        assert!(path.pings <= pings_max, "{} PINGs in three seconds", path.pings);
        let window = window(&mut path);
        let expected = least * MIB - STEP..=most * MIB + 65_536;
        assert!(expected.contains(&window), "{window} bytes at {rate} B/s and {delay} µs");
    }
}

#[test]
fn a_queue_on_the_way_does_not_pass_for_a_long_path() {
    // All that credit allows waits in front of a line of 100 Mbit/s, so that PINGs take longer than
    // the 10 ms in which 125 KB come.
    let line = Line { queue_max: u64::MAX / 2, ..line(GIGABIT / 10, 5 * MS) };
    let mut path = Path::new(&config(65_536), line, true, &[Reader::All], 10_000);
    path.run(5 * SECOND);
    assert!(path.pings > 0, "the window was too small at first");
    let window = window(&mut path);
    assert!(window <= MIB / 2 + 10_000, "{window} bytes");
}

#[test]
fn pings_are_a_tenth_of_a_second_apart() {
    let line = line(10 * GIGABIT, 4 * MS);
    let mut path = Path::new(&Config::default(), line, true, &[Reader::All], 65_536);
    path.run(80 * MS);
    assert_eq!(path.pings, 1);
    path.run(220 * MS);
    assert!((2..=4).contains(&path.pings), "{} PINGs", path.pings);
}

#[test]
fn readers_that_do_not_read_or_not_fast_enough_get_no_larger_window() {
    let slow = [2_000_000, 5_000_000, 20_000_000].map(Reader::Slow);
    for reader in [Reader::Stalled].into_iter().chain(slow) {
        let line = line(GIGABIT, 50 * MS);
        let mut path = Path::new(&Config::default(), line, true, &[reader, Reader::All], 20_000);
        path.run(3 * SECOND);
        path.flows[0].reader = Reader::Stalled;
        path.run(SECOND);
        let (largest, all) =
            (path.server.largest_len(Side::Unread) as u64, path.server.buffered_len() as u64);
        // 20 MB/s are two windows each round trip: half of what it takes to keep up with it.
        let most = if reader == Reader::Slow(20_000_000) { 8 * MIB } else { MIB };
        assert!(largest <= most + 20_000, "{reader:?}: {largest} bytes");
        assert!(all <= most + 300_000, "the other reader reads: {all} bytes");
    }
}

#[test]
fn streams_grow_beside_each_other_up_to_a_bound_for_all() {
    let line = line(40 * GIGABIT, 50 * MS);
    let readers = [Reader::All; 12];
    let mut path = Path::new(&Config::default(), line, true, &readers, 65_536);
    path.run(2 * SECOND);
    let window = window(&mut path);
    let most = (12 + 64) * MIB;
    assert!((most - 12 * STEP..=most + 12 * 65_536).contains(&window), "{window} bytes");
}

#[test]
fn the_least_window_grows_as_well_though_it_comes_and_goes_at_once() {
    let line = line(GIGABIT, 5 * MS);
    for is_upward in [true, false] {
        let mut path = Path::new(&config(65_536), line, is_upward, &[Reader::All], 10_000);
        let bytes = bytes_in_a_second(&mut path, SECOND);
        assert!(bytes > GIGABIT * 95 / 100, "{bytes} bytes of {GIGABIT}");
    }
}

/// The time and the content of a peer's answers to PINGs and SETTINGS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answers {
    Late(Duration),
    Never,
    /// It answers at once, with every number that might be asked for.
    Guessed,
    /// It answers at once, with another number.
    Wrong,
}

/// A peer by hand that sends as much as it may on some streams.
struct Peer {
    server: Server,
    answers: Answers,
    now: Duration,
    /// Of each stream: credit, and whether what comes is read.
    streams: Vec<(i64, bool)>,
    owed: VecDeque<(Duration, Vec<u8>)>,
    /// The most credit that a stream ever had, plus the bytes that wait for its reader.
    most: i64,
}

impl Peer {
    fn new(answers: Answers, readers: &[bool]) -> Self {
        let server = Server::new(Config::default(), Duration::ZERO);
        let streams = readers.iter().map(|&reads| (1 << 20, reads)).collect();
        let (now, owed) = (Duration::ZERO, VecDeque::new());
        let mut peer = Self { server, answers, now, streams, owed, most: 0 };
        peer.give(&raw::greeting());
        // The window of 1 MiB counts from here; the peer may already cheat about the round trips.
        peer.give(&raw::frame(raw::SETTINGS, raw::ACK, 0, 0, &[]));
        for slot in 0..readers.len() as u32 {
            peer.give(&raw::request(raw::NOMSG, raw::id(slot, 1), 0, &[]));
        }
        peer
    }

    fn give(&mut self, bytes: &[u8]) {
        let mut input = bytes;
        while let Some(event) = self.server.receive(&mut input, self.now).expect("it is allowed") {
            if let ServerEvent::Message { stream, .. } = event
                && self.streams[stream.slot() as usize].1
            {
                self.server.taken(stream, 1);
            }
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += 20 * MS;
            for slot in 0..self.streams.len() {
                let data = raw::frame(raw::DATA, 0, raw::id(slot as u32, 1), 0, &[7; 16_384]);
                while self.streams[slot].0 >= 16_384 {
                    self.streams[slot].0 -= 16_384;
                    self.give(&data);
                }
            }
            let mut output = Vec::new();
            self.server.transmit(usize::MAX, &mut |out| path::append(&mut output, &out));
            raw::frames(&output).iter().for_each(|(header, _)| self.hear(header));
            let due = self.owed.iter().take_while(|(at, _)| *at <= self.now).count();
            let acks: Vec<u8> = self.owed.drain(..due).flat_map(|(_, ack)| ack).collect();
            self.give(&acks);
        }
    }

    fn hear(&mut self, header: &Header) {
        match header.kind {
            FrameKind::Credit => {
                let (credit, _) = &mut self.streams[header.stream.slot() as usize];
                *credit += i64::from(header.aux);
                self.most = self.most.max(*credit);
            }
            FrameKind::Ping if self.answers == Answers::Guessed => {
                for nonce in 0..100 {
                    self.owed.push_back((self.now, raw::frame(raw::PING, raw::ACK, 0, nonce, &[])));
                }
            }
            FrameKind::Ping if self.answers == Answers::Wrong => {
                let wrong = raw::frame(raw::PING, raw::ACK, 0, header.aux + 1_000, &[]);
                self.owed.push_back((self.now + MS, wrong));
            }
            FrameKind::Ping => {
                let Answers::Late(delay) = self.answers else { return };
                let ack = raw::frame(raw::PING, raw::ACK, 0, header.aux, &[]);
                self.owed.push_back((self.now + delay, ack));
            }
            _ => {}
        }
    }
}

#[test]
fn whatever_a_peer_answers_it_gets_no_more_than_the_bound() {
    for late in [20, 100, 1_000] {
        let mut peer = Peer::new(Answers::Late(late * MS), &[true]);
        peer.run((10 * late + 1_000) * MS);
        assert_eq!(peer.most, 16 << 20, "bytes by answers {late} ms late");
    }
    let mut peer = Peer::new(Answers::Late(100 * MS), &[true; 40]);
    peer.run(2 * SECOND);
    peer.streams.iter_mut().for_each(|(_, reads)| *reads = false);
    peer.run(SECOND);
    let kept = peer.server.buffered_len();
    assert!((60 << 20..=(40 + 64) << 20).contains(&kept), "{kept} bytes");
    let others =
        [(Answers::Never, 1 << 20), (Answers::Wrong, 1 << 20), (Answers::Guessed, 16 << 20)];
    for (answers, most) in others {
        let mut peer = Peer::new(answers, &[true]);
        peer.run(2 * SECOND);
        assert!(peer.most <= most, "{} bytes by {answers:?}", peer.most);
    }
}

#[test]
fn a_reader_that_stalls_gets_nothing_by_late_answers() {
    let mut peer = Peer::new(Answers::Late(SECOND), &[false]);
    peer.run(5 * SECOND);
    let kept = peer.server.buffered_len();
    assert!(kept <= (1 << 20) + 16_384, "{kept} bytes");
}

fn settled(config: Config) -> Pair {
    let mut pair = Pair::with(Cut::Nowhere, Config::default(), config);
    pair.settle(&mut idle);
    pair
}

impl Pair {
    fn stream(&mut self) -> StreamId {
        let stream = self.client.open(Open::default()).expect("room");
        self.settle(&mut idle);
        stream
    }

    /// Sends more than the window takes. Returns the bytes that are then held for this stream's reader.
    fn fill(&mut self, stream: StreamId) -> usize {
        let before = self.server.buffered_len();
        for _ in 0..300 {
            let message = Body::Shared(vec![7; 10_000].into());
            self.client.send(stream, message, false).expect("open");
        }
        self.settle(&mut idle);
        self.server.buffered_len() - before
    }
}

#[test]
fn windows_are_minimal_under_memory_pressure() {
    let mut pair = settled(Config::default());
    let old = pair.stream();
    pair.server.set_memory_pressure(true);
    pair.settle(&mut idle);
    let new = pair.stream();
    let filled = pair.fill(new);
    // The first message has returned its credit, and a fragment may be less than a message.
    assert!((65_536 - 4_096..=65_536 + 10_000).contains(&filled), "{filled} bytes");
    let filled = pair.fill(old);
    assert!(filled > 1_000_000, "{filled} bytes: it was granted them");
    // From then on, a stream that is read gets the smallest window.
    let taken = 80;
    pair.server.taken(old, taken);
    pair.settle(&mut idle);
    pair.server.taken(old, 300);
    let kept = pair.server.buffered_len();
    pair.settle(&mut idle);
    let more = pair.server.buffered_len() - kept;
    assert!(more <= 65_536 + 10_000, "{more} bytes came");
    pair.server.set_memory_pressure(false);
    pair.settle(&mut idle);
    let new = pair.stream();
    assert!(pair.fill(new) > 1_000_000, "as it was");
}

#[test]
fn changes_are_told_one_after_the_other() {
    let mut pair = settled(Config::default());
    for turn in 0..100 {
        pair.server.set_memory_pressure(turn % 2 == 0);
    }
    let output = drain(|out| pair.server.transmit(usize::MAX, out));
    let told = raw::frames(&output);
    assert_eq!(told.len(), 1, "the others wait for the answer");
    let mut input = &output[..];
    while pair.client.receive(&mut input, pair.now).expect("settings").is_some() {}
    pair.settle(&mut idle);
    let stream = pair.stream();
    assert!(pair.fill(stream) > 1_000_000, "the last change counts");
    // Nothing is announced before the greeting, which states the current values.
    let mut pair = Pair::with(Cut::Nowhere, Config::default(), Config::default());
    pair.server.set_memory_pressure(true);
    assert!(!pair.server.has_output());
    pair.settle(&mut idle);
    let stream = pair.stream();
    assert!(pair.fill(stream) <= 65_536 + 10_000);
}

#[test]
fn the_stream_with_most_bytes_is_ended_alone() {
    let mut pair = settled(Config::default());
    let [small, large, other] = std::array::from_fn(|_| pair.stream());
    for (stream, len) in [(small, 10_000), (large, 40_000), (other, 20_000), (small, 10_000)] {
        pair.client.send(stream, Body::Shared(vec![7; len].into()), false).expect("open");
    }
    pair.settle(&mut idle);
    assert_eq!(
        (pair.server.buffered_len(), pair.server.largest_len(Side::Unread)),
        (80_000, 40_000)
    );
    assert!(pair.server.end_largest(Side::Unread));
    pair.settle(&mut idle);
    assert_eq!(pair.response(large), Some((8, None)));
    assert!(pair.asked.contains(&Asked::Failed(large, 8)));
    assert_eq!((pair.server.buffered_len(), pair.server.in_flight()), (40_000, 2));
    // The other streams go on, and their messages are not held.
    pair.server.taken(small, 2);
    pair.server.taken(other, 1);
    assert_eq!(pair.server.buffered_len(), 0);
    assert!(!pair.server.end_largest(Side::Unread), "nobody keeps anything");
    assert_eq!(pair.fill(small) / 1_000_000, 1);
    // A request that was not reported yet counts as well.
    let mut pair = settled(Config::default());
    let message = Some(Body::Shared(vec![7; 900_000].into()));
    let long = pair.client.open(Open { message, ..Open::default() }).expect("room");
    let bytes = drain(|out| pair.client.transmit(700_000, out));
    let event = pair.server.receive(&mut &bytes[..], pair.now).expect("a good request");
    assert!(event.is_none(), "{event:?}");
    assert!(pair.server.largest_len(Side::Unread) > 690_000);
    assert!(pair.server.end_largest(Side::Unread));
    pair.settle(&mut idle);
    assert_eq!(pair.response(long), Some((8, None)));
    assert_eq!(pair.asked, [], "no handler knew it");
    assert_eq!((pair.server.buffered_len(), pair.server.in_flight()), (0, 0));
}

#[test]
fn a_stream_that_nobody_reads_keeps_nothing() {
    let mut pair = settled(Config::default());
    let [ignored, long] = std::array::from_fn(|_| pair.stream());
    pair.client.send(ignored, Body::Copy(b"unread"), false).expect("open");
    pair.settle(&mut idle);
    assert_eq!(pair.server.buffered_len(), 16);
    pair.server.ignore(ignored);
    assert_eq!(pair.server.buffered_len(), 0);
    let told = pair.asked.len();
    assert_eq!(pair.fill(ignored), 0);
    assert_eq!(pair.asked.len(), told, "nobody is told of what nobody reads");
    assert!(pair.client.unsent(ignored) > 1_000_000, "and no credit comes back");
    // In the middle of a message as well; the end is still told.
    pair.client.send(long, Body::Shared(vec![7; 200_000].into()), true).expect("open");
    let bytes = drain(|out| pair.client.transmit(100_000, out));
    assert!(pair.server.receive(&mut &bytes[..], pair.now).expect("good").is_none());
    pair.server.ignore(long);
    pair.settle(&mut idle);
    assert_eq!(pair.asked.last(), Some(&Asked::End(long)));
    assert_eq!(pair.server.buffered_len(), 0);
    for stream in [ignored, long] {
        assert!(
            pair.server.respond(stream, Reply { status: 0, meta: &[], message: None }).is_some()
        );
        pair.settle(&mut idle);
        assert_eq!(pair.response(stream), Some((0, None)));
    }
}
