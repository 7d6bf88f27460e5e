//! `ping`

use std::sync::Arc;

use bson::RawDocument;

use crate::client_core::{Purpose, Slot};
use crate::client_shared::ClientShared;
use crate::error::Result;
use crate::running::{OnCore, Operation};

/// `{ ping: 1 }`
const PING: &[u8; 15] = b"\x0f\0\0\0\x10ping\0\x01\0\0\0\0";

/// Asks the server whether it is there. It is sent more often than any other command, so nothing is made for it.
pub(crate) struct Ping {
    pub(crate) client: Arc<ClientShared>,
    pub(crate) database: Arc<str>,
}

impl Operation for Ping {
    type Output = ();

    fn client(&self) -> &Arc<ClientShared> {
        &self.client
    }

    async fn run(self, OnCore(core): OnCore) -> Result {
        let ping = RawDocument::from_bytes(PING).expect("its length and its end are right");
        let write = |slot: Slot<'_>| slot.write_any(ping, &self.database);
        core.run(Purpose::ReadOnce, write, |_| Ok(())).await
    }
}
