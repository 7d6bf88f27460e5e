//! A fuzz function that connects both machines: each must keep to the protocol for any commands and
//! any timing of the network.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::{
    Body, Client, ClientEvent, Config, GoAwayCode, Gone, Open, Outgoing, Reply, Server,
    ServerEvent, Side, StreamId,
};

/// Executes the commands in `data`, of two bytes each, then ends every call.
pub fn fuzz(data: &[u8]) {
    let Some((&form, commands)) = data.split_first() else {
        return;
    };
    let mut pair = Pair::new(form);
    for &[command, amount] in commands.as_chunks().0 {
        if !pair.obey(command, amount) {
            return;
        }
    }
    pair.settle();
}

/// Message counts of a stream in both directions; each message is filled with its number.
#[derive(Default)]
struct Count {
    up_sent: u8,
    up_received: u8,
    down_sent: u8,
    down_received: u8,
}

struct Pair {
    client: Client,
    server: Server,
    now: Duration,
    /// Bytes in flight from the client to the server.
    up: Vec<u8>,
    /// Bytes in flight from the server to the client.
    down: Vec<u8>,
    calls: Vec<StreamId>,
    running: Vec<StreamId>,
    counts: BTreeMap<StreamId, Count>,
}

impl Pair {
    fn new(form: u8) -> Self {
        let (mut client, mut server) = (Config::default(), Config::default());
        client.settings.checksum = form & 1 != 0;
        server.settings.checksum = form & 2 != 0;
        if form & 4 != 0 {
            server.settings.initial_credit = 65_536;
            server.settings.max_message = 150_000;
        }
        if form & 8 != 0 {
            server.settings.max_streams = 3;
            client.settings.max_message = 100_000;
        }
        Self {
            client: Client::new(client, Duration::ZERO),
            server: Server::new(server, Duration::ZERO),
            now: Duration::ZERO,
            up: Vec::new(),
            down: Vec::new(),
            calls: Vec::new(),
            running: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Executes a command, and returns whether both connections are still alive: silence may end
    /// them.
    fn obey(&mut self, command: u8, amount: u8) -> bool {
        let call = pick(&self.calls, amount);
        let running = pick(&self.running, amount);
        match (command % 12, call, running) {
            (0, ..) => self.open(amount, true),
            (1, ..) => self.open(amount, false),
            (2, Some(stream), _) => self.ask(stream, command, amount & 1 != 0),
            (3, Some(stream), _) => self.client.finish(stream),
            (4, Some(stream), _) => {
                self.client.cancel(stream, 1, "fuzz");
                self.calls.retain(|call| *call != stream);
            }
            (5, _, Some(stream)) => self.tell(stream, command),
            (6, _, Some(stream)) => self.respond(stream, Some(command)),
            (7, _, Some(stream)) => self.respond(stream, None),
            (8, ..) => self.move_up(usize::from(amount) << (command >> 4)),
            (9, ..) => self.move_down(usize::from(amount) << (command >> 4)),
            (10, ..) if amount == 0xff => {
                self.server.go_away(GoAwayCode::NoError, Duration::from_secs(5), "fuzz");
            }
            (10, ..) if amount >= 0xfd => self.server.set_memory_pressure(amount == 0xfe),
            (10, ..) if amount == 0xfc => {
                self.server.end_largest(Side::Unread);
                self.move_up(0);
            }
            (10, ..) => self.server.lease(u32::from(amount)),
            (11, ..) => return self.wait(Duration::from_millis(u64::from(amount) * 50)),
            _ => {}
        }
        true
    }

    fn open(&mut self, amount: u8, end: bool) {
        let message = end.then(|| body(0, amount));
        let has_message = message.is_some();
        let call = Open {
            method: u32::from(amount % 4),
            name: ["a.B/C0", "a.B/C1", "a.B/C2", "a.B/C3"][usize::from(amount % 4)],
            message,
            end,
            ..Open::default()
        };
        if let Ok(stream) = self.client.open(call) {
            self.calls.push(stream);
            let count = Count { up_sent: u8::from(has_message), ..Count::default() };
            self.counts.insert(stream, count);
        }
    }

    fn ask(&mut self, stream: StreamId, amount: u8, end: bool) {
        let count = self.counts.entry(stream).or_default();
        if self.client.send(stream, body(count.up_sent, amount), end).is_ok() {
            count.up_sent = count.up_sent.wrapping_add(1);
        }
    }

    fn tell(&mut self, stream: StreamId, amount: u8) {
        let count = self.counts.entry(stream).or_default();
        match self.server.send(stream, b"\x06\0", body(count.down_sent, amount)) {
            Ok(_) => count.down_sent = count.down_sent.wrapping_add(1),
            // The client takes nothing so long, so the call has ended.
            Err(Gone) => self.running.retain(|running| *running != stream),
        }
    }

    fn respond(&mut self, stream: StreamId, amount: Option<u8>) {
        let count = self.counts.entry(stream).or_default();
        let message = amount.map(|amount| body(count.down_sent, amount));
        assert!(self.server.respond(stream, Reply { status: 0, meta: &[], message }).is_some());
        self.running.retain(|running| *running != stream);
    }

    fn wait(&mut self, time: Duration) -> bool {
        self.now += time;
        let is_alive = self.client.handle_timeout(self.now).is_ok()
            && self.server.handle_timeout(self.now).is_ok();
        if is_alive {
            self.move_up(0);
            self.move_down(0);
        }
        is_alive
    }

    /// Delivers up to `len` bytes to the server.
    fn move_up(&mut self, len: usize) {
        let up = &mut self.up;
        self.client.transmit(len, &mut |out| append(up, &out));
        let arrived: Vec<u8> = self.up.drain(..len.min(self.up.len())).collect();
        let mut input = &arrived[..];
        while let Some(event) =
            self.server.receive(&mut input, self.now).expect("the client keeps to the protocol")
        {
            on_asked(event, &mut self.server, &mut self.running, &mut self.counts);
        }
        assert!(input.is_empty());
    }

    /// Delivers up to `len` bytes to the client.
    fn move_down(&mut self, len: usize) {
        let down = &mut self.down;
        self.server.transmit(len, &mut |out| append(down, &out));
        let arrived: Vec<u8> = self.down.drain(..len.min(self.down.len())).collect();
        let mut input = &arrived[..];
        while let Some(event) =
            self.client.receive(&mut input, self.now).expect("the server keeps to the protocol")
        {
            on_told(event, &mut self.client, &mut self.calls, &mut self.counts);
        }
        assert!(input.is_empty());
    }

    /// Ends all calls.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            for stream in self.calls.clone() {
                self.client.finish(stream);
            }
            for stream in self.running.clone() {
                self.respond(stream, None);
            }
            self.move_up(1 << 20);
            self.move_down(1 << 20);
            let is_silent = !self.client.has_output() && !self.server.has_output();
            if is_silent && self.up.is_empty() && self.down.is_empty() && self.running.is_empty() {
                break;
            }
        }
        assert_eq!(self.calls, [], "every call ends");
        assert_eq!((self.client.in_flight(), self.server.in_flight()), (0, 0));
        assert_eq!((self.client.incomplete_len(), self.server.buffered_len()), (0, 0));
    }
}

