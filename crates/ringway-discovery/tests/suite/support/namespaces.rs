//! Networks of their own for the members of a cluster, so that a test can cut one off.
//!
//! Each member has a network namespace with one link to a bridge, on which the test has an address too.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::cluster::Place;

/// Namespaces with a bridge between them. Dropping it removes them.
pub(crate) struct Namespaces {
    /// What the names of all of them begin with.
    name: String,
    /// The first three numbers of all addresses.
    network: String,
    count: usize,
}

static NETWORKS: AtomicU32 = AtomicU32::new(0);

impl Namespaces {
    /// Makes so many. `None`, with a message, if this process may not.
    pub(crate) fn new(count: usize) -> Option<Self> {
        let number = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let network = format!("10.{}.{}", 200 + number % 50, process % 250);
        // Names of links have 15 letters at most.
        let name = format!("rw{:x}-{number}", process & 0xF_FFFF);
        let made = Self { name, network, count };
        if made.make() {
            return Some(made);
        }
        eprintln!("skipped: network namespaces need root and the command ip");
        None
    }

    /// Where the members of a cluster listen.
    pub(crate) fn places(&self) -> Vec<Place> {
        let place = |at| Place {
            client: format!("{}:2379", self.address(at)),
            peer: format!("{}:2380", self.address(at)),
            namespace: Some(self.namespace(at)),
        };
        (0..self.count).map(place).collect()
    }

    /// Drops all that one of them sends to the others. The test still reaches it.
    pub(crate) fn cut_from_peers(&self, at: usize) {
        let name = self.namespace(at);
        for other in (0..self.count).filter(|other| *other != at) {
            let peer = format!("{}/32", self.address(other));
            assert!(ip(&["-n", &name, "route", "add", "blackhole", &peer]), "a route");
        }
    }

    /// Drops all that one of them receives and sends.
    pub(crate) fn cut_from_all(&self, at: usize) {
        assert!(ip(&["link", "set", &self.link(at), "down"]), "a link");
    }

    fn make(&self) -> bool {
        let own = format!("{}.254/24", self.network);
        let has_bridge = ip(&["link", "add", &self.name, "type", "bridge"])
            && ip(&["addr", "add", &own, "dev", &self.name])
            && ip(&["link", "set", &self.name, "up"]);
        has_bridge && (0..self.count).all(|at| self.make_one(at))
    }

    fn make_one(&self, at: usize) -> bool {
        let (name, link) = (self.namespace(at), self.link(at));
        let address = format!("{}/24", self.address(at));
        ip(&["netns", "add", &name])
            && ip(&["link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &name])
            && ip(&["link", "set", &link, "master", &self.name, "up"])
            && ip(&["-n", &name, "addr", "add", &address, "dev", "eth0"])
            && ip(&["-n", &name, "link", "set", "eth0", "up"])
            && ip(&["-n", &name, "link", "set", "lo", "up"])
    }

    fn address(&self, at: usize) -> String {
        format!("{}.{}", self.network, at + 1)
    }

    fn namespace(&self, at: usize) -> String {
        format!("{}-{at}", self.name)
    }

    fn link(&self, at: usize) -> String {
        format!("{}v{at}", self.name)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for at in 0..self.count {
            ip(&["link", "del", &self.link(at)]);
            ip(&["netns", "del", &self.namespace(at)]);
        }
        ip(&["link", "del", &self.name]);
    }
}

/// Runs the command; tells whether it has succeeded.
fn ip(arguments: &[&str]) -> bool {
    let mut command = Command::new("ip");
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
