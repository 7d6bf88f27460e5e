//! What all threads share of a client.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::connection::HandshakeMetadata;
use crate::deployment::DeploymentView;
use crate::here::{self, CoreNumber};
use crate::options::ClientOptions;
use crate::session::{ClusterClock, SessionPool};

/// What all threads share of a client.
pub struct ClientShared {
    pub(crate) id: u64,
    pub(crate) options: Arc<ClientOptions>,
    pub(crate) metadata: Arc<HandshakeMetadata>,
    pub(crate) sessions: Arc<SessionPool>,
    pub(crate) clock: Arc<ClusterClock>,
    /// The cores that have a part of it, and what they show of it.
    cores: Mutex<Vec<(CoreNumber, Weak<DeploymentView>)>>,
}

impl ClientShared {
    pub(crate) fn new(options: ClientOptions) -> Arc<Self> {
        let options = Arc::new(options);
        Arc::new(Self {
            id: here::next_client_id(),
            metadata: HandshakeMetadata::new(&options),
            options,
            sessions: Arc::default(),
            clock: Arc::default(),
            cores: Mutex::default(),
        })
    }

    /// Notes a core that has a part of the client from now on.
    pub(crate) fn is_on(&self, core: CoreNumber, view: &Arc<DeploymentView>) {
        let mut cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner);
        cores.retain(|(_, view)| view.strong_count() > 0);
        cores.push((core, Arc::downgrade(view)));
    }

    /// What is seen of it: on a core that core's part, elsewhere those of all cores.
    pub(crate) fn views(self: &Arc<Self>) -> Vec<Arc<DeploymentView>> {
        match here::core_of(self, None) {
            Some(core) => vec![Arc::clone(core.deployment().view())],
            None => {
                let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner);
                cores.iter().filter_map(|(_, view)| view.upgrade()).collect()
            }
        }
    }
}

impl Drop for ClientShared {
    fn drop(&mut self) {
        let cores = self.cores.get_mut().unwrap_or_else(PoisonError::into_inner);
        cores.drain(..).for_each(|(core, _)| here::forget(core, self.id));
    }
}
