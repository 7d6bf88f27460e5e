//! Sessions of two machines, recorded as frames, and changes of them.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use ringway_wire::grpc::{GrpcClient, GrpcServer};
use ringway_wire::native::{
    Body, Client, ClientEvent, Config, HEADER_LEN, MetaWriter, Open, Outgoing, PREFACE_LEN, Reply,
    Server, ServerEvent, Settings, StreamId,
};

pub(crate) use super::changes::pick;
use super::changes::{Changes, change};
use super::random::Random;

/// The machines of a protocol, as sessions use them.
pub(crate) trait Caller {
    fn open(&mut self, call: Open<'_>) -> Option<StreamId>;
    fn send(&mut self, stream: StreamId, message: Body<'_>, end: bool);
    fn cancel(&mut self, stream: StreamId);
    fn transmit(&mut self, out: &mut Vec<u8>);
    /// Gives the client its server's output, and reads all messages.
    fn listen(&mut self, input: &[u8]);
}

/// See [`Caller`].
pub(crate) trait Answerer {
    fn send(&mut self, stream: StreamId, meta: &[u8], message: Body<'_>);
    fn send_initial(&mut self, stream: StreamId, meta: &[u8]);
    fn respond(&mut self, stream: StreamId, reply: Reply<'_>);
    fn transmit(&mut self, out: &mut Vec<u8>);
    /// Gives the server its client's output, and reads all messages. Returns the calls that have begun.
    fn listen(&mut self, input: &[u8], running: &mut Vec<StreamId>);
}

macro_rules! machines {
    ($($client:ty, $server:ty;)*) => {$(
        impl Caller for $client {
            fn open(&mut self, call: Open<'_>) -> Option<StreamId> {
                Self::open(self, call).ok()
            }
            fn send(&mut self, stream: StreamId, message: Body<'_>, end: bool) {
                let _may_have_ended = Self::send(self, stream, message, end);
            }
            fn cancel(&mut self, stream: StreamId) {
                Self::cancel(self, stream, 1, "enough");
            }
            fn transmit(&mut self, out: &mut Vec<u8>) {
                Self::transmit(self, usize::MAX, &mut |part| append(out, &part));
            }
            fn listen(&mut self, mut input: &[u8]) {
                while let Some(event) = self.receive(&mut input, Duration::ZERO).expect("honest") {
                    if let ClientEvent::Message { stream, .. } = event {
                        self.taken(stream, 1);
                    }
                }
            }
        }

        impl Answerer for $server {
            fn send(&mut self, stream: StreamId, meta: &[u8], message: Body<'_>) {
                let _may_have_ended = Self::send(self, stream, meta, message);
            }
            fn send_initial(&mut self, stream: StreamId, meta: &[u8]) {
                let _may_have_ended = Self::send_initial(self, stream, meta);
            }
            fn respond(&mut self, stream: StreamId, reply: Reply<'_>) {
                Self::respond(self, stream, reply);
            }
            fn transmit(&mut self, out: &mut Vec<u8>) {
                Self::transmit(self, usize::MAX, &mut |part| append(out, &part));
            }
            fn listen(&mut self, mut input: &[u8], running: &mut Vec<StreamId>) {
                while let Some(event) = self.receive(&mut input, Duration::ZERO).expect("honest") {
                    match event {
                        ServerEvent::Request { stream, .. } => running.push(stream),
                        ServerEvent::Message { stream, .. } => self.taken(stream, 1),
                        _ => {}
                    }
                }
            }
        }
    )*};
}

machines! {
    Client, Server;
    GrpcClient, GrpcServer;
}

/// An action of the client in a session, after a number of frames of its server.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Open { method: u32, len: Option<usize>, end: bool, timeout_ms: u64 },
    Send { len: usize, end: bool },
    Cancel,
}

/// The output of both ends.
pub(crate) struct Session {
    pub(crate) client: Config,
    pub(crate) server: Config,
    pub(crate) acts: Vec<(usize, Act)>,
    pub(crate) up: Vec<Vec<u8>>,
    pub(crate) down: Vec<Vec<u8>>,
}

/// A few dozen sessions, the same in each run.
pub(crate) static SESSIONS: LazyLock<Vec<Session>> =
    LazyLock::new(|| (0..48).map(|seed| record(&mut Random::new(seed))).collect());

/// Bytes of messages.
pub(crate) static NOISE: LazyLock<Bytes> = LazyLock::new(|| vec![7; 300_000].into());

fn config(random: &mut Random) -> Config {
    let mut config = Config::default();
    match random.below(4) {
        0 => config.settings = Settings::default(),
        1 => {
            let odd = Settings { max_message: 70_000, max_meta: 40, ..Settings::default() };
            config.settings = odd;
        }
        2 => config.settings.checksum = true,
        _ => {}
    }
    config
}

fn record(random: &mut Random) -> Session {
    let (client, server) = (config(random), config(random));
    let ends =
        (Client::new(client.clone(), Duration::ZERO), Server::new(server.clone(), Duration::ZERO));
    let Said { acts, up, down } = talk(ends, random);
    let acts = acts.into_iter().map(|(heard, act)| (split(&down[..heard]).len(), act)).collect();
    Session { client, server, acts, up: split(&up), down: split(&down) }
}

/// The output of both ends of a session, and the client's actions after a number of bytes of its server.
pub(crate) struct Said {
    pub(crate) acts: Vec<(usize, Act)>,
    pub(crate) up: Vec<u8>,
    pub(crate) down: Vec<u8>,
}

/// Some calls.
pub(crate) fn talk(mut ends: (impl Caller, impl Answerer), random: &mut Random) -> Said {
    let mut said = Said { acts: vec![], up: vec![], down: vec![] };
    let (mut open, mut running) = (Vec::new(), Vec::new());
    for _ in 0..4 + random.below(12) {
        let act = act(random);
        perform(&mut ends.0, &act, &mut open, random);
        said.acts.push((said.down.len(), act));
        for _ in 0..2 {
            let before = said.up.len();
            ends.0.transmit(&mut said.up);
            ends.1.listen(&said.up[before..], &mut running);
            for _ in 0..random.below(3) {
                answer(&mut ends.1, &mut running, random);
            }
            let before = said.down.len();
            ends.1.transmit(&mut said.down);
            ends.0.listen(&said.down[before..]);
        }
    }
    said
}

fn act(random: &mut Random) -> Act {
    match random.below(8) {
        0 | 1 => Act::Send { len: len(random), end: random.below(2) == 0 },
        2 => Act::Cancel,
        _ => Act::Open {
            method: random.below(4) as u32,
            len: (random.below(4) > 0).then(|| len(random)),
            end: random.below(2) == 0,
            timeout_ms: random.below(3) as u64 * 1_000,
        },
    }
}

/// Mostly short, so that many sessions are quick.
pub(crate) fn len(random: &mut Random) -> usize {
    match random.below(24) {
        0 => 65_537 + random.below(30_000),
        1 => 4_097 + random.below(3_000),
        _ => random.below(120),
    }
}

/// Repeats a recorded action on a client, if it is possible.
pub(crate) fn perform(
    client: &mut impl Caller,
    act: &Act,
    open: &mut Vec<StreamId>,
    random: &mut Random,
) {
    match *act {
        Act::Open { method, len, end, timeout_ms } => {
            let message = len.map(|len| Body::Shared(NOISE.slice(..len)));
            let timeout = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms));
            let name = ["a.B/C0", "a.B/C1", "a.B/C2", "a.B/C3"][method as usize];
            let call = Open { method, name, message, end, timeout, ..Open::default() };
            open.extend(client.open(call));
        }
        Act::Send { len, end } => {
            if let Some(&stream) = pick(open, random) {
                client.send(stream, Body::Copy(&NOISE[..len]), end);
            }
        }
        Act::Cancel => {
            if let Some(&stream) = pick(open, random) {
                client.cancel(stream);
            }
        }
    }
}

/// Lets a handler act on one of its calls.
pub(crate) fn answer(server: &mut impl Answerer, running: &mut Vec<StreamId>, random: &mut Random) {
    let Some(&stream) = pick(running, random) else {
        return;
    };
    let mut meta = Vec::new();
    if random.below(3) == 0 {
        MetaWriter::new(&mut meta).status_message("what went wrong").entry("key", b"value");
    }
    let body = Body::Shared(NOISE.slice(..len(random)));
    match random.below(4) {
        0 => server.send(stream, &meta, body),
        1 => server.send_initial(stream, &meta),
        2 => {
            server.respond(stream, Reply { status: 5, meta: &meta, message: None });
            running.retain(|running| *running != stream);
        }
        _ => {
            server.respond(stream, Reply { status: 0, meta: &meta, message: Some(body) });
            running.retain(|running| *running != stream);
        }
    }
}

pub(crate) fn append(bytes: &mut Vec<u8>, out: &Outgoing<'_>) {
    match out {
        Outgoing::Copy(part) => bytes.extend_from_slice(part),
        Outgoing::Shared(part) => bytes.extend_from_slice(part),
    }
}

/// Preface and frames of all that an end said.
pub(crate) fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (preface, rest) = bytes.split_at(PREFACE_LEN.min(bytes.len()));
    let mut parts = vec![preface.to_vec()];
    parts.extend(frames(rest));
    parts
}

