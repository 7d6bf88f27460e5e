//! What a client knows of its servers: a machine without I/O, by MongoDB's specification "Server Discovery and
//! Monitoring". Monitors bring replies to `hello` and failures; operations bring errors.

mod election;
mod failure;
mod replica_set;
mod rescan;
mod round_trip;
mod select;
mod server;
mod staleness;
mod topology_version;
mod view;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::{SERVERS_MAX, WIRE_VERSION_MAX, WIRE_VERSION_MIN};
use crate::uri::{ConnectionString, HostAddress};
use election::Election;

pub use failure::{OperationFailure, StateChange};
pub use round_trip::RoundTripTime;
pub use select::{Selection, SelectionError};
pub(crate) use server::number;
pub use server::{ServerDescription, ServerType};
pub use topology_version::TopologyVersion;

/// The kind of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopologyType {
    /// No server has said yet what it is.
    Unknown,
    /// One server, used as it is.
    Single,
    /// A replica set whose primary is not known.
    ReplicaSetNoPrimary,
    /// A replica set with a primary.
    ReplicaSetWithPrimary,
    /// Routers of a sharded cluster.
    Sharded,
    /// A load balancer.
    LoadBalanced,
}

/// The servers of a deployment, as far as they are known.
#[derive(Debug, Clone)]
pub struct Topology {
    kind: TopologyType,
    /// The name of the replica set: the required one, or the first that a member has told.
    set_name: Option<String>,
    /// The newest election of a primary.
    newest: Election,
    servers: BTreeMap<HostAddress, Server>,
    /// Servers that do not belong to it although they were named, and why.
    gone: BTreeMap<HostAddress, String>,
    seeds: usize,
    pub(crate) heartbeat: Duration,
}

/// A server with the generation of its pool. Connections of earlier generations are closed when they come back.
#[derive(Debug, Clone)]
struct Server {
    description: ServerDescription,
    generation: u64,
}

const HEARTBEAT_DEFAULT: Duration = Duration::from_secs(10);

impl Topology {
    /// Makes the topology of a client that has not heard of any server.
    pub fn new(settings: &ConnectionString) -> Self {
        let options = &settings.options;
        let kind = if options.load_balanced == Some(true) {
            TopologyType::LoadBalanced
        } else if options.direct_connection == Some(true) {
            TopologyType::Single
        } else if options.replica_set.is_some() {
            TopologyType::ReplicaSetNoPrimary
        } else {
            TopologyType::Unknown
        };
        let mut topology = Self {
            kind,
            set_name: options.replica_set.clone(),
            newest: Election::default(),
            servers: BTreeMap::new(),
            gone: BTreeMap::new(),
            seeds: settings.hosts.len(),
            heartbeat: options.heartbeat_frequency.unwrap_or(HEARTBEAT_DEFAULT),
        };
        settings.hosts.iter().for_each(|host| topology.add(host));
        if kind == TopologyType::LoadBalanced {
            for (address, server) in &mut topology.servers {
                server.description = ServerDescription::load_balancer(address.clone());
            }
        }
        topology
    }

    /// The kind of the deployment.
    pub fn kind(&self) -> TopologyType {
        self.kind
    }

    /// The name of the replica set, once it is known.
    pub fn set_name(&self) -> Option<&str> {
        self.set_name.as_deref()
    }

    /// The addresses of the servers, in their order.
    pub fn addresses(&self) -> Vec<String> {
        self.servers.keys().map(HostAddress::to_string).collect()
    }

    /// The servers, in the order of their addresses.
    pub fn servers(&self) -> impl Iterator<Item = &ServerDescription> {
        self.servers.values().map(|server| &server.description)
    }

    /// Servers that were left out because of what they are, and why.
    pub(crate) fn gone(&self) -> impl Iterator<Item = (&HostAddress, &str)> {
        self.gone.iter().map(|(address, why)| (address, why.as_str()))
    }

    /// The server at `address`, if it belongs to the deployment.
    pub fn server(&self, address: &HostAddress) -> Option<&ServerDescription> {
        self.servers.get(address).map(|server| &server.description)
    }

    /// The generation of the pool of the server at `address`. It grows with each failure that may have broken all of
    /// the pool's connections.
    pub fn generation(&self, address: &HostAddress) -> Option<u64> {
        self.servers.get(address).map(|server| server.generation)
    }

    /// The newest version of the replica set's configuration that a primary has told.
    pub fn max_set_version(&self) -> Option<i32> {
        self.newest.set_version
    }

