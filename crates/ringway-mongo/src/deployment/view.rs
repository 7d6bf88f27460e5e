//! What other threads see of the servers that a core knows.

use std::sync::{Arc, Mutex, PoisonError};

use crate::pool::{PoolCounts, PoolFigures};
use crate::topology::{ServerDescription, ServerType};

/// The servers of a core in the order of their addresses, as they were when something was learned last. The figures of their
/// pools are those of now.
#[derive(Default)]
pub(crate) struct DeploymentView(Mutex<Vec<ShownServer>>);

type ShownServer = (ServerDescription, Arc<PoolFigures>);

impl DeploymentView {
    pub(super) fn show(&self, mut servers: Vec<ShownServer>) {
        servers.sort_by(|(one, _), (other, _)| one.address.cmp(&other.address));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = servers;
    }

    /// Adds what its pools have done. Those of servers that do not belong to the deployment any more are left out.
    pub(crate) fn add_counts(&self, mut counts: PoolCounts) -> PoolCounts {
        let servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        servers.iter().for_each(|(_, pool)| counts.add(pool));
        counts
    }

    /// Connections that wait for an operation.
    pub(crate) fn idle_count(&self) -> usize {
        let servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        servers.iter().map(|(_, pool)| pool.idle()).sum()
    }

    /// Adds what is known of each server, unless more is known of it already.
    pub(crate) fn add_servers(&self, known: &mut Vec<ServerDescription>) {
        for (server, _) in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            match known.binary_search_by(|it| it.address.cmp(&server.address)) {
                Err(at) => known.insert(at, server.clone()),
                Ok(at) if known[at].kind == ServerType::Unknown => known[at] = server.clone(),
                Ok(_) => {}
            }
        }
    }
}
