//! The state of a listener between its handle and the driver.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use super::closed::{Closed, Guards};
use super::waiters::Waiters;
use crate::core::CoreNumber;
use crate::timer::wheel::TimerKey;

/// The state of a listener.
pub(crate) struct ListenerState {
    pub(super) fd: RawFd,
    /// The core of the listener, whose driver makes the descriptors that it accepts.
    pub(super) made_by: Origin,
    /// Accepted descriptors that are not taken yet. The handle empties the queue before its slot is
    /// freed, so none is lost.
    pub(super) ready: VecDeque<RawFd>,
    pub(super) accepting: Accepting,
    pub(super) error: Option<i32>,
    pub(super) acceptors: Waiters,
    pub(super) timer: Option<TimerKey>,
    pub(super) has_handle: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Accepting {
    On,
    /// Asked to stop, because too many connections wait.
    Stopping,
    /// Stopped because too many connections wait; continues when they were taken.
    Full,
    /// Descriptors or memory ran out. Nothing reports when there are more, so accepting continues
    /// after a while, even if somebody asks before.
    Resting,
    /// The driver is closing the listener; accepting never continues.
    Closing,
    /// The descriptor is closed.
    Closed,
}

impl Accepting {
    pub(super) fn is_over(self) -> bool {
        matches!(self, Accepting::Closing | Accepting::Closed)
    }
}

/// The core that made a descriptor, and whether it is simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Origin {
    pub(super) core: CoreNumber,
    pub(super) simulated: bool,
}

impl ListenerState {
    pub(super) fn is_closed(&self) -> bool {
        self.accepting == Accepting::Closed
    }

    /// Records that the descriptor is closed.
    pub(super) fn note_closed(&mut self) -> Closed {
        self.accepting = Accepting::Closed;
        Closed {
            has_handle: self.has_handle,
            guards: Guards::default(),
            waiters: self.acceptors.take(),
        }
    }
}
