//! When two views of servers are the same for who is told of changes, by the specification "SDAM Logging and
//! Monitoring".

use std::collections::BTreeMap;

use super::{Election, HEARTBEAT_DEFAULT, ServerDescription, Topology, TopologyType};

impl Topology {
    /// A view without servers.
    pub(crate) fn nothing() -> Self {
        Self {
            kind: TopologyType::Unknown,
            set_name: None,
            newest: Election::default(),
            servers: BTreeMap::new(),
            gone: BTreeMap::new(),
            seeds: 0,
            heartbeat: HEARTBEAT_DEFAULT,
        }
    }

    /// The same servers, of which nothing is known.
    pub(crate) fn before_answers(&self) -> Self {
        let mut first = self.clone();
        for server in first.servers.values_mut() {
            server.description = server.description.before_answers();
        }
        first
    }

    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let known = |it: &Self| (it.kind, it.newest.id, it.newest.set_version, it.servers.len());
        known(self) == known(other)
            && self.set_name == other.set_name
            && self.servers().zip(other.servers()).all(|(one, other)| one.is_like(other))
    }
}

impl ServerDescription {
    pub(crate) fn before_answers(&self) -> Self {
        Self::unknown(self.address.clone(), None)
    }

    /// Whether it differs in nothing but times.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let part = |it: &Self| {
            (it.kind, it.min_wire_version, it.max_wire_version, it.set_version, it.election_id)
        };
        part(self) == part(other)
            && self.address == other.address
            && self.error == other.error
            && self.me == other.me
            && self.members == other.members
            && self.primary == other.primary
            && self.tags == other.tags
            && self.set_name == other.set_name
            && self.session_timeout_minutes == other.session_timeout_minutes
            && self.topology_version == other.topology_version
    }
}
