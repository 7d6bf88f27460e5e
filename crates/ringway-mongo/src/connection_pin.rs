//! What keeps a connection with a transaction behind a load balancer.

use std::fmt;

use crate::pool::ServerId;

/// The number of a connection that stays with a transaction. Dropping this, on whatever thread, lets it go.
pub(crate) struct ConnectionPin {
    id: ServerId,
    /// Taken by `drop` only.
    release: Option<Box<dyn FnOnce(ServerId) + Send>>,
}

impl ConnectionPin {
    pub(crate) fn new(id: ServerId, release: impl FnOnce(ServerId) + Send + 'static) -> Self {
        Self { id, release: Some(Box::new(release)) }
    }

    pub(crate) fn id(&self) -> ServerId {
        self.id
    }
}

impl Drop for ConnectionPin {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release(self.id);
        }
    }
}

impl fmt::Debug for ConnectionPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConnectionPin").field(&self.id).finish()
    }
}
