//! The io_uring driver: multishot accept and receive over short rings of hot buffers, one gathered
//! send in flight per connection, one enter a turn.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use socket2::SockAddr;

use super::gather::Gather;
use super::{BindOptions, Driver, DriverCounters, Event, Key, RecvClass, RecvEnd, SendBatch, Wait};
use crate::buf::Segment;
use crate::limits;
use crate::sys::{
    BufRing, Completion, Pools, Progress, Ring, RingConfig, SendTable, datagram_parts, sockets,
};

const GROUP_MESSAGE: u16 = 0;
const GROUP_BULK: u16 = 1;

/// What an operation is; the high eight bits of its user data.
mod kind {
    pub(super) const RECV: u8 = 1;
    pub(super) const SEND: u8 = 2;
    pub(super) const ACCEPT: u8 = 3;
    pub(super) const CONNECT: u8 = 4;
    pub(super) const CANCEL: u8 = 5;
    pub(super) const EVENTFD: u8 = 6;
    pub(super) const SIGNAL_SENT: u8 = 7;
    pub(super) const SIGNALLED: u8 = 8;
}

/// One ring, its buffers and what is in flight on it.
///
/// Fields drop in order: the ring is closed before the memory that it uses is given back.
pub(crate) struct Uring {
    ring: Ring,
    message: BufRing,
    bulk: BufRing,
    sends: SendTable,
    handles: Vec<Handle>,
    /// Receives waiting for a free buffer.
    parked: Vec<Key>,
    /// Receives to be submitted with the next enter.
    receives_queued: usize,
    /// Somebody waits to hear of a send of the next enter.
    urgent: bool,
    gather: Gather,
    /// Receives since the last wait.
    receives: u32,
    completions: Vec<Completion>,
    /// Events that arose outside of a turn.
    early: Vec<Event>,
    eventfd: OwnedFd,
    counters: DriverCounters,
}

/// What the driver knows of a registered descriptor.
#[derive(Clone, Copy)]
struct Handle {
    key: Key,
    fd: RawFd,
    recv: Recv,
    class: RecvClass,
    accepting: bool,
    sending: bool,
    /// The sending half ends with the batch in flight.
    shutdown_after: bool,
    /// Operations that will still complete, cancels not counted.
    in_flight: u8,
    closing: bool,
    /// When it last received, for `Gather`.
    epoch: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Recv {
    Off,
    Armed,
    /// Ended for want of a buffer; in `parked`.
    Parked,
    /// A cancel is on its way.
    Stopping,
}

impl Handle {
    fn new(key: Key, fd: RawFd) -> Self {
        Self {
            key,
            fd,
            recv: Recv::Off,
            class: RecvClass::Message,
            accepting: false,
            sending: false,
            shutdown_after: false,
            in_flight: 0,
            closing: false,
            epoch: 0,
        }
    }

    const FREE: Handle = Handle {
        key: Key::NONE,
        fd: -1,
        recv: Recv::Off,
        class: RecvClass::Message,
        accepting: false,
        sending: false,
        shutdown_after: false,
        in_flight: 0,
        closing: false,
        epoch: 0,
    };
}

impl Uring {
    /// Makes the ring of the calling thread. `eventfd` is what other threads wake it by.
    ///
    /// # Errors
    /// Where the kernel or its settings refuse io_uring, one of its features or its memory.
    pub(crate) fn new(pools: &Pools, eventfd: OwnedFd) -> io::Result<Self> {
        let ring = Ring::new(RingConfig {
            submissions: limits::SUBMISSIONS,
            completions: limits::COMPLETIONS_MIN,
        })?;
        let message = BufRing::new(pools.message.clone(), limits::MESSAGE_RING_ENTRIES)?;
        let bulk = BufRing::new(pools.bulk.clone(), limits::BULK_RING_ENTRIES)?;
        ring.register_buffers(GROUP_MESSAGE, &message)?;
        ring.register_buffers(GROUP_BULK, &bulk)?;
        let mut driver = Self {
            ring,
            message,
            bulk,
            sends: SendTable::default(),
            handles: Vec::new(),
            parked: Vec::new(),
            receives_queued: 0,
            urgent: false,
            gather: Gather::new(),
            receives: 0,
            completions: Vec::with_capacity(limits::COMPLETIONS_MIN as usize),
            early: Vec::new(),
            eventfd,
            counters: DriverCounters::default(),
        };
        driver.arm_eventfd();
        Ok(driver)
    }

