//! Support for server tests: a client made of the machine and a blocking socket, and services.

#[path = "../../../../ringway-wire/tests/suite/support/allocations.rs"]
pub(crate) mod allocations;
#[path = "../../../../ringway-wire/tests/suite/support/alone.rs"]
pub(crate) mod alone;
pub(crate) mod browser;
pub(crate) mod caller;
pub(crate) mod echo;
pub(crate) mod frames;
pub(crate) mod grpc_caller;
pub(crate) mod hand_server;
pub(crate) mod json_client;
pub(crate) mod json_lines;
pub(crate) mod json_vectors;
pub(crate) mod load;
pub(crate) mod math;
pub(crate) mod open_sockets;
pub(crate) mod web_caller;
pub(crate) mod web_service;

use std::net::SocketAddr;
use std::time::Duration;

use ringway_rpc::ServerHandle;

/// A guard against hanging: everything awaited happens within this time.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// Returns the TCP address of a server.
pub(crate) fn socket_addr(handle: &ServerHandle) -> SocketAddr {
    let address = handle.addresses().first().expect("an address").to_string();
    let (_, address) = address.split_once("://").expect("a scheme");
    address.parse().expect("an IP address and a port")
}

/// Ends a server after this thread's callers have hung up; fails if that takes too long.
pub(crate) fn end(handle: ServerHandle) {
    open_sockets::hang_up();
    handle.shutdown();
    wait(handle);
}

/// Waits until a server has ended, with a time limit.
pub(crate) fn wait(handle: ServerHandle) {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(handle.wait()));
    let ended = is_done.recv_timeout(LIMIT).expect("the server ends in time");
    ended.expect("the server ends in order");
}

/// Polls until `is_so`, or fails.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + LIMIT;
    while !is_so() {
        assert!(std::time::Instant::now() < deadline, "not in time: {what}");
        std::thread::yield_now();
    }
}
