//! A server that ends new connections before they are greeted. It has too much to do for more of them, or it is gone.
//!
//! ```text
//!   others of the pool come back ──► who waits gets one of those; another is made after a pause
//!   none comes back             ──► who waits first is told, and the next one tries
//!   none is left, and the server has ended the last ones ──► it is gone
//! ```

use std::cell::{Cell, RefCell};
use std::time::Instant;

use ringway_runtime::now_exact;

use crate::error::Error;
use crate::limits::CONNECTING_PAUSE_MAX;

/// What is known of connections that the server has ended.
#[derive(Default)]
pub(super) struct Refusals {
    /// New ones, since one was made.
    in_row: Cell<u32>,
    /// New ones, since one was made or came back.
    in_vain: Cell<u32>,
    /// When another one is made.
    until: Cell<Option<Instant>>,
    /// Why the last was not made, if others were there.
    why: RefCell<Option<String>>,
    /// Whether it has ended one that nobody used, and none was made or came back since.
    has_ended_idle: Cell<bool>,
    /// Those in use that were made before the pool was cleared.
    stale: Cell<u32>,
}

impl Refusals {
    /// A connection was made.
    pub(super) fn end(&self) {
        self.in_row.set(0);
        self.in_vain.set(0);
        self.until.set(None);
        self.why.take();
        self.has_ended_idle.set(false);
    }

    /// A connection that was in use can be used again.
    pub(super) fn one_came_back(&self) {
        self.in_vain.set(0);
        self.has_ended_idle.set(false);
    }

    /// The server has ended a connection that nobody used.
    pub(super) fn idle_ended(&self) {
        self.has_ended_idle.set(true);
    }

    /// The pool is cleared while so many connections are in use.
    pub(super) fn cleared(&self, in_use: u32) {
        self.end();
        self.stale.set(in_use);
    }

    /// One of those came back.
    pub(super) fn stale_came_back(&self) {
        self.stale.set(self.stale.get() - 1);
    }

    /// One of those was made only now.
    pub(super) fn stale_was_made(&self) {
        self.stale.set(self.stale.get() + 1);
    }

    /// When another connection may be made.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until.get()
    }

    /// Whether it has ended one that nobody used, and none was made or came back since.
    pub(super) fn has_ended_idle(&self) -> bool {
        self.has_ended_idle.get()
    }

    /// Those in use that were made before the pool was cleared.
    pub(super) fn stale(&self) -> u32 {
        self.stale.get()
    }

    /// Why it takes no other connections than those that there are.
    pub(super) fn why(&self) -> Option<String> {
        self.why.borrow().clone()
    }

    /// Begins a pause after another one was not made; false if as many as `most` were in vain before.
    pub(super) fn begin_pause(&self, error: &Error, most: u32) -> bool {
        self.in_row.set(self.in_row.get().saturating_add(1));
        self.in_vain.set(self.in_vain.get().saturating_add(1));
        self.why.replace(Some(error.to_string()));
        if self.in_vain.get() > most {
            self.end_pause();
            return false;
        }
        let pause = error.next_backoff(self.in_row.get()).min(CONNECTING_PAUSE_MAX);
        self.until.set(Some(now_exact() + pause));
        true
    }

    /// Another one may be made.
    pub(super) fn end_pause(&self) {
        self.until.set(None);
    }
}
