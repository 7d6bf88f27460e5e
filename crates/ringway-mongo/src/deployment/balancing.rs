//! Operations through a load balancer.

use std::rc::Weak;

use ringway_runtime::spawn_detached;

use super::Deployment;
use super::pins::{Keep, Pin};
use super::wanted::Wanted;
use crate::error::{Error, Fate, Kind, Result};
use crate::pool::{Lease, ServerId};

impl Deployment {
    /// A connection of the load balancer: a pinned one, or one of the pool.
    pub(super) async fn lease_behind_balancer(&self, wanted: Wanted<'_>) -> Result<Lease> {
        self.pins.give_back();
        // A cursor claims its connection before anything else is done.
        drop(self.pins.remove(|pinned| !pinned.is_claimed));
        if let Wanted::At(id) = wanted {
            let pinned = self.pins.take(id).await.filter(|lease| !lease.is_broken());
            return pinned.ok_or_else(|| {
                drop(self.pins.remove(|pinned| pinned.id == id));
                let what = "the connection that the cursor or the transaction stays with is gone";
                Error::new(Kind::Network, Fate::NotSent, what)
            });
        }
        let pool = self.writable.borrow().clone();
        pool.expect("a load balancer does not leave").lease().await
    }

    /// The place of the connection that was leased as `wanted`; `None` where there is no load balancer.
    pub(crate) fn pin(&self, wanted: Wanted<'_>) -> Option<Pin<'_>> {
        if !self.is_balanced() {
            return None;
        }
        let (id, is_old) = match wanted {
            Wanted::At(id) => (id, true),
            _ => (self.new_id(), false),
        };
        Some(Pin::new(&self.pins, id, is_old))
    }

    /// Notes that a cursor will let its connection go.
    pub(crate) fn claim(&self, id: ServerId) {
        let mut pins = self.pins.pinned.borrow_mut();
        pins.iter_mut().filter(|pinned| pinned.id == id).for_each(|it| it.is_claimed = true);
    }

    /// Lets a connection go that stays with a cursor.
    pub(crate) fn let_go(&self, id: ServerId) {
        drop(self.pins.remove(|pinned| pinned.id == id && pinned.keep == Keep::Cursor));
    }

    /// Lets a connection go that stays with a transaction. This may be called where something is locked, so a task gives it back.
    pub(crate) fn release(&self, id: ServerId) {
        let gone = self.pins.remove(|pinned| pinned.id == id);
        if !gone.is_empty() {
            self.pins.released.borrow_mut().extend(gone);
            let this = Weak::clone(&self.this);
            spawn_detached("mongo pinned connection", async move {
                if let Some(deployment) = this.upgrade() {
                    deployment.pins.give_back();
                }
            });
        }
    }

    pub(super) fn new_id(&self) -> ServerId {
        ServerId(self.next_id.replace(self.next_id.get() + 1))
    }

    /// What the connections of a load balancer are used for, for people.
    ///
    /// Specification: Load Balancer Support, "Connection Tracking", which sets the words.
    pub(super) fn describe_use(&self) -> String {
        let leased = self.writable.borrow().as_ref().map_or(0, |pool| pool.leased()) as usize;
        let (cursors, transactions) =
            (self.pins.count(Keep::Cursor), self.pins.count(Keep::Transaction));
        let others = leased.saturating_sub(cursors + transactions);
        format!(
            "maxPoolSize: {}, connections in use by cursors: {cursors}, connections in use by transactions: \
             {transactions}, connections in use by other operations: {others}",
            self.greeting.options.pool_size_max
        )
    }
}
