//! One endpoint of a pool: its connections, and when it may be tried again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use ringway_runtime as runtime;

use super::connection::{ClientConnection, ConnectionId};
use super::hosts::ListedHost;
use super::load_balancer::EndpointId;
use super::pool_context::PoolContext;
use super::server_address::ServerAddress;
use crate::limits;

/// A connection whose server has sent nothing yet.
pub(super) struct Unheard(Rc<PoolEndpoint>);

impl Drop for Unheard {
    fn drop(&mut self) {
        self.0.unheard.set(self.0.unheard.get() - 1);
    }
}

pub(super) struct PoolEndpoint {
    id: EndpointId,
    context: Rc<PoolContext>,
    address: ServerAddress,
    dial: ringway_net::Client,
    /// The time at which the endpoint was added to the pool.
    joined: Duration,
    /// Whether it makes no more connections because it left the list or the pool was closed.
    closed: Cell<bool>,
    /// Connections that take calls, and connections that only finish theirs.
    connections: RefCell<Vec<Rc<ClientConnection>>>,
    /// The number of attempts to connect that are under way.
    connecting: Cell<usize>,
    /// Connections whose server has sent nothing yet.
    unheard: Cell<usize>,
    /// Failures since the last connection that worked. Concurrent attempts that fail count as one.
    failures: Cell<u32>,
    retry_at: Cell<Option<Instant>>,
    last_failure: RefCell<String>,
}

impl PoolEndpoint {
    pub(super) fn new(id: EndpointId, listed: &ListedHost, context: Rc<PoolContext>) -> Rc<Self> {
        Rc::new(Self {
            id,
            address: listed.address.clone(),
            dial: listed.dial.clone(),
            joined: context.clock.now(),
            context,
            closed: Cell::new(false),
            connections: RefCell::default(),
            connecting: Cell::new(0),
            unheard: Cell::new(0),
            failures: Cell::new(0),
            retry_at: Cell::new(None),
            last_failure: RefCell::default(),
        })
    }

    #[inline]
    pub(super) fn id(&self) -> EndpointId {
        self.id
    }

    pub(super) fn context(&self) -> &Rc<PoolContext> {
        &self.context
    }

    pub(super) fn joined(&self) -> Duration {
        self.joined
    }

    pub(super) fn address(&self) -> &ServerAddress {
        &self.address
    }

    pub(super) fn dial(&self) -> &ringway_net::Client {
        &self.dial
    }

    /// Picks the connection with the fewest calls among those that have room and are not `avoided`. A
    /// single connection is returned without asking whether it has room, because sending checks that.
    #[inline]
    pub(super) fn pick(&self, avoided: &[ConnectionId]) -> Option<Rc<ClientConnection>> {
        let connections = self.connections.borrow();
        if let ([only], []) = (connections.as_slice(), avoided) {
            return only.is_open().then(|| Rc::clone(only));
        }
        let usable = connections.iter().filter(|it| !avoided.contains(&it.id()));
        let usable = usable.filter(|it| it.capacity() > 0);
        usable.min_by_key(|it| it.in_flight()).map(Rc::clone)
    }

    /// Whether a connection that is not `avoided` has room.
    pub(super) fn has_room(&self, avoided: &[ConnectionId]) -> bool {
        let connections = self.connections.borrow();
        connections.iter().any(|it| !avoided.contains(&it.id()) && it.capacity() > 0)
    }

    /// The number of calls that the connections could take now.
    pub(super) fn capacity(&self) -> usize {
        self.connections.borrow().iter().map(|it| it.capacity()).sum()
    }

    /// Whether the server has told on all connections that it takes fewer calls than it could.
    pub(super) fn is_leased(&self) -> bool {
        self.connections.borrow().iter().filter(|it| it.is_open()).all(|it| it.is_leased())
    }

    /// Whether there is a connection, or an attempt to make one.
    pub(super) fn is_hopeful(&self) -> bool {
        self.connecting.get() > 0 || self.connections.borrow().iter().any(|it| it.is_open())
    }

    /// Counts a connection whose server has sent nothing yet, until the returned value is dropped.
    pub(super) fn unheard(self: &Rc<Self>) -> Unheard {
        self.unheard.set(self.unheard.get() + 1);
        Unheard(Rc::clone(self))
    }

    /// Whether the server has accepted a connection and not answered, and has no other.
    pub(super) fn is_silent(&self) -> bool {
        self.unheard.get() > 0 && !self.connections.borrow().iter().any(|it| it.is_open())
    }

    /// Whether the first connection is being made and no attempt has failed yet.
    pub(super) fn is_coming(&self) -> bool {
        self.connecting.get() > 0 && self.failures.get() == 0 && !self.is_in_use()
    }

    /// Whether there are more connections than the minimum.
    pub(super) fn has_spare(&self) -> bool {
        self.open_connections() > self.context.config.connections_min
    }

    /// Whether there is a connection that takes calls.
    pub(super) fn is_in_use(&self) -> bool {
        self.open_connections() > 0
    }

    /// The number of connections to open now: up to the minimum, or one more while all are full.
    pub(super) fn missing(&self, now: Instant) -> usize {
        if self.retry_at(now).is_some() {
            return 0;
        }
        let (open, connecting) = (self.open_connections(), self.connecting.get());
        if open + connecting < self.context.config.connections_min {
            return self.context.config.connections_min - open - connecting;
        }
        let grows =
            connecting == 0 && open < self.context.config.connections_max && self.capacity() == 0;
        usize::from(grows)
    }

