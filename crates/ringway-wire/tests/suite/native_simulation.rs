//! Random calls between the two machines, over a network that cuts and delays bytes at random.
//!
//! A model records what was sent. Every call must end exactly once, messages must arrive
//! in order and whole, and the messages that wait for a slow reader must fit its window, which grows.

use std::collections::{BTreeMap, VecDeque};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ringway_wire::native::{
    Body, Client, ClientEvent, Config, Gone, Open, OpenError, Outgoing, Reply, Server, ServerEvent,
    Side, StreamId,
};

use crate::support::{Random, for_seeds};

const CANCELLED: u8 = 1;
const EXHAUSTED: u8 = 8;
const UNAVAILABLE: u8 = 14;

const STEPS: usize = 3_000;
const MESSAGE_MAX: usize = 200_000;
/// The bytes by which some messages exceed that.
const EXCESS_MAX: usize = 100_000;

const WINDOW: u32 = 100_000;
/// The size to which the window may grow.
const WINDOW_MAX: u32 = 400_000;
const STREAMS: u32 = 24;

/// The most bytes that ever waited behind a message.
static MOST: AtomicUsize = AtomicUsize::new(0);

/// One direction of a call, as both ends see it.
#[derive(Debug, Default)]
struct Way {
    /// Lengths of the messages handed to the sender.
    sent: Vec<usize>,
    has_ended: bool,
    received: usize,
    /// Lengths of those that the reader has not taken.
    untaken: VecDeque<usize>,
    waits_for_room: bool,
}

#[derive(Debug)]
struct Call {
    number: usize,
    up: Way,
    down: Way,
    /// The handler runs.
    is_running: bool,
    was_seen: bool,
    answer: Option<(u8, bool)>,
    cancelled: bool,
    /// The request was its only frame, or the last one, so nothing tells when it was taken.
    is_handed_over: bool,
    /// A message is longer than its receiver accepts, or the server had no memory.
    is_over_limit: bool,
    client_done: bool,
}

struct Net {
    bytes: Vec<u8>,
}

struct Simulation<'r> {
    random: &'r mut Random,
    client: Client,
    server: Server,
    up: Net,
    down: Net,
    calls: BTreeMap<u32, Call>,
    numbers: usize,
    now: Duration,
    /// Readers take messages at once, and writers send much.
    is_eager: bool,
}

/// The bytes of a message: a stretch of noise that its call and its place in the call choose.
fn content(number: usize, place: usize, upward: bool, len: usize) -> &'static [u8] {
    const NOISE_LEN: usize = 2 * (MESSAGE_MAX + EXCESS_MAX);
    static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut random = Random::new(1);
        (0..NOISE_LEN).map(|_| random.next() as u8).collect()
    });
    let start = (number * 7_919 + place * 1_299 + usize::from(upward) * 611) % MESSAGE_MAX;
    &NOISE[start..start + len]
}

