//! The connections of one client on one core, and the calls that wait for them.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use ringway_runtime as runtime;
use ringway_wire::native::OpenError;

use super::config::ClientConfig;
use super::connect::connect;
use super::connection::{ClientConnection, ConnectionId, PendingTable};
use super::connection_driver::ConnectionListener;
use super::endpoint::PoolEndpoint;
use super::endpoints::{Endpoints, PickArgs, Picked};
use super::hosts::HostList;
use super::interceptor::ClientInterceptor;
use super::load_balancer::EndpointId;
use super::pool_context::PoolContext;
use super::server_address::ServerAddress;
use super::wait_queue::{Awaited, WaitArgs, WaiterKey};
use super::waiting_calls::WaitingCalls;
use crate::call::method::Method;
use crate::call::status::Status;
use crate::connection::driver::Clock;
use crate::limits;
use crate::policy::RetryBudget;

pub(super) struct Pool {
    context: Rc<PoolContext>,
    endpoints: Endpoints,
    interceptors: Rc<[ClientInterceptor]>,
    pending: PendingTable,
    next_connection: Cell<u32>,
    waiting: WaitingCalls,
    /// Limits the retries of the client's calls.
    budget: Cell<RetryBudget>,
    closed: Cell<bool>,
    /// A reusable list of the connections that did not take the current call.
    avoided: Cell<Vec<ConnectionId>>,
}

/// The reason why a call was not sent.
pub(super) enum NotSent {
    /// The call is in the queue now and will be woken.
    Waits(WaiterKey),
    Failed(Status),
}

/// The reason why no connection took a call.
enum Refused {
    /// The call has to wait.
    NoRoom(Awaited),
    /// The call's metadata is longer than this server accepts, and no other has room.
    TooLarge(ServerAddress),
}

impl Pool {
    /// `phase` is where the pool begins with its servers, in parts of 2⁶⁴.
    pub(super) fn start(
        config: Arc<ClientConfig>,
        list: &HostList,
        clock: Clock,
        pending: PendingTable,
        phase: u64,
    ) -> Rc<Self> {
        let interceptors = config.interceptors.iter().map(|make| make()).collect();
        let context = PoolContext::new(config, clock, phase);
        let pool = Rc::new(Self {
            endpoints: Endpoints::new(Rc::clone(&context)),
            context,
            interceptors,
            pending,
            next_connection: Cell::new(0),
            waiting: WaitingCalls::new(),
            budget: Cell::default(),
            closed: Cell::new(false),
            avoided: Cell::default(),
        });
        pool.set_hosts(list);
        runtime::spawn_named("rpc client pool", run_pool(Rc::clone(&pool)));
        pool
    }

    #[inline]
    pub(super) fn context(&self) -> &PoolContext {
        &self.context
    }

    pub(super) fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    pub(super) fn waiting(&self) -> &WaitingCalls {
        &self.waiting
    }

    /// The interceptors, outermost first.
    pub(super) fn interceptors(&self) -> Rc<[ClientInterceptor]> {
        Rc::clone(&self.interceptors)
    }

    /// Replaces the pool's hosts by those of the list.
    pub(super) fn set_hosts(self: &Rc<Self>, list: &HostList) {
        self.endpoints.set(list);
        self.note_opening(runtime::now());
        if self.waiting.has_queued() {
            let now = runtime::now();
            self.endpoints.for_each(|endpoint| self.fill(endpoint, now));
        }
        self.wake_waiters(None);
    }

