//! A registry inside one process, shared by all its threads.
//!
//! Each service has a store and a lock of its own, so services do not wait for each other. A look-up takes no lock: it
//! loads the list that the last look-up after a change has made.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use ringway_runtime::contain;

use crate::endpoint::Endpoint;
use crate::limits;
use crate::store::{Bounds, KeyRange, LeaseId, Revision, Store};

mod watch;

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
    services: Arc<Mutex<HashMap<String, Arc<Shared>>>>,
}

/// A service of a [`Local`] registry; cheap to clone, usable on any thread.
#[derive(Clone)]
pub struct LocalService {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// The revision of the last change, which tells whether the list is out of date.
    revision: AtomicU64,
    list: ArcSwap<List>,
}

struct State {
    store: Store<Arc<Endpoint>>,
    /// Whom to wake at the next change, by watch.
    waiting: HashMap<u64, Waker>,
    next_watch: u64,
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
        let shared = Arc::new(Shared::new());
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
        let key = Bytes::copy_from_slice(endpoint.address().as_bytes());
        let revision = self.shared.put(key.clone(), endpoint);
        LocalRegistration { shared: Arc::clone(&self.shared), key, revision }
    }

    /// The endpoints that are registered now, in the order of their addresses.
    #[inline]
    pub fn endpoints(&self) -> Endpoints {
        let list = self.shared.list.load();
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
    shared: Arc<Shared>,
    key: Bytes,
    revision: Revision,
}

impl LocalRegistration {
    /// Replaces what is known of the endpoint. Its address stays what it was.
    ///
    /// Nothing happens if another registration has replaced this one.
    pub fn update(&mut self, change: impl FnOnce(Endpoint) -> Endpoint) {
        let Some(former) =
            self.shared.get(&self.key).filter(|(revision, _)| *revision == self.revision)
        else {
            return;
        };
        let endpoint = change(Endpoint::clone(&former.1)).at(former.1.address());
        if let Some(revision) = self.shared.replace(&self.key, self.revision, Arc::new(endpoint)) {
            self.revision = revision;
        }
    }
}

impl Drop for LocalRegistration {
    fn drop(&mut self) {
        self.shared.remove(&self.key, self.revision);
    }
}

impl Shared {
    fn new() -> Self {
        let bounds = Bounds { changes: limits::LOCAL_HISTORY_CHANGES_MAX, bytes: usize::MAX };
        let store = Store::new(|_| 0).bounded(bounds);
        let list = List { revision: 0, endpoints: Vec::new() };
        Self {
            revision: AtomicU64::new(0),
            list: ArcSwap::from_pointee(list),
            state: Mutex::new(State { store, waiting: HashMap::new(), next_watch: 0 }),
        }
    }

    fn get(&self, key: &[u8]) -> Option<(Revision, Arc<Endpoint>)> {
        lock(&self.state).store.get(key).map(|found| (found.mod_revision, found.value))
    }

    fn put(&self, key: Bytes, endpoint: Arc<Endpoint>) -> Revision {
        self.change(|store| {
            let (replaced, revision) =
                store.change(|change| change.put(key, endpoint, LeaseId::NONE));
            debug_assert!(replaced.is_ok(), "it has no lease");
            (replaced.ok().flatten(), revision)
        })
    }

    /// Replaces an endpoint if its last change was that of `revision`.
    fn replace(
        &self,
        key: &Bytes,
        revision: Revision,
        endpoint: Arc<Endpoint>,
    ) -> Option<Revision> {
        self.change(|store| {
            let is_ours = store.get(key).is_some_and(|found| found.mod_revision == revision);
            if !is_ours {
                return (None, None);
            }
            let (replaced, revision) =
                store.change(|change| change.put(key.clone(), endpoint, LeaseId::NONE));
            (replaced.ok().flatten(), Some(revision))
        })
    }

    /// Removes an endpoint if its last change was that of `revision`.
    fn remove(&self, key: &Bytes, revision: Revision) {
        self.change(|store| {
            let found = store.get(key).filter(|found| found.mod_revision == revision);
            let gone =
                found.map(|_| store.change(|change| change.delete(&KeyRange::Key(key.clone()))).0);
            (gone, ())
        });
    }

    /// Changes the store and wakes who watches. What `make` returns first is dropped outside of the lock.
    fn change<D, T>(&self, make: impl FnOnce(&mut Store<Arc<Endpoint>>) -> (D, T)) -> T {
        let mut state = lock(&self.state);
        let before = state.store.revision();
        let (dropped, made) = make(&mut state.store);
        let after = state.store.revision();
        let mut woken = HashMap::new();
        if after != before {
            self.revision.store(after.0.cast_unsigned(), Ordering::Release);
            std::mem::swap(&mut woken, &mut state.waiting);
        }
        drop(state);
        drop(dropped);
        for waker in woken.into_values() {
            contain("a waker", || waker.wake());
        }
        made
    }

    #[cold]
    fn renew_list(&self) -> Endpoints {
        let state = lock(&self.state);
        let revision = state.store.revision().0.cast_unsigned();
        let read = state.store.read(&KeyRange::all(), None, usize::MAX);
        let endpoints = read
            .map_or_else(|_| Vec::new(), |read| read.keys.into_iter().map(|it| it.value).collect());
        // Lists are stored in the order of their revisions, under the lock.
        let former = self.list.swap(Arc::new(List { revision, endpoints }));
        let list = self.list.load();
        drop(state);
        drop(former);
        Endpoints(list)
    }
}

/// No code of a user runs under these locks, so what a poisoned one holds is sound.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
