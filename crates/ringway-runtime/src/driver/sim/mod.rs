//! The simulated driver: a seeded network in memory with a virtual clock.
//!
//! Everything above the [`Driver`] contract runs on it unchanged, on one thread, under faults that
//! are rare on a real kernel. Its parts:
//!
//! * [`network`]: the sockets and their contents; [`address`]: bound addresses. No time, no chance.
//! * [`schedule`]: the clock and the scheduled [`Action`]s.
//! * `receive`, `transmit`, `connect`, `close`: the effect of each operation when its time comes,
//!   with the faults that may hit it.
//! * [`disk`]: file systems, likewise without time; `files`: the operations on them.
//! * `turn`: runs what is due, moves the clock, hands over events.

mod address;
mod close;
mod config;
mod connect;
pub(crate) mod disk;
mod faults;
mod files;
mod handle;
mod network;
mod receive;
mod rng;
mod schedule;
mod transmit;
mod turn;

#[cfg(test)]
pub(super) mod tests;

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::SockAddr;

pub use config::SimConfig;
pub use disk::Disk;
pub use faults::Faults;

use self::files::SimFiles;
use self::handle::{Armed, BatchInFlight, Repeating, SimHandle};
use self::network::{Datagram, Inbound, Network};
use self::rng::Rng;
use self::schedule::Schedule;
use super::files::{Changes, FileDescriptor, FileOp};
use super::{
    BindOptions, Driver, DriverCounters, Event, Key, RecvClass, SendBatch, Wait, not_open,
};
use crate::buf::Pools;

/// One simulated network and the operations of one core on it.
pub(crate) struct Sim {
    config: SimConfig,
    /// The instant at which virtual time starts.
    base: Instant,
    rng: Rng,
    schedule: Schedule<Action>,
    network: Network,
    files: SimFiles,
    /// By the index of their key.
    handles: Vec<Option<SimHandle>>,
    /// Events that are due but not handed over yet.
    ready: VecDeque<Event>,
    /// Receives waiting for a free buffer.
    parked: Vec<Key>,
    pools: Pools,
    counters: DriverCounters,
}

/// Something that happens at a moment of virtual time. Its target may be gone by then.
#[derive(Debug)]
enum Action {
    /// An operation continues: it was just started, or its pause is over.
    Receive(Key),
    Accept(Key),
    Send(Key),
    /// This sender learns that the peer's buffer has room.
    Room(RawFd),
    /// An operation on files is done.
    File(Key),
    /// An operation is answered.
    ReceiveStopped(Key),
    AcceptStopped(Key),
    Sent(Key),
    Connected {
        key: Key,
        errno: i32,
    },
    Closed {
        key: Key,
        abort: bool,
    },
    /// A connect reaches its destination.
    Syn {
        client: RawFd,
        to: Box<SockAddr>,
        attempt: u32,
    },
    /// Something reaches the end of a stream.
    Bytes {
        to: RawFd,
        from: RawFd,
        bytes: Vec<u8>,
    },
    Fin {
        to: RawFd,
    },
    Reset {
        to: RawFd,
    },
    Datagram {
        to: Box<SockAddr>,
        datagram: Datagram,
    },
}

impl Sim {
    /// Creates a network without sockets at virtual time zero; receives take buffers from `pools`.
    pub(crate) fn new(config: SimConfig, pools: &Pools) -> Self {
        Self {
            config,
            base: Instant::now(),
            rng: Rng::new(config.seed),
            schedule: Schedule::new(),
            network: Network::new(config.descriptors_max),
            files: SimFiles::new(config.seed),
            handles: Vec::new(),
            ready: VecDeque::new(),
            parked: Vec::new(),
            pools: pools.clone(),
            counters: DriverCounters::default(),
        }
    }

    /// Number of descriptors that the program holds; a test expects zero at its end.
    pub(crate) fn open_descriptors(&self) -> usize {
        self.network.held_count() + self.files.open_count()
    }

    /// Virtual time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.schedule.now()
    }

    /// The handle of a key that is neither closed nor closing.
    fn live(&mut self, key: Key) -> Option<&mut SimHandle> {
        self.handles
            .get_mut(key.index())?
            .as_mut()
            .filter(|handle| handle.key == key && !handle.closing)
    }

    fn chance(&mut self, per_mille: u16) -> bool {
        self.rng.chance(per_mille)
    }

    /// A random latency from one socket to another.
    fn latency(&mut self) -> Duration {
        let SimConfig { latency_min, latency_max, .. } = self.config;
        self.rng.between(latency_min, latency_max) + self.delay(self.config.faults.delays)
    }

    /// An extra delay in `per_mille` of 1,000 cases, otherwise none.
    fn delay(&mut self, per_mille: u16) -> Duration {
        if !self.chance(per_mille) {
            return Duration::ZERO;
        }
        self.rng.between(Duration::from_nanos(1), self.config.faults.delay_max)
    }

    /// A random pause, up to the longest that faults cause.
    fn pause(&mut self) -> Duration {
        self.delay(1_000)
    }
}

impl Driver for Sim {
    fn now(&self) -> Instant {
        self.base + self.elapsed()
    }

    fn listen(&mut self, addr: &SockAddr, options: BindOptions) -> io::Result<(RawFd, SockAddr)> {
        self.counters.syscalls += 1;
        self.network.listen(addr, options)
    }

    fn bind_datagram(
        &mut self,
        addr: &SockAddr,
        options: BindOptions,
    ) -> io::Result<(RawFd, SockAddr)> {
        self.counters.syscalls += 1;
        self.network.bind_datagram(addr, options)
    }