    fn arm_eventfd(&mut self) {
        self.ring.poll_multishot(self.eventfd.as_raw_fd(), tag(kind::EVENTFD, 0));
    }

    /// The handle of `key`, made at its first operation.
    fn handle(&mut self, key: Key, fd: RawFd) -> &mut Handle {
        let index = key.index();
        if self.handles.len() <= index {
            self.handles.resize(index + 1, Handle::FREE);
        }
        let handle = &mut self.handles[index];
        if handle.key != key {
            debug_assert!(handle.in_flight == 0, "slot {index} reused while in use");
            *handle = Handle::new(key, fd);
        }
        handle
    }

    fn arm_recv(&mut self, key: Key) {
        let handle = &mut self.handles[key.index()];
        handle.recv = Recv::Armed;
        handle.in_flight += 1;
        let (fd, class) = (handle.fd, handle.class);
        let data = tag(kind::RECV, key.bits());
        match class {
            RecvClass::Message => self.ring.recv_multishot(fd, GROUP_MESSAGE, data),
            RecvClass::Bulk => self.ring.recv_multishot(fd, GROUP_BULK, data),
            RecvClass::Datagram => self.ring.recv_datagrams(fd, GROUP_MESSAGE, data),
        }
        self.receives_queued += 1;
    }

    /// Lends buffers for what one enter is going to receive, and arms what waited for one.
    fn top_up(&mut self) {
        let goal = limits::HOT_BUFFERS + self.receives_queued + self.parked.len();
        self.message.top_up(goal);
        self.bulk.top_up(limits::HOT_BULK_BUFFERS);
        if !self.parked.is_empty() {
            self.rearm_parked();
        }
        self.receives_queued = 0;
    }

    /// A multishot on an empty group fails at once, so none is armed before a buffer is there.
    fn rearm_parked(&mut self) {
        let mut waiting = std::mem::take(&mut self.parked);
        waiting.retain(|&key| {
            let handle = self.handles[key.index()];
            if handle.key != key || handle.recv != Recv::Parked {
                return false;
            }
            let group = if handle.class == RecvClass::Bulk { &self.bulk } else { &self.message };
            if group.provided() == 0 {
                return true;
            }
            self.arm_recv(key);
            false
        });
        waiting.append(&mut self.parked);
        self.parked = waiting;
    }

    /// Sleeps until a share of the active connections has received.
    fn wait(&mut self, limit: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        if self.urgent {
            self.enter(0, None, events)?;
            if !events.is_empty() {
                return Ok(());
            }
        }
        let goal = self.gather.goal();
        self.receives = 0;
        self.enter(goal, limit, events)?;
        if goal > 1 && self.receives < goal {
            self.gather.missed();
        }
        Ok(())
    }

    /// Hands over what is queued, waits for `want` completions and takes in what completed.
    fn enter(
        &mut self,
        want: u32,
        limit: Option<Duration>,
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        self.urgent = false;
        self.counters.syscalls += 1;
        self.ring.enter_gathering(want, limit)?;
        self.reap(events);
        while self.ring.has_overflowed() {
            self.counters.syscalls += 1;
            self.ring.enter(0, None)?;
            self.reap(events);
        }
        if self.sends.is_unsettled() && self.ring.queued() == 0 {
            self.settle(events);
        }
        Ok(())
    }

    fn reap(&mut self, events: &mut Vec<Event>) {
        let mut completions = std::mem::take(&mut self.completions);
        self.ring.reap(&mut completions);
        for completion in completions.drain(..) {
            self.dispatch(completion, events);
        }
        self.completions = completions;
    }

    /// Every send of the last enter of which no completion came was taken whole.
    fn settle(&mut self, events: &mut Vec<Event>) {
        let data = tag(kind::SEND, 0);
        while let Some((key, bytes, spare)) = self.sends.settle(&mut self.ring, data) {
            self.on_sent(key, bytes, 0, spare, events);
        }
        self.urgent |= self.sends.is_unsettled();
    }

