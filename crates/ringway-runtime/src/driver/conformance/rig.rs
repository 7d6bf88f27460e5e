//! A loop around a driver that records events by key and checks what must always hold.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use socket2::SockAddr;

use super::Fixture;
use crate::buf::Pools;
use crate::buf::{Segment, View};
use crate::driver::{BindOptions, Driver, Event, Key, RecvClass, RecvEnd, SendBatch, Wait};

/// A registered object of the driver under test.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endpoint {
    pub(super) key: Key,
}

/// What was asked of a key and what came of it.
#[derive(Default)]
pub(super) struct Record {
    pub(super) received: Vec<u8>,
    pub(super) views: Vec<View>,
    pub(super) datagrams: Vec<(Vec<u8>, Option<SockAddr>)>,
    pub(super) recv_ends: Vec<RecvEnd>,
    pub(super) sent: Vec<(usize, i32)>,
    pub(super) accepted: Vec<RawFd>,
    pub(super) accept_ends: Vec<i32>,
    pub(super) connected: Vec<i32>,
    pub(super) closed: bool,
    /// Batches that came back since the key was not open.
    pub(super) refused: usize,
    receiving: bool,
    /// Segments of the batches in flight, and what a stream's was told to have got on by.
    sending: VecDeque<usize>,
    pub(super) progress: Vec<usize>,
}

impl Record {
    pub(super) fn is_sending(&self) -> bool {
        !self.sending.is_empty()
    }
}

pub(super) struct Rig<F: Fixture> {
    pub(super) driver: F::Driver,
    pub(super) eventfd: Arc<OwnedFd>,
    pub(super) pools: Pools,
    /// Keeps views in the records instead of copying them out.
    pub(super) holds_views: bool,
    records: HashMap<Key, Record>,
    events: Vec<Event>,
    index_next: u32,
}

impl<F: Fixture> Rig<F> {
    pub(super) fn new(driver: F::Driver, eventfd: Arc<OwnedFd>, pools: Pools) -> Self {
        Self {
            driver,
            eventfd,
            pools,
            holds_views: false,
            records: HashMap::new(),
            events: Vec::new(),
            index_next: 0,
        }
    }

    pub(super) fn of(&mut self, endpoint: Endpoint) -> &mut Record {
        self.records.get_mut(&endpoint.key).expect("made by endpoint()")
    }

    /// Gives a descriptor a key that was never used.
    pub(super) fn endpoint(&mut self, fd: RawFd) -> Endpoint {
        self.index_next += 1;
        self.endpoint_at(Key::new(self.index_next, 0), fd)
    }

    pub(super) fn endpoint_at(&mut self, key: Key, fd: RawFd) -> Endpoint {
        let before = self.records.insert(key, Record::default());
        assert!(before.is_none_or(|record| record.closed), "{key:?} is in use");
        self.driver.register(key, fd);
        Endpoint { key }
    }

    /// Turns until `done`; a driver that goes quiet before that fails the test.
    pub(super) fn drive(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let mut quiet = 0;
        while !done(self) {
            quiet = if self.turn(Wait::AtMost(TURN)) > 0 { 0 } else { quiet + 1 };
            assert!(quiet < QUIET_TURNS_MAX, "nothing happens any more; waited for: {what}");
        }
    }

    /// Lets the driver do what it can do without waiting long.
    pub(super) fn settle(&mut self) {
        for _ in 0..SETTLING_TURNS {
            self.turn(Wait::AtMost(Duration::from_millis(1)));
        }
    }

    /// One turn; tells how many events it brought.
    pub(super) fn turn(&mut self, wait: Wait) -> usize {
        let mut events = std::mem::take(&mut self.events);
        self.driver.turn(wait, &mut events).expect("the interface works");
        let count = events.len();
        for event in events.drain(..) {
            self.record(event);
        }
        self.events = events;
        count
    }

