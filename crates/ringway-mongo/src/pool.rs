//! A core's connections to one server.

mod clearing;
mod filling;
mod keeper;
mod lease;
mod services;
#[cfg(test)]
mod spec_tests;
mod telling;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ringway_runtime::sync::{Notify, Permit, Semaphore};

use self::keeper::Draining;
pub(crate) use self::lease::Lease;
use self::services::Services;
pub(crate) use self::services::{failure_of, is_of_server};
use self::telling::{CheckOut, Making, Telling};
use crate::connection::{Greeting, ServerConnection, Service, connect};
use crate::error::{Error, Fate, Kind, Result};
use crate::limits::DRAINING_MAX;
use crate::pool_events::{CloseReason, PoolChange};
use crate::uri::HostAddress;

/// The connections of a core to one server. Who wants one waits in the order of arrival, as long as its operation's
/// deadline allows, or until the server is found to be gone.
///
/// ```text
///   made ──► leased ──► idle ──► leased …      idle for too long, or of an old generation ──► closed
///              └─ given up ──► draining ──► idle, or after a second closed
/// ```
pub(crate) struct Pool {
    id: ServerId,
    address: HostAddress,
    greeting: Rc<Greeting>,
    /// One permit for each connection that is leased or draining.
    permits: Semaphore,
    /// One permit for each connection that is being made.
    connecting: Semaphore,
    /// The one used last is at the end, and is used next: so the others can age.
    idle: RefCell<Vec<ServerConnection>>,
    draining: RefCell<Vec<Draining>>,
    /// Notified when a connection becomes idle.
    returned: Notify,
    /// Operations that wait for one, or for their turn to make one.
    waiting: Cell<usize>,
    /// Notified when who waits has to look for another server.
    left: Notify,
    /// The generation that began because the server did not accept the login, and what it said.
    refused: RefCell<Option<(u64, String)>>,
    keeper: RefCell<Option<Waker>>,
    /// Connections that were made before it last grew are not used again.
    generation: Cell<u64>,
    services: Services,
    counts: Cell<PoolCounts>,
    /// Whether the server is known to be there, so that the least number of connections is kept.
    is_kept_filled: Cell<bool>,
    is_filling: Cell<bool>,
    /// Nobody gets a connection any more, and those that come back are closed.
    is_closed: Cell<bool>,
    telling: Telling,
    /// Told the generation and the error when a connection that nobody waits for could not be made.
    failed: Box<HearFailure>,
}

/// What hears that a pool could not make a connection of a generation.
type HearFailure = dyn Fn(&Pool, u64, &Error);

/// The number of a server among all that a client has had on this core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ServerId(pub(crate) u64);

