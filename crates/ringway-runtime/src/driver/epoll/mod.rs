//! The epoll driver, which implements the contract on readiness.
//!
//! Every socket is added once, edge-triggered. `EPOLLOUT` is added only when a send or a connect
//! has to wait for the first time, since Unix and datagram sockets would otherwise report each
//! message that their peer consumes. Sends are tried at once; receives happen in `turn`, in passes
//! over the handles that have work, and epoll is asked once per pass.

mod establish;
mod handle;
mod receive;
mod send;
mod watches;

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use socket2::SockAddr;

use self::handle::EpollHandle;
use self::send::Outgoing;
use self::watches::Watches;
use super::knocking::Knocking;
use super::{
    BindOptions, Driver, DriverCounters, Event, Key, RecvClass, RecvEnd, SendBatch, Wait, not_open,
};
use crate::buf::Pools;
use crate::driver::files::FileOp;
use crate::driver::sockets;
use crate::limits;
use crate::sys::epoll_wait_ms;

/// One epoll instance and the sockets that it watches.
pub(crate) struct Epoll {
    epoll: OwnedFd,
    /// Whether waits take whole milliseconds, because the finer call is missing or refused.
    coarse: bool,
    /// The eventfd with which other threads wake this one. It is watched edge-triggered, so nobody
    /// has to read it.
    _eventfd: Arc<OwnedFd>,
    pools: Pools,
    handles: Vec<EpollHandle>,
    /// Handles with work in this pass; those before `served` are done.
    queue: Vec<Key>,
    served: usize,
    /// Handles with work left for the next pass.
    next: Vec<Key>,
    /// Receives waiting for a free buffer.
    parked: Vec<Key>,
    fetched: Vec<epoll::Event>,
    knocking: Knocking,
    watches: Watches,
    /// Events that arose outside of a turn.
    early: Vec<Event>,
    /// Whether the eventfd was written since the last turn.
    signalled: bool,
    /// Whether the last turn returned early events without asking epoll, so the next one must ask.
    skipped: bool,
    counters: DriverCounters,
}