    fn record(&mut self, event: Event) {
        let key = event.key();
        let holds_views = self.holds_views;
        let record = self.records.get_mut(&key).expect("events name keys in use");
        if let Event::Sent { errno: libc::EBADF, bytes: 0, segments, .. } = &event {
            assert!(!segments.is_empty(), "segments were dropped inside");
            record.refused += 1;
            return;
        }
        assert!(!record.closed, "{event:?} after Closed");
        match event {
            Event::Accepted { fd, .. } => record.accepted.push(fd),
            Event::AcceptEnded { errno, .. } => record.accept_ends.push(errno),
            Event::Connected { errno, .. } => record.connected.push(errno),
            Event::Received { data, .. } => {
                assert!(record.receiving, "Received without a receive");
                assert!(!data.is_empty(), "empty bytes of a stream");
                match holds_views {
                    true => record.views.push(data),
                    false => record.received.extend_from_slice(&data),
                }
            }
            Event::Datagram { data, from, .. } => {
                assert!(record.receiving, "Datagram without a receive");
                record.datagrams.push((data.to_vec(), from.map(|addr| *addr)));
            }
            Event::Oversized { .. } => panic!("nobody sends such a datagram"),
            Event::RecvEnded { end, .. } => {
                assert!(std::mem::take(&mut record.receiving), "{end:?} without a receive");
                record.recv_ends.push(end);
            }
            Event::Progress { bytes, .. } => {
                assert!(record.is_sending(), "{bytes} bytes of progress of nothing");
                record.progress.push(bytes);
            }
            Event::Sent { bytes, errno, segments, .. } => {
                let asked = record.sending.pop_front().expect("Sent without a batch");
                assert_eq!(segments.len(), asked, "segments were dropped inside");
                let before: usize = std::mem::take(&mut record.progress).iter().sum();
                record.sent.push((before + bytes, errno));
            }
            Event::Closed { .. } => record.closed = true,
            Event::FileEnded { .. } => panic!("nobody works on files"),
        }
    }

    pub(super) fn listen(&mut self, addr: &SockAddr) -> (Endpoint, SockAddr) {
        let (fd, bound) = self.driver.listen(addr, OPTIONS).expect("a port is free");
        (self.endpoint(fd), bound)
    }

    pub(super) fn accept_start(&mut self, listener: Endpoint) {
        self.driver.accept_start(listener.key);
    }

    pub(super) fn bind_datagram(&mut self) -> (Endpoint, SockAddr) {
        self.bind_datagram_at(&F::stream_addr())
    }

    pub(super) fn bind_datagram_at(&mut self, addr: &SockAddr) -> (Endpoint, SockAddr) {
        let (fd, bound) = self.driver.bind_datagram(addr, OPTIONS).expect("the address is free");
        (self.endpoint(fd), bound)
    }

    /// A Unix address that no other test has.
    pub(super) fn unix_addr(&self, name: &str) -> SockAddr {
        let unique = std::ptr::from_ref(self) as usize;
        F::unix_addr(&format!("ringway-{}-{unique:x}-{name}", std::process::id()))
    }

    pub(super) fn open_listener(&mut self) -> RawFd {
        self.driver.listen(&F::stream_addr(), OPTIONS).expect("a port is free").0
    }

    pub(super) fn open_datagram(&mut self) -> RawFd {
        self.driver.bind_datagram(&F::stream_addr(), OPTIONS).expect("a port is free").0
    }

    /// Keeps a record of a key that nothing but refusals and `Closed` may come of.
    pub(super) fn expect_refusals_of(&mut self, key: Key) {
        self.records.insert(key, Record::default());
    }

    /// Starts to connect; the outcome is in the record.
    pub(super) fn connect(&mut self, addr: &SockAddr) -> Endpoint {
        let fd = self.driver.open_stream(addr).expect("a descriptor is free");
        let endpoint = self.endpoint(fd);
        self.driver.connect(endpoint.key, addr);
        endpoint
    }

    /// Both ends of a connected stream: who connected, who was accepted.
    pub(super) fn pair(&mut self) -> (Endpoint, Endpoint) {
        self.pair_at(&F::stream_addr())
    }

    pub(super) fn pair_at(&mut self, addr: &SockAddr) -> (Endpoint, Endpoint) {
        let (listener, bound) = self.listen(addr);
        self.accept_start(listener);
        let connected = self.connect(&bound);
        let accepted = self.accepted(listener);
        self.drive("a connection", |rig| rig.of(connected).connected.len() == 1);
        assert_eq!(self.of(connected).connected, [0]);
        self.close(listener, false);
        (connected, accepted)
    }

    /// The next connection of `listener`, registered.
    pub(super) fn accepted(&mut self, listener: Endpoint) -> Endpoint {
        let fd = self.accepted_fd(listener);
        self.endpoint(fd)
    }

    /// The descriptor of the next connection of `listener`, not registered yet.
    pub(super) fn accepted_fd(&mut self, listener: Endpoint) -> RawFd {
        self.drive("an accepted connection", |rig| !rig.of(listener).accepted.is_empty());
        self.of(listener).accepted.remove(0)
    }

