//! Echo servers and clients under every fault: all bytes, in order, once.

use std::collections::BTreeMap;

use super::lab::Lab;
use crate::buf::{Segment, View};
use crate::driver::sim::rng::Rng;
use crate::driver::sim::{Faults, SimConfig};
use crate::driver::{Event, Key, RecvClass, RecvEnd, SendBatch, Wait};

const CLIENTS: usize = 4;
const CLIENT_BYTES_MAX: usize = 120_000;

/// Segments that a server queues before it stops receiving.
const QUEUE_MAX: usize = 4;

/// Buffers that a server leaves to others; below, it copies instead of holding views.
const BUFFERS_LEFT: usize = 8;

struct Scenario {
    lab: Lab,
    rng: Rng,
    listener: Key,
    clients: BTreeMap<u64, Client>,
    servers: BTreeMap<u64, Server>,
    done: usize,
}

struct Client {
    number: usize,
    total: usize,
    sent: usize,
    got: usize,
}

#[derive(Default)]
struct Server {
    queue: Vec<Segment>,
    sending: bool,
    receiving: bool,
    eof: bool,
}

#[test]
fn every_byte_comes_back_in_order_under_harsh_faults() {
    for seed in 0..300 {
        run(SimConfig { socket_buffer_bytes: 16 * 1024, ..SimConfig::harsh(seed) });
    }
}

#[test]
fn every_byte_comes_back_in_order_without_faults() {
    for seed in 0..10 {
        run(SimConfig::new(seed));
    }
}

#[test]
fn tiny_buffers_between_the_ends_lose_nothing() {
    for seed in 0..5 {
        run(SimConfig { socket_buffer_bytes: 100, ..SimConfig::harsh(seed) });
    }
}

#[test]
fn a_seed_repeats_every_event() {
    for seed in [1, 2, 3] {
        let config = SimConfig::harsh(seed);
        assert_eq!(run(config), run(config), "seed {seed}");
    }
    assert_ne!(run(SimConfig::harsh(1)), run(SimConfig::harsh(2)));
}

#[test]
fn harsh_faults_happen() {
    let mut scenario = Scenario::new(SimConfig::harsh(5));
    scenario.run();
    let counters = crate::driver::Driver::counters(&scenario.lab.sim);
    assert!(counters.starved > 0 && counters.short_sends > 0 && counters.rearms > 0);
    let refused = |line: &String| line.contains("AcceptEnded");
    let failed_accepts = (0..20).any(|seed| run(SimConfig::harsh(seed)).iter().any(refused));
    assert!(failed_accepts);
    assert!(Faults::harsh().accept_errors > 0);
}

/// Runs a scenario whose failure names its seed, and returns its trace.
fn run(config: SimConfig) -> Vec<String> {
    struct Seed(u64);
    impl Drop for Seed {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("failed with seed {}", self.0);
            }
        }
    }
    let _named_on_failure = Seed(config.seed);
    let mut scenario = Scenario::new(config);
    scenario.run();
    scenario.lab.trace
}

impl Scenario {
    fn new(config: SimConfig) -> Self {
        let mut lab = Lab::new(config);
        let mut rng = Rng::new(!config.seed);
        let (listener, addr) = lab.listen();
        let mut clients = BTreeMap::new();
        for number in 0..CLIENTS {
            let total = rng.below(CLIENT_BYTES_MAX);
            let client = Client { number, total, sent: 0, got: 0 };
            clients.insert(lab.connect(&addr).bits(), client);
        }
        Self { lab, rng, listener, clients, servers: BTreeMap::new(), done: 0 }
    }

