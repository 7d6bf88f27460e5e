//! The endpoints of a pool, and the choice of one for a call.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::connection::{ClientConnection, ConnectionId};
use super::connection_state::NEVER;
use super::endpoint::PoolEndpoint;
use super::hosts::{HostList, ListedHost};
use super::load_balancer::{BalancedEndpoint, EndpointId};
use super::pool_context::PoolContext;
use super::server_address::ServerAddress;
use super::wait_queue::Awaited;
use crate::limits;
use crate::policy::balance::hash_of;

pub(super) struct Endpoints {
    context: Rc<PoolContext>,
    /// The endpoints in the same order as the balancer's. Before its resolver has found any, a client has none.
    list: RefCell<Vec<Rc<PoolEndpoint>>>,
    next: Cell<u32>,
    /// When calls stop waiting for endpoints that are still being connected to, while they do and one is.
    opening_until: Cell<Option<Instant>>,
}

/// The properties of a call that decide where it goes.
#[derive(Clone, Copy)]
pub(super) struct PickArgs {
    pub(super) now: Duration,
    /// The deadline, or `NEVER`.
    pub(super) until: Duration,
    pub(super) waits_for_ready: bool,
    /// The connection that has just refused the call.
    pub(super) avoid: Option<ConnectionId>,
    /// The key for consistent hashing.
    pub(super) key: Option<u64>,
    /// The endpoint of an earlier attempt of the call; another one is better.
    pub(super) tried: Option<EndpointId>,
}

impl PickArgs {
    pub(super) fn is_late(&self) -> bool {
        self.until <= self.now
    }

    /// The time that the call has left.
    #[inline]
    pub(super) fn timeout(&self) -> Option<Duration> {
        (self.until != NEVER).then(|| self.until.saturating_sub(self.now))
    }
}

/// The connection that was picked for a call, or what the call has to wait for.
pub(super) enum Picked {
    Connection(Rc<ClientConnection>),
    None(Awaited),
}

impl Endpoints {
    pub(super) fn new(context: Rc<PoolContext>) -> Self {
        let (list, next) = (RefCell::default(), Cell::new(0));
        Self { context, list, next, opening_until: Cell::new(None) }
    }

    /// Replaces the endpoints by those of the list. Those that leave finish their calls; those that stay
    /// are not affected.
    pub(super) fn set(&self, list: &HostList) {
        let mut former: HashMap<_, _> = self.list.take().into_iter().map(by_address).collect();
        let stays_or_joins = |listed: &ListedHost| {
            former.remove(&listed.address).unwrap_or_else(|| {
                let id = EndpointId(self.next.get());
                self.next.set(id.0 + 1);
                PoolEndpoint::new(id, listed, Rc::clone(&self.context))
            })
        };
        let endpoints: Vec<_> = list.iter().map(stays_or_joins).collect();
        let balanced: Vec<_> = endpoints
            .iter()
            .zip(&**list)
            .map(|(endpoint, listed)| BalancedEndpoint {
                id: endpoint.id(),
                key: hash_of(&listed.address.to_string()),
                weight: listed.weight,
                is_near: listed.is_near,
                joined: endpoint.joined(),
            })
            .collect();
        self.context.balancer.set_endpoints(&balanced, self.context.clock.now());
        self.list.replace(endpoints);
        former.values().for_each(|endpoint| endpoint.close());
    }

    /// Closes all connections once their calls are over.
    pub(super) fn close(&self) {
        self.list.borrow().iter().for_each(|endpoint| endpoint.close());
    }

    pub(super) fn for_each(&self, f: impl FnMut(&Rc<PoolEndpoint>)) {
        self.list.borrow().iter().for_each(f);
    }

    /// Whether calls are shared among endpoints of which some are still being connected to.
    #[inline]
    pub(super) fn is_opening(&self) -> bool {
        self.context.balancer.is_opening()
    }

    /// Whether a call is one of those that are shared.
    #[inline]
    pub(super) fn is_shared(&self, args: &PickArgs) -> bool {
        self.is_opening() && !self.has_owner(args)
    }

    /// Whether a call belongs to a certain endpoint.
    fn has_owner(&self, args: &PickArgs) -> bool {
        args.key.is_some() && self.context.balancer.has_owners()
    }

    /// When that ends at the latest, once an endpoint is connected.
    pub(super) fn opening_until(&self) -> Option<Instant> {
        self.opening_until.get()
    }

    /// Begins to share calls when no endpoint is connected any more, and ends that when all that can be are and no
    /// call waits, or those that are not have had their time. `urgent` is the earliest deadline of a call that waits.
    pub(super) fn note_opening(&self, now: Instant, urgent: Option<Instant>, waiting: usize) {
        let (list, balancer) = (self.list.borrow(), &self.context.balancer);
        if !list.iter().any(|endpoint| endpoint.is_in_use()) {
            self.opening_until.set(None);
            return balancer.set_opening(true);
        }
        if !balancer.is_opening() {
            return;
        }
        let own = urgent.map(|at| at.saturating_duration_since(now) / limits::OPENING_PART);
        let patience = own.into_iter().chain([limits::OPENING_PATIENCE]).min();
        let until =
            self.opening_until.get().into_iter().chain(patience.map(|time| now + time)).min();
        let is_done = waiting == 0 && !list.iter().any(|endpoint| endpoint.is_coming());
        let is_over = is_done || until.is_some_and(|until| until <= now);
        balancer.set_opening(!is_over);
        self.opening_until.set(until.filter(|_| !is_over));
    }

