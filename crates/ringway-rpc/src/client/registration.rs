//! The registration of a client, which its handles share.

use std::sync::Arc;

use super::config::ClientConfig;
use super::hosts::{Host, HostList};
use super::local_clients;
use super::registry::{self, ClientId};
use crate::call::status::Status;
use crate::metrics::Snapshot;

/// A registered client. Dropping it ends the client.
pub(super) struct Registration {
    pub(super) id: ClientId,
    /// Whether there are interceptors; most clients have none.
    pub(super) is_intercepted: bool,
    /// Whether the servers speak JSON-RPC.
    pub(super) speaks_json: bool,
    config: Arc<ClientConfig>,
}

impl Registration {
    pub(super) fn new(config: Arc<ClientConfig>, hosts: HostList) -> Self {
        let is_intercepted = !config.interceptors.is_empty();
        let speaks_json = speak_json(&hosts);
        let id = registry::register(Arc::clone(&config), hosts);
        Self { id, is_intercepted, speaks_json, config }
    }

    /// Changes the hosts on every core that has a pool of the client.
    ///
    /// # Errors
    /// Fails as [`Client::set_hosts`](super::Client::set_hosts) does.
    pub(super) fn set_hosts(&self, hosts: impl IntoIterator<Item = Host>) -> Result<(), Status> {
        let (client, hosts) = (self.id, self.config.connector.list(hosts)?);
        if speak_json(&hosts) != self.speaks_json {
            let why = "a client of JSON-RPC servers stays one, and any other stays another";
            return Err(Status::invalid_argument(why));
        }
        for core in registry::set_hosts(client, hosts) {
            local_clients::on_core(core, move |local| local.look_at_hosts(client));
        }
        Ok(())
    }

    pub(super) fn metrics(&self) -> Snapshot {
        self.config.metrics.snapshot()
    }
}

/// Whether the servers of a list speak JSON-RPC: all do, or none.
fn speak_json(hosts: &HostList) -> bool {
    hosts.iter().all(|host| host.address.protocol.is_json())
}

impl Drop for Registration {
    /// Closes the client's pools on every core, once their calls are over.
    fn drop(&mut self) {
        let client = self.id;
        let Some(removed) = registry::remove(client) else {
            debug_assert!(false, "a client is removed once");
            return;
        };
        for &core in &removed.cores {
            local_clients::on_core(core, move |local| local.close_pool(client));
        }
        drop(removed);
    }
}
