//! Random calls between the client and the server of gRPC, over a network that cuts and delays bytes at
//! random, changes settings on the way, and may end at any time.
//!
//! A model records what was sent, executed and answered. Every call must end exactly once,
//! messages must arrive in order and whole, and a call that is reported as not executed must not have run.
//!
//! `RINGWAY_RUNS` sets the number of simulations.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ringway_wire::grpc::{ClientConfig, GrpcClient, GrpcServer, RequestNames, ServerConfig};
use ringway_wire::http2::{Http2Config, Vocabulary};
use ringway_wire::native::{
    Body, ClientEvent, GoAwayCode, MetaReader, MetaWriter, Open, OpenError, Outgoing, Piece, Reply,
    ServerEvent, Side, StreamId, Tag,
};

use crate::support::http2::{ACK, PREFACE, SETTINGS, frame, setting};
use crate::support::{Random, for_seeds};

const RUNS: u64 = 40;
const STEPS: usize = 3_000;
const MESSAGE_MAX: usize = 200_000;
const WINDOW: u32 = 65_535;
const STREAMS: u32 = 24;
/// The longest frame that is sent.
const FRAME_MAX: usize = 9 + (65 << 10);

const DEADLINE_EXCEEDED: u8 = 4;
const EXHAUSTED: u8 = 8;
const UNAVAILABLE: u8 = 14;

/// One direction of a call, as both ends see it.
#[derive(Debug, Default)]
struct Way {
    /// Lengths of the messages handed to the sender.
    sent: Vec<usize>,
    has_ended: bool,
    received: usize,
    /// Messages that the reader has not taken.
    untaken: usize,
    waits_for_room: bool,
}

#[derive(Debug, Default)]
struct Call {
    client: u32,
    /// The server's id of the call, while its handler runs.
    server: Option<u32>,
    up: Way,
    down: Way,
    has_timeout: bool,
    /// The number of times that its handler was started.
    executions: u32,
    /// The status and whether a message came with it.
    answer: Option<u8>,
    cancelled: bool,
    client_done: bool,
    /// A message is longer than its receiver accepts, the server had no memory, or its drain was over.
    may_fail: bool,
    has_initial: bool,
}

impl Call {
    fn is_open(&self) -> bool {
        !self.cancelled && !self.client_done
    }
}

/// Bytes on their way, and the settings that the network inserted between them.
#[derive(Default)]
struct Net {
    /// The start of an incomplete frame.
    partial: Vec<u8>,
    bytes: Vec<u8>,
    /// For each SETTINGS without an ACK: whether the network sent it.
    settings: VecDeque<bool>,
    has_preface: bool,
    has_settings: bool,
}

impl Net {
    /// Adds output of a machine. ACKs of the network's own settings, in `back`, end here.
    fn put(&mut self, out: &[u8], back: &mut Self) {
        self.partial.extend_from_slice(out);
        if !self.has_preface {
            if !self.partial.starts_with(PREFACE) {
                return;
            }
            self.bytes.extend(self.partial.drain(..PREFACE.len()));
            self.has_preface = true;
        }
        while let Some(&[a, b, c, kind, flags]) = self.partial.first_chunk() {
            let len = 9 + u32::from_be_bytes([0, a, b, c]) as usize;
            if self.partial.len() < len {
                return;
            }
            let frame: Vec<u8> = self.partial.drain(..len).collect();
            match (kind, flags & ACK != 0) {
                (SETTINGS, false) => {
                    self.settings.push_back(false);
                    self.has_settings = true;
                }
                (SETTINGS, true) if back.settings.pop_front().expect("one was sent") => continue,
                _ => {}
            }
            self.bytes.extend(frame);
        }
    }

    /// Sends settings in the name of the sender, between two of its frames.
    fn say(&mut self, id: u16, value: u32) {
        if !self.has_settings {
            return;
        }
        self.settings.push_back(true);
        self.bytes.extend(frame(SETTINGS, 0, 0, &setting(id, value)));
    }
}

struct Simulation<'r> {
    random: &'r mut Random,
    client: GrpcClient,
    server: GrpcServer,
    up: Net,
    down: Net,
    /// The calls by their numbers, which the metadata of the request carries.
    calls: BTreeMap<u32, Call>,
    numbers: u32,
    now: Duration,
    is_leaving: bool,
    /// Whether the network changes settings; if not, the machines change their windows themselves.
    is_meddling: bool,
}