    /// How many of the `waiting` calls each endpoint is to get, while they are shared.
    #[cold]
    fn shares(&self, waiting: usize) -> Option<Vec<usize>> {
        let list = self.list.borrow();
        let is_live = |at: usize| list[at].is_in_use() || list[at].is_coming();
        self.context.balancer.shares(waiting, is_live)
    }

    /// Picks the connection for the next call, beside which `waiting` calls wait. Endpoints without room are
    /// passed to `fill`.
    #[inline]
    pub(super) fn pick(
        &self,
        args: &PickArgs,
        waiting: usize,
        avoided: &[ConnectionId],
        mut fill: impl FnMut(&Rc<PoolEndpoint>),
    ) -> Picked {
        let endpoints = self.list.borrow();
        let balancer = &self.context.balancer;
        if !balancer.is_active() {
            let Some(only) = endpoints.first() else {
                return Picked::None(Awaited::Room);
            };
            let picked = only.pick(avoided);
            if picked.is_none() {
                fill(only);
            }
            return picked.map_or(Picked::None(Awaited::Room), Picked::Connection);
        }
        endpoints.iter().filter(|endpoint| !endpoint.has_room(&[])).for_each(fill);
        // A call with a key waits for the key's owner while its first connection is being made.
        let waits = self.has_owner(args);
        let shares = self.is_shared(args).then(|| self.shares(waiting)).flatten();
        let usable = |at: usize| {
            let endpoint = &endpoints[at];
            let has_share = shares.as_ref().is_none_or(|shares| shares[at] > 0);
            has_share && endpoint.has_room(avoided) || waits && endpoint.is_coming()
        };
        match balancer.pick(args.now, args.key, args.tried, usable) {
            Some(at) => {
                let endpoint = &endpoints[at];
                let coming = Picked::None(Awaited::Endpoint(endpoint.id()));
                endpoint.pick(avoided).map_or(coming, Picked::Connection)
            }
            None => Picked::None(Awaited::Room),
        }
    }

    /// The number of calls that all connections could take now, of `waiting` ones.
    pub(super) fn capacity(&self, waiting: usize) -> usize {
        let shares = self.is_opening().then(|| self.shares(waiting)).flatten();
        let share = |at: usize| shares.as_ref().map_or(usize::MAX, |shares| shares[at]);
        let list = self.list.borrow();
        list.iter().enumerate().map(|(at, endpoint)| endpoint.capacity().min(share(at))).sum()
    }

    /// Whether all servers that are connected have told that they take fewer calls than they could.
    pub(super) fn are_leased(&self) -> bool {
        let list = self.list.borrow();
        let mut used = list.iter().filter(|endpoint| endpoint.is_in_use()).peekable();
        used.peek().is_some() && used.all(|endpoint| endpoint.is_leased())
    }

    /// Whether there is a connection, or an attempt to make one, or a resolver that may find a server.
    pub(super) fn is_hopeful(&self) -> bool {
        let list = self.list.borrow();
        list.is_empty() || list.iter().any(|endpoint| endpoint.is_hopeful())
    }

    /// Whether no server is known.
    pub(super) fn is_empty(&self) -> bool {
        self.list.borrow().is_empty()
    }

    /// Whether a connection other than this one has room, or may have it soon.
    pub(super) fn may_have_other(&self, connection: ConnectionId) -> bool {
        let may =
            |endpoint: &Rc<PoolEndpoint>| endpoint.has_room(&[connection]) || endpoint.is_coming();
        self.list.borrow().iter().any(may)
    }

    /// Whether an endpoint's first connection is being made and no attempt has failed yet.
    pub(super) fn are_coming(&self) -> bool {
        self.list.borrow().iter().any(|endpoint| endpoint.is_coming())
    }

    /// The connection that a hedged attempt beside one on `endpoint` has to avoid, or `None` inside if it
    /// goes to another endpoint. `None` if there is no room for one now.
    pub(super) fn beside(
        &self,
        endpoint: EndpointId,
        connection: ConnectionId,
    ) -> Option<Option<ConnectionId>> {
        match &**self.list.borrow() {
            [only] => only.has_room(&[connection]).then_some(Some(connection)),
            several => {
                let mut others = several.iter().filter(|other| other.id() != endpoint);
                others.any(|other| other.has_room(&[])).then_some(None)
            }
        }
    }

    /// The servers, as they are named in messages.
    pub(super) fn servers(&self) -> String {
        match &**self.list.borrow() {
            [only] => only.address().to_string(),
            several => format!("any of {} servers", several.len()),
        }
    }

    /// Why a call had no connection in time, if none has failed.
    #[cold]
    pub(super) fn why_late(&self) -> String {
        let servers = self.servers();
        let list = self.list.borrow();
        match !list.is_empty() && list.iter().all(|endpoint| endpoint.is_silent()) {
            true => format!(
                "{servers} accepted a connection and sent nothing before the deadline: it may hang"
            ),
            false => format!("no connection to {servers} had room before the deadline"),
        }
    }

    /// The last failure of an endpoint without connections.
    pub(super) fn last_failure(&self, now: Instant) -> Option<String> {
        self.list
            .borrow()
            .iter()
            .filter(|endpoint| !endpoint.is_in_use())
            .map(|endpoint| endpoint.last_failure(now))
            .find(|failure| !failure.is_empty())
    }
}

fn by_address(endpoint: Rc<PoolEndpoint>) -> (ServerAddress, Rc<PoolEndpoint>) {
    (endpoint.address().clone(), endpoint)
}
