//! What all threads share of a client.

use std::sync::{Arc, Mutex, PoisonError};

use crate::here::{self, CoreNumber};
use crate::options::ClientOptions;
use crate::session::{ClusterClock, SessionPool};

/// What all threads share of a client.
pub struct ClientShared {
    pub(crate) id: u64,
    pub(crate) options: Arc<ClientOptions>,
    pub(crate) sessions: Arc<SessionPool>,
    pub(crate) clock: Arc<ClusterClock>,
    /// The cores that have a part of it.
    cores: Mutex<Vec<CoreNumber>>,
}

impl ClientShared {
    pub(crate) fn new(options: ClientOptions) -> Arc<Self> {
        Arc::new(Self {
            id: here::next_client_id(),
            options: Arc::new(options),
            sessions: Arc::default(),
            clock: Arc::default(),
            cores: Mutex::default(),
        })
    }

    /// Notes a core that has a part of the client from now on.
    pub(crate) fn is_on(&self, core: CoreNumber) {
        self.cores.lock().unwrap_or_else(PoisonError::into_inner).push(core);
    }
}

impl Drop for ClientShared {
    fn drop(&mut self) {
        let cores = self.cores.get_mut().unwrap_or_else(PoisonError::into_inner);
        cores.drain(..).for_each(|core| here::forget(core, self.id));
    }
}
