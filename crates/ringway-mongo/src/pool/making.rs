//! How a connection is made: by a task that nobody has to wait for.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use ringway_runtime::{CoreHandle, spawn_detached};

use super::Pool;
use super::telling::Making;
use crate::connection::{ServerConnection, Service, connect};
use crate::error::Result;

/// A connection that is being made. It is for whoever waits first when it is there.
pub(super) struct PendingConnection {
    pool: Rc<Pool>,
    /// The generation when it was begun.
    generation: u64,
    /// Whether it is one of the least number.
    is_filling: bool,
}

impl Pool {
    /// Has a connection made. False where nothing runs any more: at the end of a core.
    pub(super) fn begin_making(self: &Rc<Self>, is_filling: bool) -> bool {
        let before = self.pending.get();
        self.pending.set(before + 1);
        let (pool, generation) = (Rc::clone(self), self.generation());
        let pending = PendingConnection { pool, generation, is_filling };
        // After the end of a core, who waited there has gone as well.
        if CoreHandle::is_here() {
            spawn_detached("mongo connection", pending.run());
        } else {
            drop(pending);
        }
        self.pending.get() > before
    }

    /// Makes a connection, and tells whoever is concerned if that fails.
    async fn make(self: &Rc<Self>, generation: u64) -> Result<ServerConnection, ()> {
        let making = Making::begin(&self.telling);
        let service: Cell<Option<Service>> = Cell::new(None);
        let greeted = |id| service.set(Some(self.services.now(id)));
        match connect(&self.greeting, &self.address, &greeted).await {
            Ok(mut connection) => {
                self.figures.count_made();
                connection.set_number(making.connection);
                connection.set_service(service.get());
                making.succeeded();
                Ok(connection)
            }
            Err(error) => {
                self.figures.count_failed();
                tracing::debug!(server = %self.address, %error, "a connection was not made");
                let waits = self.waits_for_others(generation, &error);
                // Taken out before others are told that the server is left.
                let first = if waits { None } else { self.line.take_first() };
                self.greeted_in_vain(service.get(), &error);
                (self.failed)(self, generation, &error);
                drop(making);
                if let Some(first) = first {
                    first.refuse(error);
                }
                Err(())
            }
        }
    }
}

impl PendingConnection {
    async fn run(self) {
        let pool = Rc::clone(&self.pool);
        let generation = self.generation;
        let is_wanted = generation == pool.generation() && !pool.is_closed.get();
        let made = if is_wanted { self.make_unless_left().await } else { None };
        drop(self);
        match made {
            Some(Ok(connection)) => {
                pool.in_use.set(pool.in_use.get() + 1);
                if generation == pool.generation() {
                    pool.refusals.end();
                    pool.keep_filled();
                } else {
                    pool.refusals.stale_was_made();
                }
                pool.give_back(connection, generation);
                pool.fill();
            }
            // The next one in the line has another made.
            Some(Err(())) | None => pool.serve(),
        }
    }

    /// Makes the connection; `None` if the server is left meanwhile.
    async fn make_unless_left(&self) -> Option<Result<ServerConnection, ()>> {
        let mut left = pin!(self.pool.left.notified());
        let mut making = pin!(self.pool.make(self.generation));
        std::future::poll_fn(|cx| match left.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => making.as_mut().poll(cx).map(Some),
        })
        .await
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        self.pool.pending.set(self.pool.pending.get() - 1);
        if self.is_filling {
            self.pool.is_filling.set(false);
        }
    }
}
