//! The io_uring driver: multishot accept and receive into short rings of hot buffers, one gathered
//! send in flight per connection, and one enter per turn.

mod complete;
mod completion;
mod handle;
mod how;
mod overlooked;
mod preflight;
mod receive;
mod room;
mod setup;
#[cfg(test)]
mod tests;
mod turn;

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::SockAddr;

pub(crate) use self::completion::{Completion, SendOutcome, Sent, kind, tag};
use self::handle::{ArmState, Room, UringHandle};
pub(crate) use self::how::How;
use self::overlooked::Overlooked;
use super::files::FileOp;
use super::gather::Gather;
use super::knocking::Knocking;
use super::{
    BindOptions, Driver, DriverCounters, Event, Key, RecvClass, RecvEnd, SendBatch, Wait, not_open,
    sockets,
};
use crate::buf::Pools;
use crate::contain::contain;
use crate::limits;
use crate::sys::{BufRing, FileTable, Pool, Ring, SendTable};

/// A ring, its buffers and the operations in flight on it.
///
/// Fields drop in order: the ring is closed before its memory is freed.
pub(crate) struct Uring {
    ring: Ring,
    /// The names of the ring's flags.
    flags: String,
    /// The buffer groups, by class.
    groups: [BufferGroup; 3],
    sends: SendTable,
    files: FileTable,
    handles: Vec<UringHandle>,
    /// Number of receives to be submitted with the next enter.
    receives_queued: usize,
    /// Whether somebody waits for the outcome of a send of the next enter.
    urgent: bool,
    /// Whether the last enter did not do all that it was asked to, because the kernel had no
    /// memory.
    refused: bool,
    knocking: Knocking,
    gather: Gather,
    overlooked: Overlooked,
    /// The time that was last asked for.
    clock: Cell<Instant>,
    /// Number of receives since the last wait.
    receives: u32,
    completions: Vec<Completion>,
    /// Events that arose outside a turn.
    early: Vec<Event>,
    eventfd: Arc<OwnedFd>,
    counters: DriverCounters,
    /// A forbidden behaviour of the kernel, to be reported by the next turn.
    fault: Option<&'static str>,
}

/// Buffers of one class of receives; the number of the class is the kernel's group id.
struct BufferGroup {
    pool: Rc<Pool>,
    buffers: BufRing,
    /// How many buffers are kept lent.
    hot: usize,
    /// Receives that wait for a buffer, the longest first.
    parked: VecDeque<Key>,
}

impl BufferGroup {
    fn new(pools: &Pools, class: RecvClass, ring: &Ring) -> io::Result<Self> {
        let (entries, hot) = match class {
            RecvClass::Message => (limits::MESSAGE_RING_ENTRIES, limits::HOT_BUFFERS),
            RecvClass::Bulk => (limits::BULK_RING_ENTRIES, limits::HOT_BULK_BUFFERS),
            RecvClass::Datagram => (limits::DATAGRAM_RING_ENTRIES, limits::HOT_DATAGRAM_BUFFERS),
        };
        let buffers = BufRing::new(pools.of(class).clone(), entries)?;
        ring.register_buffers(class as u16, &buffers)?;
        Ok(Self { pool: pools.of(class).clone(), buffers, hot, parked: VecDeque::new() })
    }
}

impl Uring {
    /// Creates the ring of the calling thread. Other threads wake it by `eventfd`.
    ///
    /// # Errors
    /// Fails if the kernel or its settings refuse io_uring, one of its features or its memory, or
    /// if its sends do not behave as this driver requires.
    pub(crate) fn new(pools: &Pools, eventfd: Arc<OwnedFd>) -> io::Result<Self> {
        let (ring, flags) = setup::make_ring()?;
        let [message, bulk, datagram] =
            RecvClass::ALL.map(|class| BufferGroup::new(pools, class, &ring));
        let groups = [message?, bulk?, datagram?];
        let mut driver = Self {
            ring,
            flags,
            groups,
            sends: SendTable::default(),
            files: FileTable::default(),
            handles: Vec::new(),
            receives_queued: 0,
            urgent: false,
            refused: false,
            knocking: Knocking::new(),
            gather: Gather::new(),
            overlooked: Overlooked::new(),
            clock: Cell::new(Instant::now()),
            receives: 0,
            completions: Vec::with_capacity(limits::COMPLETIONS as usize),
            early: Vec::new(),
            eventfd,
            counters: DriverCounters::default(),
            fault: None,
        };
        driver.files.probe(&driver.ring);
        driver.arm_eventfd();
        driver.preflight()?;
        driver.counters = DriverCounters::default();
        Ok(driver)
    }

