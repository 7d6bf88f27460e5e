//! The tests of the specification "SDAM Logging and Monitoring": what a client tells of its servers; and those of "Server
//! Selection" that count how often each server is chosen.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::{Document, RawDocumentBuf};
use serde_json::{Map, Value, json};

use super::selecting::less_busy_of_two;
use super::telling::TopologyTelling;
use crate::connection::Greeting;
use crate::options::ClientOptions;
use crate::test_support::specs::{self, Case};
use crate::topology::{ServerDescription, ServerType, Topology};
use crate::topology_events::TopologyChange;
use crate::uri::HostAddress;

#[test]
fn specification_passes() {
    let Some(cases) = specs::cases("sdam_monitoring") else { return };
    cases.iter().for_each(check);
    assert!(cases.len() >= 8, "{} tests", cases.len());
}

#[test]
fn busy_servers_are_chosen_less_often_as_specified() {
    let Some(cases) = specs::cases("server_selection/in_window") else { return };
    assert!(cases.len() >= 8, "{} tests", cases.len());
    for case in cases {
        let servers = case.test["mocked_topology_state"].as_array().expect("servers");
        let number = |value: &Value| value.as_u64().expect("a number") as usize;
        let busy: Vec<_> = servers.iter().map(|it| number(&it["operation_count"]) as u32).collect();
        let iterations = number(&case.test["iterations"]);
        let mut chosen = vec![0_u32; servers.len()];
        for turn in 0..iterations {
            let at = less_busy_of_two(turn, busy.len(), |at| busy[at]).expect("there are some");
            chosen[at] += 1;
        }
        let outcome = &case.test["outcome"];
        let tolerance = outcome["tolerance"].as_f64().expect("a share");
        for (server, times) in servers.iter().zip(chosen) {
            let address = server["address"].as_str().expect("an address");
            let expected = outcome["expected_frequencies"][address].as_f64().expect("a share");
            let found = f64::from(times) / iterations as f64;
            let is_so = (found - expected).abs() <= tolerance;
            assert!(is_so, "{}: {address}: {found}, not {expected}", case.name);
        }
    }
}

fn check(case: &Case) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let options = ClientOptions::parse(case.text("uri")).expect(&case.name);
    let options = options.on_topology(move |event| {
        heard.lock().expect("no panic").push(described(&event.change));
    });
    let topology = RefCell::new(options.seeds.clone());
    let telling = TopologyTelling::new(&Rc::new(Greeting::alone(options)));
    telling.follow(&topology);
    for (number, phase) in case.test["phases"].as_array().expect("phases").iter().enumerate() {
        for response in phase["responses"].as_array().into_iter().flatten() {
            let address: HostAddress =
                response[0].as_str().expect("an address").parse().expect("one");
            let hello: Document = serde_json::from_value(response[1].clone()).expect("JSON");
            let hello = RawDocumentBuf::try_from(&hello).expect("BSON");
            let learned = ServerDescription::from_hello(address, &hello, None, Duration::ZERO);
            topology.borrow_mut().update(learned);
            telling.follow(&topology);
        }
        let told = std::mem::take(&mut *told.lock().expect("no panic"));
        let expected = phase["outcome"]["events"].as_array().expect("events");
        let expected: Vec<_> = expected.iter().map(simplified).collect();
        assert_eq!(told, expected, "{}, phase {number}", case.name);
    }
}

/// An event as the files have it, with what of it is compared.
fn described(change: &TopologyChange<'_>) -> Value {
    match change {
        TopologyChange::Opening => json!({ "topology_opening_event": {} }),
        TopologyChange::Closed => json!({ "topology_closed_event": {} }),
        TopologyChange::Changed { previous, current } => {
            json!({ "topology_description_changed_event": [of_topology(previous), of_topology(current)] })
        }
        TopologyChange::ServerOpening { server } => {
            json!({ "server_opening_event": server.to_string() })
        }
        TopologyChange::ServerClosed { server } => {
            json!({ "server_closed_event": server.to_string() })
        }
        TopologyChange::ServerChanged { previous, current } => {
            json!({ "server_description_changed_event": [of_server(previous), of_server(current)] })
        }
        heartbeat => panic!("nobody was asked: {heartbeat:?}"),
    }
}

fn of_topology(topology: &Topology) -> Value {
    let servers: Vec<_> = topology.servers().map(of_server).collect();
    json!([format!("{:?}", topology.kind()), topology.set_name(), servers])
}

fn of_server(server: &ServerDescription) -> Value {
    let kind = match server.kind {
        ServerType::Primary => "RSPrimary".to_owned(),
        ServerType::Secondary => "RSSecondary".to_owned(),
        other => format!("{other:?}"),
    };
    let members: Vec<_> = server.members.iter().map(ToString::to_string).collect();
    let primary = server.primary.as_ref().map(ToString::to_string);
    json!([server.address.to_string(), kind, members, server.set_name, primary])
}

/// An expected event in the same form.
fn simplified(event: &Value) -> Value {
    let (name, fields) = event.as_object().and_then(|it| it.iter().next()).expect("a kind");
    let pair = |simplify: fn(&Value) -> Value| {
        json!([simplify(&fields["previousDescription"]), simplify(&fields["newDescription"])])
    };
    let simple = match name.as_str() {
        "topology_description_changed_event" => pair(simplified_topology),
        "server_description_changed_event" => pair(simplified_server),
        "server_opening_event" | "server_closed_event" => fields["address"].clone(),
        _ => json!({}),
    };
    Value::Object(Map::from_iter([(name.clone(), simple)]))
}

fn simplified_topology(topology: &Value) -> Value {
    let servers = topology["servers"].as_array().expect("servers").iter().map(simplified_server);
    json!([topology["topologyType"], topology["setName"], servers.collect::<Vec<_>>()])
}

fn simplified_server(server: &Value) -> Value {
    let kind = match server["type"].as_str() {
        Some("PossiblePrimary") => "Unknown", // for clients with a single thread
        kind => kind.expect("a type"),
    };
    let list = |name: &str| server[name].as_array().cloned().unwrap_or_default();
    let members = ["hosts", "passives", "arbiters"].map(list).concat();
    json!([server["address"], kind, members, server["setName"], server["primary"]])
}