    /// Closes the pool: calls in flight may finish, and waiting calls fail.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.endpoints.close();
        // Waiting calls cannot reach the pool any more to leave its queue.
        self.waiting.end_all();
    }

    /// Whether the client was dropped.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Sends a call through `open` on the connection that is picked for it, or puts it into the queue.
    ///
    /// `waiter` is the call's key if it has waited before; a call that was sent leaves the queue.
    pub(super) fn send<T>(
        self: &Rc<Self>,
        args: &PickArgs,
        waiter: Option<WaiterKey>,
        waker: &Waker,
        open: impl FnMut(&Rc<ClientConnection>) -> Result<T, OpenError>,
    ) -> Result<T, NotSent> {
        let mut awaited = Awaited::Room;
        let is_late = args.is_late();
        if waiter.is_none() && is_late {
            let why = "the deadline had passed before the call was sent";
            return Err(NotSent::Failed(Status::deadline_exceeded(why).not_executed()));
        }
        if let Some(waited) = waiter.and_then(|waiter| self.waiting.has_shed(waiter)) {
            self.stop_waiting(waiter);
            return Err(NotSent::Failed(self.overloaded(waited)));
        }
        // A call whose turn comes too late is not sent any more.
        if self.waiting.may_send(waiter, || self.capacity()) && !is_late {
            match self.offer_connections(args, open) {
                Ok(sent) => {
                    if let Some(waiter) = waiter {
                        self.waiting.serve(waiter);
                        self.offer_room();
                    }
                    return Ok(sent);
                }
                Err(Refused::TooLarge(address)) => {
                    self.stop_waiting(waiter);
                    let why = format!("the metadata is longer than {address} takes");
                    let status = Status::resource_exhausted(why).not_executed();
                    return Err(NotSent::Failed(status));
                }
                Err(Refused::NoRoom(what)) => awaited = what,
            }
        }
        match self.unavailable_reason(args) {
            Some(status) => {
                self.stop_waiting(waiter);
                Err(NotSent::Failed(status))
            }
            None => Err(self.wait(args, waiter, awaited, waker)),
        }
    }

    /// Offers a call to the connections one after another, at most once to each.
    #[inline]
    fn offer_connections<T>(
        self: &Rc<Self>,
        args: &PickArgs,
        mut open: impl FnMut(&Rc<ClientConnection>) -> Result<T, OpenError>,
    ) -> Result<T, Refused> {
        if self.closed.get() {
            return Err(Refused::NoRoom(Awaited::Room));
        }
        let mut avoided = self.avoided.take();
        avoided.clear();
        avoided.extend(args.avoid);
        let mut avoids = args.avoid.is_some();
        let mut too_large: Option<ServerAddress> = None;
        let mut offers_left = limits::TOO_LARGE_OFFERS;
        let outcome = loop {
            let waiting = self.waiting.queued();
            let fill = |lacks: &Rc<PoolEndpoint>| self.fill(lacks, self.instant(args));
            let picked = self.endpoints.pick(args, waiting, &avoided, fill);
            let connection = match picked {
                Picked::Connection(connection) => connection,
                // Only the connection to be avoided has room.
                Picked::None(Awaited::Room) if avoids && self.capacity() > 0 => {
                    if self.endpoints.are_coming() {
                        break Err(Refused::NoRoom(Awaited::AnyEndpoint));
                    }
                    avoided.retain(|id| Some(*id) != args.avoid);
                    avoids = false;
                    continue;
                }
                Picked::None(awaited) => {
                    let no_room = || Refused::NoRoom(awaited);
                    break Err(too_large.map_or_else(no_room, Refused::TooLarge));
                }
            };
            match open(&connection) {
                Ok(sent) => {
                    if self.endpoints.is_shared(args) {
                        self.context.balancer.count_share(connection.endpoint());
                    }
                    break Ok(sent);
                }
                Err(OpenError::TooLarge) => {
                    offers_left -= 1;
                    if offers_left == 0 {
                        break Err(Refused::TooLarge(connection.address().clone()));
                    }
                    too_large = Some(connection.address().clone());
                }
                Err(_full_or_leaving) => {}
            }
            avoided.push(connection.id());
        };
        self.avoided.set(avoided);
        outcome
    }

    #[cold]
    fn wait(
        self: &Rc<Self>,
        args: &PickArgs,
        waiter: Option<WaiterKey>,
        awaited: Awaited,
        waker: &Waker,
    ) -> NotSent {
        if waiter.is_none() && self.waiting.is_full() {
            let (most, servers) = (limits::WAITING_CALLS_MAX, self.endpoints.servers());
            let why = format!("{most} calls wait for a connection to {servers} already");
            return NotSent::Failed(Status::resource_exhausted(why).not_executed());
        }
        let (now, until) = (self.instant(args), self.context.clock.deadline(args.until));
        let is_patient = args.waits_for_ready;
        let waker = waker.clone(); // code of a user, perhaps
        let wait = WaitArgs { waker, until, awaited, is_patient };
        let waiter = self.waiting.wait(waiter, wait, now);
        self.endpoints.for_each(|endpoint| {
            if !endpoint.has_room(&[]) {
                self.fill(endpoint, now);
            }
        });
        if self.endpoints.is_opening() {
            self.offer_room(); // its share may be at a server that is connected
        }
        NotSent::Waits(waiter)
    }

    /// The number of calls that all connections could take now.
    fn capacity(&self) -> usize {
        self.endpoints.capacity(self.waiting.queued())
    }

    /// Looks whether calls are still shared among servers that are being connected to.
    fn note_opening(&self, now: Instant) {
        let urgent = self.waiting.earliest_deadline();
        self.endpoints.note_opening(now, urgent, self.waiting.queued());
    }

    /// The failure of a call that was shed after it had `waited`.
    #[cold]
    fn overloaded(&self, waited: Duration) -> Status {
        let servers = self.endpoints.servers();
        let why = format!(
            "{servers} is overloaded: more calls are made than it has said to take, and this one waited {waited:.0?} in the \
             client. Make fewer, or make it again after a pause"
        );
        Status::resource_exhausted(why).not_executed()
    }

    fn instant(&self, args: &PickArgs) -> Instant {
        self.context.clock.instant(args.now)
    }

    /// Opens the connections that an endpoint lacks, unless it has to wait after a failure.
    fn fill(self: &Rc<Self>, endpoint: &Rc<PoolEndpoint>, now: Instant) {
        for _ in 0..endpoint.missing(now) {
            endpoint.connecting(1);
            let id = ConnectionId(self.next_connection.get());
            self.next_connection.set(id.0.wrapping_add(1));
            let (endpoint, pending) = (Rc::clone(endpoint), Rc::clone(&self.pending));
            let listener = Rc::clone(self) as Rc<dyn ConnectionListener>;
            runtime::spawn_named("rpc connection", connect(id, endpoint, listener, pending));
        }
    }

    /// The reason why a call cannot wait for a connection, if there is one.
    #[cold]
    fn unavailable_reason(&self, args: &PickArgs) -> Option<Status> {
        if self.closed.get() {
            let why = "the client was dropped before its call was sent";
            return Some(Status::cancelled(why).not_executed());
        }
        if args.is_late() && self.endpoints.is_empty() {
            let why = self.context.config.resolver.as_ref().map(|resolver| resolver.why_empty());
            return Some(Status::deadline_exceeded(why.unwrap_or_default()).not_executed());
        }
        if args.is_late() {
            let why = match self.endpoints.last_failure(self.instant(args)) {
                Some(failure) => format!("no connection before the deadline: {failure}"),
                None => self.endpoints.why_late(),
            };
            return Some(Status::deadline_exceeded(why).not_executed());
        }
        if args.waits_for_ready || self.endpoints.is_hopeful() {
            return None;
        }
        let why = self.endpoints.last_failure(self.instant(args));
        let why = why.unwrap_or_else(|| format!("no connection to {}", self.endpoints.servers()));
        Some(Status::unavailable(why).not_executed())
    }

    /// Counts a new call, which earns a part of a retry.
    #[inline]
    pub(super) fn earn_retry(&self) {
        let mut budget = self.budget.get();
        budget.earn();
        self.budget.set(budget);
    }

    /// Takes a retry from the budget; false if none is left.
    pub(super) fn affords(&self, method: &'static Method) -> bool {
        let mut budget = self.budget.get();
        let affordable = budget.spend();
        self.budget.set(budget);
        if !affordable {
            self.context.metrics.over_budget(method);
        }
        affordable
    }

    /// Removes a call from the queue that was not sent.
    pub(super) fn stop_waiting(&self, waiter: Option<WaiterKey>) {
        if let Some(waiter) = waiter {
            self.waiting.give_up(waiter);
            self.offer_room();
        }
    }

    fn offer_room(&self) {
        if self.endpoints.is_opening() {
            self.note_opening(runtime::now());
        }
        if self.waiting.has_queued() {
            self.waiting.offer_room(self.capacity(), self.endpoints.are_leased());
        }
    }

    /// Wakes the calls that wait for this endpoint (or for any, with `None`), and those that have room
    /// now.
    fn wake_waiters(&self, endpoint: Option<EndpointId>) {
        self.waiting.wake_owned(endpoint);
        self.offer_room();
        self.waiting.pool_task().wake();
    }

    /// Wakes calls at their deadlines and reconnects endpoints that may be tried again. Returns when to
    /// run again.
    fn handle_timeout(self: &Rc<Self>, now: Instant) -> Option<Instant> {
        self.waiting.expire(now);
        self.note_opening(now);
        let mut next = self.endpoints.opening_until();
        self.endpoints.for_each(|endpoint| {
            // An endpoint that nobody needs now is connected by the next call that picks it.
            if !self.closed.get() && (endpoint.is_in_use() || self.waiting.has_queued()) {
                self.fill(endpoint, now);
                next = next.into_iter().chain(endpoint.retry_at(now)).min();
            }
        });
        if self.waiting.has_queued() && !self.endpoints.is_hopeful() {
            self.waiting.dismiss();
        }
        self.offer_room();
        next.into_iter().chain(self.waiting.next_timeout()).min()
    }
}

impl ConnectionListener for Pool {
    fn after_round(&self, is_open: bool) {
        if self.waiting.has_queued() {
            if !is_open {
                self.waiting.pool_task().wake(); // waiting calls need another connection
            }
            self.offer_room();
        }
    }

    fn changed(&self, endpoint: EndpointId) {
        self.note_opening(runtime::now());
        self.wake_waiters(Some(endpoint));
    }
}

/// The pool's task: wakes calls at their deadlines, and reconnects endpoints.
async fn run_pool(pool: Rc<Pool>) {
    let mut timer = pin!(runtime::sleep(Duration::ZERO));
    poll_fn(|cx| {
        // Tasks that are woken below may wake this one again.
        let pool_task = pool.waiting.pool_task();
        pool_task.begin_turn(cx.waker());
        pool_task.end_turn();
        if pool.closed.get() && !pool.waiting.needs_pool_task() {
            return Poll::Ready(());
        }
        if let Some(next) = pool.handle_timeout(runtime::now()) {
            timer.as_mut().get_mut().reset(next);
            if timer.as_mut().poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
        Poll::Pending
    })
    .await;
}
