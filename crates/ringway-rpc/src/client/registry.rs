//! The registry of the process's clients: their configuration, and the cores that have a pool of each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::config::ClientConfig;
use super::hosts::HostList;
use crate::slab::{Slab, SlabKey};

/// Identifies a client in the whole process. The id of a dropped client resolves to nothing.
pub(super) type ClientId = SlabKey;

/// A client in the registry.
pub(super) struct RegisteredClient {
    config: Arc<ClientConfig>,
    hosts: HostList,
    /// Running cores that have a pool of the client.
    pub(super) cores: Vec<u32>,
}

static CLIENTS: Mutex<Slab<RegisteredClient>> = Mutex::new(Slab::new());

pub(super) fn register(config: Arc<ClientConfig>, hosts: HostList) -> ClientId {
    clients().insert(RegisteredClient { config, hosts, cores: Vec::new() })
}

/// Removes a client whose last handle was dropped. The result holds the user's interceptors, so drop it
/// after the cores have been told.
pub(super) fn remove(client: ClientId) -> Option<RegisteredClient> {
    clients().remove(client)
}

/// Changes the hosts of a client. Returns the cores that have to [read](hosts) the new list from here, so
/// that the last list wins in whatever order they are told.
pub(super) fn set_hosts(client: ClientId, hosts: HostList) -> Vec<u32> {
    let mut clients = clients();
    let Some(entry) = clients.get_mut(client) else {
        return Vec::new();
    };
    let former = std::mem::replace(&mut entry.hosts, hosts);
    let cores = entry.cores.clone();
    drop(clients);
    drop(former);
    cores
}

/// The hosts of a client; `None` if it was dropped.
pub(super) fn hosts(client: ClientId) -> Option<HostList> {
    clients().get(client).map(|entry| Arc::clone(&entry.hosts))
}

/// Records that a core has a pool of the client, and returns what is needed to make one; `None` if the
/// client was dropped.
pub(super) fn join(client: ClientId, core: u32) -> Option<(Arc<ClientConfig>, HostList)> {
    let mut clients = clients();
    let entry = clients.get_mut(client)?;
    entry.cores.push(core);
    Some((Arc::clone(&entry.config), Arc::clone(&entry.hosts)))
}

/// Removes an ended core that had pools of these clients.
pub(super) fn leave(gone: impl Iterator<Item = ClientId>, core: u32) {
    let mut clients = clients();
    for client in gone {
        if let Some(entry) = clients.get_mut(client) {
            entry.cores.retain(|other| *other != core);
        }
    }
}

/// No user code runs under the lock, so the content of a poisoned one is sound.
fn clients() -> MutexGuard<'static, Slab<RegisteredClient>> {
    CLIENTS.lock().unwrap_or_else(PoisonError::into_inner)
}
