//! A service of a process's own registry, shared by all who look at it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use arc_swap::{ArcSwap, Guard};
use ringway_runtime::contain;

use super::state::{List, ServiceState};
use crate::endpoint::Endpoint;

pub(super) struct SharedService {
    pub(super) state: Mutex<ServiceState>,
    /// The revision of the last change, which tells whether the list is out of date.
    revision: AtomicU64,
    /// A list that was read more than once.
    published: ArcSwap<List>,
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

impl SharedService {
    /// A service without endpoints, of this revision.
    pub(super) fn new(revision: u64) -> Self {
        let list = List { revision, endpoints: Vec::new() };
        Self {
            revision: AtomicU64::new(revision),
            published: ArcSwap::from_pointee(list),
            state: Mutex::new(ServiceState::at(revision)),
        }
    }

    /// Changes the state, and wakes who watches. Returns the revision after that.
    pub(super) fn change(&self, make: impl FnOnce(&mut ServiceState)) -> u64 {
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

    /// The endpoints of this moment.
    #[inline]
    pub(super) fn endpoints(&self) -> Endpoints {
        let list = self.published.load();
        if list.revision == self.revision.load(Ordering::Acquire) {
            return Endpoints(list);
        }
        drop(list);
        self.renew_list()
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
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