    fn dispatch(&mut self, completion: Completion, events: &mut Vec<Event>) {
        let key = Key::from_bits(completion.user_data);
        match (completion.user_data >> 56) as u8 {
            kind::RECV => self.on_recv(key, completion, events),
            kind::SEND => self.on_send(completion, events),
            kind::ACCEPT => self.on_accept(key, completion, events),
            kind::CONNECT => self.on_connect(completion, events),
            kind::EVENTFD => self.on_eventfd(completion),
            kind::CANCEL | kind::SIGNAL_SENT | kind::SIGNALLED => {}
            unknown => debug_assert!(false, "completion of unknown kind {unknown}"),
        }
    }

    #[inline]
    fn on_recv(&mut self, key: Key, completion: Completion, events: &mut Vec<Event>) {
        let handle = &mut self.handles[key.index()];
        debug_assert_eq!(handle.key, key);
        let class = handle.class;
        let closing = handle.closing;
        if let Some(id) = completion.buffer() {
            let group = if class == RecvClass::Bulk { &mut self.bulk } else { &mut self.message };
            if completion.result > 0 && !closing {
                self.gather.received(&mut handle.epoch);
                self.receives += 1;
                let data = group.filled(id, completion.result as usize);
                events.push(received(key, class, data));
            } else {
                group.unfilled(id);
            }
        }
        if !completion.more() {
            self.on_recv_end(key, completion, events);
        }
    }

    #[cold]
    fn on_recv_end(&mut self, key: Key, completion: Completion, events: &mut Vec<Event>) {
        let handle = &mut self.handles[key.index()];
        handle.in_flight -= 1;
        let stopping = handle.recv == Recv::Stopping;
        handle.recv = Recv::Off;
        if handle.closing {
            return self.close_if_idle(key, events);
        }
        let end = match completion.result {
            0 if handle.class != RecvClass::Datagram => RecvEnd::Eof,
            errno if is_failure(errno) => RecvEnd::Failed(-errno),
            _ if stopping => RecvEnd::Stopped,
            errno if errno == -libc::ENOBUFS => {
                handle.recv = Recv::Parked;
                self.counters.starved += 1;
                return self.parked.push(key);
            }
            _ => {
                self.counters.rearms += 1;
                return self.arm_recv(key);
            }
        };
        events.push(Event::RecvEnded { key, end });
    }

    fn on_send(&mut self, completion: Completion, events: &mut Vec<Event>) {
        let index = completion.user_data as u32;
        // A cancelled send may have got some of its way; its rest must not go out again.
        let owner = self.sends.owner(index);
        let wanted = owner.is_some_and(|key| !self.handles[key.index()].closing);
        match self.sends.complete(&mut self.ring, completion, wanted) {
            Progress::Resumed => self.counters.short_sends += 1,
            Progress::Finished { key, bytes, errno, spare } => {
                self.on_sent(key, bytes, errno, spare, events);
            }
        }
    }

    #[inline]
    fn on_sent(
        &mut self,
        key: Key,
        bytes: usize,
        errno: i32,
        spare: Vec<Segment>,
        events: &mut Vec<Event>,
    ) {
        let handle = &mut self.handles[key.index()];
        handle.in_flight -= 1;
        handle.sending = false;
        if handle.closing {
            return self.close_if_idle(key, events);
        }
        if std::mem::take(&mut handle.shutdown_after) {
            self.counters.syscalls += 1;
            // The peer may have closed meanwhile; then there is nothing left to end.
            let _too_late = sockets::shutdown_write(handle.fd);
        }
        events.push(Event::Sent { key, bytes, errno, spare });
    }

