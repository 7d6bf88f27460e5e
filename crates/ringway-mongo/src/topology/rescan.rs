//! What DNS says later, by the specification "Polling SRV Records for mongos Discovery".

use super::{HostAddress, Topology, TopologyType};

impl Topology {
    /// Whether the servers are those that DNS lists: replica sets tell of their members themselves.
    pub(crate) fn follows_dns(&self) -> bool {
        matches!(self.kind, TopologyType::Unknown | TopologyType::Sharded)
    }

    /// Takes what DNS lists, which is in no order: servers that are not in it leave, and others come until there are
    /// `servers_max`. An empty list changes nothing.
    pub(crate) fn rescan(&mut self, listed: &[HostAddress], servers_max: usize) {
        if !self.follows_dns() || listed.is_empty() {
            return;
        }
        self.servers.retain(|address, _| listed.contains(address));
        for address in listed {
            if self.servers.len() < servers_max {
                self.add(address);
            }
        }
    }
}
