//! Members of a replica set.

use super::server::{ServerDescription, ServerType};
use super::{HostAddress, Topology, TopologyType};

impl Topology {
    /// Takes the new description of a member, which is in place already.
    pub(super) fn update_set(&mut self, address: &HostAddress, kind: ServerType) {
        match kind {
            ServerType::Primary => self.update_from_primary(address),
            ServerType::Secondary | ServerType::Arbiter | ServerType::Other => {
                self.update_from_member(address)
            }
            ServerType::Standalone => {
                self.leave_out(address, format!("it stands alone, {}", self.wanted_set()));
            }
            ServerType::Mongos => {
                self.leave_out(address, format!("it is a router, {}", self.wanted_set()));
            }
            ServerType::Unknown | ServerType::Ghost | ServerType::LoadBalancer => {}
        }
        self.look_for_primary();
    }

    /// While there is no primary, members tell of each other; with one, it alone does.
    fn update_from_member(&mut self, address: &HostAddress) {
        let Some(server) = self.servers.get(address) else { return };
        let description = server.description.clone();
        let has_primary = self.kind == TopologyType::ReplicaSetWithPrimary;
        if !has_primary && self.set_name.is_none() {
            self.set_name.clone_from(&description.set_name);
        }
        if self.is_other_set(&description) {
            return;
        }
        if !has_primary {
            description.members.iter().for_each(|member| self.add(member));
        }
        if let Some(me) = description.me.filter(|me| me != address) {
            self.leave_out(address, format!("it calls itself {me}"));
        }
    }

    /// Leaves a member of another replica set out.
    fn is_other_set(&mut self, member: &ServerDescription) -> bool {
        let is_other = self.set_name != member.set_name;
        if is_other {
            let told = member.set_name.as_deref().unwrap_or("none");
            let why = format!("its replica set is {told}, {}", self.wanted_set());
            self.leave_out(&member.address, why);
        }
        is_other
    }

    fn wanted_set(&self) -> String {
        match &self.set_name {
            Some(name) => format!("and the replica set {name} is wanted"),
            None => "and a replica set is wanted".to_owned(),
        }
    }

    fn update_from_primary(&mut self, address: &HostAddress) {
        let Some(server) = self.servers.get(address) else { return };
        let description = server.description.clone();
        if self.set_name.is_none() {
            self.set_name.clone_from(&description.set_name);
        }
        if self.is_other_set(&description) {
            return;
        }
        if !self.newest.accept(&description) {
            self.forget(address, "another member has been elected primary since");
            return;
        }
        let others: Vec<_> =
            self.servers.keys().filter(|other| *other != address).cloned().collect();
        for other in others {
            if self.servers[&other].description.kind == ServerType::Primary {
                self.forget(&other, &format!("{address} has been elected primary since"));
            }
        }
        description.members.iter().for_each(|member| self.add(member));
        self.servers.retain(|member, _| description.members.contains(member));
    }

    /// Makes a server unknown, until its monitor asks it again.
    fn forget(&mut self, address: &HostAddress, reason: &str) {
        if let Some(server) = self.servers.get_mut(address) {
            server.description =
                ServerDescription::unknown(address.clone(), Some(reason.to_owned()));
        }
    }

    pub(super) fn look_for_primary(&mut self) {
        let has_primary = self.servers().any(|server| server.kind == ServerType::Primary);
        self.kind = match has_primary {
            true => TopologyType::ReplicaSetWithPrimary,
            false => TopologyType::ReplicaSetNoPrimary,
        };
    }
}
