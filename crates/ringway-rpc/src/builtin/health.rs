//! Health of a server and its services: `grpc.health.v1`, on every protocol.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use crate::call::status::Status;
use crate::limits;
use crate::waiters::{self, Waiters};

mod messages;
mod service;

pub(crate) use service::HealthService;

/// Whether a service can be used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ServingStatus {
    /// The service takes calls.
    Serving,
    /// The service takes no calls: it starts, drains, or lacks a dependency.
    NotServing,
}

/// The health of a server, service by service; cheap to clone, usable on any thread.
///
/// The empty name stands for the server as a whole. It and all services, built-in ones included,
/// are serving from the start. A shutdown sets all of them to [`ServingStatus::NotServing`], for
/// good. All of them are also not serving while a core of the server hangs: a task has held it up for
/// seconds, and a part of the connections gets no answer.
///
/// ```
/// use ringway_rpc::{Health, ServingStatus};
///
/// let health = Health::default();
/// health.set("market.v1.Market", ServingStatus::NotServing);
/// assert_eq!(health.of("market.v1.Market"), Some(ServingStatus::NotServing));
/// assert_eq!(health.of(""), Some(ServingStatus::Serving));
/// assert_eq!(health.of("no.such.Service"), None);
/// ```
#[derive(Clone, Default)]
pub struct Health {
    state: Arc<Mutex<HealthState>>,
}

struct HealthState {
    services: BTreeMap<String, ServingStatus>,
    shut_down: bool,
    /// Whether a core of the server hangs.
    hangs: bool,
    /// The number of changes.
    version: u64,
    watchers: Waiters,
}

impl Default for HealthState {
    fn default() -> Self {
        let services = BTreeMap::from([(String::new(), ServingStatus::Serving)]);
        Self { services, shut_down: false, hangs: false, version: 0, watchers: Waiters::default() }
    }
}

impl HealthState {
    fn of(&self, service: &str) -> Option<ServingStatus> {
        let set = self.services.get(service).copied();
        set.map(|serving| if self.hangs { ServingStatus::NotServing } else { serving })
    }
}

impl Health {
    /// Sets whether a service can be used; the empty name stands for the whole server. It has no
    /// effect after the server's shutdown, nor for new names beyond 1,000 services.
    pub fn set(&self, service: impl Into<String>, serving: ServingStatus) {
        let service = service.into();
        self.change(|state| {
            let is_known = state.services.contains_key(&service);
            if is_known || state.services.len() < limits::HEALTH_SERVICES_MAX {
                state.services.insert(service, serving);
            }
        });
    }

    /// Returns the health of a service; `None` if the service is unknown.
    pub fn of(&self, service: &str) -> Option<ServingStatus> {
        self.lock().of(service)
    }

    /// Returns all known services and their health, sorted by name.
    pub fn all(&self) -> Vec<(String, ServingStatus)> {
        let state = self.lock();
        let all = state.services.keys().filter_map(|name| Some((name.clone(), state.of(name)?)));
        all.collect()
    }

    /// Adds a service of the server; it is serving unless its health was set before.
    pub(crate) fn add(&self, service: &str) {
        self.change(|state| {
            _ = state.services.entry(service.to_owned()).or_insert(ServingStatus::Serving)
        });
    }

    /// Sets all services to not serving, for good.
    pub(crate) fn shut_down(&self) {
        self.change(|state| {
            state.services.values_mut().for_each(|serving| *serving = ServingStatus::NotServing);
            state.shut_down = true;
        });
    }

    /// Notes that a core of the server hangs, or that none does any more.
    pub(crate) fn note_hang(&self, hangs: bool) {
        self.change(|state| state.hangs = hangs);
    }

    fn change(&self, change: impl FnOnce(&mut HealthState)) {
        let mut state = self.lock();
        if state.shut_down {
            return;
        }
        change(&mut state);
        state.version += 1;
        let watchers = state.watchers.take_all();
        drop(state);
        waiters::wake_all(watchers);
    }

    fn watch(&self, service: String) -> Watch {
        Watch { health: self.clone(), service, seen: None, waiter: None }
    }

