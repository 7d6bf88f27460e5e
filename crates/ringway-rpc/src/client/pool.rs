//! The connections of one client on one core, and the calls that wait for room on them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use ringway_net::Address;
use ringway_runtime as runtime;
use ringway_wire::native::OpenError;

use super::attempt::connect;
use super::config::ClientConfig;
use super::hosts::{HostList, ListedHost};
use super::interceptor::ClientInterceptor;
use super::line::{Line, Ticket, Wait};
use super::link::Link;
use super::local_clients::{self, LinkKey};
use super::pool_host::PoolHost;
use super::spread::HostId;
use super::tally::Tally;
use crate::call::method::Method;
use crate::call::status::Status;
use crate::limits;
use crate::policy::RetryBudget;
use crate::waiters;

pub(super) struct Pool {
    pub(super) config: Arc<ClientConfig>,
    /// Those of the list; the spread has them in the same order.
    hosts: RefCell<Vec<Rc<PoolHost>>>,
    pub(super) tally: Rc<Tally>,
    interceptors: Rc<[ClientInterceptor]>,
    /// Calls that wait for room.
    line: RefCell<Line>,
    /// Calls that wait for a moment: between two attempts, or before a hedge.
    naps: RefCell<Line>,
    /// What further attempts of its calls are paid from.
    budget: RefCell<RetryBudget>,
    keeper: RefCell<Waker>,
    closed: Cell<bool>,
}

/// What a call asks for.
#[derive(Clone, Copy)]
pub(super) struct Demand {
    pub(super) now: Instant,
    pub(super) deadline: Option<Instant>,
    pub(super) waits_for_ready: bool,
    /// A connection that has just refused the call.
    pub(super) avoid: Option<LinkKey>,
    /// What a consistent hash goes by.
    pub(super) key: Option<u64>,
    /// A host that had an attempt of the call; another one is better.
    pub(super) tried: Option<HostId>,
}

impl Demand {
    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= self.now)
    }
}

/// Where the next call is to go.
enum Choice {
    Link(Rc<Link>),
    /// To a host that is being connected to.
    OwnerComes(HostId),
    None,
}

/// Why a call was not sent.
pub(super) enum NotSent {
    /// It has a place in the line now, and is woken.
    Waits(Ticket),
    Failed(Status),
}

impl Pool {
    pub(super) fn start(config: Arc<ClientConfig>, list: &HostList) -> Rc<Self> {
        let tally = Tally::new(&config);
        let interceptors = config.interceptors.iter().map(|make| make()).collect();
        let pool = Rc::new(Self {
            config,
            hosts: RefCell::default(),
            tally,
            interceptors,
            line: RefCell::default(),
            naps: RefCell::default(),
            budget: RefCell::default(),
            keeper: RefCell::new(Waker::noop().clone()),
            closed: Cell::new(false),
        });
        pool.set_hosts(list);
        runtime::spawn_named("rpc client pool", keep(Rc::clone(&pool)));
        pool
    }

    /// Takes the hosts of the list in place of those that it had. Those that leave finish their
    /// calls; those that stay notice nothing.
    pub(super) fn set_hosts(self: &Rc<Self>, list: &HostList) {
        let at = runtime::now();
        let now = local_clients::with(|local| local.since_origin(at));
        let mut former: HashMap<_, _> = self.hosts.take().into_iter().map(by_address).collect();
        let stays_or_joins = |listed: &ListedHost| {
            let stays = former.remove(&listed.address);
            stays.unwrap_or_else(|| PoolHost::new(listed, &self.config, now))
        };
        let hosts: Vec<_> = list.iter().map(stays_or_joins).collect();
        let weighted = hosts.iter().zip(&**list).map(|(host, listed)| (&**host, listed.weight));
        self.tally.set_hosts(&self.config, weighted, now);
        self.hosts.replace(hosts);
        former.values().for_each(|host| host.close());
        if self.has_waiting() {
            self.hosts.borrow().iter().for_each(|host| self.fill(host, at));
        }
        self.changed(None);
    }

