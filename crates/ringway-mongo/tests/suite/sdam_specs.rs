//! The specification "Server Discovery and Monitoring".

use std::time::Duration;

use bson::oid::ObjectId;
use bson::{Document, RawDocumentBuf};
use ringway_mongo::{
    ConnectionString, HostAddress, OperationFailure, ServerDescription, ServerType, StateChange,
    Topology, TopologyType,
};
use serde_json::Value;

use crate::support::specs::{Case, cases};

fn document(value: &Value) -> RawDocumentBuf {
    let document: Document = serde_json::from_value(value.clone()).expect("extended JSON");
    RawDocumentBuf::try_from(&document).expect("BSON")
}

fn host(text: &Value) -> HostAddress {
    text.as_str().expect("an address").to_lowercase().parse().expect("an address")
}

fn type_name(kind: ServerType) -> &'static str {
    match kind {
        ServerType::Unknown => "Unknown",
        ServerType::Standalone => "Standalone",
        ServerType::Mongos => "Mongos",
        ServerType::Primary => "RSPrimary",
        ServerType::Secondary => "RSSecondary",
        ServerType::Arbiter => "RSArbiter",
        ServerType::Other => "RSOther",
        ServerType::Ghost => "RSGhost",
        ServerType::LoadBalancer => "LoadBalancer",
    }
}

fn topology_name(kind: TopologyType) -> &'static str {
    match kind {
        TopologyType::Unknown => "Unknown",
        TopologyType::Single => "Single",
        TopologyType::ReplicaSetNoPrimary => "ReplicaSetNoPrimary",
        TopologyType::ReplicaSetWithPrimary => "ReplicaSetWithPrimary",
        TopologyType::Sharded => "Sharded",
        TopologyType::LoadBalanced => "LoadBalanced",
    }
}

/// What a monitor brings: an answer, or an empty document for a connection that broke.
fn respond(topology: &mut Topology, response: &Value) {
    let address = host(&response[0]);
    match response[1].as_object().is_some_and(serde_json::Map::is_empty) {
        true => topology.fail_check(&address, "the connection broke"),
        false => {
            let hello = document(&response[1]);
            topology.update(ServerDescription::from_hello(address, &hello, None, Duration::ZERO));
        }
    }
}

fn fail(topology: &mut Topology, error: &Value) {
    let address = host(&error["address"]);
    let generation = error["generation"].as_u64().or_else(|| topology.generation(&address));
    let failure = match error["type"].as_str() {
        Some("network") => OperationFailure::Network,
        // A slow operation says nothing about the server, and one that could not connect in time neither.
        Some("timeout") => return,
        _ => match StateChange::of(&document(&error["response"])) {
            Some(change) => OperationFailure::StateChange(change),
            None => return,
        },
    };
    let is_ready = error["when"] == "afterHandshakeCompletes";
    topology.fail_operation(&address, generation.unwrap_or(0), is_ready, &failure);
}

fn check_outcome(name: &str, topology: &Topology, outcome: &Value) {
    assert_eq!(topology_name(topology.kind()), outcome["topologyType"], "{name}");
    let servers = outcome["servers"].as_object().expect("servers");
    let found: Vec<_> = topology.servers().map(|server| server.address.to_string()).collect();
    assert_eq!(found.len(), servers.len(), "{name}: {found:?}");
    for (address, expected) in servers {
        check_server(&format!("{name}: {address}"), topology, address, expected);
    }
    let optional = |key: &str, found: Value| {
        if let Some(expected) = outcome.get(key) {
            assert_eq!(found, *expected, "{name}: {key}");
        }
    };
    optional("setName", topology.set_name().into());
    optional("maxSetVersion", topology.max_set_version().into());
    optional("maxElectionId", object_id(topology.max_election_id()));
    optional("compatible", topology.incompatibility().is_none().into());
    optional("logicalSessionTimeoutMinutes", topology.session_timeout_minutes().into());
}

fn object_id(id: Option<ObjectId>) -> Value {
    id.map_or(Value::Null, |id| serde_json::json!({ "$oid": id.to_hex() }))
}

fn check_server(name: &str, topology: &Topology, address: &str, expected: &Value) {
    let address = host(&address.into());
    let server = topology.server(&address).unwrap_or_else(|| panic!("{name} is missing"));
    let kind = match expected["type"].as_str() {
        Some("PossiblePrimary") => Some("Unknown"), // for clients with a single thread
        kind => kind,
    };
    assert_eq!(Some(type_name(server.kind)), kind, "{name}: {:?}", server.error);
    let optional = |key: &str, found: Value| {
        if let Some(expected) = expected.get(key) {
            assert_eq!(found, *expected, "{name}: {key}");
        }
    };
    optional("setName", server.set_name.clone().into());
    optional("setVersion", server.set_version.into());
    optional("electionId", object_id(server.election_id));
    optional("logicalSessionTimeoutMinutes", server.session_timeout_minutes.into());
    // A load balancer is not asked, so it tells no versions.
    let told = |version: i32| (server.kind != ServerType::LoadBalancer).then_some(version);
    optional("minWireVersion", told(server.min_wire_version).into());
    optional("maxWireVersion", told(server.max_wire_version).into());
    if let Some(expected) = expected.get("topologyVersion") {
        let found = server.topology_version.map_or(Value::Null, |version| {
            let counter = serde_json::json!({ "$numberLong": version.counter.to_string() });
            serde_json::json!({ "processId": object_id(Some(version.process)), "counter": counter })
        });
        assert_eq!(found, *expected, "{name}: topologyVersion");
    }
    if let Some(generation) = expected["pool"]["generation"].as_u64() {
        assert_eq!(topology.generation(&address), Some(generation), "{name}: generation");
    }
}

fn check(case: &Case) {
    let mut settings = ConnectionString::parse(case.text("uri")).expect(&case.name);
    settings.hosts.dedup();
    let mut topology = Topology::new(&settings);
    for (number, phase) in case.test["phases"].as_array().expect("phases").iter().enumerate() {
        let list = |key: &str| phase[key].as_array().cloned().unwrap_or_default();
        list("responses").iter().for_each(|response| respond(&mut topology, response));
        list("applicationErrors").iter().for_each(|error| fail(&mut topology, error));
        check_outcome(&format!("{}, phase {number}", case.name), &topology, &phase["outcome"]);
    }
}

fn check_folder(folder: &str) {
    let cases = cases(&format!("discovery_and_monitoring/{folder}")).unwrap_or_default();
    cases.iter().for_each(check);
}

#[test]
fn single_servers_are_discovered() {
    check_folder("single");
}

#[test]
fn replica_sets_are_discovered() {
    check_folder("rs");
}

#[test]
fn sharded_clusters_are_discovered() {
    check_folder("sharded");
}

#[test]
fn load_balancers_are_not_asked() {
    check_folder("load-balanced");
}

#[test]
fn errors_of_operations_change_what_is_known() {
    check_folder("errors");
}
