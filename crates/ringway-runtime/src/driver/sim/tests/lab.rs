//! A simulation with a book-keeper: every event is checked against what was asked for.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Weak;
use std::time::Duration;

use socket2::SockAddr;

use crate::buf::Segment;
use crate::buf::{BufferCounts, Pools};
use crate::driver::sim::{Sim, SimConfig};
use crate::driver::{BindOptions, Driver, Event, Key, RecvClass, SendBatch, Wait};

pub(super) const OPTIONS: BindOptions =
    BindOptions { reuse_port: false, backlog: 16, only_v6: false };

pub(super) struct Lab {
    pub(super) sim: Sim,
    pub(super) pools: Pools,
    /// What happened, one line an event.
    pub(super) trace: Vec<String>,
    books: BTreeMap<u64, Book>,
    buffers: usize,
}

/// What is owed to one key.
#[derive(Debug)]
struct Book {
    fd: RawFd,
    sends: usize,
    receives: usize,
    accepts: usize,
    connects: usize,
    closing: bool,
    closed: bool,
}

impl Lab {
    pub(super) fn new(config: SimConfig) -> Self {
        Self::with_buffers(config, 16)
    }

    pub(super) fn with_buffers(config: SimConfig, buffers: u16) -> Self {
        let counts = BufferCounts { message: buffers, bulk: buffers, datagram: buffers };
        let pools = Pools::new(counts, &Weak::new()).unwrap();
        let sim = Sim::new(config, &pools);
        let buffers = usize::from(buffers);
        Self { sim, pools, trace: Vec::new(), books: BTreeMap::new(), buffers }
    }

    /// Gives a descriptor a new key.
    pub(super) fn register(&mut self, fd: RawFd) -> Key {
        let key = Key::new(self.books.len() as u32, 1);
        let book = Book {
            fd,
            sends: 0,
            receives: 0,
            accepts: 0,
            connects: 0,
            closing: false,
            closed: false,
        };
        self.books.insert(key.bits(), book);
        self.sim.register(key, fd);
        key
    }

    /// A listener on a free port that accepts.
    pub(super) fn listen(&mut self) -> (Key, SockAddr) {
        let (fd, addr) = self.sim.listen(&inet("127.0.0.1:0"), OPTIONS).unwrap();
        let key = self.register(fd);
        self.accept_start(key);
        (key, addr)
    }

    pub(super) fn connect(&mut self, addr: &SockAddr) -> Key {
        let fd = self.sim.open_stream(addr).unwrap();
        let key = self.register(fd);
        self.book(key).connects += 1;
        self.sim.connect(key, addr);
        key
    }

    /// Both ends of a new connection, the connecting one first. The listener is closed again.
    pub(super) fn pair(&mut self) -> (Key, Key) {
        let (listener, addr) = self.listen();
        let client = self.connect(&addr);
        let events = self.run(2);
        assert!(matches!(events[1], Event::Connected { errno: 0, .. }), "{events:?}");
        let Event::Accepted { fd, .. } = events[0] else { panic!("{events:?}") };
        let server = self.register(fd);
        self.close(listener);
        self.run(1);
        (client, server)
    }

    pub(super) fn fd(&self, key: Key) -> RawFd {
        self.books[&key.bits()].fd
    }

    pub(super) fn accept_start(&mut self, key: Key) {
        self.book(key).accepts += 1;
        self.sim.accept_start(key);
    }

    pub(super) fn recv_start(&mut self, key: Key, class: RecvClass) {
        self.book(key).receives += 1;
        self.sim.recv_start(key, class);
    }

    pub(super) fn recv_stop(&mut self, key: Key) {
        self.sim.recv_stop(key);
    }

    pub(super) fn send(&mut self, key: Key, bytes: impl Into<Vec<u8>>) {
        self.send_batch(
            key,
            SendBatch { segments: vec![Segment::from(bytes.into())], to: None, urgent: true },
        );
    }

    pub(super) fn send_batch(&mut self, key: Key, batch: SendBatch) {
        self.book(key).sends += 1;
        self.sim.send(key, batch);
    }

    pub(super) fn shutdown_write(&mut self, key: Key) {
        self.sim.shutdown_write(key).unwrap();
    }

