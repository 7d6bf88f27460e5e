//! The state of a listener between its owner and the driver.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use super::closed::{Closed, Guards};
use super::waiters::Waiters;
use crate::core::CoreNumber;
use crate::timer::wheel::TimerKey;

/// What the core keeps of a listener.
pub(crate) struct ListenerState {
    pub(super) fd: RawFd,
    /// The core of the listener, whose driver makes what it accepts.
    pub(super) made_by: Origin,
    /// Accepted and not yet taken. The handle empties it before its slot can go, so no descriptor is lost.
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
    /// Asked to stop, since too many wait.
    Stopping,
    /// Too many wait; goes on when they were taken.
    Full,
    /// Descriptors or memory ran out. That more are there cannot be waited for, so this goes on after
    /// a while, whoever asks meanwhile.
    Resting,
    /// The driver is closing it: nothing begins again.
    Closing,
    /// The descriptor is closed.
    Closed,
}

impl Accepting {
    pub(super) fn is_over(self) -> bool {
        matches!(self, Accepting::Closing | Accepting::Closed)
    }
}

/// Whose descriptor it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Origin {
    pub(super) core: CoreNumber,
    pub(super) simulated: bool,
}

impl ListenerState {
    pub(super) fn is_closed(&self) -> bool {
        self.accepting == Accepting::Closed
    }

    /// The descriptor is closed.
    pub(super) fn note_closed(&mut self) -> Closed {
        self.accepting = Accepting::Closed;
        Closed {
            has_handle: self.has_handle,
            guards: Guards::default(),
            waiters: self.acceptors.take(),
        }
    }
}
