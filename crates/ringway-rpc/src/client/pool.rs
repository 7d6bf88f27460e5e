//! The connections of one client on one core, and the calls that wait for them.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use ringway_net::Address;
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
use super::task_waker::TaskWaker;
use super::timers::Timers;
use super::wait_queue::{WaitArgs, WaitQueue, WaiterKey};
use crate::call::method::Method;
use crate::call::status::Status;
use crate::connection::driver::Clock;
use crate::limits;
use crate::policy::RetryBudget;
use crate::slab::SlabKey;
use crate::waiters;

pub(super) struct Pool {
    context: Rc<PoolContext>,
    endpoints: Endpoints,
    interceptors: Rc<[ClientInterceptor]>,
    pending: PendingTable,
    next_connection: Cell<u32>,
    queue: RefCell<WaitQueue>,
    /// As the queue says, for those who only ask whether anybody waits.
    queued: Cell<QueueCounts>,
    timers: RefCell<Timers>,
    /// Pays for further attempts of its calls.
    budget: Cell<RetryBudget>,
    keeper: TaskWaker,
    closed: Cell<bool>,
    /// Memory for the connections that a call has asked in vain.
    avoided: Cell<Vec<ConnectionId>>,
}

/// Calls in the queue.
#[derive(Clone, Copy, Default)]
struct QueueCounts {
    waiting: usize,
    /// They were told to go on and have not done so yet.
    called: usize,
}

/// Why a call was not sent.
pub(super) enum NotSent {
    /// It is in the queue now, and is woken.
    Waits(WaiterKey),
    Failed(Status),
}

/// Why no connection took a call.
enum Refused {
    NoRoom,
    /// Its endpoint is being connected to.
    OwnerComes(EndpointId),
    /// Its metadata is longer than this server takes.
    TooLarge(Address),
}

impl Pool {
    pub(super) fn start(
        config: Arc<ClientConfig>,
        list: &HostList,
        clock: Clock,
        pending: PendingTable,
    ) -> Rc<Self> {
        let interceptors = config.interceptors.iter().map(|make| make()).collect();
        let context = PoolContext::new(config, clock);
        let pool = Rc::new(Self {
            endpoints: Endpoints::new(Rc::clone(&context)),
            context,
            interceptors,
            pending,
            next_connection: Cell::new(0),
            queue: RefCell::default(),
            queued: Cell::default(),
            timers: RefCell::default(),
            budget: Cell::default(),
            keeper: TaskWaker::new(),
            closed: Cell::new(false),
            avoided: Cell::default(),
        });
        pool.set_hosts(list);
        runtime::spawn_named("rpc client pool", keep(Rc::clone(&pool)));
        pool
    }

    #[inline]
    pub(super) fn context(&self) -> &PoolContext {
        &self.context
    }

    pub(super) fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// The outermost first.
    pub(super) fn interceptors(&self) -> Rc<[ClientInterceptor]> {
        Rc::clone(&self.interceptors)
    }

    /// Takes the hosts of the list in place of those that it had.
    pub(super) fn set_hosts(self: &Rc<Self>, list: &HostList) {
        self.endpoints.set(list);
        if self.has_waiting() {
            let now = runtime::now();
            self.endpoints.for_each(|endpoint| self.fill(endpoint, now));
        }
        self.wake_waiters(None);
    }