/// What the pools of a core have done since they were made.
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
    /// Makes a pool without connections, and starts its keeper. When a connection of the least number cannot be made,
    /// `failed` is told its generation and the error.
    pub(crate) fn start(
        id: ServerId,
        address: HostAddress,
        greeting: &Rc<Greeting>,
        failed: impl Fn(&Self, u64, &Error) + 'static,
    ) -> Rc<Self> {
        let options = &greeting.options;
        let pool = Rc::new(Self {
            id,
            telling: Telling::new(greeting, &address),
            address,
            greeting: Rc::clone(greeting),
            permits: Semaphore::new(options.pool_size_max),
            connecting: Semaphore::new(options.connecting_max),
            idle: RefCell::new(Vec::new()),
            draining: RefCell::new(Vec::new()),
            returned: Notify::new(),
            waiting: Cell::new(0),
            left: Notify::new(),
            refused: RefCell::default(),
            keeper: RefCell::new(None),
            generation: Cell::new(0),
            services: Services::default(),
            counts: Cell::new(PoolCounts::default()),
            is_kept_filled: Cell::new(false),
            is_filling: Cell::new(false),
            is_closed: Cell::new(false),
            failed: Box::new(failed),
        });
        keeper::spawn(&pool);
        pool
    }

    pub(crate) fn id(&self) -> ServerId {
        self.id
    }

    pub(crate) fn address(&self) -> &HostAddress {
        &self.address
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.get()
    }

    /// Connections that operations have.
    pub(crate) fn leased(&self) -> u32 {
        self.greeting.options.pool_size_max - self.permits.available()
    }

    /// A connection for one operation at a time.
    pub(crate) async fn lease(self: &Rc<Self>) -> Result<Lease> {
        if !self.telling.is_heard() {
            return self.lease_untold().await;
        }
        let check_out = CheckOut::begin(&self.telling);
        let leased = Box::pin(self.lease_untold()).await;
        let connection = leased.as_ref().map(|lease| lease.number());
        check_out.ended(connection, self.is_closed.get());
        leased
    }

    async fn lease_untold(self: &Rc<Self>) -> Result<Lease> {
        if self.is_closed.get() {
            return Err(closed());
        }
        // Who came before takes what becomes idle.
        if self.waiting.get() == 0
            && let Ok(permit) = self.permits.try_acquire(1)
            && let Some(connection) = poll_fn(|cx| Poll::Ready(self.take_idle(cx))).await
        {
            return Ok(Lease::new(Rc::clone(self), connection, permit, self.generation.get()));
        }
        self.lease_later().await
    }

    /// Waits for a connection, unless the server is left.
    async fn lease_later(self: &Rc<Self>) -> Result<Lease> {
        let leased = async {
            let permit = self.permits.acquire(1).await.map_err(|_| closed())?;
            let (connection, generation) = self.make_or_take().await?;
            Ok(Lease::new(Rc::clone(self), connection, permit, generation))
        };
        self.unless_left(leased).await
    }

    /// Waits for something that the server has a part in, unless it is left meanwhile.
    async fn unless_left<T>(&self, what: impl Future<Output = Result<T>>) -> Result<T> {
        let mut left = pin!(self.left.notified());
        let mut what = pin!(what);
        poll_fn(|cx| match left.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(self.why_left())),
            Poll::Pending => what.as_mut().poll(cx),
        })
        .await
    }

    /// Why who waits gets no connection. The login of all is the same.
    fn why_left(&self) -> Error {
        match &*self.refused.borrow() {
            _ if self.is_closed.get() => closed(),
            Some((generation, why)) if *generation == self.generation() => {
                let what = format!("another connection could not log in: {why}");
                Error::new(Kind::Authentication, Fate::NotSent, what)
            }
            _ => left_behind(&self.address),
        }
    }

    /// Notes that `generation` begins because the server did not accept the login.
    pub(crate) fn refuse(&self, generation: u64, error: &Error) {
        self.refused.replace(Some((generation, error.to_string())));
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
    async fn make_or_take(self: &Rc<Self>) -> Result<(ServerConnection, u64)> {
        let turn = {
            let waiting = Waiting::join(&self.waiting);
            let mut may_take = waiting.is_first;
            let mut turn = pin!(self.connecting.acquire(1));
            loop {
                let mut returned = pin!(self.returned.notified());
                let woken = poll_fn(|cx| {
                    // First of all, so that a notification which is used is not passed on.
                    if returned.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(Woken::Again);
                    }
                    if may_take && let Some(connection) = self.take_idle(cx) {
                        return Poll::Ready(Woken::Idle(connection));
                    }
                    // Nothing is made while something is idle, or there could be more than the most.
                    turn.as_mut().poll(cx).map(|turn| match self.take_idle(cx) {
                        Some(connection) => Woken::Idle(connection),
                        None => Woken::Turn(turn),
                    })
                })
                .await;
                match woken {
                    Woken::Idle(connection) => {
                        // A notification that nobody was there for may have been one of several.
                        if self.idle_count() > 0 {
                            self.returned.notify_one();
                        }
                        return Ok((connection, self.generation.get()));
                    }
                    Woken::Turn(turn) => break turn.map_err(|_| closed())?,
                    Woken::Again => may_take = true,
                }
            }
        };
        // Rare and large, so it is not a part of every operation's future.
        let made = Box::pin(self.make(turn)).await;
        if made.is_ok() {
            self.keep_filled();
        }
        made
    }

    /// Makes a connection, whose generation is that of its beginning.
    async fn make(&self, turn: Permit) -> Result<(ServerConnection, u64)> {
        let generation = self.generation.get();
        let making = Making::begin(&self.telling);
        let service: Cell<Option<Service>> = Cell::new(None);
        let greeted = |id| service.set(Some(self.services.now(id)));
        let made = connect(&self.greeting, &self.address, &greeted).await;
        drop(turn);
        self.count(|counts| match &made {
            Ok(_) => counts.made += 1,
            Err(_) => counts.failed += 1,
        });
        let mut connection = made.inspect_err(|error| {
            self.greeted_in_vain(service.get(), error);
        })?;
        connection.set_number(making.connection);
        connection.set_service(service.get());
        making.succeeded();
        Ok((connection, generation))
    }

    /// The idle connection that was used last, if it is still good.
    fn take_idle(&self, cx: &mut Context<'_>) -> Option<ServerConnection> {
        loop {
            let mut connection = self.idle.borrow_mut().pop()?;
            connection.check_idle(cx);
            if !connection.is_broken() {
                return Some(connection);
            }
            self.end(connection, CloseReason::Error);
        }
    }

    /// Takes a connection back. Its permit is free afterwards, unless it has to drain.
    fn give_back(&self, mut connection: ServerConnection, permit: Permit, generation: u64) {
        let reason = match () {
            () if self.is_closed.get() => Some(CloseReason::PoolClosed),
            () if !self.is_current(&connection, generation) => Some(CloseReason::Stale),
            () => connection.is_broken().then_some(CloseReason::Error),
        };
        if let Some(reason) = reason {
            drop(permit);
            return self.end(connection, reason);
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
        } else {
            drop(permit);
            self.end(connection, CloseReason::Error);
        }
    }

    fn end(&self, connection: ServerConnection, reason: CloseReason) {
        let number = connection.number();
        drop(connection);
        self.telling.tell(PoolChange::ConnectionClosed { connection: number, reason });
    }

    fn put_idle(&self, connection: ServerConnection) {
        self.idle.borrow_mut().push(connection);
        self.returned.notify_one();
    }

    /// Closes what is idle or draining, and what is leased when it comes back: the server is gone, or another one.
    pub(crate) fn clear(&self, generation: u64) {
        self.generation.set(generation);
        self.is_kept_filled.set(false);
        self.telling.cleared();
        self.end_unused(CloseReason::Stale);
    }

    /// Closes what is idle or draining, and from now on what comes back; nobody gets a connection any more.
    pub(crate) fn close(&self) {
        if !self.is_closed.replace(true) {
            self.is_kept_filled.set(false);
            self.end_unused(CloseReason::PoolClosed);
            self.leave();
            self.telling.tell(PoolChange::Closed);
        }
    }

    fn end_unused(&self, reason: CloseReason) {
        let idle = std::mem::take(&mut *self.idle.borrow_mut());
        let draining = std::mem::take(&mut *self.draining.borrow_mut());
        let unused = idle.into_iter().chain(draining.into_iter().map(Draining::into_connection));
        unused.for_each(|connection| self.end(connection, reason));
    }

    /// Sends those who wait for a connection to look for another server.
    pub(crate) fn leave(&self) {
        self.left.notify_waiters();
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

impl PoolCounts {
    pub(crate) fn add(&mut self, other: Self) {
        self.made += other.made;
        self.failed += other.failed;
        self.abandoned += other.abandoned;
        self.recovered += other.recovered;
    }
}

#[expect(clippy::large_enum_variant, reason = "it is moved once, where an operation has waited")]
enum Woken<T> {
    Idle(ServerConnection),
    Turn(T),
    Again,
}

/// An operation among those that wait for a connection. Those that come later do not take what becomes idle before them.
struct Waiting<'a> {
    count: &'a Cell<usize>,
    /// Whether nobody waited before it.
    is_first: bool,
}

impl<'a> Waiting<'a> {
    fn join(count: &'a Cell<usize>) -> Self {
        let before = count.replace(count.get() + 1);
        Self { count, is_first: before == 0 }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.set(self.count.get() - 1);
    }
}

fn left_behind(address: &HostAddress) -> Error {
    let what = format!("the connections to {address} were closed, because it cannot be used now");
    Error::new(Kind::Network, Fate::NotSent, what)
}

fn closed() -> Error {
    Error::new(Kind::Network, Fate::NotSent, "the client was closed")
}
