//! Whether a server and its services can be used: `grpc.health.v1`, on every protocol.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::limits;
use crate::status::Status;

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

/// What a server says of its health; cheap to clone, usable on any thread.
///
/// The server as a whole is the service without a name. It and all services serve from the start;
/// a shutdown changes all of them to [`Serving::No`], for good.
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
    state: Arc<Mutex<State>>,
}

struct State {
    services: BTreeMap<String, Serving>,
    shut_down: bool,
    /// Counts the changes.
    version: u64,
    /// Those who watch, each until the next change.
    watchers: Vec<Waker>,
}

impl Default for State {
    fn default() -> Self {
        let services = BTreeMap::from([(String::new(), Serving::Yes)]);
        Self { services, shut_down: false, version: 0, watchers: Vec::new() }
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

    /// What is said of a service; `None` of one that nobody has heard of.
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

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        if state.shut_down {
            return;
        }
        change(&mut state);
        state.version += 1;
        let watchers = std::mem::take(&mut state.watchers);
        drop(state);
        watchers.into_iter().for_each(Waker::wake);
    }

    /// Waits until what is said of `service` is not `seen`.
    async fn changed(&self, service: &str, seen: Option<Option<Serving>>) -> Option<Serving> {
        poll_fn(|cx| self.poll_changed(service, seen, cx)).await
    }

    fn poll_changed(
        &self,
        service: &str,
        seen: Option<Option<Serving>>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Serving>> {
        let mut state = self.lock();
        let now = state.services.get(service).copied();
        if seen != Some(now) {
            return Poll::Ready(now);
        }
        if !state.watchers.iter().any(|watcher| watcher.will_wake(cx.waker())) {
            state.watchers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// No foreign code runs under the lock, so a poisoned one guards sound content.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        assert_eq!(health.poll_changed("", None, &mut cx), Poll::Ready(Some(Serving::Yes)));
        let seen = Some(Some(Serving::Yes));
        assert_eq!(health.poll_changed("", seen, &mut cx), Poll::Pending);
        health.set("", Serving::No);
        assert_eq!(health.poll_changed("", seen, &mut cx), Poll::Ready(Some(Serving::No)));
    }
}