    /// No more calls: what is under way is finished, what waits fails.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.endpoints.close();
        // Whoever waits does not find the pool any more, to leave a queue of it.
        let mut woken = Vec::new();
        self.timers.borrow_mut().end_all(&mut woken);
        self.with_queue(|queue| queue.dissolve(&mut woken));
        waiters::wake_all(woken);
        self.keeper.wake();
    }

    /// Whether the client is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Has `open` send a call on the connection it is to go to, or has it wait in the queue.
    ///
    /// `waiter` is the call's key if it has waited before; it leaves the queue when it was sent.
    pub(super) fn send<T>(
        self: &Rc<Self>,
        args: &PickArgs,
        waiter: Option<WaiterKey>,
        waker: &Waker,
        open: impl FnMut(&Rc<ClientConnection>) -> Result<T, OpenError>,
    ) -> Result<T, NotSent> {
        let mut owner = None;
        // Whoever comes to its turn too late is not sent any more.
        let is_late = waiter.is_some() && args.is_late();
        if self.may_send(waiter) && !is_late {
            match self.offer_connections(args, open) {
                Ok(sent) => {
                    if let Some(waiter) = waiter {
                        let now = runtime::now();
                        self.leave_queue(|queue| queue.serve(waiter, now));
                    }
                    return Ok(sent);
                }
                Err(Refused::TooLarge(address)) => {
                    self.stop_waiting(waiter);
                    let why = format!("the metadata is longer than {address} takes");
                    let status = Status::resource_exhausted(why).not_executed();
                    return Err(NotSent::Failed(status));
                }
                Err(Refused::OwnerComes(endpoint)) => owner = Some(endpoint),
                Err(Refused::NoRoom) => {}
            }
        }
        match self.unavailable_reason(args) {
            Some(status) => {
                self.stop_waiting(waiter);
                Err(NotSent::Failed(status))
            }
            None => Err(self.wait(args, waiter, owner, waker)),
        }
    }

    /// Offers a call to one connection after the other, to each of them once.
    #[inline]
    fn offer_connections<T>(
        self: &Rc<Self>,
        args: &PickArgs,
        mut open: impl FnMut(&Rc<ClientConnection>) -> Result<T, OpenError>,
    ) -> Result<T, Refused> {
        if self.closed.get() {
            return Err(Refused::NoRoom);
        }
        let mut avoided = self.avoided.take();
        avoided.clear();
        avoided.extend(args.avoid);
        let outcome = loop {
            let picked = self.endpoints.pick(args, &avoided, |lacks| self.fill(lacks, args.now));
            let connection = match picked {
                Picked::Connection(connection) => connection,
                Picked::OwnerComes(endpoint) => break Err(Refused::OwnerComes(endpoint)),
                Picked::None => break Err(Refused::NoRoom),
            };
            match open(&connection) {
                Ok(sent) => break Ok(sent),
                Err(OpenError::TooLarge) => {
                    break Err(Refused::TooLarge(connection.address().clone()));
                }
                Err(_full_or_leaving) => avoided.push(connection.id()),
            }
        };
        self.avoided.set(avoided);
        outcome
    }

    #[cold]
    fn wait(
        self: &Rc<Self>,
        args: &PickArgs,
        waiter: Option<WaiterKey>,
        owner: Option<EndpointId>,
        waker: &Waker,
    ) -> NotSent {
        if waiter.is_none() && self.queue.borrow().is_full() {
            let (most, servers) = (limits::WAITING_CALLS_MAX, self.endpoints.servers());
            let why = format!("{most} calls wait for a connection to {servers} already");
            return NotSent::Failed(Status::resource_exhausted(why).not_executed());
        }
        let PickArgs { now, deadline: until, waits_for_ready: is_patient, .. } = *args;
        let wait = WaitArgs { waker, until, owner, is_patient };
        let (waiter, former) = self.with_queue(|queue| queue.wait(waiter, wait, now));
        waiters::discard(former);
        self.endpoints.for_each(|endpoint| {
            if !endpoint.has_room(&[]) {
                self.fill(endpoint, now);
            }
        });
        self.keeper.wake();
        NotSent::Waits(waiter)
    }

    /// Whether a call may be sent before those who wait: their turn is first.
    #[inline]
    fn may_send(&self, waiter: Option<WaiterKey>) -> bool {
        let QueueCounts { waiting, called } = self.queued.get();
        match waiter {
            _ if waiting == 0 && called == 0 => true,
            Some(waiter) => waiting == 0 || self.queue.borrow().may_go(waiter),
            None => waiting == 0 && self.endpoints.capacity() > called,
        }
    }

    /// Opens the connections that an endpoint lacks, if it may be tried now.
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

    /// Why a call has nothing to wait for, if so.
    #[cold]
    fn unavailable_reason(&self, args: &PickArgs) -> Option<Status> {
        if self.closed.get() {
            let why = "the client was dropped before its call was sent";
            return Some(Status::cancelled(why).not_executed());
        }
        if args.is_late() {
            let why = match self.endpoints.last_failure(args.now) {
                Some(failure) => format!("no connection before the deadline: {failure}"),
                None => {
                    let servers = self.endpoints.servers();
                    format!("no connection to {servers} had room before the deadline")
                }
            };
            return Some(Status::deadline_exceeded(why).not_executed());
        }
        if args.waits_for_ready || self.endpoints.is_hopeful() {
            return None;
        }
        let why = self.endpoints.last_failure(args.now);
        let why = why.unwrap_or_else(|| format!("no connection to {}", self.endpoints.servers()));
        Some(Status::unavailable(why).not_executed())
    }

    /// Has `waker` woken at `until`, by the same timer again if there is one.
    pub(super) fn set_timer(
        &self,
        timer: Option<SlabKey>,
        waker: &Waker,
        until: Instant,
    ) -> SlabKey {
        let (timer, former) = self.timers.borrow_mut().set(timer, waker, until);
        waiters::discard(former);
        self.keeper.wake();
        timer
    }

    pub(super) fn clear_timer(&self, timer: SlabKey) {
        let left = self.timers.borrow_mut().clear(timer);
        waiters::discard(left);
    }

    /// A call is made for the first time.
    #[inline]
    pub(super) fn earn_retry(&self) {
        let mut budget = self.budget.get();
        budget.earn();
        self.budget.set(budget);
    }

    /// Whether a further attempt of a call may be made; it is paid for then.
    pub(super) fn affords(&self, method: &'static Method) -> bool {
        let mut budget = self.budget.get();
        let affordable = budget.spend();
        self.budget.set(budget);
        if !affordable {
            self.context.metrics.over_budget(method);
        }
        affordable
    }

    /// Leaves the queue without having been sent.
    pub(super) fn stop_waiting(&self, waiter: Option<WaiterKey>) {
        if let Some(waiter) = waiter {
            self.leave_queue(|queue| queue.give_up(waiter));
        }
    }

    fn leave_queue(&self, leave: impl FnOnce(&mut WaitQueue) -> Option<Waker>) {
        let left = self.with_queue(leave);
        waiters::discard(left);
        self.offer_room();
    }

    /// Whether calls wait for room.
    #[inline]
    fn has_waiting(&self) -> bool {
        self.queued.get().waiting > 0
    }

    fn with_queue<R>(&self, f: impl FnOnce(&mut WaitQueue) -> R) -> R {
        let mut queue = self.queue.borrow_mut();
        let result = f(&mut queue);
        self.queued.set(QueueCounts { waiting: queue.waiting(), called: queue.called() });
        result
    }

    /// Whether nobody waits for anything.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.queue.borrow().is_empty() && self.timers.borrow().is_empty()
    }

    /// Tells as many waiting calls to go on as there is room for.
    fn offer_room(&self) {
        if !self.has_waiting() {
            return;
        }
        let mut room = self.endpoints.capacity().saturating_sub(self.queued.get().called);
        if room > 0 && self.queue.borrow().overdue().is_none() {
            self.keeper.wake(); // to see whether they go on
        }
        let now = runtime::now();
        while room > 0 {
            let Some(waker) = self.with_queue(|queue| queue.call_next(now)) else {
                return;
            };
            waiters::wake(waker);
            room -= 1;
        }
    }

    /// Wakes those who wait for the endpoint, or for any, and those for whom there is room.
    fn wake_waiters(&self, endpoint: Option<EndpointId>) {
        let mut woken = Vec::new();
        self.queue.borrow().wake_owned(endpoint, &mut woken);
        waiters::wake_all(woken);
        self.offer_room();
        self.keeper.wake();
    }

    /// Wakes those whose time has come, and connects to endpoints whose time has; when to do so again.
    fn handle_timeout(self: &Rc<Self>, now: Instant) -> Option<Instant> {
        let mut woken = Vec::new();
        self.timers.borrow_mut().expire(now, &mut woken);
        self.with_queue(|queue| {
            queue.expire(now, &mut woken);
            queue.pass_over(now);
        });
        let mut next: Option<Instant> = None;
        self.endpoints.for_each(|endpoint| {
            // An endpoint that nobody needs now is connected to by the call that does.
            if !self.closed.get() && (endpoint.is_in_use() || self.has_waiting()) {
                self.fill(endpoint, now);
                next = next.into_iter().chain(endpoint.retry_at(now)).min();
            }
        });
        if self.has_waiting() && !self.endpoints.is_hopeful() {
            self.with_queue(|queue| queue.dismiss(&mut woken));
        }
        waiters::wake_all(woken);
        self.offer_room();
        let (queue, timers) = (self.queue.borrow(), self.timers.borrow());
        let queued = queue.earliest().into_iter().chain(queue.overdue());
        next.into_iter().chain(queued).chain(timers.earliest()).min()
    }
}

impl ConnectionListener for Pool {
    fn after_round(&self, is_open: bool) {
        if self.has_waiting() {
            if !is_open {
                self.keeper.wake(); // they need another connection
            }
            self.offer_room();
        }
    }

    fn changed(&self, endpoint: EndpointId) {
        self.wake_waiters(Some(endpoint));
    }
}

/// The pool's own task: wakes calls at their deadlines, and when an endpoint may be tried again.
async fn keep(pool: Rc<Pool>) {
    let mut timer = pin!(runtime::sleep(Duration::ZERO));
    poll_fn(|cx| {
        // Whoever is woken here may want it to look again.
        pool.keeper.begin_turn(cx.waker());
        pool.keeper.end_turn();
        let is_awaited = || pool.has_waiting() || pool.timers.borrow().earliest().is_some();
        if pool.closed.get() && !is_awaited() {
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
