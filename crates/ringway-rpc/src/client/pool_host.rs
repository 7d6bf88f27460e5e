//! One host of a pool: its connections, and when it may be tried again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use ringway_net::Address;
use ringway_runtime as runtime;

use super::config::ClientConfig;
use super::hosts::ListedHost;
use super::link::Link;
use super::local_clients::LinkKey;
use super::spread::HostId;
use crate::limits;

pub(super) struct PoolHost {
    address: Address,
    dial: ringway_net::Client,
    /// By which the pool's spread knows it, once there is one.
    id: Cell<HostId>,
    /// When the pool got it.
    joined: Duration,
    /// No more connections: it is not in the list any more, or the pool is closed.
    closed: Cell<bool>,
    /// Those that take calls, and those that only finish theirs.
    links: RefCell<Vec<Rc<Link>>>,
    /// Attempts to connect that are under way.
    connecting: Cell<usize>,
    /// Failures since the last connection that has worked. Attempts that fail together are one.
    failures: Cell<u32>,
    retry_at: Cell<Option<Instant>>,
    last_failure: RefCell<String>,
    /// Connections to keep although they are idle.
    connections_min: usize,
    connections_max: usize,
}

impl PoolHost {
    pub(super) fn new(listed: &ListedHost, plan: &ClientConfig, now: Duration) -> Rc<Self> {
        Rc::new(Self {
            address: listed.address.clone(),
            dial: listed.dial.clone(),
            id: Cell::default(),
            joined: now,
            closed: Cell::new(false),
            links: RefCell::default(),
            connecting: Cell::new(0),
            failures: Cell::new(0),
            retry_at: Cell::new(None),
            last_failure: RefCell::default(),
            connections_min: plan.connections_min,
            connections_max: plan.connections_max,
        })
    }

    #[inline]
    pub(super) fn id(&self) -> HostId {
        self.id.get()
    }

    /// It belongs to a spread from now on.
    pub(super) fn set_id(&self, id: HostId) {
        self.id.set(id);
    }