    fn open_connections(&self) -> usize {
        self.connections.borrow().iter().filter(|it| it.is_open()).count()
    }

    /// Closes all connections once their calls are over, including those that are being made.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.connections.borrow().iter().for_each(|it| it.close());
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// The time at which the endpoint may be tried again, if that is in the future.
    pub(super) fn retry_at(&self, now: Instant) -> Option<Instant> {
        self.retry_at.get().filter(|at| *at > now)
    }

    /// The last failure and when the endpoint is tried again; empty if it has not failed.
    pub(super) fn last_failure(&self, now: Instant) -> String {
        let mut why = self.last_failure.borrow().clone();
        if let Some(at) = self.retry_at.get().filter(|at| *at > now) {
            let wait = at - now;
            why.push_str(&format!("; it is tried again in {wait:.1?}"));
        }
        why
    }

    /// Counts an attempt to connect that begins (1) or ends (-1).
    pub(super) fn connecting(&self, change: isize) {
        if change > 0 {
            self.retry_at.set(None);
        }
        self.connecting.set(self.connecting.get().saturating_add_signed(change));
    }

    pub(super) fn connected(&self, connection: Rc<ClientConnection>) {
        self.connections.borrow_mut().push(connection);
        self.last_failure.take();
        if let Some(resolver) = &self.context.config.resolver {
            resolver.reached();
        }
    }

    /// Notes a failed attempt to connect. Concurrent attempts that fail count as one.
    pub(super) fn failed(&self, why: String) {
        self.last_failure.replace(why);
        let now = runtime::now();
        if self.retry_at(now).is_some() {
            return;
        }
        let failures = self.failures.get();
        self.failures.set(failures.saturating_add(1));
        self.retry_at.set(Some(now + reconnect_delay(failures, fastrand::f64())));
        self.context.balancer.unreachable(self.id, self.context.clock.at(now));
        if let Some(resolver) = &self.context.config.resolver {
            resolver.unreachable(&self.address);
        }
    }

    /// Notes the end of a connection.
    pub(super) fn lost(&self, connection: &ClientConnection, usefulness: Usefulness, why: &str) {
        let mut connections = self.connections.borrow_mut();
        let at = connections.iter().position(|other| other.id() == connection.id());
        let removed = at.map(|at| connections.swap_remove(at));
        drop(connections);
        drop(removed);
        let failures = match usefulness {
            Usefulness::Worked => 0,
            Usefulness::Greeted if self.failures.get() == 0 => 1,
            Usefulness::Greeted | Usefulness::None => return self.failed(why.to_owned()),
        };
        self.failures.set(failures);
        self.last_failure.replace(why.to_owned());
    }
}

/// What a lost connection had been good for.
pub(super) enum Usefulness {
    /// It answered calls, lasted for long, or was not needed any more. The next one may be made at once.
    Worked,
    /// The server answered the handshake and nothing else. The next connection may be made at once,
    /// further ones after a pause.
    Greeted,
    /// Nothing was received.
    None,
}

/// The wait after a failure with `failures` before it. It doubles each time, and up to half of it is
/// taken off at random so that the clients of a server do not reconnect in step.
fn reconnect_delay(failures: u32, random: f64) -> Duration {
    let doubled = 2_u32.saturating_pow(failures);
    let full = limits::RECONNECT_DELAY_FIRST.saturating_mul(doubled);
    full.min(limits::RECONNECT_DELAY_MAX).mul_f64(1.0 - random / 2.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::client::config::ClientConfig;
    use crate::connection::driver::Clock;

    #[test]
    fn waits_double_up_to_the_longest_and_vary() {
        let waits: Vec<_> = [0, 1, 2, 3, 20, u32::MAX]
            .map(|failures| reconnect_delay(failures, 0.0).as_millis())
            .into();
        assert_eq!(waits, [100, 200, 400, 800, 3_000, 3_000]);
        assert_eq!(reconnect_delay(0, 1.0).as_millis(), 50);
    }

    #[test]
    fn a_time_that_has_come_is_not_waited_for() {
        let address: ServerAddress = "tcp://127.0.0.1:1".parse().expect("an address");
        let dial = ringway_net::Client::new(address.at.clone()).expect("of a server");
        let now = Instant::now();
        let endpoint = PoolEndpoint {
            id: EndpointId(1),
            context: PoolContext::new(Arc::new(ClientConfig::plain()), Clock::since(now), 0),
            address,
            dial,
            joined: Duration::ZERO,
            closed: Cell::new(false),
            connections: RefCell::default(),
            // One connection more than needed failed, so none is wanted when the time has come.
            connecting: Cell::new(1),
            unheard: Cell::new(0),
            failures: Cell::new(1),
            retry_at: Cell::new(Some(now)),
            last_failure: RefCell::default(),
        };
        let before = now - Duration::from_millis(1);
        assert_eq!((endpoint.missing(before), endpoint.retry_at(before)), (0, Some(now)));
        assert_eq!((endpoint.missing(now), endpoint.retry_at(now)), (0, None));
    }
}
