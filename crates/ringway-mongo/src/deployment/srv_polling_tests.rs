//! The tests in prose of the specification "Polling SRV Records for mongos Discovery", by their numbers. The least time
//! between two look-ups is short here.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::{block_on, timeout, yield_now};

use super::Deployment;
use crate::connection::Greeting;
use crate::options::ClientOptions;
use crate::test_support::name_server::Record::Service;
use crate::test_support::name_server::{Mood, NameServer, Row};
use crate::uri::ConnectionString;

const LOCALHOST: &str = "localhost.test.build.10gen.cc";

/// Instead of a minute.
const PERIOD_MIN: Duration = Duration::from_millis(20);

/// Ends a test that hangs.
const LIMIT: Duration = Duration::from_secs(60);

const fn test1(port: u16) -> Row {
    ("_mongodb._tcp.test1.test.build.10gen.cc", Service(port, LOCALHOST))
}

const fn test3(port: u16) -> Row {
    ("_mongodb._tcp.test3.test.build.10gen.cc", Service(port, LOCALHOST))
}

const fn test22(port: u16) -> Row {
    ("_customname._tcp.test22.test.build.10gen.cc", Service(port, LOCALHOST))
}

/// Runs a test with a deployment of looked up servers. Records are valid for no time.
fn with<F: Future<Output = ()>>(
    uri: &'static str,
    records: &[Row],
    test: impl FnOnce(NameServer, Rc<Deployment>) -> F + 'static,
) {
    let server = NameServer::start(records);
    server.zone().ttl = 0;
    let run = async move {
        let parsed = ConnectionString::look_up(uri, Some(server.at)).await.expect("records");
        let mut options = ClientOptions::from_connection_string(&parsed).expect("options");
        options.srv.as_mut().expect("it was looked up").period_min = PERIOD_MIN;
        let deployment = Deployment::start(Greeting::alone(options));
        test(server, deployment).await;
    };
    block_on(async move { timeout(LIMIT, run).await.expect("the test hangs") }).expect("a core");
}

fn ports(deployment: &Deployment) -> BTreeSet<u16> {
    let addresses = deployment.topology.borrow().addresses();
    let port = |address: &String| {
        let (host, port) = address.split_once(':').expect("a port");
        assert_eq!(host, LOCALHOST);
        port.parse().expect("a number")
    };
    addresses.iter().map(port).collect()
}

async fn until(has_happened: impl Fn() -> bool) {
    while !has_happened() {
        yield_now().await;
    }
}

/// The servers are these in the end, and the members follow.
async fn become_(deployment: &Deployment, expected: &[u16]) {
    let expected: BTreeSet<_> = expected.iter().copied().collect();
    until(|| ports(deployment) == expected).await;
    assert_eq!(deployment.members.borrow().len(), expected.len());
}

/// Looks are taken, and the servers stay.
async fn stay(server: &NameServer, deployment: &Deployment, expected: &[u16]) {
    let before = server.zone().questions;
    until(|| server.zone().questions >= before + 4).await;
    assert_eq!(ports(deployment), expected.iter().copied().collect());
}

#[test]
fn servers_come_and_go_with_their_records() {
    let changes: [(&str, &[u16]); 5] = [
        ("1. addition", &[27017, 27018, 27019]),
        ("2. removal", &[27017]),
        ("3. replacement", &[27017, 27019]),
        ("4. replacement of both by one", &[27019]),
        ("5. replacement of both by two", &[27019, 27020]),
    ];
    for (what, after) in changes {
        println!("{what}");
        let uri = "mongodb+srv://test1.test.build.10gen.cc";
        with(uri, &[test1(27017), test1(27018)], move |server, deployment| async move {
            let kept = deployment.members.borrow()[0].pool.id();
            become_(&deployment, &[27017, 27018]).await;
            server.zone().records = after.iter().map(|port| test1(*port)).collect();
            become_(&deployment, after).await;
            let has_kept = deployment.members.borrow().iter().any(|it| it.pool.id() == kept);
            assert_eq!(has_kept, after.contains(&27017), "what stays is left alone");
        });
    }
}

