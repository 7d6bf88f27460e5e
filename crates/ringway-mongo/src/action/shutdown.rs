//! The orderly end of a client.

use std::sync::Arc;

use crate::client_shared::ClientShared;
use crate::error::Result;
use crate::running::{OnCore, Operation};

/// The end of a client, made by [`Client::shutdown`](crate::Client::shutdown).
pub struct Shutdown {
    client: Arc<ClientShared>,
}

impl Shutdown {
    pub(crate) fn new(client: Arc<ClientShared>) -> Self {
        Self { client }
    }
}

impl Operation for Shutdown {
    type Output = ();

    fn client(&self) -> &Arc<ClientShared> {
        &self.client
    }

    async fn run(self, OnCore(core): OnCore) -> Result {
        core.end_sessions().await;
        Ok(())
    }
}
