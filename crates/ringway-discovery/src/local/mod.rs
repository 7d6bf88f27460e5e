//! A registry inside one process, shared by all its threads.
//!
//! Each service has a lock of its own, so services do not wait for each other. A look-up takes no lock, but for the
//! first two after a change, which make the new list and publish it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use arc_swap::{ArcSwap, Guard};
use ringway_runtime::contain;

use crate::endpoint::Endpoint;

mod state;
mod watch;

use state::ServiceState;
pub use watch::{EndpointChange, LocalWatch};

/// A registry inside one process; cheap to clone, usable on any thread.
///
/// ```
/// use ringway_discovery::{Endpoint, Local};
///
/// let registry = Local::new();
/// let market = registry.service("market");
/// let registration = market.register(Endpoint::new("tcp://10.0.0.1:9000"));
/// assert_eq!(market.endpoints()[0].address(), "tcp://10.0.0.1:9000");
/// drop(registration);
/// assert!(market.endpoints().is_empty());
/// ```
#[derive(Clone, Default)]
pub struct Local {
    services: Arc<Mutex<HashMap<String, Arc<SharedService>>>>,
}

/// A service of a [`Local`] registry; cheap to clone, usable on any thread.
#[derive(Clone)]
pub struct LocalService {
    shared: Arc<SharedService>,
}

struct SharedService {
    state: Mutex<ServiceState>,
    /// The revision of the last change, which tells whether the list is out of date.
    revision: AtomicU64,
    /// A list that was read more than once.
    published: ArcSwap<List>,
}

struct List {
    revision: u64,
    endpoints: Vec<Arc<Endpoint>>,
}

/// The endpoints of a service at one moment, in the order of their addresses.
pub struct Endpoints(Guard<Arc<List>>);

impl std::ops::Deref for Endpoints {
    type Target = [Arc<Endpoint>];

    #[inline]
    fn deref(&self) -> &[Arc<Endpoint>] {
        &self.0.endpoints
    }
}

impl Local {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// The service with this name. It need not have endpoints yet.
    pub fn service(&self, name: &str) -> LocalService {
        let mut services = lock(&self.services);
        if let Some(shared) = services.get(name) {
            return LocalService { shared: Arc::clone(shared) };
        }
        let shared = Arc::new(SharedService::new());
        services.insert(name.to_owned(), Arc::clone(&shared));
        LocalService { shared }
    }

    /// The names of all services, in their order.
    pub fn services(&self) -> Vec<String> {
        let mut names: Vec<_> = lock(&self.services).keys().cloned().collect();
        names.sort_unstable();
        names
    }
}

impl LocalService {
    /// Registers an endpoint until the registration is dropped. It replaces one of the same address, whose
    /// registration has no effect any more.
    pub fn register(&self, endpoint: impl Into<Arc<Endpoint>>) -> LocalRegistration {
        let endpoint = endpoint.into();
        let revision = self.shared.change(|state| state.put(Arc::clone(&endpoint)));
        LocalRegistration { shared: Arc::clone(&self.shared), endpoint, revision }
    }

    /// The endpoints that are registered now, in the order of their addresses.
    #[inline]
    pub fn endpoints(&self) -> Endpoints {
        let list = self.shared.published.load();
        if list.revision == self.shared.revision.load(Ordering::Acquire) {
            return Endpoints(list);
        }
        drop(list);
        self.shared.renew_list()
    }

    /// Watches the service from now on.
    pub fn watch(&self) -> LocalWatch {
        LocalWatch::new(Arc::clone(&self.shared))
    }
}

/// Keeps an endpoint registered. Dropping it deregisters the endpoint.
#[must_use = "the endpoint is deregistered when this is dropped"]
pub struct LocalRegistration {
    shared: Arc<SharedService>,
    endpoint: Arc<Endpoint>,
    /// The revision of the registration or of its last update.
    revision: u64,
}

impl LocalRegistration {
    /// Replaces what is known of the endpoint. Its address stays what it was.
    ///
    /// Nothing happens if another registration has replaced this one.
    pub fn update(&mut self, change: impl FnOnce(Endpoint) -> Endpoint) {
        let changed = change(Endpoint::clone(&self.endpoint)).at(self.endpoint.address());
        let (endpoint, former) = (Arc::new(changed), self.revision);
        let mut is_ours = false;
        let revision = self.shared.change(|state| {
            is_ours = state.has(endpoint.address(), former);
            if is_ours {
                state.put(Arc::clone(&endpoint));
            }
        });
        if is_ours {
            (self.endpoint, self.revision) = (endpoint, revision);
        }
    }
}

impl Drop for LocalRegistration {
    fn drop(&mut self) {
        self.shared.change(|state| state.remove(self.endpoint.address(), self.revision));
    }
}

impl SharedService {
    fn new() -> Self {
        let list = List { revision: 0, endpoints: Vec::new() };
        Self {
            revision: AtomicU64::new(0),
            published: ArcSwap::from_pointee(list),
            state: Mutex::default(),
        }
    }

    /// Changes the state, and wakes who watches. Returns the revision after that.
    fn change(&self, make: impl FnOnce(&mut ServiceState)) -> u64 {
        let mut state = lock(&self.state);
        let before = state.revision;
        make(&mut state);
        let after = state.revision;
        if after == before {
            return after;
        }
        self.revision.store(after, Ordering::Release);
        if !state.waiting.is_empty() {
            let woken = std::mem::take(&mut state.waiting);
            drop(state);
            woken.into_values().for_each(wake);
        }
        after
    }

    /// The list of this moment. It is published when it is read for the second time, because publishing costs more
    /// than a lock, and lists of services that change all the time are read once.
    #[cold]
    fn renew_list(&self) -> Endpoints {
        let mut state = lock(&self.state);
        let (list, is_new) = state.list();
        if !is_new {
            // Lists are published in the order of their revisions, under the lock.
            let former = self.published.swap(Arc::clone(&list));
            drop(state);
            drop(former);
        }
        Endpoints(Guard::from_inner(list))
    }
}

/// Wakes a task, whose executor may be anybody's.
fn wake(waker: Waker) {
    contain("a waker", || waker.wake());
}

/// No code of a user runs under these locks, so what a poisoned one holds is sound.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