/// The bytes of a message: a stretch of noise that its call and its place in the call choose.
fn content(number: u32, place: usize, upward: bool, len: usize) -> Vec<u8> {
    let mut random = Random::new(u64::from(number) << 20 | (place as u64) << 1 | u64::from(upward));
    let mut bytes: Vec<u8> = (0..len.min(64)).map(|_| random.next() as u8).collect();
    bytes.resize(len, place as u8);
    bytes
}

fn number_of(meta: &[u8]) -> u32 {
    let number = MetaReader::new(meta).flatten().find_map(|(tag, value)| {
        let (name, value) = (tag == Tag::Entry).then(|| MetaReader::entry(value).ok())??;
        (name == b"number").then(|| str::from_utf8(value).ok()?.parse().ok())?
    });
    number.expect("every call has one")
}

fn numbered(number: u32) -> Vec<u8> {
    let mut meta = Vec::new();
    MetaWriter::new(&mut meta).entry("number", number.to_string().as_bytes());
    meta
}

impl Simulation<'_> {
    fn len(&mut self) -> usize {
        match self.random.below(12) {
            0 => 0,
            1 => 16_379,
            2 => 65_530 + self.random.below(12),
            3 => self.random.below(MESSAGE_MAX),
            4 if self.random.below(20) == 0 => MESSAGE_MAX + 1,
            4 | 5 => self.random.below(20_000),
            _ => self.random.below(300),
        }
    }

    fn step(&mut self) {
        self.now += Duration::from_micros(self.random.below(20_000) as u64);
        match self.random.below(20) {
            0 | 1 => self.open(),
            2 | 3 => self.send_up(),
            4 | 5 => self.send_down(),
            6 => self.respond(),
            7 if self.random.below(3) == 0 => self.cancel(),
            7 if self.random.below(30) == 0 => self.shed(),
            7 | 8 => self.finish(),
            9 | 10 => self.take(),
            11 if self.random.below(30) == 0 => self.change_settings(),
            11 if self.random.below(4) == 0 => self.server.drop_spare(),
            11 => self.pass_time(),
            12 | 13 => self.transmit(true),
            14 | 15 => self.transmit(false),
            16 | 17 => self.deliver_up(),
            _ => self.deliver_down(),
        }
    }

    fn open(&mut self) {
        let len = (self.random.below(4) > 0).then(|| self.len());
        let end = self.random.below(2) == 0;
        let (number, is_unary) = (self.numbers, self.random.below(3) == 0);
        let bytes = len.map(|len| content(number, 0, true, len));
        let message = bytes.as_deref().map(|bytes| self.body(bytes));
        let timeout = (self.random.below(8) == 0).then(|| Duration::from_millis(50));
        let meta = numbered(number);
        let open = Open {
            method: 1 + u32::from(is_unary),
            name: if is_unary { "a.B/Unary" } else { "a.B/Stream" },
            message,
            end,
            timeout,
            meta: &meta,
            ..Open::default()
        };
        let stream = match self.client.open(open) {
            Ok(stream) => stream,
            Err(OpenError::Full) => return assert_eq!(self.client.capacity(), 0),
            Err(OpenError::Draining) => return assert!(self.is_leaving),
            Err(error) => panic!("{error}"),
        };
        self.numbers += 1;
        let mut call = Call {
            client: stream.raw(),
            has_timeout: timeout.is_some(),
            may_fail: len.is_some_and(|len| len > MESSAGE_MAX),
            ..Call::default()
        };
        (call.up.has_ended, call.up.waits_for_room) = (end, !self.client.has_room(stream));
        call.up.sent.extend(len);
        self.calls.insert(number, call);
    }

    fn body<'b>(&mut self, bytes: &'b [u8]) -> Body<'b> {
        match self.random.below(2) {
            0 => Body::Copy(bytes),
            _ => Body::Shared(Bytes::copy_from_slice(bytes)),
        }
    }

    fn pick(&mut self, suits: impl Fn(&Call) -> bool) -> Option<u32> {
        let suitable: Vec<u32> =
            self.calls.iter().filter(|(_, call)| suits(call)).map(|(&at, _)| at).collect();
        (!suitable.is_empty()).then(|| suitable[self.random.below(suitable.len())])
    }

    fn send_up(&mut self) {
        let can = |call: &Call| call.is_open() && !call.up.has_ended && !call.up.waits_for_room;
        let Some(number) = self.pick(can) else { return };
        let (len, end) = (self.len(), self.random.below(4) == 0);
        let bytes = content(number, self.calls[&number].up.sent.len(), true, len);
        let (body, call) = (self.body(&bytes), self.calls.get_mut(&number).expect("picked"));
        let stream = StreamId::from_raw(call.client);
        let has_room = self.client.send(stream, body, end).expect("the call is open");
        assert_eq!(has_room, self.client.has_room(stream));
        call.up.sent.push(len);
        (call.up.has_ended, call.up.waits_for_room) = (end, !has_room);
        call.may_fail |= len > MESSAGE_MAX;
    }

    fn send_down(&mut self) {
        let can = |call: &Call| call.server.is_some() && !call.down.waits_for_room;
        let Some(number) = self.pick(can) else { return };
        let len = self.len();
        let bytes = content(number, self.calls[&number].down.sent.len(), false, len);
        let meta = if self.random.below(2) == 0 { numbered(number) } else { Vec::new() };
        let (body, call) = (self.body(&bytes), self.calls.get_mut(&number).expect("picked"));
        let stream = StreamId::from_raw(call.server.expect("picked"));
        let has_room = self.server.send(stream, &meta, body).expect("its handler runs");
        call.down.sent.push(len);
        call.down.waits_for_room = !has_room;
        call.may_fail |= len > MESSAGE_MAX;
    }

    fn respond(&mut self) {
        let Some(number) = self.pick(|call| call.server.is_some()) else { return };
        let len = (self.random.below(3) > 0).then(|| self.len());
        let bytes = len.map(|len| content(number, self.calls[&number].down.sent.len(), false, len));
        let message = bytes.as_deref().map(|bytes| self.body(bytes));
        let (status, meta) = (self.random.below(17) as u8, numbered(number));
        let call = self.calls.get_mut(&number).expect("picked");
        let stream = StreamId::from_raw(call.server.take().expect("picked"));
        let said = self.server.respond(stream, Reply { status, meta: &meta, message });
        assert_eq!(said, Some(status));
        call.down.sent.extend(len);
        call.may_fail |= len.is_some_and(|len| len > MESSAGE_MAX);
        call.answer = Some(status);
    }

    fn cancel(&mut self) {
        let Some(number) = self.pick(Call::is_open) else { return };
        let call = self.calls.get_mut(&number).expect("picked");
        self.client.cancel(StreamId::from_raw(call.client), 1, "enough");
        call.cancelled = true;
    }

    fn finish(&mut self) {
        let Some(number) = self.pick(|call| call.is_open() && !call.up.has_ended) else { return };
        let call = self.calls.get_mut(&number).expect("picked");
        self.client.finish(StreamId::from_raw(call.client));
        call.up.has_ended = true;
    }

    fn take(&mut self) {
        if let Some(number) = self.pick(|call| call.server.is_some() && call.up.untaken > 0) {
            let call = self.calls.get_mut(&number).expect("picked");
            let count = 1 + self.random.below(call.up.untaken);
            call.up.untaken -= count;
            self.server.taken(StreamId::from_raw(call.server.expect("picked")), count);
        }
        if let Some(number) = self.pick(|call| call.is_open() && call.down.untaken > 0) {
            let call = self.calls.get_mut(&number).expect("picked");
            let count = 1 + self.random.below(call.down.untaken);
            call.down.untaken -= count;
            self.client.taken(StreamId::from_raw(call.client), count);
        }
    }

    /// Ends the call for which the server holds most.
    fn shed(&mut self) {
        let side = [Side::Unread, Side::Unsent][self.random.below(2)];
        if self.server.largest_len(side) > 0 {
            self.calls.values_mut().for_each(|call| call.may_fail |= !call.client_done);
            assert!(self.server.end_largest(side));
            self.hear_server();
        }
    }

    fn change_settings(&mut self) {
        if !self.is_meddling {
            let is_under_pressure = self.random.below(2) == 0;
            return self.server.set_memory_pressure(is_under_pressure);
        }
        let (id, value) = match self.random.below(4) {
            0 => (1, [0, 100, 4_096, 65_536][self.random.below(4)]),
            1 => (3, self.random.below(STREAMS as usize) as u32),
            2 => (4, self.random.below(WINDOW as usize + 1) as u32),
            _ => (5, 16_384 + self.random.below(100_000) as u32),
        };
        match self.random.below(2) {
            0 => self.up.say(if id == 3 { 4 } else { id }, value),
            _ => self.down.say(id, value),
        }
    }

    fn pass_time(&mut self) {
        self.now += Duration::from_millis(self.random.below(30) as u64);
        self.client.handle_timeout(self.now).expect("the server is honest");
        self.server.handle_timeout(self.now).expect("the client is honest");
        self.hear_server();
    }

    /// Polls the server for events that need no input.
    fn hear_server(&mut self) {
        self.feed_server(&[]);
    }

    fn transmit(&mut self, upward: bool) {
        let most = [50, 10_000, 300_000][self.random.below(3)];
        let (budget, mut sent) = (1 + self.random.below(most), Vec::new());
        let mut out = |out: Outgoing<'_>| match out {
            Outgoing::Copy(part) => sent.extend_from_slice(part),
            Outgoing::Shared(part) => sent.extend_from_slice(&part),
        };
        match upward {
            true => self.client.transmit(budget, &mut out),
            false => self.server.transmit(budget, &mut out),
        }
        assert!(sent.len() <= budget + FRAME_MAX, "{} for {budget}", sent.len());
        match upward {
            true => self.up.put(&sent, &mut self.down),
            false => self.down.put(&sent, &mut self.up),
        }
    }

    fn cut(&mut self, upward: bool) -> Vec<u8> {
        let most = [2, 40, 5_000, 200_000][self.random.below(4)];
        let len = self.random.below(most);
        let net = if upward { &mut self.up } else { &mut self.down };
        net.bytes.drain(..len.min(net.bytes.len())).collect()
    }

    fn deliver_up(&mut self) {
        let bytes = self.cut(true);
        self.feed_server(&bytes);
    }

    fn feed_server(&mut self, mut input: &[u8]) {
        let Self { server, calls, now, .. } = self;
        while let Some(event) = server.receive(&mut input, *now).expect("the client is honest") {
            match event {
                ServerEvent::Request { stream, head, meta, message, end: false }
                    if head.method == 2 =>
                {
                    server.await_rest(stream, head, &meta, message.as_deref());
                }
                event => on_server_event(calls, event),
            }
            while let Some((stream, message)) = server.receive_message(&mut input) {
                let message = Piece::Borrowed(message);
                on_server_event(calls, ServerEvent::Message { stream, message, end: false });
            }
        }
        assert!(input.is_empty());
    }

    fn deliver_down(&mut self) {
        let bytes = self.cut(false);
        let mut input = &bytes[..];
        let Self { client, calls, now, .. } = self;
        while let Some(event) = client.receive(&mut input, *now).expect("the server is honest") {
            on_client_event(calls, event);
            while let Some((stream, message)) = client.receive_message(&mut input) {
                let message = Piece::Borrowed(message);
                on_client_event(calls, ClientEvent::Message { stream, message });
            }
        }
        assert!(input.is_empty());
    }
}

