//! Errors of operations, and what they say about a server.

use bson::RawDocument;

use super::server::number;
use super::{HostAddress, ServerDescription, Topology, TopologyType, TopologyVersion};

/// How an operation failed.
#[derive(Debug, Clone, PartialEq)]
pub enum OperationFailure {
    /// The connection broke.
    Network,
    /// No connection can be made, for a reason that is no overload, such as a wrong certificate.
    Unusable,
    /// The server did not accept who logged in.
    Authentication,
    /// The server answered that it cannot do this now.
    StateChange(StateChange),
}

/// A server's answer that it is not what the client takes it for.
#[derive(Debug, Clone, PartialEq)]
pub struct StateChange {
    /// Whether the server is about to end, and its connections with it.
    is_shutdown: bool,
    version: Option<TopologyVersion>,
}

/// Codes of "not writable primary" and of "node is recovering".
const STATE_CHANGES: &[i64] = &[10107, 13435, 10058, 11600, 11602, 13436, 189, 91];

/// Codes of servers that shut down.
const SHUTDOWNS: &[i64] = &[11600, 91];

/// The last version of the wire protocol (MongoDB 4.0) whose servers close all connections when they step down.
const CLOSES_CONNECTIONS: i32 = 7;

impl StateChange {
    /// Whether the server is about to end, and its connections with it.
    pub(crate) fn is_shutdown(&self) -> bool {
        self.is_shutdown
    }

    /// Reads the reply to a command; `None` if it says nothing about the server's state. Where there is a code, the
    /// text does not count.
    pub fn of(reply: &RawDocument) -> Option<Self> {
        let concern = reply.get_document("writeConcernError").ok();
        let is_refused = number(reply, "ok") != Some(1);
        let error = if is_refused { reply } else { concern? };
        let is_change = match number(error, "code") {
            Some(code) => STATE_CHANGES.contains(&code),
            None => {
                let text = error.get_str("errmsg").unwrap_or_default();
                text.contains("not master") || text.contains("node is recovering")
            }
        };
        let is_shutdown = number(error, "code").is_some_and(|code| SHUTDOWNS.contains(&code));
        is_change.then(|| Self { is_shutdown, version: TopologyVersion::of(reply) })
    }
}

impl Topology {
    /// Takes the failure of an operation on a connection of `generation`, which had authenticated if `is_ready`. An
    /// error of an earlier generation, or with a view that is known already, changes nothing.
    pub fn fail_operation(
        &mut self,
        address: &HostAddress,
        generation: u64,
        is_ready: bool,
        failure: &OperationFailure,
    ) {
        let is_balanced = self.kind == TopologyType::LoadBalanced;
        let Some(server) = self.servers.get_mut(address) else { return };
        if generation < server.generation || is_balanced {
            return;
        }
        let version = match failure {
            // A server that has no room for another connection is there.
            OperationFailure::Network if !is_ready => return,
            OperationFailure::StateChange(change) => change.version,
            _ => None,
        };
        let known = server.description.topology_version;
        if known.is_some_and(|known| known.covers(version.as_ref())) {
            return;
        }
        let breaks_pool = match failure {
            OperationFailure::StateChange(change) => {
                change.is_shutdown || server.description.max_wire_version <= CLOSES_CONNECTIONS
            }
            _ => true,
        };
        server.generation += u64::from(breaks_pool);
        let reason = match failure {
            OperationFailure::Network => "a connection to it broke",
            OperationFailure::Unusable => "no connection to it can be made",
            OperationFailure::Authentication => "it did not accept the login",
            OperationFailure::StateChange(_) => "it said that its state has changed",
        };
        let unknown = ServerDescription::unknown(address.clone(), Some(reason.to_owned()));
        self.update(ServerDescription { topology_version: version, ..unknown });
    }
}