    fn arm_eventfd(&mut self) {
        let fd = self.eventfd.as_raw_fd();
        self.ring.poll_multishot(fd, libc::POLLIN, tag(kind::EVENTFD, 0));
    }

    /// The handle of a key that is neither closed nor closing.
    fn live(&mut self, key: Key) -> Option<&mut UringHandle> {
        let handle = self.handles.get_mut(key.index())?;
        (handle.key == key && !handle.closing).then_some(handle)
    }

    fn close_if_idle(&mut self, key: Key, events: &mut Vec<Event>) {
        let handle = &mut self.handles[key.index()];
        if handle.in_flight == 0 {
            let fd = handle.fd;
            handle.vacate();
            self.close_unregistered(fd);
            events.push(Event::Closed { key });
        }
    }
}

impl Driver for Uring {
    fn now(&self) -> Instant {
        let now = Instant::now();
        self.clock.set(now);
        now
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

    fn register(&mut self, key: Key, fd: RawFd) {
        let index = key.index();
        if self.handles.len() <= index {
            self.handles.resize(index + 1, UringHandle::FREE);
        }
        assert!(self.handles[index].key == Key::NONE, "slot {index} is in use");
        self.handles[index].occupy(key, fd);
    }

    fn connect(&mut self, key: Key, addr: &SockAddr) {
        let Some(handle) = self.live(key) else { return };
        let fd = handle.fd;
        if addr.is_unix() {
            // As an operation of the ring it would occupy a thread of the kernel while a backlog
            // is full.
            let told = self.knocking.connect(key, fd, addr, &mut self.counters);
            return self.early.extend(told);
        }
        handle.in_flight += 1;
        self.sends.connect(&mut self.ring, key, fd, addr);
    }

    fn accept_start(&mut self, key: Key) {
        let Some(handle) = self.live(key) else { return };
        handle.accepting = true;
        handle.in_flight += 1;
        let fd = handle.fd;
        self.ring.accept_multishot(fd, tag(kind::ACCEPT, key.bits()));
    }

    fn accept_stop(&mut self, key: Key) {
        let Some(handle) = self.live(key) else { return };
        if std::mem::take(&mut handle.accepting) {
            self.ring.cancel(tag(kind::ACCEPT, key.bits()), tag(kind::CANCEL, 0));
        }
    }

    fn recv_start(&mut self, key: Key, class: RecvClass) {
        let Some(handle) = self.live(key) else { return };
        debug_assert_eq!(handle.recv, ArmState::Off, "two receives on one stream");
        handle.class = class;
        self.arm_recv(key);
    }

    fn recv_stop(&mut self, key: Key) {
        let Some(handle) = self.live(key) else { return };
        match handle.recv {
            ArmState::Armed => {
                handle.recv = ArmState::Stopping;
                self.ring.cancel(tag(kind::RECV, key.bits()), tag(kind::CANCEL, 0));
            }
            ArmState::Parked => {
                self.unpark(key);
                self.early.push(Event::RecvEnded { key, end: RecvEnd::Stopped });
            }
            ArmState::Off | ArmState::Stopping => {}
        }
    }

    fn send(&mut self, key: Key, batch: SendBatch) {
        let Some(handle) = self.live(key) else {
            return self.early.push(batch.refused(key));
        };
        let fd = handle.fd;
        if batch.is_to_unix() {
            let told = self.knocking.send(key, fd, batch, &mut self.counters);
            return self.early.extend(told);
        }
        handle.in_flight += 1;
        handle.sends += 1;
        self.urgent |= batch.urgent;
        let is_whole = self.sends.send(&mut self.ring, key, fd, batch);
        self.urgent |= !is_whole;
    }

    fn shutdown_write(&mut self, key: Key) -> io::Result<()> {
        let handle = self.live(key).ok_or_else(not_open)?;
        if handle.sends > 0 {
            handle.shutdown_after = true;
            return Ok(());
        }
        let fd = handle.fd;
        self.counters.syscalls += 1;
        sockets::shutdown_write(fd)
    }

    fn close(&mut self, key: Key, abort: bool) {
        let Some(handle) = self.live(key) else { return };
        handle.closing = true;
        handle.accepting = false;
        let (fd, recv) = (handle.fd, handle.recv);
        if abort {
            sockets::reset_on_close(fd);
        }
        if recv == ArmState::Parked {
            // Arming it again would keep the key from closing.
            self.unpark(key);
        }
        self.knocking.cancel(key, &mut self.early);
        let handle = &mut self.handles[key.index()];
        if handle.in_flight > 0 {
            // The cancel names the descriptor, so it counts: nobody else may get that number
            // before it has run.
            handle.in_flight += 1;
            self.ring.cancel_fd(fd, tag(kind::CANCEL_ALL, key.bits()));
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

    fn start_file_op(&mut self, name: Key, op: FileOp) -> Option<FileOp> {
        self.files.start(&mut self.ring, name, op)
    }

    fn cancel_file_op(&mut self, name: Key) {
        self.files.cancel(&mut self.ring, name);
    }

    fn peek(&mut self) -> bool {
        !self.early.is_empty() || self.ring.peek()
    }

    fn turn(&mut self, wait: Wait, events: &mut Vec<Event>) -> io::Result<()> {
        events.append(&mut self.early);
        self.knocking.retry(&mut self.counters, events);
        self.look_for_ends();
        let wait = self.overlooked.shorten(self.knocking.shorten(wait), self.clock.get());
        self.top_up();
        let idle = events.is_empty() && !self.has_receives_to_arm();
        let idle = idle && (wait == Wait::Poll || self.is_told_of_buffers());
        match wait {
            Wait::AtMost(limit) if idle => self.wait(Some(limit), events),
            Wait::Forever if idle => self.wait(None, events),
            _ if self.ring.queued() == 0 && !self.ring.peek() => Ok(()),
            _ => self.enter(0, None, events),
        }
    }

    fn gathers(&self) -> bool {
        self.gather.goal() > 1
    }

    fn counters(&self) -> DriverCounters {
        self.counters
    }

    fn describe(&self) -> String {
        format!("io_uring ({})", self.flags)
    }

    #[cfg(test)]
    fn lose_completions(&mut self) {
        self.fault = Some(LOST);
    }
}

/// The fault of a kernel that dropped completions, which may concern any operation.
const LOST: &str = "the kernel lost completions because it had no memory";

impl Drop for Uring {
    /// Cancels what is left and waits for it. Memory that the kernel may still write is leaked,
    /// never freed.
    fn drop(&mut self) {
        for index in 0..self.handles.len() {
            let handle = self.handles[index];
            if handle.key != Key::NONE && !handle.closing {
                self.close(handle.key, true);
            }
        }
        self.files.cancel_all(&mut self.ring);
        let deadline = Instant::now() + limits::TEARDOWN_WAIT;
        let mut ended = Vec::new();
        let open = |driver: &Self| {
            let is_in_flight = driver.handles.iter().any(|handle| handle.in_flight > 0);
            driver.ring.was_entered() && (is_in_flight || driver.files.in_flight() > 0)
        };
        while open(self) && Instant::now() < deadline {
            if self.turn(Wait::AtMost(Duration::from_millis(1)), &mut ended).is_err() {
                break;
            }
        }
        // On a broken ring nothing was cancelled and nothing queued will be submitted, so the
        // descriptors are not in use. Closing the ring ends what the kernel still does.
        let left = self.handles.iter().filter(|handle| handle.key != Key::NONE);
        left.for_each(|handle| sockets::close(handle.fd));
        ended.append(&mut self.early);
        if open(self) {
            self.groups.iter().for_each(|group| group.buffers.leak());
            std::mem::forget(std::mem::take(&mut self.sends));
            std::mem::forget(std::mem::take(&mut self.files));
            contain("what listens to the log", || {
                tracing::error!("io_uring operations outlive their core; its buffers are leaked");
            });
        }
        // Last: their destructors are foreign.
        ended.into_iter().for_each(Event::retire);
    }
}