    pub(super) fn recv_start(&mut self, endpoint: Endpoint, class: RecvClass) {
        self.of(endpoint).receiving = true;
        self.driver.recv_start(endpoint.key, class);
    }

    pub(super) fn recv_stop(&mut self, endpoint: Endpoint) {
        self.driver.recv_stop(endpoint.key);
    }

    pub(super) fn is_receiving(&mut self, endpoint: Endpoint) -> bool {
        self.of(endpoint).receiving
    }

    /// Starts to send; at most one batch of an endpoint is in flight.
    pub(super) fn send(&mut self, endpoint: Endpoint, segments: Vec<Segment>) {
        self.send_batch(endpoint, SendBatch { segments, to: None, urgent: true });
    }

    pub(super) fn send_to(&mut self, endpoint: Endpoint, bytes: &[u8], to: &SockAddr) {
        let to = Some(Box::new(to.clone()));
        self.send_batch(
            endpoint,
            SendBatch { segments: vec![bytes.to_vec().into()], to, urgent: true },
        );
    }

    pub(super) fn send_batch(&mut self, endpoint: Endpoint, batch: SendBatch) {
        let record = self.of(endpoint);
        assert!(batch.to.is_some() || !record.is_sending(), "two batches of a stream");
        record.sending.push_back(batch.segments.len());
        self.driver.send(endpoint.key, batch);
    }

    /// Waits for the outcome of the batch in flight.
    pub(super) fn sent(&mut self, endpoint: Endpoint) -> (usize, i32) {
        self.drive("the end of a send", |rig| !rig.of(endpoint).is_sending());
        *self.of(endpoint).sent.last().expect("a batch was sent")
    }

    /// Sends `bytes` and waits until all of it is accepted.
    pub(super) fn send_all(&mut self, endpoint: Endpoint, bytes: &[u8]) {
        self.send(endpoint, vec![bytes.to_vec().into()]);
        assert_eq!(self.sent(endpoint), (bytes.len(), 0));
    }

    pub(super) fn shutdown_write(&mut self, endpoint: Endpoint) {
        self.driver.shutdown_write(endpoint.key).expect("the stream is connected");
    }

    /// Waits for `count` bytes in total and takes them.
    pub(super) fn received(&mut self, endpoint: Endpoint, count: usize) -> Vec<u8> {
        self.drive("bytes", |rig| rig.of(endpoint).received.len() >= count);
        std::mem::take(&mut self.of(endpoint).received)
    }

    /// Waits for the end of the receive.
    pub(super) fn recv_end(&mut self, endpoint: Endpoint) -> RecvEnd {
        self.drive("the end of a receive", |rig| !rig.of(endpoint).receiving);
        self.of(endpoint).recv_ends.pop().expect("a receive was started")
    }

    pub(super) fn close(&mut self, endpoint: Endpoint, abort: bool) {
        self.driver.close(endpoint.key, abort);
        self.drive("Closed", |rig| rig.of(endpoint).closed);
    }

    pub(super) fn signal(&self) -> bool {
        if F::IS_WOKEN {
            rustix::io::write(&self.eventfd, &1_u64.to_ne_bytes()).expect("it counts far");
        }
        F::IS_WOKEN
    }
}

/// Bytes that encode their offset: a part taken twice, left out or moved does not compare equal.
pub(super) fn pattern(from: usize, len: usize) -> Vec<u8> {
    static TABLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut state = 0x9E37_79B9_u32;
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..65_521).map(next).collect()
    });
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let rest = &TABLE[(from + bytes.len()) % TABLE.len()..];
        bytes.extend_from_slice(&rest[..rest.len().min(len - bytes.len())]);
    }
    bytes
}

/// Compares without printing megabytes.
#[track_caller]
pub(super) fn assert_same(got: &[u8], wanted: &[u8]) {
    assert_eq!(got.len(), wanted.len(), "lengths differ");
    let differs = got.iter().zip(wanted).position(|(a, b)| a != b);
    assert_eq!(differs, None, "the first difference is at this byte");
}

pub(super) const OPTIONS: BindOptions =
    BindOptions { reuse_port: false, backlog: 64, only_v6: false };

const TURN: Duration = Duration::from_millis(50);

/// Ten seconds without an event: far more than a loaded machine needs.
const QUIET_TURNS_MAX: u32 = 200;

const SETTLING_TURNS: u32 = 20;