    /// No more calls: what is under way is finished, what waits fails.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.hosts.borrow().iter().for_each(|host| host.close());
        // Whoever waits does not find the pool any more, to leave a line of it.
        let mut woken = Vec::new();
        self.naps.borrow_mut().dissolve(&mut woken);
        self.line.borrow_mut().dissolve(&mut woken);
        waiters::wake_all(woken);
        self.stir();
    }

    /// Has `open` send a call on the connection it is to go to, or finds a place in the line.
    ///
    /// `place` is where the call waited before; it leaves that when it was sent.
    pub(super) fn send<T>(
        self: &Rc<Self>,
        demand: &Demand,
        place: Option<Ticket>,
        waker: &Waker,
        mut open: impl FnMut(&Rc<Link>) -> Result<T, OpenError>,
    ) -> Result<T, NotSent> {
        let mut owner = None;
        // Whoever comes to its turn too late is not sent any more.
        let is_late = place.is_some() && demand.is_late();
        if self.is_ones_turn(place) && !is_late {
            // No connection is asked twice, whatever it says of its room.
            let mut avoided = Vec::from_iter(demand.avoid);
            loop {
                let link = match self.choose(demand, &avoided) {
                    Choice::Link(link) => link,
                    Choice::OwnerComes(host) => {
                        owner = Some(host);
                        break;
                    }
                    Choice::None => break,
                };
                match open(&link) {
                    Ok(sent) => {
                        self.leave(place);
                        return Ok(sent);
                    }
                    Err(OpenError::Full | OpenError::Leased) => avoided.push(link.key),
                    Err(OpenError::TooLarge) => {
                        self.leave(place);
                        let address = link.host.address();
                        let why = format!("the metadata is longer than {address} takes");
                        let status = Status::resource_exhausted(why).not_executed();
                        return Err(NotSent::Failed(status));
                    }
                    Err(_) => {
                        avoided.push(link.key);
                        link.close();
                    }
                }
            }
        }
        match self.why_not(demand) {
            Some(status) => {
                self.leave(place);
                Err(NotSent::Failed(status))
            }
            None => Err(self.wait(demand, place, owner, waker)),
        }
    }

    fn wait(
        self: &Rc<Self>,
        demand: &Demand,
        place: Option<Ticket>,
        owner: Option<HostId>,
        waker: &Waker,
    ) -> NotSent {
        let mut line = self.line.borrow_mut();
        if place.is_none() && line.is_full() {
            let (most, servers) = (limits::WAITING_CALLS_MAX, self.servers());
            let why = format!("{most} calls wait for a connection to {servers} already");
            return NotSent::Failed(Status::resource_exhausted(why).not_executed());
        }
        let Demand { now, deadline: until, waits_for_ready: is_patient, .. } = *demand;
        let (ticket, former) = line.wait(place, Wait { waker, until, owner, is_patient }, now);
        drop(line);
        waiters::discard(former);
        for host in &*self.hosts.borrow() {
            if host.best(&[]).is_none() {
                self.fill(host, demand.now);
            }
        }
        self.stir();
        NotSent::Waits(ticket)
    }

    /// Whether a call may be sent before those who wait: their turn is first.
    #[inline]
    fn is_ones_turn(&self, place: Option<Ticket>) -> bool {
        let line = self.line.borrow();
        if line.waiting() == 0 && line.called() == 0 {
            return true;
        }
        match place {
            Some(ticket) => line.may_go(ticket) || line.waiting() == 0,
            None => line.waiting() == 0 && self.capacity() > line.called(),
        }
    }

    /// The connection for the next call. Hosts without enough connections get them meanwhile.
    #[inline]
    fn choose(self: &Rc<Self>, demand: &Demand, avoided: &[LinkKey]) -> Choice {
        if self.closed.get() {
            return Choice::None;
        }
        let hosts = self.hosts.borrow();
        let Some(spread) = self.tally.spread() else {
            let host = &hosts[0];
            let best = host.best(avoided);
            if best.is_none() {
                self.fill(host, demand.now);
            }
            return best.map_or(Choice::None, Choice::Link);
        };
        for host in &*hosts {
            if host.best(&[]).is_none() {
                self.fill(host, demand.now);
            }
        }
        let now = local_clients::with(|local| local.since_origin(demand.now));
        let mut spread = spread.borrow_mut();
        // The owner of a key is waited for while it is connected to for the first time, or again.
        let waits = demand.key.is_some() && spread.has_owners();
        let usable = |host: usize| {
            let host = &hosts[host];
            host.best(avoided).is_some() || waits && host.is_coming()
        };
        match spread.pick(now, demand.key, demand.tried, usable) {
            Some(host) => {
                let host = &hosts[host];
                host.best(avoided).map_or(Choice::OwnerComes(host.id()), Choice::Link)
            }
            None => Choice::None,
        }
    }

    /// Opens the connections that a host lacks, if it may be tried now.
    fn fill(self: &Rc<Self>, host: &Rc<PoolHost>, now: Instant) {
        for _ in 0..host.missing(now) {
            host.connecting(1);
            runtime::spawn_named("rpc connection", connect(Rc::clone(self), Rc::clone(host)));
        }
    }

    /// Why a call has nothing to wait for, if so.
    fn why_not(&self, demand: &Demand) -> Option<Status> {
        if self.closed.get() {
            let why = "the client was dropped before its call was sent";
            return Some(Status::cancelled(why).not_executed());
        }
        if demand.is_late() {
            let why = match self.last_failure(demand.now) {
                Some(failure) => format!("no connection before the deadline: {failure}"),
                None => {
                    let servers = self.servers();
                    format!("no connection to {servers} had room before the deadline")
                }
            };
            return Some(Status::deadline_exceeded(why).not_executed());
        }
        if demand.waits_for_ready || self.is_hopeful() {
            return None;
        }
        let why = self.last_failure(demand.now);
        let why = why.unwrap_or_else(|| format!("no connection to {}", self.servers()));
        Some(Status::unavailable(why).not_executed())
    }

    /// Whether there is a connection, or may be one soon.
    fn is_hopeful(&self) -> bool {
        self.hosts.borrow().iter().any(|host| host.is_hopeful())
    }

    /// Where calls go, for people.
    fn servers(&self) -> String {
        match &**self.hosts.borrow() {
            [host] => host.address().to_string(),
            hosts => format!("any of {} servers", hosts.len()),
        }
    }

    fn last_failure(&self, now: Instant) -> Option<String> {
        self.hosts
            .borrow()
            .iter()
            .filter(|host| !host.is_in_use())
            .map(|host| host.last_failure(now))
            .find(|failure| !failure.is_empty())
    }

    /// Whether another connection than this one has room, or this one takes no calls any more.
    pub(super) fn has_other(&self, key: LinkKey) -> bool {
        local_clients::with(|local| local.is_leaving(key))
            || self.hosts.borrow().iter().any(|host| host.best(&[key]).is_some())
    }

    /// Whether a second attempt may be made beside one that is under way, and which connection it is not
    /// to go over: it goes to another host where there are several, and must find one now.
    pub(super) fn beside(&self, host: HostId, link: LinkKey) -> Option<Option<LinkKey>> {
        match &**self.hosts.borrow() {
            [only] => Some(only.best(&[link]).map(|_| link)),
            several => {
                let is_other = |other: &&Rc<PoolHost>| other.id() != host;
                let found = several.iter().filter(is_other).any(|other| other.capacity() > 0);
                found.then_some(None)
            }
        }
    }

    /// Has `waker` woken at `until`.
    pub(super) fn nap(&self, place: Option<Ticket>, waker: &Waker, until: Instant) -> Ticket {
        let now = runtime::now();
        let wait = Wait { waker, until: Some(until), owner: None, is_patient: true };
        let (place, former) = self.naps.borrow_mut().wait(place, wait, now);
        waiters::discard(former);
        self.stir();
        place
    }

    pub(super) fn end_nap(&self, place: Ticket) {
        let left = self.naps.borrow_mut().leave(place, runtime::now());
        waiters::discard(left);
    }

    /// A call is made for the first time.
    #[inline]
    pub(super) fn earn_retry(&self) {
        self.budget.borrow_mut().earn();
    }

    /// Whether a further attempt of a call may be made; it is paid for then.
    pub(super) fn affords(&self, method: &'static Method) -> bool {
        let affordable = self.budget.borrow_mut().spend();
        if !affordable {
            self.tally.over_budget(method);
        }
        affordable
    }

    /// The outermost first.
    pub(super) fn interceptors(&self) -> Rc<[ClientInterceptor]> {
        Rc::clone(&self.interceptors)
    }

    /// Whether the client is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Leaves the line.
    pub(super) fn leave(&self, place: Option<Ticket>) {
        let Some(ticket) = place else {
            return;
        };
        let left = self.line.borrow_mut().leave(ticket, runtime::now());
        waiters::discard(left);
        if self.has_waiting() {
            self.offer();
        }
    }

    /// Whether calls wait for room.
    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        self.line.borrow().waiting() > 0
    }

    /// Whether nobody waits for anything.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.line.borrow().is_empty() && self.naps.borrow().is_empty()
    }

    /// Tells as many waiting calls to go on as there is room for.
    pub(super) fn offer(&self) {
        let (called, overdue) = {
            let line = self.line.borrow();
            (line.called(), line.overdue())
        };
        let mut room = self.capacity().saturating_sub(called);
        if room > 0 && overdue.is_none() {
            self.stir(); // to see whether they go on
        }
        let now = runtime::now();
        while room > 0 {
            let next = self.line.borrow_mut().call_next(now);
            let Some(waker) = next else {
                return;
            };
            waiters::wake(waker);
            room -= 1;
        }
    }

    /// An attempt to connect to the host is over, or a connection; without a host, the list of them has
    /// changed. Whoever waits and can go on now is woken.
    pub(super) fn changed(&self, host: Option<HostId>) {
        let mut woken = Vec::new();
        self.line.borrow().tell_owned(host, &mut woken);
        waiters::wake_all(woken);
        if self.has_waiting() {
            self.offer();
        }
        self.stir();
    }

    /// Connecting to the host has failed.
    pub(super) fn unreachable(&self, host: &PoolHost) {
        let now = local_clients::try_with(|local| local.since_origin(runtime::now()));
        self.tally.host_unreachable(host.id(), now.unwrap_or_default());
    }

    fn capacity(&self) -> usize {
        self.hosts.borrow().iter().map(|host| host.capacity()).sum()
    }

    /// Has the keeper look at the time again, and at what is missing.
    pub(super) fn stir(&self) {
        self.keeper.borrow().wake_by_ref();
    }

    /// Wakes those whose time has come, and connects to hosts whose time has; when to do so again.
    fn on_time(self: &Rc<Self>, now: Instant) -> Option<Instant> {
        let mut woken = Vec::new();
        for line in [&self.line, &self.naps] {
            line.borrow_mut().expire(now, &mut woken);
        }
        self.line.borrow_mut().pass_over(now);
        let mut next: Option<Instant> = None;
        for host in &*self.hosts.borrow() {
            // A host that nobody needs now is connected to by the call that does.
            if !self.closed.get() && (host.is_in_use() || self.has_waiting()) {
                self.fill(host, now);
                next = next.into_iter().chain(host.retry_at(now)).min();
            }
        }
        if self.has_waiting() && !self.is_hopeful() {
            self.line.borrow_mut().dismiss(&mut woken);
        }
        waiters::wake_all(woken);
        if self.has_waiting() {
            self.offer();
        }
        let (line, naps) = (self.line.borrow(), self.naps.borrow());
        next.into_iter().chain(line.earliest()).chain(line.overdue()).chain(naps.earliest()).min()
    }
}

fn by_address(host: Rc<PoolHost>) -> (Address, Rc<PoolHost>) {
    (host.address().clone(), host)
}

/// The pool's own task: wakes calls at their deadlines, and when a host may be tried again.
async fn keep(pool: Rc<Pool>) {
    let mut timer = pin!(runtime::sleep(Duration::ZERO));
    poll_fn(|cx| {
        pool.keeper.borrow_mut().clone_from(cx.waker());
        let now = runtime::now();
        if pool.closed.get() && !pool.has_waiting() && pool.naps.borrow().waiting() == 0 {
            return Poll::Ready(());
        }
        if let Some(next) = pool.on_time(now) {
            timer.as_mut().get_mut().reset(next);
            if timer.as_mut().poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
        Poll::Pending
    })
    .await;
}
