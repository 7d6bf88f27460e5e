//! The beginning of a connection, which the end of its server may come upon.

use std::rc::Rc;
use std::time::{Duration, Instant};

use ringway_runtime::{now, sleep, spawn_named};

use super::inner::ConnectionInner;
use crate::limits;

/// How far a new connection has come.
#[derive(Clone, Copy, Debug)]
pub(super) enum Opening {
    /// Nothing yet.
    Silent { since: Instant },
    /// Nothing yet, and receiving ends with what comes first.
    LastChance,
    /// Bytes.
    Heard,
}

impl Opening {
    /// The time for which the first bytes may still be on their way, although the server drains: the peer may
    /// have connected before it could know.
    fn grace_left(self) -> Option<Duration> {
        let Self::Silent { since } = self else { return None };
        let age = now().saturating_duration_since(since);
        limits::FIRST_BYTES_WAIT.checked_sub(age).filter(|left| !left.is_zero())
    }
}

impl ConnectionInner {
    /// Bytes have come.
    #[inline]
    pub(crate) fn note_bytes(&self) {
        if !matches!(self.opening.get(), Opening::Heard) {
            self.note_first_bytes();
        }
    }

    #[cold]
    fn note_first_bytes(&self) {
        if let Opening::LastChance = self.opening.replace(Opening::Heard) {
            self.end_for_drain();
        }
    }

    /// The server drains: what has arrived is still delivered, unless the program wants more. What a
    /// peer that has just connected says first may be on its way, so it is waited for.
    pub(crate) fn begin_drain(self: &Rc<Self>) {
        let Some(left) = self.opening.get().grace_left() else { return self.end_for_drain() };
        self.opening.set(Opening::LastChance);
        let inner = Rc::downgrade(self);
        spawn_named("first bytes", async move {
            sleep(left).await;
            inner.upgrade().inspect(|inner| inner.note_bytes());
        });
    }

    fn end_for_drain(&self) {
        if !self.receives_while_draining.get() {
            self.end_receiving();
        }
    }
}