    fn run(&mut self) {
        while self.done < 2 * CLIENTS {
            for event in self.lab.turn(Wait::Forever) {
                self.on_event(event);
            }
            self.annoy();
        }
        self.lab.close(self.listener);
        self.lab.settle();
        self.lab.finish();
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Accepted { fd, .. } => self.on_accepted(fd),
            Event::AcceptEnded { key, errno } => {
                assert_eq!(errno, libc::EMFILE);
                self.lab.accept_start(key);
            }
            Event::Connected { key, errno } => {
                assert_eq!(errno, 0);
                self.lab.recv_start(key, RecvClass::Message);
                self.send_more(key);
            }
            Event::Received { key, data } => match self.clients.get_mut(&key.bits()) {
                Some(client) => client.verify(&data),
                None => self.echo(key, data),
            },
            Event::RecvEnded { key, end } => self.on_recv_ended(key, end),
            Event::Sent { key, errno, .. } => {
                assert_eq!(errno, 0);
                self.on_sent(key);
            }
            Event::Progress { .. } => {}
            Event::Closed { .. } => self.done += 1,
            Event::Datagram { .. } | Event::Oversized { .. } => panic!("a datagram on a stream"),
            Event::FileEnded { .. } => panic!("nobody works on files"),
        }
    }

    fn on_accepted(&mut self, fd: i32) {
        let key = self.lab.register(fd);
        let class = if self.rng.chance(500) { RecvClass::Bulk } else { RecvClass::Message };
        self.lab.recv_start(key, class);
        self.servers.insert(key.bits(), Server { receiving: true, ..Server::default() });
    }

    fn echo(&mut self, key: Key, data: View) {
        let scarce = self.lab.pools.message.free_count() < BUFFERS_LEFT
            || self.lab.pools.bulk.free_count() < 2;
        let segment = if scarce { Segment::from(data.to_vec()) } else { Segment::from(data) };
        let server = self.servers.get_mut(&key.bits()).expect("accepted before");
        server.queue.push(segment);
        if server.queue.len() > QUEUE_MAX {
            self.lab.recv_stop(key);
        }
        self.flush(key);
    }

    fn flush(&mut self, key: Key) {
        let server = self.servers.get_mut(&key.bits()).expect("accepted before");
        if server.sending {
            return;
        }
        if !server.queue.is_empty() {
            server.sending = true;
            let segments = std::mem::take(&mut server.queue);
            return self.lab.send_batch(key, SendBatch { segments, to: None, urgent: true });
        }
        if server.eof {
            self.lab.close(key);
        } else if !server.receiving {
            server.receiving = true;
            self.lab.recv_start(key, RecvClass::Message);
        }
    }

    fn on_recv_ended(&mut self, key: Key, end: RecvEnd) {
        let stopped = match end {
            RecvEnd::Eof => false,
            RecvEnd::Stopped => true,
            RecvEnd::Failed(errno) => panic!("receive failed: {errno}"),
        };
        if let Some(client) = self.clients.get(&key.bits()) {
            if stopped {
                return self.lab.recv_start(key, RecvClass::Message);
            }
            assert_eq!((client.sent, client.got), (client.total, client.total));
            return self.lab.close(key);
        }
        let server = self.servers.get_mut(&key.bits()).expect("accepted before");
        server.receiving = false;
        server.eof = !stopped;
        self.flush(key);
    }

    fn on_sent(&mut self, key: Key) {
        if self.clients.contains_key(&key.bits()) {
            return self.send_more(key);
        }
        self.servers.get_mut(&key.bits()).expect("accepted before").sending = false;
        self.flush(key);
    }

    /// Sends a client's next bytes in a few segments, or ends its sending half.
    fn send_more(&mut self, key: Key) {
        let client = self.clients.get_mut(&key.bits()).expect("connected before");
        let mut segments = Vec::new();
        for _ in 0..self.rng.one_to(3) {
            let rest = client.total - client.sent;
            if rest > 0 {
                let count = self.rng.one_to(rest.min(40_000));
                let bytes = (client.sent..client.sent + count).map(|at| client.byte(at));
                segments.push(Segment::from(bytes.collect::<Vec<u8>>()));
                client.sent += count;
            }
        }
        if segments.is_empty() {
            self.lab.shutdown_write(key);
        } else {
            self.lab.send_batch(key, SendBatch { segments, to: None, urgent: true });
        }
    }

    /// Now and then stops a client's receive, which then starts it again.
    fn annoy(&mut self) {
        if self.rng.chance(100) {
            let bits = *self.clients.keys().nth(self.rng.below(CLIENTS)).expect("all are kept");
            let client = &self.clients[&bits];
            if client.got < client.total && client.got > 0 {
                self.lab.recv_stop(Key::from_bits(bits));
            }
        }
    }
}

impl Client {
    fn byte(&self, at: usize) -> u8 {
        (at as u64 * 131 + self.number as u64 * 89 + (at as u64 >> 8)) as u8
    }

    fn verify(&mut self, data: &[u8]) {
        for &byte in data {
            assert_eq!(byte, self.byte(self.got), "client {} at {}", self.number, self.got);
            self.got += 1;
        }
        assert!(self.got <= self.sent, "more came back than was sent");
    }
}