    fn on_accept(&mut self, key: Key, completion: Completion, events: &mut Vec<Event>) {
        let handle = self.handles[key.index()];
        if completion.result >= 0 {
            if handle.closing {
                self.close_unregistered(completion.result);
            } else {
                events.push(Event::Accepted { key, fd: completion.result });
            }
        }
        if completion.more() {
            return;
        }
        let handle = &mut self.handles[key.index()];
        handle.in_flight -= 1;
        let wanted = handle.accepting;
        handle.accepting = false;
        if handle.closing {
            self.close_if_idle(key, events);
        } else if wanted && completion.result >= 0 {
            self.counters.rearms += 1;
            let fd = self.handles[key.index()].fd;
            self.accept_start(key, fd);
        } else {
            let errno = if completion.result < 0 { -completion.result } else { libc::ECANCELED };
            events.push(Event::AcceptEnded { key, errno });
        }
    }

    fn on_connect(&mut self, completion: Completion, events: &mut Vec<Event>) {
        let slot = completion.user_data as u32;
        let Some(key) = self.sends.connected(slot) else {
            return;
        };
        let handle = &mut self.handles[key.index()];
        handle.in_flight -= 1;
        if handle.closing {
            self.close_if_idle(key, events);
        } else {
            events.push(Event::Connected { key, errno: -completion.result });
        }
    }

    fn on_eventfd(&mut self, completion: Completion) {
        let mut count = [0; 8];
        let _drained = rustix::io::read(&self.eventfd, &mut count);
        self.counters.syscalls += 1;
        if !completion.more() {
            self.arm_eventfd();
        }
    }

    fn close_if_idle(&mut self, key: Key, events: &mut Vec<Event>) {
        let handle = &mut self.handles[key.index()];
        if handle.in_flight == 0 {
            let fd = handle.fd;
            *handle = Handle::FREE;
            self.close_unregistered(fd);
            events.push(Event::Closed { key });
        }
    }
}

impl Driver for Uring {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn listen(&mut self, addr: &SockAddr, options: BindOptions) -> io::Result<(RawFd, SockAddr)> {
        sockets::listen(addr, options, sockets::Mode::Blocking)
    }

    fn bind_datagram(
        &mut self,
        addr: &SockAddr,
        options: BindOptions,
    ) -> io::Result<(RawFd, SockAddr)> {
        sockets::bind_datagram(addr, options, sockets::Mode::Blocking)
    }

    fn open_stream(&mut self, addr: &SockAddr) -> io::Result<RawFd> {
        sockets::open_stream(addr, sockets::Mode::Blocking)
    }

    fn adopt(&mut self, fd: RawFd) -> io::Result<()> {
        sockets::set_mode(fd, sockets::Mode::Blocking)
    }

    fn connect(&mut self, key: Key, fd: RawFd, addr: &SockAddr) {
        self.handle(key, fd).in_flight += 1;
        self.sends.connect(&mut self.ring, key, fd, addr, tag(kind::CONNECT, 0));
    }

    fn accept_start(&mut self, key: Key, fd: RawFd) {
        let handle = self.handle(key, fd);
        handle.accepting = true;
        handle.in_flight += 1;
        self.ring.accept_multishot(fd, tag(kind::ACCEPT, key.bits()));
    }

    fn accept_stop(&mut self, key: Key, fd: RawFd) {
        let handle = self.handle(key, fd);
        if std::mem::take(&mut handle.accepting) {
            self.ring.cancel(tag(kind::ACCEPT, key.bits()), tag(kind::CANCEL, 0));
        }
    }

    fn recv_start(&mut self, key: Key, fd: RawFd, class: RecvClass) {
        let handle = self.handle(key, fd);
        debug_assert_eq!(handle.recv, Recv::Off, "two receives on one stream");
        handle.class = class;
        self.arm_recv(key);
    }

    fn recv_stop(&mut self, key: Key, fd: RawFd) {
        let handle = self.handle(key, fd);
        match handle.recv {
            Recv::Armed => {
                handle.recv = Recv::Stopping;
                self.ring.cancel(tag(kind::RECV, key.bits()), tag(kind::CANCEL, 0));
            }
            Recv::Parked => {
                handle.recv = Recv::Off;
                self.early.push(Event::RecvEnded { key, end: RecvEnd::Stopped });
            }
            Recv::Off | Recv::Stopping => {}
        }
    }

