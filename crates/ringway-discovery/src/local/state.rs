//! The endpoints of one service, and its last changes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use crate::contract::EndpointChange;
use crate::endpoint::Endpoint;
use crate::limits;

/// What the lock of a service guards.
#[derive(Default)]
pub(super) struct ServiceState {
    /// The endpoints in the order of their addresses.
    endpoints: Vec<Registered>,
    /// The last list that was made; it may be out of date.
    list: Option<Arc<List>>,
    /// The number of changes so far, with those of a service of this name that was forgotten.
    pub(super) revision: u64,
    /// The last changes; the last of them has made `revision`.
    log: VecDeque<EndpointChange>,
    /// Whom to wake at the next change, by watch or registration.
    pub(super) waiting: HashMap<u64, Waker>,
    waiters: u64,
}

/// The endpoints at one revision.
pub(super) struct List {
    pub(super) revision: u64,
    pub(super) endpoints: Vec<Arc<Endpoint>>,
}

struct Registered {
    /// The revision of the registration or of its last update.
    revision: u64,
    endpoint: Arc<Endpoint>,
}

impl ServiceState {
    /// No endpoints, at a revision.
    pub(super) fn at(revision: u64) -> Self {
        Self { revision, ..Self::default() }
    }

    /// A number for one more watch or registration.
    pub(super) fn next_waiter(&mut self) -> u64 {
        self.waiters += 1;
        self.waiters
    }

    /// The list of the endpoints, and whether this call has made it.
    pub(super) fn list(&mut self) -> (Arc<List>, bool) {
        if let Some(list) = self.list.as_ref().filter(|list| list.revision == self.revision) {
            return (Arc::clone(list), false);
        }
        let endpoints = self.endpoints.iter().map(|registered| Arc::clone(&registered.endpoint));
        let list = Arc::new(List { revision: self.revision, endpoints: endpoints.collect() });
        self.list = Some(Arc::clone(&list));
        (list, true)
    }

    /// Whether the last change of this address's endpoint was that of `revision`.
    pub(super) fn has(&self, address: &str, revision: u64) -> bool {
        self.find(address).is_ok_and(|at| self.endpoints[at].revision == revision)
    }

    /// Adds an endpoint, or replaces that of the same address.
    pub(super) fn put(&mut self, endpoint: Arc<Endpoint>) {
        let registered =
            Registered { revision: self.revision + 1, endpoint: Arc::clone(&endpoint) };
        let change = match self.find(endpoint.address()) {
            Ok(at) => {
                self.endpoints[at] = registered;
                EndpointChange::Updated(endpoint)
            }
            Err(at) => {
                self.endpoints.insert(at, registered);
                EndpointChange::Added(endpoint)
            }
        };
        self.log(change);
    }

    /// Removes the endpoint of this address, if its last change was that of `revision`.
    pub(super) fn remove(&mut self, address: &str, revision: u64) {
        if let Ok(at) = self.find(address)
            && self.endpoints[at].revision == revision
        {
            let Registered { endpoint, .. } = self.endpoints.remove(at);
            self.log(EndpointChange::Removed(endpoint));
        }
    }

    /// The changes after a revision; `None` if they are not remembered any more.
    pub(super) fn changes_after(&self, revision: u64) -> Option<Vec<EndpointChange>> {
        let missed = usize::try_from(self.revision - revision).ok()?;
        let first = self.log.len().checked_sub(missed)?;
        Some(self.log.range(first..).cloned().collect())
    }

    fn find(&self, address: &str) -> Result<usize, usize> {
        self.endpoints.binary_search_by(|registered| registered.endpoint.address().cmp(address))
    }

    fn log(&mut self, change: EndpointChange) {
        self.revision += 1;
        if self.log.len() >= limits::LOCAL_HISTORY_CHANGES_MAX {
            self.log.pop_front();
        }
        self.log.push_back(change);
    }
}
