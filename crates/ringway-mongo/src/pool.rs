//! A core's connections to one server.

mod keeper;
mod lease;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ringway_runtime::sync::{Notify, Permit, Semaphore};

use self::keeper::Draining;
pub(crate) use self::lease::Lease;
use crate::connection::{Greeting, ServerConnection, connect};
use crate::error::{Error, Fate, Kind, Result};
use crate::limits::DRAINING_MAX;

/// The connections of a core. Who wants one waits in the order of arrival, as long as its operation's
/// deadline allows.
///
/// ```text
///   made ──► leased ──► idle ──► leased …      idle for too long, or of an old generation ──► closed
///              └─ given up ──► draining ──► idle, or after a second closed
/// ```
pub(crate) struct Pool {
    greeting: Greeting,
    /// One permit for each connection that is leased or draining.
    permits: Semaphore,
    /// One permit for each connection that is being made.
    connecting: Semaphore,
    /// The one used last is at the end, and is used next: so the others can age.
    idle: RefCell<Vec<ServerConnection>>,
    draining: RefCell<Vec<Draining>>,
    /// Notified when a connection becomes idle.
    returned: Notify,
    keeper: RefCell<Option<Waker>>,
    /// Connections that were made before it last grew are not used again.
    generation: Cell<u64>,
    counts: Cell<PoolCounts>,
}

/// What a pool has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounts {
    /// Connections that were made.
    pub made: u64,
    /// Connections that could not be made.
    pub failed: u64,
    /// Operations that were given up while they waited for a reply.
    pub abandoned: u64,
    /// Connections that were used again after such a reply had come late.
    pub recovered: u64,
}

impl Pool {
    /// Makes a pool without connections, and starts its keeper.
    pub(crate) fn start(greeting: Greeting) -> Rc<Self> {
        let options = std::sync::Arc::clone(&greeting.options);
        let pool = Rc::new(Self {
            greeting,
            permits: Semaphore::new(options.pool_size_max),
            connecting: Semaphore::new(options.connecting_max),
            idle: RefCell::new(Vec::new()),
            draining: RefCell::new(Vec::new()),
            returned: Notify::new(),
            keeper: RefCell::new(None),
            generation: Cell::new(0),
            counts: Cell::new(PoolCounts::default()),
        });
        keeper::spawn(&pool);
        pool
    }

    /// A connection for one operation at a time.
    pub(crate) async fn lease(self: &Rc<Self>) -> Result<Lease> {
        let permit = match self.permits.try_acquire(1) {
            Ok(permit) => permit,
            Err(_) => self.permits.acquire(1).await.map_err(|_| closed())?,
        };
        let connection = match poll_fn(|cx| Poll::Ready(self.take_idle(cx))).await {
            Some(connection) => connection,
            None => self.make_or_take().await?,
        };
        Ok(Lease::new(Rc::clone(self), connection, permit, self.generation.get()))
    }

    /// What the pool has done.
    pub(crate) fn counts(&self) -> PoolCounts {
        self.counts.get()
    }

    /// Connections that wait for an operation.
    pub(crate) fn idle_count(&self) -> usize {
        self.idle.borrow().len()
    }

    /// Makes a connection, or takes one that becomes idle while its turn to be made has not come.
    async fn make_or_take(self: &Rc<Self>) -> Result<ServerConnection> {
        let turn = {
            let mut turn = pin!(self.connecting.acquire(1));
            loop {
                let mut returned = pin!(self.returned.notified());
                let woken = poll_fn(|cx| {
                    if let Some(connection) = self.take_idle(cx) {
                        return Poll::Ready(Woken::Idle(connection));
                    }
                    if let Poll::Ready(turn) = turn.as_mut().poll(cx) {
                        return Poll::Ready(Woken::Turn(turn));
                    }
                    returned.as_mut().poll(cx).map(|()| Woken::Again)
                })
                .await;
                match woken {
                    Woken::Idle(connection) => return Ok(connection),
                    Woken::Turn(turn) => break turn.map_err(|_| closed())?,
                    Woken::Again => {}
                }
            }
        };
        let made = connect(&self.greeting).await;
        drop(turn);
        self.count(|counts| match &made {
            Ok(_) => counts.made += 1,
            Err(_) => counts.failed += 1,
        });
        made
    }

    /// The idle connection that was used last, if it is still good.
    fn take_idle(&self, cx: &mut Context<'_>) -> Option<ServerConnection> {
        loop {
            let mut connection = self.idle.borrow_mut().pop()?;
            connection.check_idle(cx);
            if !connection.is_broken() {
                return Some(connection);
            }
        }
    }

    /// Takes a connection back. Its permit is free afterwards, unless it has to drain.
    fn give_back(&self, mut connection: ServerConnection, permit: Permit, generation: u64) {
        if connection.is_broken() || generation != self.generation.get() {
            return;
        }
        if connection.is_idle() {
            self.put_idle(connection);
            return;
        }
        self.count(|counts| counts.abandoned += 1);
        connection.abandon();
        if self.draining.borrow().len() < DRAINING_MAX {
            self.draining.borrow_mut().push(Draining::new(connection, permit, generation));
            self.wake_keeper();
        }
    }

    fn put_idle(&self, connection: ServerConnection) {
        self.idle.borrow_mut().push(connection);
        self.returned.notify_one();
    }

    /// Closes what is idle, and what is leased when it comes back: the server is gone, or another one.
    fn clear(&self) {
        self.generation.set(self.generation.get() + 1);
        let idle = std::mem::take(&mut *self.idle.borrow_mut());
        drop(idle);
    }

    fn count(&self, change: impl FnOnce(&mut PoolCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    fn wake_keeper(&self) {
        let keeper = self.keeper.borrow_mut().take();
        if let Some(keeper) = keeper {
            keeper.wake();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.wake_keeper();
    }
}

enum Woken<T> {
    Idle(ServerConnection),
    Turn(T),
    Again,
}

fn closed() -> Error {
    Error::new(Kind::Network, Fate::NotSent, "the client was closed")
}