fn running(calls: &mut BTreeMap<u32, Call>, stream: StreamId) -> (u32, &mut Call) {
    let found = calls.iter_mut().find(|(_, call)| call.server == Some(stream.raw()));
    let (number, call) = found.unwrap_or_else(|| panic!("no handler of {stream} runs"));
    (*number, call)
}

fn on_server_event(calls: &mut BTreeMap<u32, Call>, event: ServerEvent<'_>) {
    match event {
        ServerEvent::Request { stream, meta, message, end, .. } => {
            let number = number_of(&meta);
            let call = calls.get_mut(&number).expect("it was opened");
            (call.server, call.executions) = (Some(stream.raw()), call.executions + 1);
            assert_eq!(call.executions, 1, "{number} is executed once");
            if let Some(message) = message {
                receive(number, &mut call.up, true, &message);
                // // Nobody says that the only message of a complete request was taken.
                call.up.untaken -= usize::from(end);
            }
            assert!(!end || call.up.has_ended);
        }
        ServerEvent::Message { stream, message, end } => {
            let (number, call) = running(calls, stream);
            receive(number, &mut call.up, true, &message);
            assert!(!end || call.up.has_ended && call.up.received == call.up.sent.len());
        }
        ServerEvent::End { stream } => {
            let (_, call) = running(calls, stream);
            assert!(call.up.has_ended && call.up.received == call.up.sent.len());
        }
        ServerEvent::Cancelled { stream, .. } => {
            let (_, call) = running(calls, stream);
            assert!(!call.is_open(), "its client has given it up: {call:?}");
            call.server = None;
        }
        ServerEvent::Failed { stream, .. } => {
            let (_, call) = running(calls, stream);
            assert!(call.may_fail, "{call:?}");
            call.server = None;
        }
        ServerEvent::Writable { stream } => {
            if let Some(call) = calls.values_mut().find(|call| call.server == Some(stream.raw())) {
                call.down.waits_for_room = false;
            }
        }
        ServerEvent::PeerLeaving { .. } | ServerEvent::Named { .. } | ServerEvent::Guest { .. } => {
            panic!("never said")
        }
    }
}