    /// Locks the state. No foreign code runs under the lock, so after a panic its content is still
    /// valid.
    fn lock(&self) -> MutexGuard<'_, HealthState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows the health of one service.
struct Watch {
    health: Health,
    service: String,
    seen: Option<Option<ServingStatus>>,
    waiter: Option<usize>,
}

impl Watch {
    /// Waits until the health differs from the last one returned.
    async fn changed(&mut self) -> Option<ServingStatus> {
        poll_fn(|cx| self.poll_changed(cx)).await
    }

    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<Option<ServingStatus>> {
        waiters::poll_with(cx.waker(), |waker| {
            let mut state = self.health.lock();
            let now = state.of(&self.service);
            if self.seen != Some(now) {
                self.seen = Some(now);
                return Poll::Ready(now);
            }
            let former = state.watchers.wait(&mut self.waiter, waker);
            drop(state);
            waiters::discard(former);
            Poll::Pending
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let left = self.health.lock().watchers.leave(&mut self.waiter);
        waiters::discard(left);
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.all()).finish()
    }
}

fn unknown(service: &str) -> Status {
    Status::not_found(format!("the service {service:?} is unknown"))
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn health_does_not_change_after_a_shutdown() {
        let health = Health::default();
        health.add("a.A");
        health.set("b.B", ServingStatus::Serving);
        health.shut_down();
        health.set("b.B", ServingStatus::Serving);
        health.add("c.C");
        let expected = ["", "a.A", "b.B"].map(|name| (name.to_owned(), ServingStatus::NotServing));
        assert_eq!(health.all(), expected);
    }

    #[test]
    fn added_services_keep_a_health_set_before() {
        let health = Health::default();
        health.set("a.A", ServingStatus::NotServing);
        health.add("a.A");
        assert_eq!(health.of("a.A"), Some(ServingStatus::NotServing));
    }

    #[test]
    fn nothing_serves_while_a_core_hangs_and_then_as_was_set() {
        let health = Health::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut watch = health.watch("a.A".to_owned());
        health.set("a.A", ServingStatus::Serving);
        health.set("b.B", ServingStatus::NotServing);
        let serves = |name: &str| health.of(name) == Some(ServingStatus::Serving);
        assert_eq!(watch.poll_changed(&mut cx), Poll::Ready(Some(ServingStatus::Serving)));
        health.note_hang(true);
        assert_eq!(watch.poll_changed(&mut cx), Poll::Ready(Some(ServingStatus::NotServing)));
        assert!(health.all().iter().all(|(_, serving)| *serving == ServingStatus::NotServing));
        assert_eq!(health.of("c.C"), None);
        health.note_hang(false);
        assert_eq!(watch.poll_changed(&mut cx), Poll::Ready(Some(ServingStatus::Serving)));
        assert_eq!(["", "a.A", "b.B"].map(serves), [true, true, false]);
    }

    #[test]
    fn watchers_see_changes_only() {
        let health = Health::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut watch = health.watch(String::new());
        assert_eq!(watch.poll_changed(&mut cx), Poll::Ready(Some(ServingStatus::Serving)));
        assert_eq!(watch.poll_changed(&mut cx), Poll::Pending);
        health.set("", ServingStatus::NotServing);
        assert_eq!(watch.poll_changed(&mut cx), Poll::Ready(Some(ServingStatus::NotServing)));
        assert_eq!(watch.poll_changed(&mut cx), Poll::Pending);
    }

    #[test]
    fn dropped_watches_leave_no_wakers() {
        let health = Health::default();
        let mut cx = Context::from_waker(Waker::noop());
        let watch_for_a_while = |cx: &mut Context<'_>| {
            let mut watch = health.watch(String::new());
            assert!(watch.poll_changed(cx).is_ready() && watch.poll_changed(cx).is_pending());
            watch
        };
        let stays = watch_for_a_while(&mut cx);
        for _ in 0..1_000 {
            drop(watch_for_a_while(&mut cx));
        }
        assert_eq!(health.lock().watchers.take_all().len(), 1);
        assert_eq!(health.lock().watchers.slots(), 2);
        drop(stays);
    }
}
