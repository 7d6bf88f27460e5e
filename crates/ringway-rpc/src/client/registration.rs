//! The registration of a client, which its handles share.

use std::path::PathBuf;
use std::sync::Arc;

use super::config::ClientConfig;
use super::hosts::{Host, HostList};
use super::local_clients;
use super::registry::{self, ClientId};
use super::resolve::{self, KeeperArgs, Resolver, ResolverStats};
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
        if let Some(resolver) = &self.config.resolver {
            let why = format!("the servers of this client come from {}", resolver.source());
            return Err(Status::invalid_argument(why));
        }
        let (client, hosts) = (self.id, self.config.connector.list(hosts, &self.config.rules)?);
        if speak_json(&hosts) != self.speaks_json {
            let why = "a client of JSON-RPC servers stays one, and any other stays another";
            return Err(Status::invalid_argument(why));
        }
        for core in registry::set_hosts(client, hosts) {
            local_clients::on_core(core, move |local| local.look_at_hosts(client));
        }
        Ok(())
    }

    /// Starts the client's resolver.
    ///
    /// # Errors
    /// Fails when the background core cannot be started.
    pub(super) fn resolve(
        &self,
        resolver: Box<dyn Resolver>,
        last_known: Option<PathBuf>,
    ) -> Result<(), Status> {
        let Some(state) = self.config.resolver.clone() else {
            debug_assert!(false, "the configuration has the state of its resolver");
            return Ok(());
        };
        let (connector, rules) = (self.config.connector.clone(), self.config.rules.clone());
        let args = KeeperArgs { client: self.id, state, connector, rules, last_known };
        resolve::start(args, resolver)
    }

    /// What is known of the client's resolver, if it has one.
    pub(super) fn resolver_stats(&self) -> Option<ResolverStats> {
        self.config.resolver.as_ref().map(|state| state.stats())
    }

    pub(super) fn metrics(&self) -> Snapshot {
        self.config.metrics.snapshot()
    }
}

/// Whether the servers of a list speak JSON-RPC: all do, or none.
fn speak_json(hosts: &HostList) -> bool {
    !hosts.is_empty() && hosts.iter().all(|host| host.address.protocol.is_json())
}

impl Drop for Registration {
    /// Closes the client's pools on every core, once their calls are over.
    fn drop(&mut self) {
        let client = self.id;
        if let Some(resolver) = &self.config.resolver {
            resolver.close();
        }
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
