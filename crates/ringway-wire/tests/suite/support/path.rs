//! Two machines and the path between them, in virtual time: bytes take their time to be sent, and
//! arrive after a delay.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use ringway_wire::native::{
    Body, Client, ClientEvent, Config, FrameKind, HEADER_LEN, Header, Open, Outgoing, PREFACE_LEN,
    Server, ServerEvent, StreamId,
};

/// The length of a turn of the simulation.
pub(crate) const TICK: Duration = Duration::from_micros(100);

/// One direction: its speed, its delay, and the most bytes that wait in front of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) bytes_per_second: u64,
    pub(crate) delay: Duration,
    pub(crate) queue_max: u64,
}

#[derive(Debug)]
struct Way {
    line: Line,
    /// The time at which the last byte leaves.
    free: Duration,
    flying: VecDeque<(Duration, Vec<u8>)>,
}

/// The behaviour of a stream's reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    All,
    /// Reads this many bytes a second.
    Slow(u64),
    Stalled,
}

/// One stream of messages that the reader's side measures.
pub(crate) struct Flow {
    pub(crate) stream: StreamId,
    pub(crate) reader: Reader,
    /// The lengths of messages that arrived and were not taken.
    waiting: VecDeque<usize>,
    /// Bytes that the reader may still read at its pace.
    patience: u64,
    /// The bytes that arrived.
    pub(crate) arrived: u64,
}

pub(crate) struct Path {
    pub(crate) client: Client,
    pub(crate) server: Server,
    pub(crate) now: Duration,
    up: Way,
    down: Way,
    /// Messages go up, or down.
    is_upward: bool,
    pub(crate) flows: Vec<Flow>,
    message: Bytes,
    /// PINGs that the reader's side has sent, without answers.
    pub(crate) pings: usize,
}

impl Way {
    fn new(line: Line) -> Self {
        Self { line, free: Duration::ZERO, flying: VecDeque::new() }
    }

    fn seconds(&self, bytes: u64) -> Duration {
        Duration::from_nanos(bytes * 1_000_000_000 / self.line.bytes_per_second)
    }

    /// The number of bytes that the path takes now.
    fn room(&self, now: Duration) -> usize {
        let queued = self.free.saturating_sub(now).as_nanos();
        let queued = queued * u128::from(self.line.bytes_per_second) / 1_000_000_000;
        u128::from(self.line.queue_max).saturating_sub(queued) as usize
    }

    fn send(&mut self, now: Duration, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.free = self.free.max(now) + self.seconds(bytes.len() as u64);
            self.flying.push_back((self.free + self.line.delay, bytes));
        }
    }

    fn arrived(&mut self, now: Duration) -> Vec<u8> {
        let mut bytes = Vec::new();
        let count = self.flying.iter().take_while(|(at, _)| *at <= now).count();
        self.flying.drain(..count).for_each(|(_, part)| bytes.extend(part));
        bytes
    }
}

impl Path {
    /// Two machines after the greeting, and `flows` streams of messages of `len` bytes each.
    pub(crate) fn new(
        config: &Config,
        line: Line,
        is_upward: bool,
        readers: &[Reader],
        len: usize,
    ) -> Self {
        let mut path = Self {
            client: Client::new(config.clone(), Duration::ZERO),
            server: Server::new(config.clone(), Duration::ZERO),
            now: Duration::ZERO,
            up: Way::new(line),
            down: Way::new(line),
            is_upward,
            flows: Vec::new(),
            message: vec![7; len].into(),
            pings: 0,
        };
        path.run(4 * line.delay + 16 * TICK);
        for &reader in readers {
            let open = Open {
                end: !is_upward,
                initial_credit: config.settings.initial_credit,
                ..Open::default()
            };
            let stream = path.client.open(open).expect("room");
            path.flows.push(Flow {
                stream,
                reader,
                waiting: VecDeque::new(),
                patience: 0,
                arrived: 0,
            });
        }
        path.run(2 * line.delay + 8 * TICK);
        path
    }