    pub(super) fn close(&mut self, key: Key) {
        self.close_how(key, false);
    }

    pub(super) fn abort(&mut self, key: Key) {
        self.close_how(key, true);
    }

    fn close_how(&mut self, key: Key, abort: bool) {
        self.book(key).closing = true;
        self.sim.close(key, abort);
    }

    /// One turn, its events checked.
    pub(super) fn turn(&mut self, wait: Wait) -> Vec<Event> {
        let mut events = Vec::new();
        let turned = self.sim.turn(wait, &mut events);
        let trace = &self.trace[self.trace.len().saturating_sub(20)..];
        turned.unwrap_or_else(|error| panic!("{error}; last events: {trace:#?}"));
        for event in &events {
            self.check(event);
        }
        events
    }

    /// Turns until there have been that many events.
    pub(super) fn run(&mut self, count: usize) -> Vec<Event> {
        let mut events = Vec::new();
        while events.len() < count {
            events.extend(self.turn(Wait::Forever));
        }
        assert_eq!(events.len(), count, "{events:?}");
        events
    }

    /// Turns until nothing happens for an hour.
    pub(super) fn settle(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let more = self.turn(Wait::AtMost(Duration::from_secs(3_600)));
            if more.is_empty() {
                return events;
            }
            events.extend(more);
        }
    }

    /// Everything was answered and given back.
    pub(super) fn finish(&mut self) {
        for (bits, book) in &self.books {
            assert!(book.closed, "key {bits:#x} is still open: {book:?}");
        }
        assert_eq!(self.sim.open_descriptors(), 0, "descriptors leaked");
        assert_eq!(self.pools.message.free_count(), self.buffers, "message buffers leaked");
        assert_eq!(self.pools.bulk.free_count(), self.buffers, "bulk buffers leaked");
        assert_eq!(self.pools.datagram.free_count(), self.buffers, "datagram buffers leaked");
    }

    fn check(&mut self, event: &Event) {
        self.trace.push(format!("{:?} {}", self.sim.elapsed(), line(event)));
        let book = self.book(event.key());
        assert!(!book.closed, "after Closed: {event:?}");
        let ends = matches!(event, Event::Sent { .. } | Event::Closed { .. });
        assert!(!book.closing || ends, "after close: {event:?}");
        let owed = match event {
            Event::Accepted { .. } => return assert!(book.accepts > 0, "{event:?}"),
            Event::Received { data, .. } => {
                assert!(!data.is_empty(), "an empty piece of a stream");
                return assert!(book.receives > 0, "{event:?}");
            }
            Event::Datagram { .. } | Event::Oversized { .. } => {
                return assert!(book.receives > 0, "{event:?}");
            }
            Event::AcceptEnded { .. } => &mut book.accepts,
            Event::Connected { .. } => &mut book.connects,
            Event::RecvEnded { .. } => &mut book.receives,
            Event::Progress { .. } => return assert!(book.sends > 0, "{event:?}"),
            Event::Sent { segments, .. } => {
                assert!(!segments.is_empty(), "segments were dropped inside");
                &mut book.sends
            }
            Event::FileEnded { .. } => panic!("nobody works on files"),
            Event::Closed { .. } => {
                assert!(book.closing, "closed unasked");
                book.closed = true;
                return;
            }
        };
        *owed = owed.checked_sub(1).unwrap_or_else(|| panic!("nobody asked for {event:?}"));
    }

    fn book(&mut self, key: Key) -> &mut Book {
        self.books.get_mut(&key.bits()).expect("keys are made by `register`")
    }
}

pub(super) fn inet(text: &str) -> SockAddr {
    text.parse::<SocketAddr>().expect("a written address").into()
}

/// An event with the bytes that it carries.
fn line(event: &Event) -> String {
    match event {
        Event::Received { data, .. } | Event::Datagram { data, .. } => {
            format!(
                "{event:?} {:x}",
                data.iter().fold(0_u64, |sum, &byte| {
                    sum.wrapping_mul(31).wrapping_add(u64::from(byte))
                })
            )
        }
        _ => format!("{event:?}"),
    }
}