    pub(super) fn joined(&self) -> Duration {
        self.joined
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn dial(&self) -> &ringway_net::Client {
        &self.dial
    }

    /// The connection with the least under way that has room, and is none of those avoided.
    #[inline]
    pub(super) fn best(&self, avoided: &[LinkKey]) -> Option<Rc<Link>> {
        let links = self.links.borrow();
        if let ([link], []) = (links.as_slice(), avoided) {
            return (link.capacity() > 0).then(|| Rc::clone(link));
        }
        let usable =
            links.iter().filter(|link| !avoided.contains(&link.key) && link.capacity() > 0);
        usable.min_by_key(|link| link.in_flight()).map(Rc::clone)
    }

    /// Calls that its connections could take now.
    pub(super) fn capacity(&self) -> usize {
        self.links.borrow().iter().map(|link| link.capacity()).sum()
    }

    /// Whether it has a connection, or may have one soon.
    pub(super) fn is_hopeful(&self) -> bool {
        self.connecting.get() > 0 || self.links.borrow().iter().any(|link| link.is_open())
    }

    /// Whether its first connection is being made, as far as is known with success.
    pub(super) fn is_coming(&self) -> bool {
        self.connecting.get() > 0 && self.failures.get() == 0 && !self.is_in_use()
    }

    /// Whether it has more connections than it needs when idle.
    pub(super) fn has_spare(&self) -> bool {
        self.open_links() > self.connections_min
    }

    /// Whether it has a connection that takes calls.
    pub(super) fn is_in_use(&self) -> bool {
        self.open_links() > 0
    }

    /// Attempts to connect that are wanted now: up to its least number of connections, or one more
    /// than there are while all of those are full.
    pub(super) fn missing(&self, now: Instant) -> usize {
        if self.retry_at(now).is_some() {
            return 0;
        }
        let (open, connecting) = (self.open_links(), self.connecting.get());
        if open + connecting < self.connections_min {
            return self.connections_min - open - connecting;
        }
        let grows = connecting == 0 && open < self.connections_max && self.capacity() == 0;
        usize::from(grows)
    }

    fn open_links(&self) -> usize {
        self.links.borrow().iter().filter(|link| link.is_open()).count()
    }

    /// Closes its connections once their calls are over, also those that are being made.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.links.borrow().iter().for_each(|link| link.close());
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// When it may be tried again after a failure, if it may not yet.
    pub(super) fn retry_at(&self, now: Instant) -> Option<Instant> {
        self.retry_at.get().filter(|at| *at > now)
    }

    /// Why it cannot be used, and when it is tried again; empty if it never failed.
    pub(super) fn last_failure(&self, now: Instant) -> String {
        let mut why = self.last_failure.borrow().clone();
        if let Some(at) = self.retry_at.get().filter(|at| *at > now) {
            let wait = at - now;
            why.push_str(&format!("; it is tried again in {wait:.1?}"));
        }
        why
    }

    /// An attempt to connect has begun (1) or ended (-1).
    pub(super) fn connecting(&self, change: isize) {
        if change > 0 {
            self.retry_at.set(None);
        }
        self.connecting.set(self.connecting.get().saturating_add_signed(change));
    }

    pub(super) fn connected(&self, link: Rc<Link>) {
        self.links.borrow_mut().push(link);
        self.last_failure.take();
    }

    /// An attempt to connect has failed. Whether that is to be counted: of those that were made at the
    /// same time one is.
    #[must_use]
    pub(super) fn failed(&self, why: String) -> bool {
        self.last_failure.replace(why);
        let now = runtime::now();
        if self.retry_at(now).is_some() {
            return false;
        }
        let failures = self.failures.get();
        self.failures.set(failures.saturating_add(1));
        self.retry_at.set(Some(now + reconnect_delay(failures, fastrand::f64())));
        true
    }

    /// A connection has ended. Whether it is to be counted as a [failure](Self::failed).
    #[must_use]
    pub(super) fn lost(&self, link: &Link, usefulness: Usefulness, why: &str) -> bool {
        let mut links = self.links.borrow_mut();
        let at = links.iter().position(|other| other.key == link.key);
        let removed = at.map(|at| links.swap_remove(at));
        drop(links);
        drop(removed);
        let failures = match usefulness {
            Usefulness::Worked => 0,
            Usefulness::Greeted if self.failures.get() == 0 => 1,
            Usefulness::Greeted | Usefulness::None => return self.failed(why.to_owned()),
        };
        self.failures.set(failures);
        self.last_failure.replace(why.to_owned());
        false
    }
}

/// What a connection was good for.
pub(super) enum Usefulness {
    /// It has answered calls, or lasted, or was not needed any more: the next may be made at once.
    Worked,
    /// The server was there, and no more: the next may be made at once, and those after it after a wait.
    Greeted,
    /// Nothing was heard.
    None,
}

/// The wait after so many failures before this one: it doubles, and is shortened by a random part
/// of up to a half, so that the clients of a host do not come back in step.
fn reconnect_delay(failures: u32, random: f64) -> Duration {
    let doubled = 2_u32.saturating_pow(failures);
    let full = limits::RECONNECT_DELAY_FIRST.saturating_mul(doubled);
    full.min(limits::RECONNECT_DELAY_MAX).mul_f64(1.0 - random / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let address: Address = "tcp://127.0.0.1:1".parse().expect("an address");
        let now = Instant::now();
        let host = PoolHost {
            dial: ringway_net::Client::new(address.clone()).expect("of a server"),
            address,
            id: Cell::default(),
            joined: Duration::ZERO,
            closed: Cell::new(false),
            links: RefCell::default(),
            // One more than is needed failed, so none is wanted when the time has come.
            connecting: Cell::new(1),
            failures: Cell::new(1),
            retry_at: Cell::new(Some(now)),
            last_failure: RefCell::default(),
            connections_min: 1,
            connections_max: 2,
        };
        let before = now - Duration::from_millis(1);
        assert_eq!((host.missing(before), host.retry_at(before)), (0, Some(now)));
        assert_eq!((host.missing(now), host.retry_at(now)), (0, None));
    }
}
