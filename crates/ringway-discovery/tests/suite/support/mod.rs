//! What several tests need: real etcd, our registry, and the tool of etcd's clients.

pub(crate) mod cluster;
pub(crate) mod etcd;
pub(crate) mod etcdctl;
pub(crate) mod load;
pub(crate) mod name_server;
pub(crate) mod namespaces;
pub(crate) mod relay;
pub(crate) mod watching;
pub(crate) mod who;

use std::time::Duration;

use ringway_discovery::Registry;
use ringway_rpc::{Console, Server, ServerHandle};

/// A guard against hanging: everything awaited happens within this time.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// How often it is looked whether something has happened that no event tells.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Starts a server of the registry on a free port.
pub(crate) fn serve(registry: &Registry) -> ServerHandle {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port");
    let server = registry.serve_on(server).console(Console::local());
    server.threads(1).start().expect("the server starts")
}

/// The address of a server as clients of etcd write it.
pub(crate) fn authority(handle: &ServerHandle) -> String {
    let address = handle.addresses().first().expect("an address").to_string();
    address.split_once("://").expect("a scheme").1.to_owned()
}

/// Ends a server; fails if that takes too long.
pub(crate) fn end(handle: ServerHandle) {
    handle.shutdown();
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(handle.wait()));
    is_done.recv_timeout(LIMIT).expect("the server ends in time").expect("it ends in order");
}

/// Polls until `is_so`, or fails.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + LIMIT;
    while !is_so() {
        assert!(std::time::Instant::now() < deadline, "not in time: {what}");
        // Not a loop that takes a core from what is waited for.
        std::thread::park_timeout(POLL_INTERVAL);
    }
}
