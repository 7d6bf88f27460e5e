//! The state of a datagram socket between its owner and the driver.

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

/// What the core keeps of a datagram socket.
pub(crate) struct DatagramState {
    pub(super) fd: RawFd,
    pub(super) received: VecDeque<(View, Option<Box<SockAddr>>)>,
    /// Datagrams that were dropped since nobody took them in time.
    pub(super) dropped: u64,
    /// Datagrams that the kernel did not send.
    pub(super) unsent: u64,
    pub(super) receiving: bool,
    pub(super) error: Option<i32>,
    pub(super) readers: Waiters,
    pub(super) writers: Waiters,
    pub(super) waiting: VecDeque<(Segment, Box<SockAddr>)>,
    pub(super) in_flight: usize,
    /// On the core's dirty list.
    pub(super) dirty: bool,
    /// Memory that both queues keep in use.
    pub(super) held: usize,
    pub(super) phase: Phase,
    pub(super) has_handle: bool,
    /// Runs while what is queued on a dropped socket is sent.
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

    /// Takes a datagram in; the readers to wake.
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

    /// A datagram that was too long has been lost; the readers to wake. It is counted, so an error that
    /// nobody has heard of goes before it.
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

    /// Tells the core's account that one of the queues has changed.
    pub(super) fn count(&mut self, before: usize, now: usize, held: &Held) {
        held.change(before, now);
        self.held = self.held + now - before;
    }

    /// What was never sent.
    pub(super) fn into_waiting(self, held: &Held) -> Vec<Segment> {
        held.change(self.held, 0);
        self.waiting.into_iter().map(|(segment, _)| segment).collect()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// The descriptor is closed.
    pub(super) fn note_closed(&mut self) -> Closed {
        self.phase = Phase::Closed;
        Closed {
            has_handle: self.has_handle,
            guards: Guards::default(),
            waiters: self.readers.take().and(self.writers.take()),
        }
    }
}