    fn send(&mut self, key: Key, fd: RawFd, batch: SendBatch) {
        let handle = self.handle(key, fd);
        handle.in_flight += 1;
        handle.sending = true;
        self.urgent |= batch.urgent;
        self.sends.send(&mut self.ring, key, fd, batch, tag(kind::SEND, 0));
    }

    fn shutdown_write(&mut self, key: Key, fd: RawFd) -> io::Result<()> {
        let handle = self.handle(key, fd);
        if handle.sending {
            handle.shutdown_after = true;
            return Ok(());
        }
        self.counters.syscalls += 1;
        sockets::shutdown_write(fd)
    }

    fn close(&mut self, key: Key, fd: RawFd, abort: bool) {
        if abort {
            sockets::reset_on_close(fd);
        }
        let handle = self.handle(key, fd);
        handle.closing = true;
        handle.accepting = false;
        if handle.recv == Recv::Parked {
            // Arming it again now would keep the key from closing.
            handle.recv = Recv::Off;
        }
        if handle.in_flight > 0 {
            self.ring.cancel_fd(fd, tag(kind::CANCEL, 0));
        } else {
            let mut events = std::mem::take(&mut self.early);
            self.close_if_idle(key, &mut events);
            self.early = events;
        }
    }

    fn close_unregistered(&mut self, fd: RawFd) {
        self.counters.syscalls += 1;
        sockets::close(fd);
    }

    fn peek(&mut self) -> bool {
        !self.early.is_empty() || self.ring.peek()
    }

    fn turn(&mut self, wait: Wait, events: &mut Vec<Event>) -> io::Result<()> {
        events.append(&mut self.early);
        self.top_up();
        match wait {
            Wait::AtMost(limit) if events.is_empty() => self.wait(Some(limit), events),
            Wait::Forever if events.is_empty() => self.wait(None, events),
            _ if self.ring.queued() == 0 && !self.ring.peek() => Ok(()),
            _ => self.enter(0, None, events),
        }
    }

    fn gathers(&self) -> bool {
        self.gather.goal() > 1
    }

    fn signal_ring(&mut self, ring_fd: RawFd) -> bool {
        self.ring.message_ring(ring_fd, tag(kind::SIGNALLED, 0), tag(kind::SIGNAL_SENT, 0));
        true
    }

    fn ring_fd(&self) -> Option<RawFd> {
        Some(self.ring.fd())
    }

    fn counters(&self) -> DriverCounters {
        self.counters
    }

    fn describe(&self) -> String {
        format!("io_uring ({})", self.ring.describe())
    }
}

impl Drop for Uring {
    /// Cancels what is left and waits for it; what the kernel keeps nevertheless is leaked, never
    /// given back while it may still be written.
    fn drop(&mut self) {
        for index in 0..self.handles.len() {
            let handle = self.handles[index];
            if handle.key != Key::NONE && !handle.closing {
                self.close(handle.key, handle.fd, true);
            }
        }
        let deadline = Instant::now() + limits::TEARDOWN_WAIT;
        let mut events = Vec::new();
        let open = |driver: &Self| driver.handles.iter().any(|handle| handle.in_flight > 0);
        while open(self) && Instant::now() < deadline {
            if self.turn(Wait::AtMost(Duration::from_millis(1)), &mut events).is_err() {
                break;
            }
            events.clear();
        }
        if open(self) {
            tracing::error!("io_uring operations outlive their core; its buffers are leaked");
            self.message.leak();
            self.bulk.leak();
            std::mem::forget(std::mem::take(&mut self.sends));
        }
    }
}

fn tag(kind: u8, bits: u64) -> u64 {
    u64::from(kind) << 56 | bits
}

/// Whether a receive broke, other than for want of a buffer or by being interrupted.
fn is_failure(result: i32) -> bool {
    result < 0 && !matches!(-result, libc::ENOBUFS | libc::EINTR | libc::ECANCELED)
}

fn received(key: Key, class: RecvClass, data: crate::buf::View) -> Event {
    if class != RecvClass::Datagram {
        return Event::Received { key, data };
    }
    let (from, start, len) = datagram_parts(&data).unwrap_or((None, 0, 0));
    Event::Datagram { key, data: data.slice(start..start + len), from }
}
