//! Telling an observer what a pool does.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ringway_runtime::now_exact;

use crate::connection::Greeting;
use crate::error::{Error, Fate, Kind};
use crate::pool_events::{CheckOutFailure, CloseReason, PoolChange, PoolEvent};
use crate::uri::HostAddress;

/// What a pool tells with. It runs code of the user, so nothing may be borrowed while it tells.
pub(super) struct Telling {
    greeting: Rc<Greeting>,
    server: HostAddress,
    pool: u64,
    /// The number of the connection that was made last.
    connections: Cell<u64>,
    told: Cell<Told>,
    is_ready: Cell<bool>,
}

/// How much of its beginning a pool has told.
///
/// A pool begins where much is borrowed, so it tells of that before its next event, or when its keeper runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    Created,
    Ready,
}

impl Telling {
    pub(super) fn new(greeting: &Rc<Greeting>, server: &HostAddress) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            greeting: Rc::clone(greeting),
            server: server.clone(),
            pool: NEXT.fetch_add(1, Ordering::Relaxed),
            connections: Cell::new(0),
            told: Cell::new(Told::Nothing),
            is_ready: Cell::new(false),
        }
    }

    /// Whether anybody hears it.
    pub(super) fn is_heard(&self) -> bool {
        self.greeting.options.pool_observer.is_some()
    }

    /// The server is there; this is told later.
    pub(super) fn ready(&self) {
        self.is_ready.set(true);
    }

    /// Tells that the server has failed, if it was there.
    pub(super) fn cleared(&self) {
        self.beginning();
        self.is_ready.set(false);
        if self.told.replace(Told::Created) == Told::Ready {
            self.tell(PoolChange::Cleared { service: None });
        }
    }

    /// Tells of a change, and before it of what was not told yet.
    pub(super) fn tell(&self, change: PoolChange<'_>) {
        self.beginning();
        self.say(change);
    }

    /// Tells that the pool was made and that its server is there, if that was not told yet.
    pub(super) fn beginning(&self) {
        if self.told.get() == Told::Nothing {
            self.told.set(Told::Created);
            let options = &self.greeting.options;
            self.say(PoolChange::Created {
                size_max: options.pool_size_max,
                size_min: options.pool_size_min,
                idle_max: options.idle_max,
            });
        }
        if self.told.get() == Told::Created && self.is_ready.get() {
            self.told.set(Told::Ready);
            self.say(PoolChange::Ready);
        }
    }

    fn say(&self, change: PoolChange<'_>) {
        if let Some(observer) = &self.greeting.options.pool_observer {
            observer.tell(&PoolEvent { server: &self.server, pool: self.pool, change });
        }
    }
}

/// A connection that is being made. Unless it becomes ready, it is told to be closed.
pub(super) struct Making<'a> {
    telling: &'a Telling,
    pub(super) connection: u64,
    began: Instant,
    is_ready: bool,
}

impl<'a> Making<'a> {
    pub(super) fn begin(telling: &'a Telling) -> Self {
        let connection = telling.connections.get() + 1;
        telling.connections.set(connection);
        telling.tell(PoolChange::ConnectionCreated { connection });
        Self { telling, connection, began: now_exact(), is_ready: false }
    }

    pub(super) fn succeeded(mut self) {
        self.is_ready = true;
        let (connection, after) = (self.connection, self.began.elapsed());
        self.telling.tell(PoolChange::ConnectionReady { connection, after });
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        if !self.is_ready {
            let (connection, reason) = (self.connection, CloseReason::Error);
            self.telling.tell(PoolChange::ConnectionClosed { connection, reason });
        }
    }
}

/// An operation that wants a connection. Unless it is told otherwise, its time was over.
pub(super) struct CheckOut<'a> {
    telling: &'a Telling,
    began: Instant,
    is_over: bool,
}

impl<'a> CheckOut<'a> {
    pub(super) fn begin(telling: &'a Telling) -> Self {
        telling.tell(PoolChange::CheckOutStarted);
        Self { telling, began: now_exact(), is_over: false }
    }

    /// Tells the number of the connection, or why there is none.
    pub(super) fn ended(mut self, connection: Result<u64, &Error>, is_pool_closed: bool) {
        self.is_over = true;
        match connection {
            Ok(connection) => {
                let after = self.began.elapsed();
                self.telling.tell(PoolChange::CheckedOut { connection, after });
            }
            Err(error) if is_pool_closed => {
                self.failed(CheckOutFailure::PoolClosed, error);
            }
            Err(error) => self.failed(CheckOutFailure::ConnectionError, error),
        }
    }

    fn failed(&self, reason: CheckOutFailure, error: &Error) {
        let after = self.began.elapsed();
        self.telling.tell(PoolChange::CheckOutFailed { reason, error, after });
    }
}

impl Drop for CheckOut<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let what = "the operation was given up before it had a connection";
            let error = Error::new(Kind::Timeout, Fate::NotSent, what);
            self.failed(CheckOutFailure::Timeout, &error);
        }
    }
}