impl Simulation<'_> {
    fn len(&mut self) -> usize {
        if self.is_eager {
            return 20_000 + self.random.below(50_000);
        }
        match self.random.below(12) {
            0 => 0,
            1 => 4_096,
            2 => 4_097,
            3 => 65_536 + self.random.below(2),
            4 => self.random.below(MESSAGE_MAX),
            5 if self.random.below(20) == 0 => MESSAGE_MAX + 1 + self.random.below(EXCESS_MAX),
            5 | 6 => self.random.below(20_000),
            _ => self.random.below(300),
        }
    }

    fn step(&mut self) {
        self.now += Duration::from_micros(self.random.below(20_000) as u64);
        if self.is_eager {
            self.send_up();
            self.send_down();
            self.take();
            self.take();
        }
        let action = match self.random.below(16) {
            // Streams on which much is sent live longer.
            4..=6 if self.is_eager && self.random.below(16) > 0 => 9 + self.random.below(7),
            action => action,
        };
        match action {
            0 | 1 => self.open(),
            2 => self.send_up(),
            3 => self.send_down(),
            4 => self.respond(),
            5 if self.random.below(3) == 0 => self.cancel(),
            6 if self.random.below(20) == 0 => {
                let permits = self.random.below(30) as u32;
                self.server.lease(permits);
            }
            5 if self.random.below(40) == 0 => self.shed(),
            6 if self.random.below(40) == 0 => {
                let is_under_pressure = self.random.below(3) == 0;
                self.server.set_memory_pressure(is_under_pressure);
            }
            5 | 6 => self.finish(),
            7 | 8 => self.take(),
            9 | 10 => self.transmit(true),
            11 | 12 => self.transmit(false),
            13 | 14 => self.deliver_up(),
            _ => self.deliver_down(),
        }
    }

    fn open(&mut self) {
        let len = (self.random.below(4) > 0).then(|| self.len());
        let end = self.random.below(2) == 0;
        let number = self.numbers;
        let bytes = len.map(|len| content(number, 0, true, len));
        let message = bytes.map(|bytes| self.body(bytes));
        let call = Open {
            method: 1 + self.random.below(3) as u32,
            name: "sim.Sim/Call",
            initial_credit: WINDOW,
            message,
            end,
            ..Open::default()
        };
        let stream = match self.client.open(call) {
            Ok(stream) => stream,
            Err(OpenError::Full | OpenError::Leased) => {
                assert_eq!(self.client.capacity(), 0);
                return;
            }
            Err(error) => panic!("{error}"),
        };
        self.numbers += 1;
        let mut call = Call {
            number,
            up: Way { has_ended: end, ..Way::default() },
            down: Way::default(),
            is_running: false,
            was_seen: false,
            answer: None,
            cancelled: false,
            is_handed_over: false,
            is_over_limit: len.is_some_and(|len| len > MESSAGE_MAX),
            client_done: false,
        };
        call.up.sent.extend(len);
        call.up.waits_for_room = !self.client.has_room(stream);
        // A call that was given up before any of it was sent leaves its id to the next.
        let former = self.calls.insert(stream.raw(), call);
        let is_free = former.is_none_or(|former| former.cancelled && !former.was_seen);
        assert!(is_free, "{stream} is in use");
    }

    fn body<'b>(&mut self, bytes: &'b [u8]) -> Body<'b> {
        match self.random.below(2) {
            0 => Body::Copy(bytes),
            _ => Body::Shared(Bytes::copy_from_slice(bytes)),
        }
    }

    fn pick(&mut self, suits: impl Fn(&Call) -> bool) -> Option<StreamId> {
        let suitable: Vec<u32> =
            self.calls.iter().filter(|(_, call)| suits(call)).map(|(&id, _)| id).collect();
        let some = !suitable.is_empty();
        some.then(|| StreamId::from_raw(suitable[self.random.below(suitable.len())]))
    }

    fn send_up(&mut self) {
        let Some(stream) = self.pick(|call| {
            !call.up.has_ended && !call.up.waits_for_room && !call.client_done && !call.cancelled
        }) else {
            return;
        };
        let (len, end) = (self.len(), self.random.below(8) == 0);
        let call = &self.calls[&stream.raw()];
        let bytes = content(call.number, call.up.sent.len(), true, len);
        let body = self.body(bytes);
        self.client.send(stream, body, end).expect("the call is open");
        let call = self.calls.get_mut(&stream.raw()).expect("picked");
        call.up.sent.push(len);
        call.up.has_ended = end;
        call.is_over_limit |= len > MESSAGE_MAX;
        call.up.waits_for_room = !self.client.has_room(stream);
    }

    fn send_down(&mut self) {
        let Some(stream) = self.pick(|call| call.is_running && !call.down.waits_for_room) else {
            return;
        };
        let len = self.len();
        let call = &self.calls[&stream.raw()];
        let bytes = content(call.number, call.down.sent.len(), false, len);
        let body = self.body(bytes);
        let sent = self.server.send(stream, &[], body);
        let call = self.calls.get_mut(&stream.raw()).expect("picked");
        if len > MESSAGE_MAX {
            assert_eq!(sent, Err(Gone), "the client takes nothing so long");
            call.is_over_limit = true;
            return self.hear_server();
        }
        sent.expect("the handler runs");
        call.down.sent.push(len);
        call.down.waits_for_room = !self.server.has_room(stream);
    }

    fn respond(&mut self) {
        let Some(stream) = self.pick(|call| call.is_running) else {
            return;
        };
        let len = (self.random.below(3) > 0).then(|| self.len());
        let status = self.random.below(17) as u8;
        let call = &self.calls[&stream.raw()];
        let bytes = len.map(|len| content(call.number, call.down.sent.len(), false, len));
        let message = bytes.map(|bytes| self.body(bytes));
        assert!(self.server.respond(stream, Reply { status, meta: &[], message }).is_some());
        let call = self.calls.get_mut(&stream.raw()).expect("picked");
        call.is_running = false;
        call.down.sent.extend(len);
        call.is_over_limit |= len.is_some_and(|len| len > MESSAGE_MAX);
        call.answer = Some((status, len.is_some()));
    }

    fn cancel(&mut self) {
        let Some(stream) = self.pick(|call| !call.client_done && !call.cancelled) else {
            return;
        };
        self.client.cancel(stream, CANCELLED, "enough");
        self.calls.get_mut(&stream.raw()).expect("picked").cancelled = true;
    }

    fn finish(&mut self) {
        let Some(stream) =
            self.pick(|call| !call.up.has_ended && !call.client_done && !call.cancelled)
        else {
            return;
        };
        self.client.finish(stream);
        self.calls.get_mut(&stream.raw()).expect("picked").up.has_ended = true;
    }

    fn take(&mut self) {
        if let Some(stream) = self.pick(|call| !call.up.untaken.is_empty() && call.is_running) {
            self.calls.get_mut(&stream.raw()).expect("picked").up.untaken.pop_front();
            self.server.taken(stream, 1);
        }
        if let Some(stream) = self.pick(|call| !call.down.untaken.is_empty()) {
            self.calls.get_mut(&stream.raw()).expect("picked").down.untaken.pop_front();
            self.client.taken(stream, 1);
        }
    }

    /// Ends the call for which the server holds most.
    fn shed(&mut self) {
        let largest = self.server.largest_len(Side::Unread);
        // Its request may be incomplete, so any call may fail from now on.
        if largest > 0 {
            self.calls.values_mut().for_each(|call| call.is_over_limit |= !call.client_done);
        }
        assert_eq!(self.server.end_largest(Side::Unread), largest > 0);
        self.hear_server();
    }

    /// Polls the server for events that need no input.
    fn hear_server(&mut self) {
        while let Some(event) = self.server.receive(&mut &[][..], self.now).expect("no failure") {
            on_server_event(&mut self.calls, event);
        }
    }

    /// Checks that the server holds the messages that were not taken and those that are incomplete, and nothing else.
    fn check_kept(&self) {
        let kept = self.server.buffered_len() - self.server.incomplete_len();
        let running = self.calls.values().filter(|call| call.is_running && !call.is_handed_over);
        let (mut count, mut untaken) = (0, 0);
        for call in running {
            count += call.up.untaken.len();
            untaken += call.up.untaken.iter().map(|&len| len.max(16)).sum::<usize>();
        }
        // A fragment of a few bytes counts as 16.
        assert!((untaken..=untaken + 16 * count).contains(&kept), "{kept} bytes, not {untaken}");
    }

    fn transmit(&mut self, upward: bool) {
        let budget = match self.random.below(3) {
            0 => 1 + self.random.below(50),
            1 => 1 + self.random.below(10_000),
            _ => 1 + self.random.below(300_000),
        };
        let net = if upward { &mut self.up } else { &mut self.down };
        let before = net.bytes.len();
        let mut out = |out: Outgoing<'_>| match out {
            Outgoing::Copy(part) => net.bytes.extend_from_slice(part),
            Outgoing::Shared(part) => net.bytes.extend_from_slice(&part),
        };
        if upward {
            self.client.transmit(budget, &mut out);
        } else {
            self.server.transmit(budget, &mut out);
        }
        let given = net.bytes.len() - before;
        assert!(given <= budget + 4_096 + 64, "{given} bytes for a budget of {budget}");
    }

    fn cut(&mut self, upward: bool) -> Vec<u8> {
        let len = match self.random.below(3) {
            0 => self.random.below(40),
            1 => self.random.below(5_000),
            _ => self.random.below(200_000),
        };
        let net = if upward { &mut self.up } else { &mut self.down };
        let len = len.min(net.bytes.len());
        net.bytes.drain(..len).collect()
    }

    fn deliver_up(&mut self) {
        let bytes = self.cut(true);
        let mut input = &bytes[..];
        while let Some(event) =
            self.server.receive(&mut input, self.now).expect("the client is honest")
        {
            on_server_event(&mut self.calls, event);
        }
        assert!(input.is_empty());
    }

    fn deliver_down(&mut self) {
        let bytes = self.cut(false);
        let mut input = &bytes[..];
        while let Some(event) =
            self.client.receive(&mut input, self.now).expect("the server is honest")
        {
            on_client_event(&mut self.calls, event);
        }
        assert!(input.is_empty());
    }

    /// Lets everything finish.
    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 100_000, "it never comes to rest: {:?}", self.calls);
            while self.client.has_output() || self.server.has_output() {
                self.transmit(true);
                self.transmit(false);
            }
            while !self.up.bytes.is_empty() || self.server.has_events() {
                self.deliver_up();
            }
            while !self.down.bytes.is_empty() || self.client.has_events() {
                self.deliver_down();
            }
            if self.client.has_output() || self.server.has_output() {
                continue;
            }
            let has_readable = self.calls.values().any(|call| {
                call.is_running && !call.up.untaken.is_empty() || !call.down.untaken.is_empty()
            });
            if has_readable {
                self.take();
            } else if let Some(call) = self.pick(|call| call.is_running) {
                let waits = self.calls[&call.raw()].down.waits_for_room;
                assert!(!waits, "all is read, so there is room");
                self.respond();
            } else {
                break;
            }
        }
    }
}

