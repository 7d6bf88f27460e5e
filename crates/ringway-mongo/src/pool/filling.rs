//! Connections that are made before anybody needs them (`minPoolSize`).

use std::rc::{Rc, Weak};

use ringway_runtime::spawn_detached;

use super::Pool;
use crate::error::Result;

impl Pool {
    /// Has the keeper make connections from now on: the server is there.
    pub(crate) fn keep_filled(&self) {
        self.telling.ready();
        let has_work = self.greeting.options.pool_size_min > 0 || self.telling.is_heard();
        if !self.is_kept_filled.replace(true) && has_work {
            self.wake_keeper();
        }
    }

    /// Whether the keeper has to look after the number of connections.
    pub(super) fn has_minimum(&self) -> bool {
        self.greeting.options.pool_size_min > 0 && self.is_kept_filled.get()
    }

    /// Makes what is missing, one connection after the other, in the background.
    pub(super) fn fill(self: &Rc<Self>) {
        if self.has_minimum() && self.lacks_connections() && !self.is_filling.replace(true) {
            let filling = Filling(Rc::downgrade(self));
            spawn_detached("mongo pool filling", async move { while filling.one().await {} });
        }
    }

    /// Makes a connection if one is missing.
    async fn fill_one(self: &Rc<Self>) -> Result<bool> {
        let Ok(turn) = self.connecting.acquire(1).await else { return Ok(false) };
        // A connection that is being made counts as one in use, so that there are never more than the most.
        let Ok(permit) = self.permits.try_acquire(1) else { return Ok(false) };
        // The permit that was taken is one of those in use.
        if self.connection_count() > self.least() {
            return Ok(false);
        }
        let generation = self.generation();
        match self.make(turn).await {
            Ok((connection, generation)) => {
                self.give_back(connection, permit, generation);
                Ok(true)
            }
            Err(error) => {
                tracing::debug!(server = %self.address, %error, "a connection of the least number was not made");
                drop(permit);
                (self.failed)(self, generation, &error);
                Ok(false)
            }
        }
    }

    fn lacks_connections(&self) -> bool {
        self.connection_count() < self.least()
    }

    /// There are never more than the most, whatever the least is.
    fn least(&self) -> u64 {
        let options = &self.greeting.options;
        u64::from(options.pool_size_min.min(options.pool_size_max))
    }

    /// Those in use, among them those that are being made, and those that wait.
    fn connection_count(&self) -> u64 {
        self.idle_count() as u64 + u64::from(self.leased())
    }
}

/// The task that fills a pool; there is one at a time.
struct Filling(Weak<Pool>);

impl Filling {
    /// Makes a connection if one is missing. False if there is nothing to do, or the server does not take it: then
    /// the keeper tries again later.
    async fn one(&self) -> bool {
        let Some(pool) = self.0.upgrade().filter(|pool| pool.has_minimum()) else { return false };
        // A server that is silent must not keep this after the client has gone.
        pool.unless_left(pool.fill_one()).await.unwrap_or(false)
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            pool.is_filling.set(false);
        }
    }
}
