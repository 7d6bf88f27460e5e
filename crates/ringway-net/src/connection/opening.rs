//! The beginning of a connection, which the end of its server may come upon.

use std::rc::Rc;

use ringway_runtime::{sleep, spawn_named};

use super::Link;
use crate::server::Place;

/// What has come of a connection that is new.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Opening {
    /// Nothing yet.
    Silent,
    /// Nothing yet, and receiving ends with what comes first.
    LastChance,
    /// Bytes.
    Heard,
}

impl Link {
    /// Bytes have come.
    #[inline]
    pub(crate) fn note_bytes(&self) {
        if self.opening.get() != Opening::Heard {
            self.note_first_bytes();
        }
    }

    #[cold]
    fn note_first_bytes(&self) {
        if self.opening.replace(Opening::Heard) == Opening::LastChance {
            self.end_for_drain();
        }
    }

    /// The server drains: what has arrived is still delivered, unless the program wants more. What a
    /// peer that has just connected says first may be on its way, so it is waited for.
    pub(crate) fn begin_drain(self: &Rc<Self>) {
        let is_silent = self.opening.get() == Opening::Silent;
        let grace = self.place.as_ref().filter(|_| is_silent).and_then(Place::grace_left);
        let Some(left) = grace else { return self.end_for_drain() };
        self.opening.set(Opening::LastChance);
        let link = Rc::downgrade(self);
        spawn_named("first bytes", async move {
            sleep(left).await;
            link.upgrade().inspect(|link| link.note_bytes());
        });
    }

    fn end_for_drain(&self) {
        if !self.receives_while_draining.get() {
            self.end_receiving();
        }
    }
}