fn on_server_event(calls: &mut BTreeMap<u32, Call>, event: ServerEvent<'_>) {
    match event {
        ServerEvent::Request { stream, message, end, .. } => {
            let call = calls.get_mut(&stream.raw()).expect("opened");
            assert!(!call.was_seen, "a request arrives once");
            call.was_seen = true;
            call.is_running = true;
            if let Some(message) = message {
                receive(call, true, &message);
            }
            call.is_handed_over = end;
            assert!(!end || call.up.has_ended);
        }
        ServerEvent::Message { stream, message, end } => {
            let call = calls.get_mut(&stream.raw()).expect("opened");
            receive(call, true, &message);
            assert!(!end || call.up.has_ended && call.up.received == call.up.sent.len());
        }
        ServerEvent::End { stream } => {
            let call = &calls[&stream.raw()];
            assert!(call.up.has_ended && call.up.received == call.up.sent.len());
        }
        ServerEvent::Cancelled { stream, code, .. } => {
            let call = calls.get_mut(&stream.raw()).expect("opened");
            assert!(call.is_running && (call.cancelled || code == EXHAUSTED));
            call.is_running = false;
        }
        ServerEvent::Failed { stream, code } => {
            let call = calls.get_mut(&stream.raw()).expect("opened");
            assert!(call.is_running && call.is_over_limit && code == EXHAUSTED);
            call.is_running = false;
        }
        ServerEvent::Writable { stream } => {
            if let Some(call) = calls.get_mut(&stream.raw()) {
                assert!(call.down.waits_for_room || call.answer.is_some());
                call.down.waits_for_room = false;
            }
        }
        ServerEvent::Named { method, .. } => assert_ne!(method, 0, "no number, no name to keep"),
        ServerEvent::PeerLeaving { .. } => panic!("the client stays"),
        ServerEvent::Guest { .. } => panic!("not in this protocol"),
    }
}

