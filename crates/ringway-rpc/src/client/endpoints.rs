//! The endpoints of a pool, and which of them a call goes to.

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
use crate::policy::balance::hash_of;

pub(super) struct Endpoints {
    context: Rc<PoolContext>,
    /// The balancer has them in the same order. There is always one.
    list: RefCell<Vec<Rc<PoolEndpoint>>>,
    next: Cell<u32>,
}

/// What a call asks for.
#[derive(Clone, Copy)]
pub(super) struct PickArgs {
    pub(super) now: Duration,
    /// `NEVER` if there is no deadline.
    pub(super) until: Duration,
    pub(super) waits_for_ready: bool,
    /// A connection that has just refused the call.
    pub(super) avoid: Option<ConnectionId>,
    /// What a consistent hash goes by.
    pub(super) key: Option<u64>,
    /// An endpoint that had an attempt of the call; another one is better.
    pub(super) tried: Option<EndpointId>,
}

impl PickArgs {
    pub(super) fn is_late(&self) -> bool {
        self.until <= self.now
    }

    /// How long the call may take from now on.
    #[inline]
    pub(super) fn timeout(&self) -> Option<Duration> {
        (self.until != NEVER).then(|| self.until.saturating_sub(self.now))
    }
}

/// Where the next call is to go, or what it has to wait for.
pub(super) enum Picked {
    Connection(Rc<ClientConnection>),
    None(Awaited),
}

impl Endpoints {
    pub(super) fn new(context: Rc<PoolContext>) -> Self {
        Self { context, list: RefCell::default(), next: Cell::new(0) }
    }

    /// Takes the endpoints of the list in place of those that it had. Those that leave finish their
    /// calls; those that stay notice nothing.
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
                joined: endpoint.joined(),
            })
            .collect();
        self.context.balancer.set_endpoints(&balanced, self.context.clock.now());
        self.list.replace(endpoints);
        former.values().for_each(|endpoint| endpoint.close());
    }

    /// Closes their connections once the calls there are over.
    pub(super) fn close(&self) {
        self.list.borrow().iter().for_each(|endpoint| endpoint.close());
    }

    pub(super) fn for_each(&self, f: impl FnMut(&Rc<PoolEndpoint>)) {
        self.list.borrow().iter().for_each(f);
    }

    /// The connection for the next call. Endpoints without room are told to `fill` meanwhile.
    #[inline]
    pub(super) fn pick(
        &self,
        args: &PickArgs,
        avoided: &[ConnectionId],
        mut fill: impl FnMut(&Rc<PoolEndpoint>),
    ) -> Picked {
        let endpoints = self.list.borrow();
        let balancer = &self.context.balancer;
        if !balancer.is_active() {
            let picked = endpoints[0].pick(avoided);
            if picked.is_none() {
                fill(&endpoints[0]);
            }
            return picked.map_or(Picked::None(Awaited::Room), Picked::Connection);
        }
        endpoints.iter().filter(|endpoint| !endpoint.has_room(&[])).for_each(fill);
        // The owner of a key is waited for while it is connected to for the first time, or again.
        let waits = args.key.is_some() && balancer.has_owners();
        let usable = |at: usize| {
            let endpoint = &endpoints[at];
            endpoint.has_room(avoided) || waits && endpoint.is_coming()
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

    /// Calls that their connections could take now.
    pub(super) fn capacity(&self) -> usize {
        self.list.borrow().iter().map(|endpoint| endpoint.capacity()).sum()
    }

    /// Whether there is a connection, or may be one soon.
    pub(super) fn is_hopeful(&self) -> bool {
        self.list.borrow().iter().any(|endpoint| endpoint.is_hopeful())
    }

    /// Whether another connection than this one has room, or may have it soon.
    pub(super) fn may_have_other(&self, connection: ConnectionId) -> bool {
        let may =
            |endpoint: &Rc<PoolEndpoint>| endpoint.has_room(&[connection]) || endpoint.is_coming();
        self.list.borrow().iter().any(may)
    }

    /// Whether one is being connected to, as far as is known with success.
    pub(super) fn are_coming(&self) -> bool {
        self.list.borrow().iter().any(|endpoint| endpoint.is_coming())
    }

    /// Whether a second attempt may be made beside one that is under way, and which connection it is not
    /// to go over: it goes to another endpoint where there are several, and must find one now.
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

    /// Where calls go, for people.
    pub(super) fn servers(&self) -> String {
        match &**self.list.borrow() {
            [only] => only.address().to_string(),
            several => format!("any of {} servers", several.len()),
        }
    }

    /// Why an endpoint without a connection has none.
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