impl Epoll {
    /// Creates an epoll instance. Other threads wake the driver by `eventfd`.
    ///
    /// # Errors
    /// Returns the errors of `epoll_create1`, `epoll_ctl` and `epoll_wait`: `EMFILE`, `ENFILE`,
    /// `ENOMEM`, `ENOSPC`, or `EPERM` from a seccomp profile.
    pub(crate) fn new(pools: &Pools, eventfd: Arc<OwnedFd>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut fetched = Vec::with_capacity(limits::EPOLL_EVENTS);
        let coarse = !has_fine_waits(&epoll, &mut fetched)?;
        let data = epoll::EventData::new_u64(EVENTFD);
        epoll::add(&epoll, &eventfd, data, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        Ok(Self {
            epoll,
            coarse,
            _eventfd: eventfd,
            pools: pools.clone(),
            handles: Vec::new(),
            queue: Vec::new(),
            served: 0,
            next: Vec::new(),
            parked: Vec::new(),
            fetched,
            knocking: Knocking::new(),
            watches: Watches::default(),
            early: Vec::new(),
            signalled: false,
            skipped: false,
            counters: DriverCounters::default(),
        })
    }

    /// The handle of `key`; `None` if the key is closed, even if its slot is in use again.
    fn known(&mut self, key: Key) -> Option<&mut EpollHandle> {
        self.handles.get_mut(key.index()).filter(|handle| handle.key == key)
    }

    /// Moves parked receives back to work while there are buffers for them.
    fn unpark(&mut self) {
        if self.parked.is_empty() {
            return;
        }
        let mut free = RecvClass::ALL.map(|class| {
            self.pools.of(class).reclaim();
            self.pools.of(class).free_count()
        });
        let mut parked = std::mem::take(&mut self.parked);
        parked.retain(|&key| {
            let Some(handle) = self.known(key) else {
                return false;
            };
            let free = &mut free[handle.class as usize];
            if *free == 0 {
                return true;
            }
            *free -= 1;
            handle.parked = false;
            self.requeue(key);
            false
        });
        self.parked = parked;
    }

    /// Makes buffers returned by other threads end the wait if receives are parked for lack of
    /// them; `false` if one was returned already.
    fn is_told_of_buffers(&mut self) -> bool {
        let parked = std::mem::take(&mut self.parked);
        let mut wanted = [false; 3];
        for &key in &parked {
            if let Some(handle) = self.known(key) {
                wanted[handle.class as usize] = true;
            }
        }
        self.parked = parked;
        let told = |class| !wanted[class as usize] || self.pools.of(class).await_return();
        RecvClass::ALL.into_iter().all(told)
    }

    fn pass_done(&self) -> bool {
        self.served == self.queue.len()
    }

    /// Starts a pass: with what the last one left over, then with what epoll reports.
    fn start_pass(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.queue.clear();
        self.served = 0;
        std::mem::swap(&mut self.queue, &mut self.next);
        let busy = self.signalled || !self.queue.is_empty();
        self.fetch(if busy { Some(Duration::ZERO) } else { timeout })
    }

    /// Asks epoll and queues the handles that have work.
    fn fetch(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.counters.syscalls += 1;
        self.fetched.clear();
        let waited = if self.coarse {
            epoll_wait_ms(&self.epoll, &mut self.fetched, whole_ms(timeout))
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        } else {
            // A timeout too large for the kernel's type is treated as none.
            let timespec = timeout.and_then(|limit| Timespec::try_from(limit).ok());
            let into = spare_capacity(&mut self.fetched);
            epoll::wait(&self.epoll, into, timespec.as_ref()).map(drop)
        };
        match waited {
            Ok(()) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for at in 0..self.fetched.len() {
            self.note(self.fetched[at]);
        }
        Ok(())
    }

    #[inline]
    fn note(&mut self, event: epoll::Event) {
        let (flags, data) = (event.flags, event.data);
        if data.u64() == EVENTFD {
            self.signalled = true;
            return;
        }
        if let Some(name) = Watches::name_of(data) {
            return self.early.extend(self.watches.end(&self.epoll, name, 0));
        }
        let key = Key::from_bits(data.u64());
        let Some(handle) = self.known(key) else {
            return;
        };
        handle.note(flags);
        if handle.has_work() && !std::mem::replace(&mut handle.listed, true) {
            self.queue.push(key);
        }
    }

    /// Works on the queue until it is empty or enough was received for one turn. The views of a
    /// turn live until its end, so a longer one would leave the cache.
    fn serve(&mut self, events: &mut Vec<Event>) {
        let mut bytes_left = limits::EPOLL_TURN_BYTES;
        while !self.pass_done() && bytes_left > 0 {
            let key = self.queue[self.served];
            self.served += 1;
            let Some(handle) = self.known(key) else {
                continue;
            };
            handle.listed = false;
            if handle.writable && handle.connecting {
                self.finish_connect(key, events);
            } else if handle.writable && handle.outgoing.is_some() {
                self.resume_send(key, events);
            }
            let handle = &self.handles[key.index()];
            if handle.can_receive() {
                let received = self.receive(key, events);
                bytes_left = bytes_left.saturating_sub(received);
            } else if handle.readable && handle.accepting {
                self.accept(key, events);
            }
        }
    }

    /// Leaves the rest of a handle's work to the next pass.
    fn requeue(&mut self, key: Key) {
        let handle = &mut self.handles[key.index()];
        if !std::mem::replace(&mut handle.listed, true) {
            self.next.push(key);
        }
    }

    /// Makes epoll report `wanted` events of a handle, including those that are already true.
    fn watch(&mut self, key: Key, wanted: epoll::EventFlags) -> Result<(), Errno> {
        let handle = &mut self.handles[key.index()];
        if handle.watched.contains(wanted) {
            return Ok(());
        }
        let fd = sockets::borrow(handle.fd);
        let data = epoll::EventData::new_u64(key.bits());
        self.counters.syscalls += 1;
        if handle.watched.is_empty() {
            epoll::add(&self.epoll, fd, data, wanted)?;
        } else {
            epoll::modify(&self.epoll, fd, data, wanted)?;
        }
        handle.watched = wanted;
        Ok(())
    }
}

impl Driver for Epoll {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn listen(&mut self, addr: &SockAddr, options: BindOptions) -> io::Result<(RawFd, SockAddr)> {
        sockets::listen(addr, options, sockets::Mode::NonBlocking)
    }

    fn bind_datagram(
        &mut self,
        addr: &SockAddr,
        options: BindOptions,
    ) -> io::Result<(RawFd, SockAddr)> {
        sockets::bind_datagram(addr, options, sockets::Mode::NonBlocking)
    }

    fn open_stream(&mut self, addr: &SockAddr) -> io::Result<RawFd> {
        sockets::open_stream(addr, sockets::Mode::NonBlocking)
    }

    fn adopt(&mut self, fd: RawFd) -> io::Result<()> {
        sockets::set_mode(fd, sockets::Mode::NonBlocking)
    }

    fn register(&mut self, key: Key, fd: RawFd) {
        let index = key.index();
        if self.handles.len() <= index {
            self.handles.resize_with(index + 1, || EpollHandle::FREE);
        }
        assert!(self.handles[index].key == Key::NONE, "slot {index} is in use");
        self.handles[index] = EpollHandle::new(key, fd);
    }

    fn connect(&mut self, key: Key, addr: &SockAddr) {
        let Some(handle) = self.known(key) else { return };
        let fd = handle.fd;
        let errno = match self.start_connect(fd, addr) {
            Ok(libc::EAGAIN) if addr.is_unix() => {
                let told = self.knocking.connect(key, fd, addr, &mut self.counters);
                return self.early.extend(told);
            }
            Ok(errno) => errno,
            Err(_under_way) => match self.await_writable(key) {
                Ok(()) => {
                    self.handles[key.index()].connecting = true;
                    return;
                }
                Err(errno) => errno.raw_os_error(),
            },
        };
        self.early.push(Event::Connected { key, errno });
    }

    fn accept_start(&mut self, key: Key) {
        let Some(handle) = self.known(key) else { return };
        handle.accepting = true;
        if handle.readable {
            return self.requeue(key);
        }
        if let Err(error) = self.watch(key, handle::READ) {
            self.handles[key.index()].accepting = false;
            self.early.push(Event::AcceptEnded { key, errno: error.raw_os_error() });
        }
    }

    fn accept_stop(&mut self, key: Key) {
        let Some(handle) = self.known(key) else { return };
        if std::mem::take(&mut handle.accepting) {
            self.early.push(Event::AcceptEnded { key, errno: libc::ECANCELED });
        }
    }

    fn recv_start(&mut self, key: Key, class: RecvClass) {
        let Some(handle) = self.known(key) else { return };
        debug_assert!(!handle.receiving, "two receives on one stream");
        handle.receiving = true;
        handle.class = class;
        if handle.readable {
            // The edge has passed, so nothing else would report what is there.
            return self.requeue(key);
        }
        if let Err(error) = self.watch(key, handle::READ) {
            self.handles[key.index()].receiving = false;
            let end = RecvEnd::Failed(error.raw_os_error());
            self.early.push(Event::RecvEnded { key, end });
        }
    }

    fn recv_stop(&mut self, key: Key) {
        let Some(handle) = self.known(key) else { return };
        if std::mem::take(&mut handle.receiving) {
            self.early.push(Event::RecvEnded { key, end: RecvEnd::Stopped });
        }
    }

    fn send(&mut self, key: Key, batch: SendBatch) {
        let Some(handle) = self.known(key) else {
            return self.early.push(batch.refused(key));
        };
        if batch.is_to_unix() {
            let fd = handle.fd;
            let told = self.knocking.send(key, fd, batch, &mut self.counters);
            return self.early.extend(told);
        }
        if handle.outgoing.is_some() {
            debug_assert!(batch.to.is_some(), "two batches of a stream in flight");
            return handle.queued.push_back(batch);
        }
        let told = self.advance_send(key, Outgoing::new(batch));
        self.early.extend(told);
    }

    fn shutdown_write(&mut self, key: Key) -> io::Result<()> {
        let handle = self.known(key).ok_or_else(not_open)?;
        if handle.outgoing.is_some() {
            handle.shutdown_after = true;
            return Ok(());
        }
        let fd = handle.fd;
        self.counters.syscalls += 1;
        sockets::shutdown_write(fd)
    }

    fn close(&mut self, key: Key, abort: bool) {
        let Some(handle) = self.known(key) else { return };
        let EpollHandle { fd, outgoing, queued, .. } = std::mem::replace(handle, EpollHandle::FREE);
        if abort {
            sockets::reset_on_close(fd);
        }
        self.close_unregistered(fd);
        self.early.extend(outgoing.map(|unsent| unsent.finish(key, libc::ECANCELED)));
        self.early.extend(queued.into_iter().map(|batch| batch.ended(key, 0, libc::ECANCELED)));
        self.knocking.cancel(key, &mut self.early);
        self.early.push(Event::Closed { key });
    }

    fn close_unregistered(&mut self, fd: RawFd) {
        self.counters.syscalls += 1;
        sockets::close(fd);
    }

    /// A file is always ready, and keeps a call waiting all the same.
    fn start_file_op(&mut self, name: Key, op: FileOp) -> Option<FileOp> {
        match op {
            FileOp::AwaitChanges { watch } => {
                self.early.extend(self.watches.begin(&self.epoll, name, watch));
                None
            }
            op => Some(op),
        }
    }

    fn cancel_file_op(&mut self, name: Key) {
        self.early.extend(self.watches.end(&self.epoll, name, libc::ECANCELED));
    }

    fn peek(&mut self) -> bool {
        self.unpark();
        let ready = |driver: &Self| driver.signalled || !driver.pass_done();
        if !self.early.is_empty() || !self.next.is_empty() || ready(self) {
            return true;
        }
        // An error occurs again in the turn, which can report it.
        let _reported_by_turn = self.start_pass(Some(Duration::ZERO));
        ready(self)
    }

    fn turn(&mut self, wait: Wait, events: &mut Vec<Event>) -> io::Result<()> {
        events.append(&mut self.early);
        self.knocking.retry(&mut self.counters, events);
        let wait = self.knocking.shorten(wait);
        self.unpark();
        if self.pass_done() {
            // Early events are mostly ends of sends. Asking epoll now would find little and cost one
            // more call per message; but every second turn asks, or a sender would starve the rest.
            self.skipped = !events.is_empty() && self.next.is_empty() && !self.skipped;
            if self.skipped {
                return Ok(());
            }
            let asleep = events.is_empty() && wait != Wait::Poll;
            let asleep = asleep && (self.parked.is_empty() || self.is_told_of_buffers());
            self.start_pass(match wait {
                Wait::AtMost(limit) if asleep => Some(limit),
                Wait::Forever if asleep => None,
                _ => Some(Duration::ZERO),
            })?;
        }
        self.signalled = false;
        self.serve(events);
        Ok(())
    }

    fn counters(&self) -> DriverCounters {
        self.counters
    }

    fn describe(&self) -> String {
        let waits = if self.coarse { ", waits of whole milliseconds" } else { "" };
        format!("epoll (edge-triggered{waits})")
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        for index in 0..self.handles.len() {
            let key = self.handles[index].key;
            if key != Key::NONE {
                self.close(key, true);
            }
        }
        // Last: destructors of segments are foreign.
        std::mem::take(&mut self.early).into_iter().for_each(Event::retire);
    }
}

/// Whether waits with nanoseconds are available: `epoll_pwait2` came with Linux 5.11, and seccomp
/// profiles may not allow it.
///
/// # Errors
/// Fails when waits with milliseconds are not available either.
fn has_fine_waits(epoll: &OwnedFd, fetched: &mut Vec<epoll::Event>) -> io::Result<bool> {
    match epoll::wait(epoll, spare_capacity(fetched), Some(&Timespec::default())) {
        Ok(_) | Err(Errno::INTR) => Ok(true),
        Err(Errno::NOSYS | Errno::PERM | Errno::ACCESS) => {
            epoll_wait_ms(epoll, fetched, 0)?;
            tracing::warn!(
                "epoll_pwait2 is missing or refused: timers are rounded up to a millisecond"
            );
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// A timeout in the units of `epoll_wait`, rounded up, since an early end would only cause another wait.
fn whole_ms(timeout: Option<Duration>) -> i32 {
    let Some(timeout) = timeout else { return -1 };
    i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

/// The user data of the eventfd in epoll; no key has its high eight bits set.
const EVENTFD: u64 = u64::MAX;
