//! The specifications "Server Selection" and "Max Staleness".

use std::time::Duration;

use bson::DateTime;
use ringway_mongo::{
    ConnectionString, HostAddress, ReadMode, ReadPreference, RoundTripTime, Selection,
    ServerDescription, ServerType, TagSet, Topology,
};
use serde_json::Value;

use crate::support::specs::{Case, cases};

const LOCAL_THRESHOLD: Duration = Duration::from_millis(15);

fn tags(value: &Value) -> TagSet {
    let tags = value.as_object().into_iter().flatten();
    tags.map(|(name, tag)| (name.clone(), tag.as_str().expect("a tag").to_owned())).collect()
}

fn preference(value: &Value) -> ReadPreference {
    let mode = match value["mode"].as_str() {
        Some("PrimaryPreferred") => ReadMode::PrimaryPreferred,
        Some("Secondary") => ReadMode::Secondary,
        Some("SecondaryPreferred") => ReadMode::SecondaryPreferred,
        Some("Nearest") => ReadMode::Nearest,
        _ => ReadMode::Primary,
    };
    let mut preference = ReadPreference::new(mode);
    preference.tag_sets = value["tag_sets"].as_array().into_iter().flatten().map(tags).collect();
    preference.max_staleness = value["maxStalenessSeconds"].as_u64().map(Duration::from_secs);
    preference
}

fn kind(value: &Value) -> ServerType {
    match value.as_str().expect("a type") {
        "Standalone" => ServerType::Standalone,
        "Mongos" => ServerType::Mongos,
        "RSPrimary" => ServerType::Primary,
        "RSSecondary" => ServerType::Secondary,
        "RSArbiter" => ServerType::Arbiter,
        "RSOther" => ServerType::Other,
        "RSGhost" => ServerType::Ghost,
        "LoadBalancer" => ServerType::LoadBalancer,
        _ => ServerType::Unknown,
    }
}

fn address(server: &Value) -> HostAddress {
    server["address"].as_str().expect("an address").parse().expect("an address")
}

fn server(value: &Value) -> ServerDescription {
    let mut server = ServerDescription::unknown(address(value), None);
    server.kind = kind(&value["type"]);
    server.round_trip = value["avg_rtt_ms"].as_f64().map(|ms| Duration::from_secs_f64(ms / 1e3));
    server.tags = tags(&value["tags"]);
    server.set_name = Some("rs".to_owned());
    server.max_wire_version =
        value["maxWireVersion"].as_i64().unwrap_or(21).try_into().expect("a version");
    server.updated_at = Duration::from_millis(value["lastUpdateTime"].as_u64().unwrap_or(0));
    let written = value["lastWrite"]["lastWriteDate"]["$numberLong"].as_str();
    server.last_write = written.map(|ms| DateTime::from_millis(ms.parse().expect("a time")));
    server
}

/// Makes a topology of these servers. Each is told of as its monitor would tell, the primary last: it alone may tell
/// who belongs to the set.
fn topology(case: &Case) -> Topology {
    let described = &case.test["topology_description"];
    let servers: Vec<_> =
        described["servers"].as_array().into_iter().flatten().map(server).collect();
    let kind = described["type"].as_str().expect("a type");
    let option = match kind {
        "Single" => "directConnection=true",
        "ReplicaSetNoPrimary" | "ReplicaSetWithPrimary" => "replicaSet=rs",
        "LoadBalanced" => "loadBalanced=true",
        _ => "directConnection=false",
    };
    let heartbeat = case.test["heartbeatFrequencyMS"].as_u64().unwrap_or(10_000);
    let uri = format!("mongodb://localhost/?{option}&heartbeatFrequencyMS={heartbeat}");
    let mut settings = ConnectionString::parse(&uri).expect("an address");
    settings.hosts = servers.iter().map(|server| server.address.clone()).collect();
    let mut topology = Topology::new(&settings);
    let all = settings.hosts;
    let mut sorted = servers;
    sorted.sort_by_key(|server| server.kind == ServerType::Primary);
    for mut server in sorted {
        server.members.clone_from(&all);
        topology.update(server);
    }
    topology
}

fn addresses(list: &Value) -> Vec<HostAddress> {
    let mut all: Vec<_> = list.as_array().into_iter().flatten().map(address).collect();
    all.sort();
    all
}

fn check(case: &Case) {
    let topology = topology(case);
    let preference = preference(&case.test["read_preference"]);
    let selection = match case.test["operation"].as_str() {
        Some("write") => Selection::Write,
        _ => Selection::Read(&preference),
    };
    let avoided = addresses(&case.test["deprioritized_servers"]);
    let suitable = topology.suitable_but(selection, &avoided);
    if preference.check().is_err() || case.flag("error") {
        let is_refused = preference.check().is_err() || suitable.is_err();
        assert!(is_refused && case.flag("error"), "{}: {suitable:?}", case.name);
        return;
    }
    let found = |servers: Vec<&ServerDescription>| -> Vec<_> {
        servers.iter().map(|server| server.address.clone()).collect()
    };
    let suitable = found(suitable.expect(&case.name));
    assert_eq!(suitable, addresses(&case.test["suitable_servers"]), "{}, suitable", case.name);
    let near = topology.nearest_but(selection, &avoided, LOCAL_THRESHOLD);
    let near = found(near.expect(&case.name));
    assert_eq!(near, addresses(&case.test["in_latency_window"]), "{}, near", case.name);
}

const KINDS: &[&str] = &[
    "LoadBalanced",
    "ReplicaSetNoPrimary",
    "ReplicaSetWithPrimary",
    "Sharded",
    "Single",
    "Unknown",
];

#[test]
fn suitable_servers_are_selected() {
    for kind in KINDS {
        for operation in ["read", "write"] {
            let folder = format!("server_selection/server_selection/{kind}/{operation}");
            cases(&folder).unwrap_or_default().iter().for_each(check);
        }
    }
}

#[test]
fn stale_secondaries_are_left_out() {
    for kind in ["ReplicaSetNoPrimary", "ReplicaSetWithPrimary", "Sharded", "Single", "Unknown"] {
        cases(&format!("max_staleness/{kind}")).unwrap_or_default().iter().for_each(check);
    }
}

#[test]
fn round_trips_are_averaged() {
    let ms = |value: &Value| value.as_f64().map(|ms| Duration::from_secs_f64(ms / 1e3));
    for case in cases("server_selection/rtt").unwrap_or_default() {
        let mut time = RoundTripTime::new(ms(&case.test["avg_rtt_ms"]));
        time.add(ms(&case.test["new_rtt_ms"]).expect("a sample"));
        let expected = ms(&case.test["new_avg_rtt"]).expect("an average");
        let found = time.average().expect("a sample was added");
        assert!(found.abs_diff(expected) < Duration::from_micros(1), "{}: {found:?}", case.name);
    }
}
