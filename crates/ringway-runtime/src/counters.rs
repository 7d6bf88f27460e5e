//! What a core counts, readable from any thread without disturbing it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::driver::DriverCounters;
use crate::names::NameId;

/// Counts of one core since its start, read at one moment.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoreCounters {
    /// Turns of the loop.
    pub turns: u64,
    /// Entries into the kernel made by the loop: waits, receives, sends, closes.
    pub syscalls: u64,
    /// Payload bytes received on all sockets.
    pub bytes_received: u64,
    /// Payload bytes that the kernel accepted for sending.
    pub bytes_sent: u64,
    /// Received pieces: completions that carried data.
    pub receives: u64,
    /// Gathered sends that completed.
    pub sends: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Polls of tasks.
    pub polls: u64,
    /// Waits that began with a spin and saw an event in time.
    pub spin_hits: u64,
    /// Spins that ran out and were followed by a sleep.
    pub spin_misses: u64,
    /// Sleeps in the kernel.
    pub sleeps: u64,
    /// Signals that other threads sent to end a sleep.
    pub wakes: u64,
    /// Polls that the watchdog found too long.
    pub stalls: u64,
    /// Receives parked because every buffer was in use.
    pub starved: u64,
    /// Sends that the kernel took only in part.
    pub short_sends: u64,
    /// Multishot operations that ended early and were armed again.
    pub rearms: u64,
    /// Memory kept in use at the moment by received bytes that nobody has taken and by bytes that are
    /// queued for sending, whole receive buffers included.
    pub held_bytes: u64,
}

/// The published side: written by the core (`wakes` and `stalls` by others), read by anyone.
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
    /// `polls:32 | name:32` of the poll under way; a name of zero between polls.
    current: AtomicU64,
}

/// A poll under way, as the watchdog sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurrentPoll(u64);

impl CurrentPoll {
    /// Tells polls apart, whatever they are called meanwhile.
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

    /// The poll under way works on something that has a name of its own.
    #[inline]
    pub(crate) fn poll_renamed(&self, name: NameId) {
        let current = self.current.load(Ordering::Relaxed);
        if current as u32 != 0 {
            let poll = current & !u64::from(u32::MAX);
            self.current.store(poll | u64::from(name.bits()), Ordering::Relaxed);
        }
    }

    /// What [`poll_resumed`](Self::poll_resumed) takes after a poll within this one.
    pub(crate) fn poll_under_way(&self) -> u64 {
        self.current.load(Ordering::Relaxed)
    }

    /// A poll within another one has ended, which goes on: that of a task which has made a callback be
    /// called, say.
    pub(crate) fn poll_resumed(&self, outer: u64) {
        self.current.store(outer, Ordering::Relaxed);
    }

    pub(crate) fn poll_ended(&self) {
        self.current.store(0, Ordering::Relaxed);
    }

    /// The poll under way; `None` between polls.
    pub(crate) fn current_poll(&self) -> Option<CurrentPoll> {
        let current = self.current.load(Ordering::Relaxed);
        (current as u32 != 0).then_some(CurrentPoll(current))
    }

    pub(crate) fn stalled(&self) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
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

/// Adds to a counter that only its core writes: no read-modify-write is needed.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}
