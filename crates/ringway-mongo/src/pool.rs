//! A core's connections to one server.

mod clearing;
mod figures;
mod filling;
mod keeper;
mod lease;
mod line;
mod making;
mod place;
mod refusals;
mod refused;
mod services;
#[cfg(test)]
mod spec_tests;
mod telling;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ringway_runtime::sync::Notify;

pub use self::figures::PoolCounts;
pub(crate) use self::figures::PoolFigures;
use self::keeper::Draining;
pub(crate) use self::lease::Lease;
use self::line::WaitLine;
use self::refusals::Refusals;
use self::services::Services;
pub(crate) use self::services::{failure_of, is_of_server};
use self::telling::{CheckOut, Telling};
use crate::connection::{Greeting, ServerConnection};
use crate::error::{Error, Fate, Kind, Result};
use crate::limits::DRAINING_MAX;
use crate::pool_events::{CloseReason, PoolChange};
use crate::uri::HostAddress;

/// The connections of a core to one server. Who wants one waits in the order of arrival, as long as its operation's
/// deadline allows, or until the server is found to be gone. A connection is made by a task of its own, for whoever waits
/// first when it is there: so who gives up has not had it made in vain.
///
/// ```text
///   being made ──► idle ──► leased ──► idle …      idle for too long, or of an old generation ──► closed
///                             └─ given up ──► draining ──► idle, or after a second closed
/// ```
pub(crate) struct Pool {
    id: ServerId,
    address: HostAddress,
    greeting: Rc<Greeting>,
    /// Connections that operations have, or that wait for late replies.
    in_use: Cell<u32>,
    /// Connections that are being made. Together with those in use and those that are idle, they are never more than
    /// the most.
    pending: Cell<u32>,
    /// The one used last is at the end, and is used next: so the others can age.
    idle: RefCell<Vec<ServerConnection>>,
    draining: RefCell<Vec<Draining>>,
    /// Operations that wait for a connection. While there are any, nothing is idle.
    line: WaitLine,
    /// Notified when who makes a connection has to give it up.
    left: Notify,
    refusals: Refusals,
    /// The generation that began because the server did not accept the login, and what it said.
    refused: RefCell<Option<(u64, String)>>,
    keeper: RefCell<Option<Waker>>,
    /// Connections that were made before it last grew are not used again.
    generation: Cell<u64>,
    services: Services,
    figures: Arc<PoolFigures>,
    /// Whether the server is known to be there, so that the least number of connections is kept.
    is_kept_filled: Cell<bool>,
    is_filling: Cell<bool>,
    /// Nobody gets a connection any more, and those that come back are closed.
    is_closed: Cell<bool>,
    telling: Telling,
    /// Told the generation and the error when a connection could not be made.
    failed: Box<HearFailure>,
}

/// What hears that a pool could not make a connection of a generation.
type HearFailure = dyn Fn(&Rc<Pool>, u64, &Error);

/// The number of a server among all that a client has had on this core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ServerId(pub(crate) u64);

