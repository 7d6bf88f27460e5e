//! Watching a service of the same process.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::shared::{SharedService, lock};
use crate::contract::{self, EndpointChange, Freshness, ServiceSnapshot, ServiceWatch};
use crate::endpoint::Endpoint;
use crate::store::Revision;

/// Sees the changes of a service, from the moment at which the watch was made.
///
/// A watch that is not asked for long misses changes in between, and makes up for them: what it tells always leads from
/// the endpoints that it has told of to those that there are.
pub struct LocalWatch {
    shared: Arc<SharedService>,
    id: u64,
    /// The revision that the watch has told of; `None` if what it knows is from elsewhere.
    seen: Option<u64>,
    /// The endpoints as this watch has told of them.
    known: Vec<Arc<Endpoint>>,
}

impl LocalWatch {
    pub(super) fn new(shared: Arc<SharedService>) -> Self {
        let mut state = lock(&shared.state);
        let id = state.next_waiter();
        let (seen, known) = (Some(state.revision), state.list().0.endpoints.clone());
        drop(state);
        Self { shared, id, seen, known }
    }

    /// A watch that begins with the endpoints of a snapshot.
    pub(super) fn from(shared: Arc<SharedService>, snapshot: ServiceSnapshot) -> Self {
        let id = lock(&shared.state).next_waiter();
        let mut known = snapshot.endpoints;
        known.sort_by(|one, other| one.address().cmp(other.address()));
        known.dedup_by(|one, other| one.address() == other.address());
        Self { shared, id, seen: None, known }
    }

    /// The endpoints that the watch has told of, or begun with, in the order of their addresses.
    pub fn endpoints(&self) -> &[Arc<Endpoint>] {
        &self.known
    }

    /// Waits for the next changes, in their order. The list is never empty.
    pub async fn changed(&mut self) -> Vec<EndpointChange> {
        poll_fn(|cx| self.poll_next_changes(cx)).await
    }

    fn poll_next_changes(&mut self, cx: &mut Context<'_>) -> Poll<Vec<EndpointChange>> {
        let waker = cx.waker().clone();
        let mut state = lock(&self.shared.state);
        let remembered = self.seen.and_then(|seen| state.changes_after(seen));
        let changes = remembered
            .unwrap_or_else(|| contract::difference(&self.known, &state.list().0.endpoints));
        self.seen = Some(state.revision);
        let former = if changes.is_empty() { state.waiting.insert(self.id, waker) } else { None };
        drop(state);
        drop(former);
        if changes.is_empty() {
            return Poll::Pending;
        }
        changes.iter().for_each(|change| self.note(change));
        Poll::Ready(changes)
    }

    fn note(&mut self, change: &EndpointChange) {
        let (EndpointChange::Added(endpoint)
        | EndpointChange::Updated(endpoint)
        | EndpointChange::Removed(endpoint)) = change;
        let found = self.known.binary_search_by(|known| known.address().cmp(endpoint.address()));
        match (change, found) {
            (EndpointChange::Removed(_), Ok(at)) => drop(self.known.remove(at)),
            (EndpointChange::Removed(_), Err(_)) => {}
            (_, Ok(at)) => self.known[at] = Arc::clone(endpoint),
            (_, Err(at)) => self.known.insert(at, Arc::clone(endpoint)),
        }
    }
}

impl ServiceWatch for LocalWatch {
    fn endpoints(&self) -> &[Arc<Endpoint>] {
        &self.known
    }

    fn revision(&self) -> Revision {
        Revision(self.seen.unwrap_or_default().cast_signed())
    }

    fn freshness(&self) -> Freshness {
        Freshness::Current
    }

    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<Vec<EndpointChange>> {
        self.poll_next_changes(cx)
    }
}

impl Drop for LocalWatch {
    fn drop(&mut self) {
        let waker = lock(&self.shared.state).waiting.remove(&self.id);
        drop(waker);
    }
}
