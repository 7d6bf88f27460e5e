//! A watch in a user's hands.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::shared::SharedState;
use crate::contract::{self, EndpointChange, Freshness, ServiceWatch};
use crate::endpoint::Endpoint;
use crate::store::Revision;

/// The last list of a service, as the task that follows it has left it.
pub(super) struct Published {
    pub(super) endpoints: Vec<Arc<Endpoint>>,
    pub(super) revision: i64,
    pub(super) freshness: Freshness,
    /// Whether the registry has told this list twice, because it was hard to believe.
    pub(super) is_confirmed: bool,
    /// Whether the owner has not seen it yet.
    pub(super) is_new: bool,
    /// Whether the owner is gone.
    pub(super) is_dropped: bool,
}

/// Sees the endpoints of a service on etcd.
pub(super) struct EtcdWatch {
    pub(super) shared: Arc<SharedState<Published>>,
    pub(super) known: Vec<Arc<Endpoint>>,
    pub(super) revision: i64,
    pub(super) freshness: Freshness,
    pub(super) is_confirmed: bool,
}

impl ServiceWatch for EtcdWatch {
    fn endpoints(&self) -> &[Arc<Endpoint>] {
        &self.known
    }

    fn revision(&self) -> Revision {
        Revision(self.revision)
    }

    fn freshness(&self) -> Freshness {
        self.freshness.clone()
    }

    fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<Vec<EndpointChange>> {
        loop {
            let look = |published: &mut Published| {
                let is_new = std::mem::take(&mut published.is_new);
                is_new.then(|| {
                    let list = published.endpoints.clone();
                    let about = (published.freshness.clone(), published.is_confirmed);
                    (list, published.revision, about)
                })
            };
            let Poll::Ready((now, revision, about)) = self.shared.poll_owner(cx, look) else {
                return Poll::Pending;
            };
            let (freshness, is_confirmed) = about;
            let changes = contract::difference(&self.known, &now);
            let has_changed = !changes.is_empty() || self.freshness != freshness;
            (self.known, self.revision, self.freshness) = (now, revision, freshness);
            self.is_confirmed = is_confirmed;
            if has_changed {
                return Poll::Ready(changes);
            }
        }
    }
}

impl Drop for EtcdWatch {
    fn drop(&mut self) {
        self.shared.tell_task(|published| published.is_dropped = true);
    }
}