impl Pool {
    /// Makes a pool without connections, and starts its keeper. When a connection cannot be made, `failed` is told its
    /// generation and the error.
    pub(crate) fn start(
        id: ServerId,
        address: HostAddress,
        greeting: &Rc<Greeting>,
        failed: impl Fn(&Rc<Self>, u64, &Error) + 'static,
    ) -> Rc<Self> {
        let pool = Rc::new(Self {
            id,
            telling: Telling::new(greeting, &address),
            address,
            greeting: Rc::clone(greeting),
            in_use: Cell::new(0),
            pending: Cell::new(0),
            idle: RefCell::new(Vec::new()),
            draining: RefCell::new(Vec::new()),
            line: WaitLine::default(),
            left: Notify::new(),
            refusals: Refusals::default(),
            refused: RefCell::default(),
            keeper: RefCell::new(None),
            generation: Cell::new(0),
            services: Services::default(),
            figures: Arc::default(),
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

    /// Connections that operations have, or whose late replies are waited for.
    pub(crate) fn leased(&self) -> u32 {
        self.in_use.get()
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
        if self.line.is_empty()
            && let Some(connection) = poll_fn(|cx| Poll::Ready(self.take_idle(cx))).await
        {
            self.in_use.set(self.in_use.get() + 1);
            return Ok(Lease::new(Rc::clone(self), connection, self.generation.get()));
        }
        // Rare and large, so it is not a part of every operation's future.
        Box::pin(self.wait_in_line()).await
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

    /// What the pool has done and has, for any thread.
    pub(crate) fn figures(&self) -> &Arc<PoolFigures> {
        &self.figures
    }

    /// Gives what is idle to those who wait, in their order, and has connections made for the others.
    fn serve(self: &Rc<Self>) {
        while let Some(connection) = self.idle_for_line() {
            self.in_use.set(self.in_use.get() + 1);
            self.line.grant_first(connection, self.generation.get());
        }
        while self.lacks_connection() && self.begin_making(false) {}
    }

    fn idle_for_line(&self) -> Option<ServerConnection> {
        if self.line.is_empty() {
            return None;
        }
        let connection = self.idle.borrow_mut().pop();
        self.idle_changed();
        connection
    }

    /// Whether one more may be made for those who wait. One of the least number is made in any case.
    fn lacks_connection(&self) -> bool {
        let for_line = self.pending.get() - u32::from(self.is_filling.get());
        (for_line as usize) < self.line.len() && self.may_make()
    }

    fn may_make(&self) -> bool {
        let options = &self.greeting.options;
        !self.is_closed.get()
            && !self.is_pausing()
            && self.pending.get() < options.connecting_max
            && self.connection_count() < u64::from(options.pool_size_max)
    }

    /// All that there are: those in use, those that are being made, and those that are idle.
    fn connection_count(&self) -> u64 {
        self.idle.borrow().len() as u64 + u64::from(self.in_use.get() + self.pending.get())
    }

    fn idle_changed(&self) {
        self.figures.set_idle(self.idle.borrow().len());
    }

    /// The idle connection that was used last, if it is still good.
    fn take_idle(&self, cx: &mut Context<'_>) -> Option<ServerConnection> {
        loop {
            let mut connection = self.idle.borrow_mut().pop()?;
            self.idle_changed();
            connection.check_idle(cx);
            if !connection.is_broken() {
                return Some(connection);
            }
            self.refusals.idle_ended();
            self.end(connection, CloseReason::Error);
        }
    }

    /// Takes a connection back that was in use. It counts as such no longer, unless it has to drain.
    fn give_back(self: &Rc<Self>, mut connection: ServerConnection, generation: u64) {
        if generation != self.generation() {
            self.refusals.stale_came_back();
        }
        let reason = match () {
            () if self.is_closed.get() => Some(CloseReason::PoolClosed),
            () if !self.is_current(&connection, generation) => Some(CloseReason::Stale),
            () => connection.is_broken().then_some(CloseReason::Error),
        };
        if reason.is_none() && !connection.is_idle() {
            self.figures.count_abandoned();
            connection.abandon();
            if self.draining.borrow().len() < DRAINING_MAX {
                self.draining.borrow_mut().push(Draining::new(connection, generation));
                return self.wake_keeper();
            }
            connection.distrust();
        }
        self.in_use.set(self.in_use.get() - 1);
        match reason.or_else(|| connection.is_broken().then_some(CloseReason::Error)) {
            Some(reason) => self.end(connection, reason),
            None => {
                self.refusals.one_came_back();
                connection.rest();
                self.idle.borrow_mut().push(connection);
                self.idle_changed();
            }
        }
        self.serve();
    }

    fn end(&self, connection: ServerConnection, reason: CloseReason) {
        let number = connection.number();
        drop(connection);
        self.telling.tell(PoolChange::ConnectionClosed { connection: number, reason });
    }

    /// Closes what is idle or draining, and what is leased when it comes back: the server is gone, or another one.
    pub(crate) fn clear(&self, generation: u64) {
        self.generation.set(generation);
        self.refusals.cleared(self.in_use.get() - self.draining.borrow().len() as u32);
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
        self.idle_changed();
        let draining = std::mem::take(&mut *self.draining.borrow_mut());
        let drained = draining.len() as u32;
        self.in_use.set(self.in_use.get() - drained);
        let unused = idle.into_iter().chain(draining.into_iter().map(Draining::into_connection));
        unused.for_each(|connection| self.end(connection, reason));
    }

    /// Sends those who wait for a connection to look for another server, and gives up those that are being made.
    pub(crate) fn leave(&self) {
        self.left.notify_waiters();
        self.line.refuse_all(|| self.why_left());
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

fn left_behind(address: &HostAddress) -> Error {
    let what = format!("the connections to {address} were closed, because it cannot be used now");
    Error::new(Kind::Network, Fate::NotSent, what)
}

fn closed() -> Error {
    Error::new(Kind::Network, Fate::NotSent, "the client was closed")
}