fn on_client_event(calls: &mut BTreeMap<u32, Call>, event: ClientEvent<'_>) {
    match event {
        ClientEvent::Message { stream, message } => {
            let call = calls.get_mut(&stream.raw()).expect("opened");
            assert!(!call.cancelled && !call.client_done);
            receive(call, false, &message);
        }
        ClientEvent::Response { stream, status, meta, message } => {
            let call = calls.get_mut(&stream.raw()).expect("opened");
            assert!(!call.cancelled && !call.client_done, "one response, and none after cancel");
            call.client_done = true;
            call.down.untaken.clear();
            let is_refused = status == UNAVAILABLE && *meta == [6, 0];
            if is_refused {
                assert!(!call.was_seen, "what is refused was not executed");
                return;
            }
            if call.is_over_limit && status == EXHAUSTED {
                return;
            }
            let has_message = message.is_some();
            assert_eq!(Some((status, has_message)), call.answer);
            if let Some(message) = message {
                receive(call, false, &message);
            }
            call.down.untaken.clear();
            assert_eq!(call.down.received, call.down.sent.len(), "all came before the end");
        }
        ClientEvent::Failed { stream, status, .. } => {
            let call = calls.get_mut(&stream.raw()).expect("opened");
            assert!(!call.cancelled && !call.client_done, "one response, and none after cancel");
            assert!(call.is_over_limit && status == EXHAUSTED);
            call.client_done = true;
            call.down.untaken.clear();
        }
        ClientEvent::Writable { stream } => {
            if let Some(call) = calls.get_mut(&stream.raw()) {
                call.up.waits_for_room = false;
            }
        }
        ClientEvent::Capacity => {}
        ClientEvent::Initial { .. } | ClientEvent::Leaving { .. } => panic!("never sent"),
    }
}

