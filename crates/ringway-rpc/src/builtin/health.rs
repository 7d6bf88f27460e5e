//! Whether a server and its services can be used: `grpc.health.v1`, on every protocol.

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
pub enum Serving {
    /// Send calls.
    Yes,
    /// Do not: it starts, drains, or lacks something that it needs.
    No,
}

/// A server's health, service by service; cheap to clone, usable on any thread.
///
/// The server as a whole is the service without a name. It and all services, those of every server
/// included, serve from the start; a shutdown changes all of them to [`Serving::No`], for good.
///
/// ```
/// use ringway_rpc::{Health, Serving};
///
/// let health = Health::default();
/// health.set("market.v1.Market", Serving::No);
/// assert_eq!(health.of("market.v1.Market"), Some(Serving::No));
/// assert_eq!(health.of(""), Some(Serving::Yes));
/// assert_eq!(health.of("no.such.Service"), None);
/// ```
#[derive(Clone, Default)]
pub struct Health {
    state: Arc<Mutex<HealthState>>,
}

struct HealthState {
    services: BTreeMap<String, Serving>,
    shut_down: bool,
    /// Counts the changes.
    version: u64,
    watchers: Waiters,
}

impl Default for HealthState {
    fn default() -> Self {
        let services = BTreeMap::from([(String::new(), Serving::Yes)]);
        Self { services, shut_down: false, version: 0, watchers: Waiters::default() }
    }
}

impl Health {
    /// Says whether a service can be used; the empty name stands for the whole server. Nothing
    /// changes any more once the server shuts down, nor beyond 1,000 services.
    pub fn set(&self, service: impl Into<String>, serving: Serving) {
        let service = service.into();
        self.change(|state| {
            let is_known = state.services.contains_key(&service);
            if is_known || state.services.len() < limits::HEALTH_SERVICES_MAX {
                state.services.insert(service, serving);
            }
        });
    }

    /// The health of a service; `None` if the service is unknown.
    pub fn of(&self, service: &str) -> Option<Serving> {
        self.lock().services.get(service).copied()
    }

    /// Every service that something is said of, by name.
    pub fn all(&self) -> Vec<(String, Serving)> {
        self.lock().services.iter().map(|(name, serving)| (name.clone(), *serving)).collect()
    }

    /// A service of the server, which serves unless something else was said before.
    pub(crate) fn add(&self, service: &str) {
        self.change(|state| _ = state.services.entry(service.to_owned()).or_insert(Serving::Yes));
    }

    /// Nothing can be used any more.
    pub(crate) fn shut_down(&self) {
        self.change(|state| {
            state.services.values_mut().for_each(|serving| *serving = Serving::No);
            state.shut_down = true;
        });
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
        Watch { health: self.clone(), service, seen: None, place: None }
    }

    /// No foreign code runs under the lock, so a poisoned one guards sound content.
    fn lock(&self) -> MutexGuard<'_, HealthState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who follows what is said of one service. Dropping it leaves nothing behind.
struct Watch {
    health: Health,
    service: String,
    seen: Option<Option<Serving>>,
    place: Option<usize>,
}

impl Watch {
    /// Waits until something else is said than was seen before.
    async fn changed(&mut self) -> Option<Serving> {
        poll_fn(|cx| self.poll_changed(cx)).await
    }

    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<Option<Serving>> {
        waiters::poll_with(cx.waker(), |waker| {
            let mut state = self.health.lock();
            let now = state.services.get(&self.service).copied();
            if self.seen != Some(now) {
                self.seen = Some(now);
                return Poll::Ready(now);
            }
            let former = state.watchers.wait(&mut self.place, waker);
            drop(state);
            waiters::discard(former);
            Poll::Pending
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let left = self.health.lock().watchers.leave(&mut self.place);
        waiters::discard(left);
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.all()).finish()
    }
}

fn unknown(service: &str) -> Status {
    Status::not_found(format!("nothing is known of a service {service:?}"))
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_shutdown_is_the_last_word() {
        let health = Health::default();
        health.add("a.A");
        health.set("b.B", Serving::Yes);
        health.shut_down();
        health.set("b.B", Serving::Yes);
        health.add("c.C");
        let expected = ["", "a.A", "b.B"].map(|name| (name.to_owned(), Serving::No));
        assert_eq!(health.all(), expected);
    }

    #[test]
    fn services_that_were_told_of_keep_what_was_said() {
        let health = Health::default();
        health.set("a.A", Serving::No);
        health.add("a.A");
        assert_eq!(health.of("a.A"), Some(Serving::No));
    }

    #[test]
    fn watchers_see_changes_only() {
        let health = Health::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut watch = health.watch(String::new());
        assert_eq!(watch.poll_changed(&mut cx), Poll::Ready(Some(Serving::Yes)));
        assert_eq!(watch.poll_changed(&mut cx), Poll::Pending);
        health.set("", Serving::No);
        assert_eq!(watch.poll_changed(&mut cx), Poll::Ready(Some(Serving::No)));
        assert_eq!(watch.poll_changed(&mut cx), Poll::Pending);
    }

    #[test]
    fn a_watch_that_is_given_up_leaves_nothing_behind() {
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