fn opened(calls: &mut BTreeMap<u32, Call>, stream: StreamId) -> (u32, &mut Call) {
    let found = calls.iter_mut().find(|(_, call)| call.client == stream.raw() && call.is_open());
    let (number, call) = found.unwrap_or_else(|| panic!("{stream} is over"));
    (*number, call)
}

fn on_client_event(calls: &mut BTreeMap<u32, Call>, event: ClientEvent<'_>) {
    match event {
        ClientEvent::Initial { stream, meta } => {
            let (number, call) = opened(calls, stream);
            assert!(!std::mem::replace(&mut call.has_initial, true), "it comes once");
            assert!(number_of(&meta) == number && call.executions == 1);
        }
        ClientEvent::Message { stream, message } => {
            let (number, call) = opened(calls, stream);
            receive(number, &mut call.down, false, &message);
        }
        ClientEvent::Response { stream, status, meta, message } => {
            let (number, call) = opened(calls, stream);
            assert!(message.is_none());
            (call.client_done, call.down.untaken) = (true, 0);
            let tags = || MetaReader::new(&meta).flatten().map(|(tag, _)| tag);
            if tags().any(|tag| tag == Tag::Refused) {
                assert_eq!((status, call.executions), (UNAVAILABLE, 0), "{number}: {call:?}");
            } else if call.answer.is_none() || tags().any(|tag| tag == Tag::StatusMessage) {
                let is_late = call.has_timeout && call.executions == 0;
                let is_late = is_late && status == DEADLINE_EXCEEDED;
                let failed = call.may_fail && [EXHAUSTED, UNAVAILABLE, 1].contains(&status);
                let is_foreign = status == 12; // two messages where one is taken
                assert!(is_late || failed || is_foreign, "{number}: {status} {call:?}");
            } else {
                assert_eq!((Some(status), number_of(&meta)), (call.answer, number));
                assert_eq!(call.down.received, call.down.sent.len(), "all came before the end");
            }
        }
        ClientEvent::Failed { stream, status, .. } => {
            let (number, call) = opened(calls, stream);
            (call.client_done, call.down.untaken) = (true, 0);
            assert!(
                call.may_fail && [EXHAUSTED, UNAVAILABLE, 1].contains(&status),
                "{number}: {status} {call:?}"
            );
        }
        ClientEvent::Writable { stream } => {
            if let Some(call) =
                calls.values_mut().find(|call| call.client == stream.raw() && call.is_open())
            {
                call.up.waits_for_room = false;
            }
        }
        ClientEvent::Capacity | ClientEvent::Leaving { .. } => {}
    }
}

