//! Counters of a core, which any thread can read without disturbing it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::driver::DriverCounters;
use crate::names::NameId;

/// Counters of one core since its start, read at one moment.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoreCounters {
    /// Number of turns of the loop.
    pub turns: u64,
    /// Number of system calls made by the loop: waits, receives, sends, closes.
    pub syscalls: u64,
    /// Number of payload bytes received on all sockets.
    pub bytes_received: u64,
    /// Number of payload bytes that the kernel accepted for sending.
    pub bytes_sent: u64,
    /// Number of receive completions that carried data.
    pub receives: u64,
    /// Number of gathered sends that completed.
    pub sends: u64,
    /// Number of connections accepted.
    pub accepted: u64,
    /// Number of task polls, and of calls that serve a connection without a task.
    pub polls: u64,
    /// Number of waits whose spin saw an event in time.
    pub spin_hits: u64,
    /// Number of spins that ran out and were followed by a sleep.
    pub spin_misses: u64,
    /// Number of sleeps in the kernel.
    pub sleeps: u64,
    /// Number of signals with which other threads ended a sleep.
    pub wakes: u64,
    /// Number of polls that the watchdog reported as too long.
    pub stalls: u64,
    /// Number of receives parked because every buffer was in use.
    pub starved: u64,
    /// Number of sends that the kernel accepted only in part.
    pub short_sends: u64,
    /// Number of multishot operations that ended early and were armed again.
    pub rearms: u64,
    /// Memory, in bytes, now held by received bytes that nobody has taken and by bytes queued for
    /// sending, whole receive buffers included, and what streams were told is
    /// [kept](crate::io::Stream::count_kept) for them elsewhere.
    pub held_bytes: u64,
}

/// The shared counters: written by the core (`wakes` and `stalls` by others), read by any thread.
#[derive(Default)]
pub(crate) struct SharedCounters {
    turns: AtomicU64,
    syscalls: AtomicU64,
    bytes_received: AtomicU64,
    bytes_sent: AtomicU64,
    receives: AtomicU64,
    sends: AtomicU64,
    accepted: AtomicU64,
    polls: AtomicU64,
    spin_hits: AtomicU64,
    spin_misses: AtomicU64,
    sleeps: AtomicU64,
    wakes: AtomicU64,
    stalls: AtomicU64,
    starved: AtomicU64,
    short_sends: AtomicU64,
    rearms: AtomicU64,
    held_bytes: AtomicU64,
    /// The current poll as `polls:32 | name:32`; the name is zero between polls.
    current: AtomicU64,
    /// Written by the watchdog.
    latest_stall: Mutex<Option<Stall>>,
}

/// A poll that held up its core, as the watchdog saw it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Stall {
    /// The task's name, if it has one.
    pub task: Option<&'static str>,
    /// When the watchdog first saw the poll.
    pub since: Instant,
    /// How long the poll has held its core up so far, or did in all.
    pub held_for: Duration,
    /// Whether the poll has ended.
    pub is_over: bool,
}

/// The current poll, as the watchdog sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurrentPoll(u64);

impl CurrentPoll {
    /// The number of the poll, which distinguishes polls even if their names change.
    pub(crate) fn number(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(crate) fn name(self) -> Option<&'static str> {
        NameId::resolve(self.0 as u32)
    }
}

impl SharedCounters {
    pub(crate) fn snapshot(&self) -> CoreCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CoreCounters {
            turns: read(&self.turns),
            syscalls: read(&self.syscalls),
            bytes_received: read(&self.bytes_received),
            bytes_sent: read(&self.bytes_sent),
            receives: read(&self.receives),
            sends: read(&self.sends),
            accepted: read(&self.accepted),
            polls: read(&self.polls),
            spin_hits: read(&self.spin_hits),
            spin_misses: read(&self.spin_misses),
            sleeps: read(&self.sleeps),
            wakes: read(&self.wakes),
            stalls: read(&self.stalls),
            starved: read(&self.starved),
            short_sends: read(&self.short_sends),
            rearms: read(&self.rearms),
            held_bytes: read(&self.held_bytes),
        }
    }

    pub(crate) fn publish_turn(&self, driver: DriverCounters, held_bytes: usize) {
        add(&self.turns, 1);
        self.held_bytes.store(held_bytes as u64, Ordering::Relaxed);
        self.syscalls.store(driver.syscalls, Ordering::Relaxed);
        self.starved.store(driver.starved, Ordering::Relaxed);
        self.short_sends.store(driver.short_sends, Ordering::Relaxed);
        self.rearms.store(driver.rearms, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, bytes: usize) {
        add(&self.receives, 1);
        add(&self.bytes_received, bytes as u64);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        add(&self.sends, 1);
        add(&self.bytes_sent, bytes as u64);
    }

    pub(crate) fn sent_partly(&self, bytes: usize) {
        add(&self.bytes_sent, bytes as u64);
    }

    pub(crate) fn accepted(&self) {
        add(&self.accepted, 1);
    }

    pub(crate) fn poll_started(&self, name: NameId) {
        let polls = self.polls.load(Ordering::Relaxed) + 1;
        self.polls.store(polls, Ordering::Relaxed);
        self.current.store(polls << 32 | u64::from(name.bits()), Ordering::Relaxed);
    }

    /// Gives the current poll a name of its own.
    #[inline]
    pub(crate) fn poll_renamed(&self, name: NameId) {
        let current = self.current.load(Ordering::Relaxed);
        if current as u32 != 0 {
            let poll = current & !u64::from(u32::MAX);
            self.current.store(poll | u64::from(name.bits()), Ordering::Relaxed);
        }
    }

    /// The current poll, to be passed to [`poll_resumed`](Self::poll_resumed) after a nested one.
    pub(crate) fn poll_under_way(&self) -> u64 {
        self.current.load(Ordering::Relaxed)
    }

    /// Resumes the outer poll after a nested one, such as a callback called from a task.
    pub(crate) fn poll_resumed(&self, outer: u64) {
        self.current.store(outer, Ordering::Relaxed);
    }

    pub(crate) fn poll_ended(&self) {
        self.current.store(0, Ordering::Relaxed);
    }

    /// The current poll; `None` between polls.
    pub(crate) fn current_poll(&self) -> Option<CurrentPoll> {
        let current = self.current.load(Ordering::Relaxed);
        (current as u32 != 0).then_some(CurrentPoll(current))
    }

    /// Counts a stall.
    pub(crate) fn stalled(&self, stall: Stall) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
        *self.lock_stall() = Some(stall);
    }

    /// Updates the stall that was counted last.
    pub(crate) fn stall_lasts(&self, held_for: Duration, is_over: bool) {
        if let Some(stall) = &mut *self.lock_stall() {
            (stall.held_for, stall.is_over) = (held_for, is_over);
        }
    }

    pub(crate) fn latest_stall(&self) -> Option<Stall> {
        *self.lock_stall()
    }

    /// No foreign code runs under the lock, so its content is sound even if it is poisoned.
    fn lock_stall(&self) -> MutexGuard<'_, Option<Stall>> {
        self.latest_stall.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn signalled(&self) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn spun(&self, hit: bool) {
        add(if hit { &self.spin_hits } else { &self.spin_misses }, 1);
    }

    pub(crate) fn slept(&self) {
        add(&self.sleeps, 1);
    }
}

/// Adds to a counter that only its core writes, so no read-modify-write is needed.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}