fn on_asked(
    event: ServerEvent<'_>,
    server: &mut Server,
    running: &mut Vec<StreamId>,
    counts: &mut BTreeMap<StreamId, Count>,
) {
    match event {
        ServerEvent::Request { stream, message, .. } => {
            running.push(stream);
            if let Some(message) = message {
                check(&message, &mut counts.entry(stream).or_default().up_received);
            }
        }
        ServerEvent::Message { stream, message, .. } => {
            assert!(running.contains(&stream));
            check(&message, &mut counts.entry(stream).or_default().up_received);
            server.taken(stream, 1);
        }
        ServerEvent::Cancelled { stream, .. } => {
            assert!(running.contains(&stream));
            running.retain(|running| *running != stream);
        }
        ServerEvent::Failed { stream, .. } => running.retain(|running| *running != stream),
        ServerEvent::Named { method, .. } => assert_ne!(method, 0),
        ServerEvent::End { .. } | ServerEvent::Writable { .. } => {}
        ServerEvent::PeerLeaving { .. } => panic!("the client stays"),
        ServerEvent::Guest { .. } => unreachable!("not in this protocol"),
    }
}

fn on_told(
    event: ClientEvent<'_>,
    client: &mut Client,
    calls: &mut Vec<StreamId>,
    counts: &mut BTreeMap<StreamId, Count>,
) {
    match event {
        ClientEvent::Message { stream, message } => {
            assert!(calls.contains(&stream), "a cancelled call is silent");
            check(&message, &mut counts.entry(stream).or_default().down_received);
            client.taken(stream, 1);
        }
        ClientEvent::Response { stream, message, .. } => {
            assert!(calls.contains(&stream), "one end for each call");
            calls.retain(|call| *call != stream);
            if let Some(message) = message {
                check(&message, &mut counts.entry(stream).or_default().down_received);
            }
        }
        ClientEvent::Failed { stream, .. } => {
            assert!(calls.contains(&stream), "one end for each call");
            calls.retain(|call| *call != stream);
        }
        ClientEvent::Initial { stream, .. } => assert!(calls.contains(&stream)),
        ClientEvent::Writable { .. } | ClientEvent::Capacity | ClientEvent::Leaving { .. } => {}
    }
}

/// Checks that a message is the next one of its stream, and complete.
fn check(message: &[u8], received: &mut u8) {
    assert!(message.iter().all(|byte| byte == received), "not message {received}");
    assert!(LENGTHS.contains(&message.len()));
    *received = received.wrapping_add(1);
}

fn body(number: u8, amount: u8) -> Body<'static> {
    let len = LENGTHS[usize::from(amount) % LENGTHS.len()];
    Body::Shared(Bytes::from(vec![number; len]))
}

const LENGTHS: [usize; 8] = [0, 1, 100, 4_096, 5_000, 65_537, 120_000, 200_000];

fn pick(streams: &[StreamId], amount: u8) -> Option<StreamId> {
    streams.get(usize::from(amount) % streams.len().max(1)).copied()
}

fn append(bytes: &mut Vec<u8>, out: &Outgoing<'_>) {
    match out {
        Outgoing::Copy(part) => bytes.extend_from_slice(part),
        Outgoing::Shared(part) => bytes.extend_from_slice(part),
    }
}