/// A message is the next one of its call, and those that wait fit the window.
fn receive(call: &mut Call, upward: bool, message: &[u8]) {
    let way = if upward { &mut call.up } else { &mut call.down };
    let (place, len) = (way.received, way.sent[way.received]);
    assert!(content(call.number, place, upward, len) == message, "message {place} is another");
    way.received += 1;
    way.untaken.push_back(len);
    let waiting: usize = way.untaken.iter().skip(1).map(|&len| len.max(16)).sum();
    MOST.fetch_max(waiting, Ordering::Relaxed);
    assert!(waiting <= WINDOW_MAX as usize, "{waiting} bytes wait behind a slow reader");
}

fn simulate(random: &mut Random) {
    let mut config = Config::default();
    config.settings.max_message = MESSAGE_MAX as u32;
    config.settings.initial_credit = WINDOW;
    config.window_max = WINDOW_MAX;
    let is_eager = random.below(2) == 0;
    let streams = if is_eager { 2 } else { STREAMS };
    config.settings.max_streams = streams;
    let mut client = config.clone();
    client.settings.checksum = random.below(4) == 0;
    config.settings.checksum = random.below(4) == 0;
    let mut simulation = Simulation {
        random,
        client: Client::new(client, Duration::ZERO),
        server: Server::new(config, Duration::ZERO),
        up: Net { bytes: Vec::new() },
        down: Net { bytes: Vec::new() },
        calls: BTreeMap::new(),
        numbers: 0,
        now: Duration::ZERO,
        is_eager,
    };
    for step in 0..STEPS {
        simulation.is_eager &= step < STEPS / 2;
        simulation.step();
        simulation.check_kept();
        let written = simulation.client.output_len().max(simulation.server.output_len());
        assert!(written <= (192 << 10) + 128 * 5_000, "{written} bytes are written and unsent");
    }
    // With a new lease no call has to wait.
    simulation.server.lease(1_000);
    simulation.settle();
    assert_eq!((simulation.client.in_flight(), simulation.server.in_flight()), (0, 0));
    assert_eq!(simulation.client.capacity(), streams as usize);
    assert!(simulation.numbers > 10, "only {} calls", simulation.numbers);
}

#[test]
fn random_calls_end_once_and_whole() {
    for_seeds(60, simulate);
    let most = MOST.load(Ordering::Relaxed);
    let is_replay = std::env::var_os("RINGWAY_SEED").is_some();
    assert!(most > WINDOW as usize || is_replay, "no window has grown: {most} bytes at most");
}
