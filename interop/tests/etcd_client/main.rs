//! The `etcd-client` crate asks real etcd and our registry the same, and is answered the same. `cargo xtask test --only
//! etcd` runs it where `protoc` is installed, which that crate builds with.

#[allow(dead_code, reason = "this program starts etcd in one way only")]
#[path = "../../../crates/ringway-discovery/tests/suite/support/etcd.rs"]
mod etcd;
mod steps;

use std::time::Duration;

use etcd::Etcd;
use ringway::discovery::{Registry, Revision};
use ringway::rpc::Server;
use ringway::runtime::block_on;

/// How long a server may take to start.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn etcd_client_gets_the_same_answers_as_from_etcd() {
    let Some(etcd) = Etcd::start() else {
        eprintln!("skipped: this test needs the Debian package etcd-server");
        return;
    };
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port");
    // Etcd begins with 1, a registry in memory with the time.
    let registry = Registry::builder().first_revision(Revision(1)).open();
    let registry = block_on(registry).expect("a core").expect("nothing is on a disk");
    let handle = registry.serve_on(server).threads(1).start().expect("the server starts");
    let address = handle.addresses().first().expect("an address").to_string();
    let ours = steps::answers(address.trim_start_matches("tcp://"));
    let theirs = steps::answers(&etcd.authority);
    assert!(theirs.len() > 60, "{} answers", theirs.len());
    let mut differences = String::new();
    for (expected, answer) in theirs.iter().zip(&ours) {
        if expected != answer {
            differences += &format!("etcd: {expected}\nours: {answer}\n");
        }
    }
    assert!(differences.is_empty(), "{differences}");
    assert_eq!(theirs.len(), ours.len());
    handle.shutdown();
    handle.wait().expect("it ends in order");
}