fn receive(number: u32, way: &mut Way, upward: bool, message: &[u8]) {
    let place = way.received;
    assert!(content(number, place, upward, way.sent[place]) == message, "{number}: {place}");
    (way.received, way.untaken) = (place + 1, way.untaken + 1);
}

impl Simulation<'_> {
    /// Lets everything finish.
    fn settle(&mut self) {
        if self.is_meddling {
            self.now += Duration::from_secs(10);
            self.down.say(3, STREAMS);
            self.down.say(4, WINDOW);
            self.up.say(4, WINDOW);
        }
        for round in 0.. {
            assert!(round < 200_000, "it never comes to rest: {:?}", self.calls);
            let before = self.progress();
            self.transmit(true);
            self.transmit(false);
            self.deliver_up();
            self.deliver_down();
            self.take();
            if self.random.below(8) == 0 {
                self.respond();
            }
            if self.random.below(8) == 0 {
                self.finish();
            }
            let is_quiet = before == self.progress() && before.iter().all(|left| *left == 0);
            if is_quiet {
                // // Streams that were reset wait for the rate at which a client resets.
                self.now += Duration::from_millis(20);
                self.client.handle_timeout(self.now).expect("the server is honest");
                if self.client.in_flight() + self.server.in_flight() == 0 {
                    return;
                }
            }
        }
    }

    /// The work that is left.
    fn progress(&self) -> [usize; 5] {
        let of = |has: bool| usize::from(has);
        [
            of(self.client.has_output()) + of(self.server.has_output()),
            self.up.bytes.len() + self.down.bytes.len(),
            self.calls.values().filter(|call| call.server.is_some()).count(),
            self.calls.values().filter(|call| call.is_open()).count(),
            of(self.client.has_events()) + of(self.server.has_events()),
        ]
    }

    /// Loses the connection. Bytes that have left the client arrive or do not.
    fn lose(&mut self) {
        let open: Vec<u32> =
            self.calls.iter().filter(|(_, call)| call.is_open()).map(|(&at, _)| at).collect();
        let not_executed: Vec<u32> = open
            .into_iter()
            .filter(|at| {
                let stream = StreamId::from_raw(self.calls[at].client);
                !self.client.was_accepted(stream, u32::MAX)
            })
            .collect();
        let left = self.up.bytes.len();
        let most = self.random.below(left + 1);
        let bytes: Vec<u8> = self.up.bytes.drain(..most).collect();
        self.feed_server(&bytes);
        for at in not_executed {
            assert_eq!(self.calls[&at].executions, 0, "{at} was not sent");
        }
    }
}

