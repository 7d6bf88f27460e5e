//! Connections through a load balancer that stay with a cursor or a transaction: the next connection may lead to
//! another server.
//!
//! Specification: Load Balancer Support, "Connection Pinning".
//!
//! ```text
//!   lease of a command ──its cursor has more, or its transaction is open──► pinned ──At(id)──► lease …
//!                                                                             └─ the end of either ─► pool
//! ```

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use ringway_runtime::sync::Notify;

use crate::pool::{Lease, ServerId};

/// The pinned connections of a core; there are no more than its pool has.
#[derive(Default)]
pub(super) struct Pins {
    pub(super) pinned: RefCell<Vec<PinnedConnection>>,
    /// Those that a task is about to give back.
    pub(super) released: RefCell<Vec<PinnedConnection>>,
    /// Notified when an operation has ended that had one of them.
    returned: Notify,
}

pub(super) struct PinnedConnection {
    pub(super) id: ServerId,
    /// `None` while an operation has it.
    lease: Option<Lease>,
    pub(super) keep: Keep,
    /// Whether there is somebody who will let it go: a cursor, or a transaction.
    pub(super) is_claimed: bool,
}

/// With whom a connection stays after a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keep {
    Nobody,
    Cursor,
    Transaction,
}

/// The place of a connection while an operation has it. Unless the operation ends it, the connection stays with nobody.
pub(crate) struct Pin<'a> {
    pins: &'a Pins,
    id: ServerId,
    /// Whether the connection was pinned before.
    is_old: bool,
    is_over: bool,
}

impl<'a> Pin<'a> {
    /// The place of a connection that was pinned before, or is new.
    pub(super) fn new(pins: &'a Pins, id: ServerId, is_old: bool) -> Self {
        Self { pins, id, is_old, is_over: false }
    }

    pub(crate) fn id(&self) -> ServerId {
        self.id
    }

    /// Has the connection stay, or gives it back to its pool.
    pub(crate) fn end(mut self, lease: Lease, keep: Keep) {
        self.is_over = true;
        let mut pins = self.pins.pinned.borrow_mut();
        let at = pins.iter().position(|pinned| pinned.id == self.id);
        match at {
            // Its transaction lets it go. Meanwhile a command of another session may have used it, to end a cursor.
            Some(at) if pins[at].keep == Keep::Transaction || keep != Keep::Nobody => {
                pins[at].lease = Some(lease);
                drop(pins);
            }
            Some(at) => {
                let gone = pins.swap_remove(at);
                drop(pins);
                drop((gone, lease));
            }
            None if !self.is_old && keep != Keep::Nobody => {
                let is_claimed = keep == Keep::Transaction;
                let lease = Some(lease);
                pins.push(PinnedConnection { id: self.id, lease, keep, is_claimed });
                drop(pins);
            }
            None => {
                drop(pins);
                drop(lease);
            }
        }
        self.pins.returned.notify_waiters();
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            drop(self.pins.remove(|pinned| pinned.id == self.id));
            self.pins.returned.notify_waiters();
        }
    }
}

impl Pins {
    /// Takes out what is to go. It is dropped when nothing is borrowed: pools tell of what comes back.
    pub(super) fn remove(
        &self,
        is_gone: impl Fn(&PinnedConnection) -> bool,
    ) -> Vec<PinnedConnection> {
        self.pinned.borrow_mut().extract_if(.., |pinned| is_gone(pinned)).collect()
    }

    /// Gives all back, at the end of the client.
    pub(super) fn clear(&self) {
        drop(self.remove(|_| true));
        self.give_back();
    }

    pub(super) fn give_back(&self) {
        let released = self.released.take();
        drop(released);
    }

    /// The connection, once no other operation has it: the end of a cursor and a command of its transaction may want it at
    /// the same time. `None` if it does not stay any more.
    pub(super) async fn take(&self, id: ServerId) -> Option<Lease> {
        loop {
            let returned = self.returned.notified();
            {
                let mut pins = self.pinned.borrow_mut();
                let pinned = pins.iter_mut().find(|pinned| pinned.id == id)?;
                if let Some(lease) = pinned.lease.take() {
                    return Some(lease);
                }
            }
            returned.await;
        }
    }

    pub(super) fn count(&self, keep: Keep) -> usize {
        self.pinned.borrow().iter().filter(|pinned| pinned.keep == keep).count()
    }
}

/// The first number of a deployment. A transaction that goes on at another core finds nothing of its number there.
pub(super) fn first_id() -> u64 {
    /// Each deployment has so many numbers, one for each operation through a load balancer.
    const BITS: u32 = 40;
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed) << BITS
}