pub(crate) fn frames(mut rest: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some(head) = rest.first_chunk::<4>() {
        let len = HEADER_LEN + u32::from_le_bytes(*head) as usize;
        let (frame, behind) = rest.split_at(len.min(rest.len()));
        frames.push(frame.to_vec());
        rest = behind;
    }
    frames
}

/// Changes a session a little, or a lot.
pub(crate) fn mutate(frames: &mut Vec<Vec<u8>>, others: &[Vec<u8>], random: &mut Random) {
    change(&CHANGES, frames, others, random);
}

const CHANGES: Changes = Changes {
    fields: &[(0, 4), (4, 1), (5, 1), (6, 2), (8, 4), (8, 4), (12, 4), (12, 4), (28, 4)],
    is_big_endian: false,
    settings,
    own,
};

fn header(kind: u8, flags: u8, stream: u32, aux: u32, body: &[u8]) -> Vec<u8> {
    let mut frame = (body.len() as u32).to_le_bytes().to_vec();
    frame.extend([kind, flags, 0, 0]);
    frame.extend(stream.to_le_bytes());
    frame.extend(aux.to_le_bytes());
    frame.extend(body);
    frame
}

/// Settings at the borders of their ranges.
fn settings(random: &mut Random) -> Vec<u8> {
    let mut body = Vec::new();
    for _ in 0..random.below(4) {
        let (id, values) = [
            (1_u16, [65_536_u32, 262_144, 65_535]),
            (2, [0, 1, 524_288]),
            (3, [65_536, i32::MAX as u32, 1 << 20]),
            (4, [0, 1, i32::MAX as u32]),
            (5, [0, 16, 65_535]),
            (6, [0, 1, 2]),
            (10, [0, 1, u32::MAX]),
        ][random.below(7)];
        body.extend(id.to_le_bytes());
        body.extend(values[random.below(3)].to_le_bytes());
    }
    header(0x01, 0, 0, 0, &body)
}

/// A frame of a few streams that a session may have.
fn own(random: &mut Random) -> Vec<u8> {
    let stream = (random.below(5) << 12 | (1 + random.below(3))) as u32;
    let aux = [0, 1, 4, 100, 70_000, i32::MAX as u32][random.below(6)];
    let flags = [0, 1, 2, 0x40, 0x41, 0x80][random.below(6)];
    let body = vec![0; [0, 1, 8, 16, 40, 5_000][random.below(6)]];
    let kinds = [0x02, 0x03, 0x04, 0x10, 0x11, 0x12, 0x12, 0x12, 0x13, 0x14, 0x80];
    let kind = kinds[random.below(kinds.len())];
    let stream = if kind < 0x10 || kind == 0x80 { 0 } else { stream };
    let body = if matches!(kind, 0x02 | 0x04 | 0x13) { vec![] } else { body };
    header(kind, flags, stream, aux, &body)
}
