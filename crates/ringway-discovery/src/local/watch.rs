//! Watching a service of the same process.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::{SharedService, lock};
use crate::endpoint::Endpoint;

/// A change of a service's endpoints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EndpointChange {
    /// An endpoint was registered.
    Added(Arc<Endpoint>),
    /// An endpoint has changed.
    Updated(Arc<Endpoint>),
    /// An endpoint was deregistered. This is what it was.
    Removed(Arc<Endpoint>),
}

/// Sees the changes of a service, from the moment at which the watch was made.
///
/// A watch that is not asked for long misses changes in between, and makes up for them: what it tells always leads from
/// the endpoints that it has told of to those that there are.
pub struct LocalWatch {
    shared: Arc<SharedService>,
    id: u64,
    /// The revision that the watch has told of.
    seen: u64,
    /// The endpoints as this watch has told of them.
    known: Vec<Arc<Endpoint>>,
}

impl LocalWatch {
    pub(super) fn new(shared: Arc<SharedService>) -> Self {
        let mut state = lock(&shared.state);
        let id = state.next_watch;
        state.next_watch += 1;
        let (seen, known) = (state.revision, state.list().0.endpoints.clone());
        drop(state);
        Self { shared, id, seen, known }
    }

    /// The endpoints that the watch has told of, or begun with, in the order of their addresses.
    pub fn endpoints(&self) -> &[Arc<Endpoint>] {
        &self.known
    }

    /// Waits for the next changes, in their order. The list is never empty.
    pub async fn changed(&mut self) -> Vec<EndpointChange> {
        poll_fn(|cx| self.poll_changed(cx)).await
    }

    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<Vec<EndpointChange>> {
        let waker = cx.waker().clone();
        let mut state = lock(&self.shared.state);
        let remembered = state.changes_after(self.seen);
        let changes =
            remembered.unwrap_or_else(|| difference(&self.known, &state.list().0.endpoints));
        self.seen = state.revision;
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

impl Drop for LocalWatch {
    fn drop(&mut self) {
        let waker = lock(&self.shared.state).waiting.remove(&self.id);
        drop(waker);
    }
}

/// The changes that lead from one list to another, both in the order of their addresses.
pub(crate) fn difference(before: &[Arc<Endpoint>], now: &[Arc<Endpoint>]) -> Vec<EndpointChange> {
    let (mut before, mut now) = (before.iter().peekable(), now.iter().peekable());
    let mut changes = Vec::new();
    loop {
        let next = match (before.peek(), now.peek()) {
            (None, None) => return changes,
            (Some(old), Some(new)) if old.address() == new.address() => {
                let change = (old != new).then(|| EndpointChange::Updated(Arc::clone(new)));
                before.next();
                now.next();
                change
            }
            (Some(old), new) if new.is_none_or(|new| old.address() < new.address()) => {
                before.next().map(|old| EndpointChange::Removed(Arc::clone(old)))
            }
            _ => now.next().map(|new| EndpointChange::Added(Arc::clone(new))),
        };
        changes.extend(next);
    }
}
