//! The state of a datagram socket between its handle and the driver.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use socket2::SockAddr;

use super::closed::{Closed, Guards};
use super::stream_state::Phase;
use super::waiters::Waiters;
use crate::buf::{Segment, View};
use crate::core::Held;
use crate::driver::RecvEnd;
use crate::limits;
use crate::timer::wheel::TimerKey;

/// The state of a datagram socket.
pub(crate) struct DatagramState {
    pub(super) fd: RawFd,
    pub(super) received: VecDeque<(View, Option<Box<SockAddr>>)>,
    /// Number of datagrams that were dropped because nobody took them in time.
    pub(super) dropped: u64,
    /// Number of datagrams that the kernel did not send.
    pub(super) unsent: u64,
    pub(super) receiving: bool,
    pub(super) error: Option<i32>,
    pub(super) readers: Waiters,
    pub(super) writers: Waiters,
    pub(super) waiting: VecDeque<(Segment, Box<SockAddr>)>,
    pub(super) in_flight: usize,
    /// Whether the socket is on the core's dirty list.
    pub(super) dirty: bool,
    /// Memory, in bytes, that both queues hold.
    pub(super) held: usize,
    pub(super) phase: Phase,
    pub(super) has_handle: bool,
    /// A timer that runs while a dropped socket sends its queue.
    pub(super) timer: Option<TimerKey>,
}

impl DatagramState {
    pub(super) fn new(fd: RawFd) -> Self {
        Self {
            fd,
            received: VecDeque::new(),
            dropped: 0,
            unsent: 0,
            receiving: true,
            error: None,
            readers: Waiters::default(),
            writers: Waiters::default(),
            waiting: VecDeque::new(),
            in_flight: 0,
            dirty: false,
            held: 0,
            phase: Phase::Open,
            has_handle: true,
            timer: None,
        }
    }

    /// Adds a received datagram; returns the readers to wake.
    pub(crate) fn push(&mut self, data: View, from: Option<Box<SockAddr>>, held: &Held) -> Waiters {
        if self.phase != Phase::Open {
            return Waiters::default();
        }
        let behind = !self.received.is_empty();
        if self.received.len() >= limits::DATAGRAMS_HELD_MAX || behind && held.is_over() {
            self.dropped += 1;
            return Waiters::default();
        }
        let data = if behind { View::copied(&data) } else { data.spared() };
        self.count(0, data.held_bytes(), held);
        self.received.push_back((data, from));
        self.readers.take()
    }

    /// Records that a datagram was too long and is lost; returns the readers to wake. An earlier
    /// error that was not reported yet takes precedence.
    pub(crate) fn on_oversized(&mut self) -> Waiters {
        self.dropped += 1;
        self.error = self.error.or(Some(libc::EMSGSIZE));
        self.readers.take()
    }

    pub(crate) fn on_recv_ended(&mut self, end: RecvEnd) -> Waiters {
        self.receiving = false;
        if let RecvEnd::Failed(errno) = end {
            self.error = Some(errno);
        }
        self.readers.take()
    }

    /// Reports to the core that the memory of a queue has changed.
    pub(super) fn count(&mut self, before: usize, now: usize, held: &Held) {
        held.change(before, now);
        self.held = self.held + now - before;
    }

    /// The segments that were never sent.
    pub(super) fn into_waiting(self, held: &Held) -> Vec<Segment> {
        held.change(self.held, 0);
        self.waiting.into_iter().map(|(segment, _)| segment).collect()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Records that the descriptor is closed.
    pub(super) fn note_closed(&mut self) -> Closed {
        self.phase = Phase::Closed;
        Closed {
            has_handle: self.has_handle,
            guards: Guards::default(),
            waiters: self.readers.take().and(self.writers.take()),
        }
    }
}