    fn open_stream(&mut self, _addr: &SockAddr) -> io::Result<RawFd> {
        self.counters.syscalls += 1;
        self.network.open_stream()
    }

    /// Fails, because descriptors made elsewhere are the kernel's.
    fn adopt(&mut self, _fd: RawFd) -> io::Result<()> {
        let why = "a simulation cannot adopt a descriptor of the kernel";
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }

    fn peer_addr(&self, fd: RawFd) -> io::Result<SockAddr> {
        self.network.peer_addr(fd)?.map_or_else(|| SockAddr::unix(""), Ok)
    }

    fn local_addr(&self, fd: RawFd) -> io::Result<SockAddr> {
        self.network.local_addr(fd)?.map_or_else(|| SockAddr::unix(""), Ok)
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn seed(&self) -> Option<u64> {
        Some(self.config.seed)
    }

    fn register(&mut self, key: Key, fd: RawFd) {
        let index = key.index();
        if self.handles.len() <= index {
            self.handles.resize_with(index + 1, || None);
        }
        assert!(self.handles[index].is_none(), "slot {index} is in use");
        self.handles[index] = Some(SimHandle::new(key, fd));
        if let Some(socket) = self.network.socket_mut(fd) {
            socket.key = Some(key);
        }
    }

    fn connect(&mut self, key: Key, addr: &SockAddr) {
        self.counters.syscalls += 1;
        let Some(handle) = self.live(key) else { return };
        handle.connecting = true;
        let fd = handle.fd;
        self.start_connect(key, fd, addr);
    }

    fn accept_start(&mut self, key: Key) {
        self.counters.syscalls += 1;
        let Some(handle) = self.live(key) else { return };
        debug_assert!(!handle.accept.is_on(), "two accepts on one listener");
        handle.accept = Repeating::STARTED;
        self.schedule.after(Duration::ZERO, Action::Accept(key));
    }

    fn accept_stop(&mut self, key: Key) {
        self.counters.syscalls += 1;
        let Some(handle) = self.live(key) else { return };
        if handle.accept.state == Armed::On {
            handle.accept.state = Armed::Stopping;
            let late = self.delay(self.config.faults.late_cancels);
            self.schedule.after(late, Action::AcceptStopped(key));
        }
    }

    fn recv_start(&mut self, key: Key, class: RecvClass) {
        self.counters.syscalls += 1;
        let Some(handle) = self.live(key) else { return };
        debug_assert!(!handle.receive.is_on(), "two receives on one socket");
        handle.class = class;
        handle.receive = Repeating::STARTED;
        self.schedule.after(Duration::ZERO, Action::Receive(key));
    }

    fn recv_stop(&mut self, key: Key) {
        self.counters.syscalls += 1;
        let Some(handle) = self.live(key) else { return };
        if handle.receive.state == Armed::On {
            handle.receive.state = Armed::Stopping;
            let late = self.delay(self.config.faults.late_cancels);
            self.schedule.after(late, Action::ReceiveStopped(key));
        }
    }

    fn send(&mut self, key: Key, batch: SendBatch) {
        self.counters.syscalls += 1;
        let Some(handle) = self.live(key) else {
            return self.ready.push_back(batch.refused(key));
        };
        if handle.send.is_some() {
            debug_assert!(batch.to.is_some(), "two batches of a stream in flight");
            return handle.queued.push_back(batch);
        }
        handle.send = Some(BatchInFlight::new(batch));
        let delay = self.delay(self.config.faults.delays);
        self.schedule.after(delay, Action::Send(key));
    }

    fn shutdown_write(&mut self, key: Key) -> io::Result<()> {
        self.counters.syscalls += 1;
        let fd = self.live(key).ok_or_else(not_open)?.fd;
        self.end_write(key, fd)
    }

    fn close(&mut self, key: Key, abort: bool) {
        self.counters.syscalls += 1;
        self.start_close(key, abort);
    }

    fn close_unregistered(&mut self, fd: RawFd) {
        self.counters.syscalls += 1;
        self.close_descriptor(fd, false);
    }

    fn start_file_op(&mut self, name: Key, op: FileOp) -> Option<FileOp> {
        self.counters.syscalls += 1;
        self.begin_file_op(name, op);
        None
    }

    fn cancel_file_op(&mut self, name: Key) {
        self.counters.syscalls += 1;
        self.stop_file_op(name);
    }

    fn take_changes(&mut self, watch: &FileDescriptor) -> io::Result<Changes> {
        self.files.take_changes(watch)
    }

    fn mount(&mut self, at: &Path, disk: &Disk) -> io::Result<()> {
        self.files.mount(at, disk)
    }

    fn peek(&mut self) -> bool {
        !self.ready.is_empty() || self.schedule.is_due() || self.can_unpark()
    }

    fn turn(&mut self, wait: Wait, events: &mut Vec<Event>) -> io::Result<()> {
        self.run_until_event(wait)?;
        self.hand_over(events);
        Ok(())
    }

    fn counters(&self) -> DriverCounters {
        self.counters
    }

    fn describe(&self) -> String {
        let SimConfig { seed, faults, .. } = self.config;
        let faults = if faults.are_none() { "no faults" } else { "faults" };
        format!("sim (seed {seed}, {faults})")
    }
}

impl Drop for Sim {
    /// Warns of open descriptors, which a real process would leak.
    fn drop(&mut self) {
        let open = self.open_descriptors();
        if open > 0 {
            let seed = self.config.seed;
            tracing::warn!(open, seed, "a simulation ended with descriptors open");
        }
    }
}
