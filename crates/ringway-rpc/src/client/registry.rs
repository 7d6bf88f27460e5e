//! The clients of this process: how their pools are made, and which cores have one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::config::ClientConfig;
use super::hosts::HostList;
use crate::slab::{Slab, SlabKey};

/// Names a client in the whole process. The id of a client that is gone resolves to nothing.
pub(super) type ClientId = SlabKey;

/// One client, as the process knows it.
pub(super) struct RegisteredClient {
    config: Arc<ClientConfig>,
    hosts: HostList,
    /// Cores that live and have a pool of the client.
    pub(super) cores: Vec<u32>,
}

static CLIENTS: Mutex<Slab<RegisteredClient>> = Mutex::new(Slab::new());

pub(super) fn register(config: Arc<ClientConfig>, hosts: HostList) -> ClientId {
    clients().insert(RegisteredClient { config, hosts, cores: Vec::new() })
}

/// Removes a client whose last handle is gone. The answer has interceptors of the user, so it is to be
/// dropped when its cores have been told.
pub(super) fn remove(client: ClientId) -> Option<RegisteredClient> {
    clients().remove(client)
}

/// Changes the hosts of a client. The answer is the cores that have to [look](hosts) here: so the last
/// list counts, in whatever order they are told.
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

/// The hosts of a client; `None` if it is gone.
pub(super) fn hosts(client: ClientId) -> Option<HostList> {
    clients().get(client).map(|entry| Arc::clone(&entry.hosts))
}

/// Notes that a core has a pool of the client, and tells how to make one; `None` if the client is
/// gone.
pub(super) fn join(client: ClientId, core: u32) -> Option<(Arc<ClientConfig>, HostList)> {
    let mut clients = clients();
    let entry = clients.get_mut(client)?;
    entry.cores.push(core);
    Some((Arc::clone(&entry.config), Arc::clone(&entry.hosts)))
}

/// A core that had pools of these clients has ended.
pub(super) fn leave(gone: impl Iterator<Item = ClientId>, core: u32) {
    let mut clients = clients();
    for client in gone {
        if let Some(entry) = clients.get_mut(client) {
            entry.cores.retain(|other| *other != core);
        }
    }
}

/// No foreign code runs under the lock, so a poisoned one guards sound content.
fn clients() -> MutexGuard<'static, Slab<RegisteredClient>> {
    CLIENTS.lock().unwrap_or_else(PoisonError::into_inner)
}
