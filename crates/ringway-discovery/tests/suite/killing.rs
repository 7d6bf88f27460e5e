//! Servers that are killed while clients call them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringway_discovery::{Announcement, EtcdConfig, EtcdRegistry, Registry, RegistryResolver};
use ringway_rpc::{CallOptions, Client};

use crate::support::load::Load;
use crate::support::who::{Named, WhoClient};
use crate::support::{LIMIT, authority, end, eventually, serve};

/// The registry of a server process.
const REGISTRY: &str = "RINGWAY_TEST_REGISTRY";

/// The shortest that registrations are meant for.
const TTL: Duration = Duration::from_secs(10);

fn registry_at(authority: &str) -> EtcdRegistry {
    EtcdRegistry::new(EtcdConfig::new([authority]).expect("an address"))
}

/// A process that is a server and nothing else.
struct ServerProcess(Child);

impl ServerProcess {
    fn start(authority: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .args(["--exact", "killing::server_of_another_test", "--nocapture"])
            .env(REGISTRY, authority)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts again");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let is_ready =
            |line: std::io::Result<String>| line.is_ok_and(|it| it.contains("it serves"));
        assert!(lines.any(is_ready), "the server has started");
        Self(child)
    }
}

impl Drop for ServerProcess {
    /// SIGKILL, as the kernel sends it when memory is short.
    fn drop(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it has ended");
    }
}

#[test]
fn server_of_another_test() {
    let Ok(authority) = std::env::var(REGISTRY) else {
        return; // It is only run by the other test.
    };
    let announcement = Announcement::new(registry_at(&authority), "who").ttl(TTL);
    let server = announcement.on(Named::new("a process").server()).expect("an address");
    let handle = server.start().expect("the server starts");
    println!("it serves");
    // Until it is killed, or the other test ends.
    let _closed = std::io::stdin().lines().next();
    handle.abort();
}

#[test]
fn a_killed_server_fails_one_call_of_a_client_at_most_and_its_entry_ends() {
    let registry = Registry::new();
    let handle = serve(&registry);
    let authority = authority(&handle);
    let mut servers: Vec<_> = (0..3).map(|_| ServerProcess::start(&authority)).collect();
    let watched = registry_at(&authority);
    let listed = || {
        let watched = watched.clone();
        let snapshot = ringway_runtime::block_on(async move {
            ringway_discovery::Discovery::snapshot(&watched, "who").await
        });
        snapshot.expect("a core").expect("the registry answers").endpoints.len()
    };
    eventually("all are registered", || listed() == 3);
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let resolver = RegistryResolver::new(registry_at(&authority), "who");
            let options = CallOptions::new().timeout(LIMIT);
            Client::builder().resolver(resolver).options(options).build().expect("a client")
        })
        .collect();
    let load = Load::begin(clients.iter().cloned().map(WhoClient::new).collect());
    eventually("all are known and called", || {
        let knows = |client: &Client| client.resolver_stats().is_some_and(|it| it.hosts == 3);
        load.answered() > 300 && clients.iter().all(knows)
    });
    drop(servers.pop());
    let killed = Instant::now();
    let before = load.answered();
    eventually("calls go on", || load.answered() > before + 300);
    eventually("its entry ends with its lease", || listed() == 2);
    println!("the entry was gone {:?} after the kill", killed.elapsed());
    let failures = load.end();
    assert!(failures.len() <= clients.len(), "{} calls failed: {:?}", failures.len(), failures[0]);
    drop((servers, clients));
    end(handle);
}