    /// The newest election that a primary has told.
    pub fn max_election_id(&self) -> Option<bson::oid::ObjectId> {
        self.newest.id
    }

    /// Says why this client cannot speak to a server, if there is one to which it cannot.
    pub fn incompatibility(&self) -> Option<String> {
        let known = self.servers().filter(|server| server.kind != ServerType::Unknown);
        known.filter(|server| server.kind != ServerType::LoadBalancer).find_map(|server| {
            let what = match server {
                server if server.min_wire_version > WIRE_VERSION_MAX => "is too new",
                server if server.max_wire_version < WIRE_VERSION_MIN => {
                    "is too old: MongoDB 4.0 or later is needed"
                }
                _ => return None,
            };
            Some(format!("the server at {} {what}", server.address))
        })
    }

    /// Minutes after which unused sessions end at all servers that hold data; `None` if one of them has no sessions.
    pub fn session_timeout_minutes(&self) -> Option<i64> {
        let holding = self.servers().filter(|server| server.kind.holds_data());
        let timeouts: Option<Vec<_>> =
            holding.map(|server| server.session_timeout_minutes).collect();
        timeouts?.into_iter().min()
    }

    /// Takes what a monitor has learned of a server. A description of a server that does not belong to the
    /// deployment, or that is older than the one that is known, changes nothing.
    pub fn update(&mut self, description: ServerDescription) {
        let Some(server) = self.servers.get_mut(&description.address) else { return };
        if self.kind == TopologyType::LoadBalanced {
            return;
        }
        let known = server.description.topology_version.as_ref();
        if known.is_some_and(|known| known.is_newer_than(description.topology_version.as_ref())) {
            return;
        }
        let address = description.address.clone();
        let kind = description.kind;
        server.description = description;
        match self.kind {
            TopologyType::Unknown => self.update_unknown(&address, kind),
            TopologyType::Single => self.check_set_name(&address),
            TopologyType::Sharded if !matches!(kind, ServerType::Unknown | ServerType::Mongos) => {
                self.leave_out(&address, "it is no router, and the others are".to_owned());
            }
            TopologyType::ReplicaSetNoPrimary | TopologyType::ReplicaSetWithPrimary => {
                self.update_set(&address, kind);
            }
            TopologyType::Sharded | TopologyType::LoadBalanced => {}
        }
    }

    /// Takes the failure of a monitor's check: the server is unknown, and its pool begins anew.
    pub fn fail_check(&mut self, address: &HostAddress, reason: impl Into<String>) {
        let Some(server) = self.servers.get_mut(address) else { return };
        server.generation += 1;
        self.update(ServerDescription::unknown(address.clone(), Some(reason.into())));
    }

    fn update_unknown(&mut self, address: &HostAddress, kind: ServerType) {
        match kind {
            ServerType::Standalone if self.seeds == 1 => self.kind = TopologyType::Single,
            ServerType::Standalone => {
                let why = "it stands alone, and the connection string names several servers";
                self.leave_out(address, why.to_owned());
            }
            ServerType::Mongos => self.kind = TopologyType::Sharded,
            ServerType::Primary
            | ServerType::Secondary
            | ServerType::Arbiter
            | ServerType::Other => {
                self.kind = TopologyType::ReplicaSetNoPrimary;
                self.update_set(address, kind);
            }
            ServerType::Unknown | ServerType::Ghost | ServerType::LoadBalancer => {}
        }
    }

    /// A server that is used as it is must still be of the required replica set.
    fn check_set_name(&mut self, address: &HostAddress) {
        let Some(server) = self.servers.get_mut(address) else { return };
        let is_known = server.description.kind != ServerType::Unknown;
        if let Some(required) = &self.set_name
            && is_known
            && server.description.set_name.as_ref() != Some(required)
        {
            let told = server.description.set_name.as_deref().unwrap_or("none");
            let reason =
                format!("the replica set is {told}, and the connection string requires {required}");
            server.description = ServerDescription::unknown(address.clone(), Some(reason));
        }
    }

    /// Removes a server that is not what the others are.
    fn leave_out(&mut self, address: &HostAddress, why: String) {
        if self.servers.remove(address).is_some() && self.gone.len() < SERVERS_MAX {
            self.gone.insert(address.clone(), why);
        }
    }

    fn add(&mut self, address: &HostAddress) {
        if self.servers.len() >= SERVERS_MAX {
            return;
        }
        self.gone.remove(address);
        self.servers.entry(address.clone()).or_insert_with(|| Server {
            description: ServerDescription::unknown(address.clone(), None),
            generation: 0,
        });
    }
}
