//! Connections that are made before anybody needs them (`minPoolSize`).

use std::rc::{Rc, Weak};

use ringway_runtime::spawn_detached;

use super::Pool;

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
        let Ok(turn) = pool.connecting.acquire(1).await else { return false };
        // A connection that is being made counts as one in use, so that there are never more than the most.
        let Ok(permit) = pool.permits.try_acquire(1) else { return false };
        // The permit that was taken is one of those in use.
        if pool.connection_count() > pool.least() {
            return false;
        }
        let generation = pool.generation();
        match pool.make(turn).await {
            Ok((connection, generation)) => {
                pool.give_back(connection, permit, generation);
                true
            }
            Err(error) => {
                tracing::debug!(server = %pool.address, %error, "a connection of the least number was not made");
                drop(permit);
                (pool.failed)(&pool, generation, &error);
                false
            }
        }
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            pool.is_filling.set(false);
        }
    }
}
