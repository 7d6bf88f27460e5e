//! The state of a registered descriptor in the simulated driver: its operations in flight.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use crate::driver::{Event, Key, RecvClass, SendBatch};

#[derive(Debug)]
pub(super) struct SimHandle {
    pub(super) key: Key,
    pub(super) fd: RawFd,
    pub(super) receive: Repeating,
    pub(super) class: RecvClass,
    /// Whether it is in the list of receives that wait for a buffer.
    pub(super) parked: bool,
    pub(super) accept: Repeating,
    pub(super) send: Option<BatchInFlight>,
    /// Datagrams queued behind it.
    pub(super) queued: VecDeque<SendBatch>,
    pub(super) connecting: bool,
    pub(super) closing: bool,
}

/// A receive or accept: one start, many completions.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Repeating {
    pub(super) state: Armed,
    /// Whether a fault has paused it; an action that ends the pause is scheduled.
    pub(super) paused: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Armed {
    #[default]
    Off,
    On,
    /// A stop is in flight; completions continue until it takes effect.
    Stopping,
}

/// A batch that is being sent.
#[derive(Debug)]
pub(super) struct BatchInFlight {
    pub(super) batch: SendBatch,
    pub(super) done: usize,
    /// How many of those bytes were reported to the owner.
    told: usize,
    pub(super) total: usize,
    /// Whether the owner knows that this batch waits for its peer.
    pub(super) waits: bool,
    /// Whether it is paused between two pieces; an action that ends the pause is scheduled.
    pub(super) paused: bool,
    /// The scheduled answer: zero, or an error number.
    pub(super) outcome: Option<i32>,
    /// Whether the sending half ends with this batch.
    pub(super) ends_write: bool,
}

impl SimHandle {
    pub(super) fn new(key: Key, fd: RawFd) -> Self {
        Self {
            key,
            fd,
            receive: Repeating::default(),
            class: RecvClass::Message,
            parked: false,
            accept: Repeating::default(),
            send: None,
            queued: VecDeque::new(),
            connecting: false,
            closing: false,
        }
    }
}

impl Repeating {
    pub(super) const STARTED: Repeating = Repeating { state: Armed::On, paused: false };

    /// Whether completions may be made now.
    pub(super) fn runs(self) -> bool {
        self.state != Armed::Off && !self.paused
    }

    pub(super) fn is_on(self) -> bool {
        self.state != Armed::Off
    }
}

impl BatchInFlight {
    pub(super) fn new(batch: SendBatch) -> Self {
        let total = batch.segments.iter().map(|segment| segment.as_slice().len()).sum();
        Self {
            batch,
            done: 0,
            told: 0,
            total,
            waits: false,
            paused: false,
            outcome: None,
            ends_write: false,
        }
    }

    /// Takes the bytes that were not reported to the owner yet.
    pub(super) fn tell(&mut self) -> usize {
        self.done - std::mem::replace(&mut self.told, self.done)
    }

    /// Makes the final event of a batch.
    pub(super) fn finish(mut self, key: Key, errno: i32) -> Event {
        let bytes = self.tell();
        self.batch.ended(key, bytes, errno)
    }

    /// Copies the next `count` bytes out and counts them as sent.
    pub(super) fn take(&mut self, count: usize) -> Vec<u8> {
        let mut taken = Vec::with_capacity(count);
        let mut skip = self.done;
        for segment in &self.batch.segments {
            let bytes = segment.as_slice();
            let start = skip.min(bytes.len());
            let end = bytes.len().min(start + count - taken.len());
            taken.extend_from_slice(&bytes[start..end]);
            skip -= start;
        }
        self.done += taken.len();
        taken
    }
}