fn simulate(random: &mut Random) {
    let http2 = Http2Config {
        max_streams: STREAMS,
        initial_window: WINDOW,
        window_max: 400_000,
        ..Http2Config::default()
    };
    let names = RequestNames::new([("/a.B/Stream", 1), ("/a.B/Unary", 2)]);
    let max_message = MESSAGE_MAX as u32;
    let config = ServerConfig { http2: http2.clone().into(), max_message };
    let client = ClientConfig { http2, max_message, ..ClientConfig::new("here") };
    let is_meddling = random.below(2) == 0;
    let leaves_at = if random.below(3) == 0 { random.below(STEPS) } else { STEPS };
    let is_lost = random.below(4) == 0;
    let mut simulation = Simulation {
        random,
        client: GrpcClient::new(client, Duration::ZERO),
        server: GrpcServer::new(config, Arc::new(Vocabulary::new(names)), Duration::ZERO),
        up: Net::default(),
        down: Net { has_preface: true, ..Net::default() },
        calls: BTreeMap::new(),
        numbers: 0,
        now: Duration::ZERO,
        is_leaving: false,
        is_meddling,
    };
    for step in 0..STEPS {
        if step == leaves_at {
            simulation.is_leaving = true;
            simulation.calls.values_mut().for_each(|call| call.may_fail = true);
            let length = Duration::from_millis(simulation.random.below(2_000) as u64);
            simulation.server.go_away(GoAwayCode::NoError, length, "");
        }
        simulation.step();
        if simulation.is_leaving {
            simulation.calls.values_mut().for_each(|call| call.may_fail = true);
        }
        let Simulation { client, server, .. } = &simulation;
        let written = client.output_len().max(server.output_len());
        assert!(written <= (192 << 10) + 128 * 5_000, "{written} bytes are written and unsent");
        assert!(client.in_flight() <= STREAMS as usize + 8);
    }
    if is_lost {
        return simulation.lose();
    }
    simulation.settle();
    let Simulation { client, server, .. } = &simulation;
    assert_eq!((client.incomplete_len(), server.kept_len(Side::Unread)), (0, 0));
    assert_eq!(server.kept_len(Side::Unsent), 0);
    let room = if simulation.is_leaving { 0 } else { STREAMS as usize };
    assert_eq!(client.capacity(), room);
}

#[test]
fn random_calls_end_once_and_whole() {
    let runs = std::env::var("RINGWAY_RUNS").ok().and_then(|count| count.parse().ok());
    for_seeds(runs.unwrap_or(RUNS), simulate);
}

#[test]
fn a_second_message_is_refused_although_the_first_filled_the_window() {
    simulate(&mut Random::new(277));
}