    /// Lets virtual time pass.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += TICK;
            self.write();
            self.transmit();
            self.receive();
            self.read();
        }
    }

    /// Bytes that came on all flows.
    pub(crate) fn arrived(&self) -> u64 {
        self.flows.iter().map(|flow| flow.arrived).sum()
    }

    /// Writers always have something to send.
    fn write(&mut self) {
        for flow in &self.flows {
            loop {
                let body = Body::Shared(self.message.clone());
                let sent = if self.is_upward {
                    self.client.has_room(flow.stream)
                        && self.client.send(flow.stream, body, false).is_ok()
                } else {
                    self.server.has_room(flow.stream)
                        && self.server.send(flow.stream, &[], body).is_ok()
                };
                if !sent {
                    break;
                }
            }
        }
    }

    fn transmit(&mut self) {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let room = self.up.room(self.now);
        self.client.transmit(room, &mut |out| append(&mut up, &out));
        let room = self.down.room(self.now);
        self.server.transmit(room, &mut |out| append(&mut down, &out));
        self.pings += pings(if self.is_upward { &down } else { &up });
        self.up.send(self.now, up);
        self.down.send(self.now, down);
    }

    fn receive(&mut self) {
        let bytes = self.up.arrived(self.now);
        let mut input = &bytes[..];
        while let Some(event) = self.server.receive(&mut input, self.now).expect("a good client") {
            if let ServerEvent::Message { stream, message, .. } = event {
                note(&mut self.flows, stream, message.len());
            }
        }
        let bytes = self.down.arrived(self.now);
        let mut input = &bytes[..];
        while let Some(event) = self.client.receive(&mut input, self.now).expect("a good server") {
            if let ClientEvent::Message { stream, message } = event {
                note(&mut self.flows, stream, message.len());
            }
        }
    }

    fn read(&mut self) {
        for flow in &mut self.flows {
            let taken = flow.read();
            if self.is_upward {
                self.server.taken(flow.stream, taken);
            } else {
                self.client.taken(flow.stream, taken);
            }
        }
    }
}

impl Flow {
    /// The number of messages that the reader takes in a turn.
    fn read(&mut self) -> usize {
        let mut taken = 0;
        match self.reader {
            Reader::All => taken = self.waiting.drain(..).count(),
            Reader::Stalled => {}
            Reader::Slow(pace) => {
                self.patience += pace * TICK.as_micros() as u64 / 1_000_000;
                while let Some(&len) = self.waiting.front()
                    && len as u64 <= self.patience
                {
                    self.waiting.pop_front();
                    self.patience -= len as u64;
                    taken += 1;
                }
            }
        }
        taken
    }
}

fn note(flows: &mut [Flow], stream: StreamId, len: usize) {
    let flow = flows.iter_mut().find(|flow| flow.stream == stream).expect("one of them");
    flow.waiting.push_back(len);
    flow.arrived += len as u64;
}

/// PINGs among the whole frames of an output.
fn pings(output: &[u8]) -> usize {
    let mut rest = output;
    if rest.starts_with(&ringway_wire::native::PREFACE) {
        rest = &rest[PREFACE_LEN..];
    }
    let mut pings = 0;
    while let Some((head, behind)) = rest.split_first_chunk::<HEADER_LEN>() {
        let header = Header::decode(head).expect("machines send consistent frames");
        pings += usize::from(header.kind == FrameKind::Ping && header.flags.bits() == 0);
        rest = &behind[header.len as usize..];
    }
    pings
}

/// Appends output of a machine.
pub(crate) fn append(bytes: &mut Vec<u8>, out: &Outgoing<'_>) {
    match out {
        Outgoing::Copy(part) => bytes.extend_from_slice(part),
        Outgoing::Shared(part) => bytes.extend_from_slice(part),
    }
}