#[test]
fn servers_stay_while_dns_fails() {
    // 6. timeout, 7. failure, 8. no record
    for what in [Some(Mood::Silent), Some(Mood::KnowsNoName), None] {
        let uri = "mongodb+srv://test1.test.build.10gen.cc/?heartbeatFrequencyMS=500";
        with(uri, &[test1(27017), test1(27018)], move |server, deployment| async move {
            match what {
                Some(mood) => server.zone().mood = mood,
                None => server.zone().records.clear(),
            }
            stay(&server, &deployment, &[27017, 27018]).await;
            if what != Some(Mood::Silent) {
                // It is looked up again after a heartbeat.
                server.zone().records = vec![test1(27019)];
                server.zone().mood = Mood::Answers;
                become_(&deployment, &[27019]).await;
            }
        });
    }
}

#[test]
fn a_server_of_another_domain_is_left_out() {
    let uri = "mongodb+srv://test1.test.build.10gen.cc";
    with(uri, &[test1(27017)], |server, deployment| async move {
        let strange =
            ("_mongodb._tcp.test1.test.build.10gen.cc", Service(27018, "evil.example.com"));
        server.zone().records.push(strange);
        stay(&server, &deployment, &[27017]).await;
        server.zone().records = vec![strange];
        stay(&server, &deployment, &[27017]).await;
    });
}

#[test]
fn no_more_servers_are_taken_than_are_asked_for() {
    // 10. all
    let uri = "mongodb+srv://test1.test.build.10gen.cc/?srvMaxHosts=0";
    with(uri, &[test1(27017), test1(27018)], |server, deployment| async move {
        server.zone().records = [27017, 27019, 27020].map(test1).to_vec();
        become_(&deployment, &[27017, 27019, 27020]).await;
    });
    // 11. as many as there are
    let uri = "mongodb+srv://test1.test.build.10gen.cc/?srvMaxHosts=2";
    with(uri, &[test1(27017), test1(27018)], |server, deployment| async move {
        server.zone().records = [27019, 27020].map(test1).to_vec();
        become_(&deployment, &[27019, 27020]).await;
    });
    // 12. fewer
    with(uri, &[test1(27017), test1(27018)], |server, deployment| async move {
        become_(&deployment, &[27017, 27018]).await;
        server.zone().records = [27017, 27019, 27020].map(test1).to_vec();
        until(|| !ports(&deployment).contains(&27018)).await;
        let ports = ports(&deployment);
        assert!(ports.len() == 2 && ports.contains(&27017), "{ports:?}");
    });
}

#[test]
fn records_of_another_service_are_followed() {
    // 13.
    let uri = "mongodb+srv://test22.test.build.10gen.cc/?srvServiceName=customname";
    with(uri, &[test22(27017)], |server, deployment| async move {
        server.zone().records = [27019, 27020].map(test22).to_vec();
        become_(&deployment, &[27019, 27020]).await;
    });
}

#[test]
fn replica_sets_and_load_balancers_are_not_looked_up_again() {
    // 9. load balancers
    not_again("mongodb+srv://test3.test.build.10gen.cc/?loadBalanced=true");
    not_again("mongodb+srv://test3.test.build.10gen.cc/?replicaSet=rs");
}

fn not_again(uri: &'static str) {
    with(uri, &[test3(27017)], |server, deployment| async move {
        let before = server.zone().questions;
        server.zone().records.push(test3(27018));
        until(|| deployment._srv_polling.as_ref().is_some_and(|it| it.has_ended())).await;
        assert_eq!((server.zone().questions, ports(&deployment).len()), (before, 1));
    });
}

#[test]
fn the_time_for_which_records_are_valid_is_known() {
    let uri = "mongodb+srv://test1.test.build.10gen.cc";
    with(uri, &[test1(27017)], |server, deployment| async move {
        server.zone().ttl = 3600;
        server.zone().records.push(test1(27018));
        let source = deployment.greeting.options.srv.clone().expect("it was looked up");
        let (hosts, valid_for) = source.look_up().await.expect("records");
        assert_eq!((hosts.len(), valid_for), (2, Duration::from_secs(3600)));
    });
}
