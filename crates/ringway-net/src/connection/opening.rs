//! The first bytes of a connection, and how a drain waits for them.

use std::rc::Rc;
use std::time::{Duration, Instant};

use ringway_runtime::{now, sleep, spawn_named};

use super::inner::ConnectionInner;
use crate::limits;

/// Whether a connection has received its first bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Opening {
    /// No bytes have arrived.
    Silent { since: Instant },
    /// No bytes have arrived; receiving ends after the first ones, because the server drains.
    LastChance,
    /// Bytes have arrived.
    Heard,
}

impl Opening {
    /// Returns how long a draining server still waits for the first bytes: the peer may have
    /// connected before it could know of the drain.
    fn grace_left(self) -> Option<Duration> {
        let Self::Silent { since } = self else { return None };
        let age = now().saturating_duration_since(since);
        limits::FIRST_BYTES_WAIT.checked_sub(age).filter(|left| !left.is_zero())
    }
}

impl ConnectionInner {
    /// Notes that bytes have arrived.
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

    /// Begins the drain: ends receiving after the received bytes, unless the program wants to
    /// receive while draining. A new connection first gets time for the first bytes, which may be
    /// on their way.
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
