//! A process that is stopped for longer than its TTL.

use std::future::poll_fn;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use ringway_discovery::{Discovery, Endpoint};

use crate::support::LIMIT;
use crate::support::cluster::Cluster;
use crate::support::watching::{TTL, impatient, run, until_current};

const A: &str = "tcp://10.0.0.1:9000";

/// Where the registry of the other process is; there is none in the process of the tests.
const REGISTRY: &str = "RINGWAY_TEST_PAUSED_REGISTRY";

#[test]
fn paused_beyond_the_ttl() {
    if let Ok(authority) = std::env::var(REGISTRY) {
        return tell_states(authority);
    }
    let Some(cluster) = Cluster::start(1) else { return };
    run(async move || {
        let registry = impatient(cluster.authorities());
        let mut watch = registry.watch("market", None).expect("a name");
        until_current(&mut watch, &[]).await;
        let mut other = Other::start(cluster.authority(0));
        other.says("state: registered");
        until_current(&mut watch, &[A]).await;
        other.signal("-STOP");
        until_current(&mut watch, &[]).await;
        other.signal("-CONT");
        other.says("state: registering");
        other.says("state: registered");
        until_current(&mut watch, &[A]).await;
    });
}

/// What the other process does: it registers, and tells each state, until it is killed.
fn tell_states(authority: String) {
    run(async move || {
        let registry = impatient([authority]);
        let mut held = registry.register("market", Endpoint::new(A), TTL).expect("valid");
        loop {
            let state = poll_fn(|cx| held.poll_state(cx)).await;
            println!("state: {state}");
        }
    });
}

/// The other process. Dropping it kills it.
struct Other {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Other {
    fn start(authority: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("a program"))
            .args(["--exact", "etcd_paused::paused_beyond_the_ttl", "--nocapture"])
            .env(REGISTRY, authority)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it has run before");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || pass_on(lines, &sender));
        Self { child, lines: receiver }
    }

    /// Waits for the next state, which has to begin so. It may be registering for several reasons, one after another.
    fn says(&mut self, expected: &str) {
        let line = self.lines.recv_timeout(LIMIT).expect(expected);
        if line.starts_with("state: registering") && !line.starts_with(expected) {
            return self.says(expected);
        }
        assert!(line.starts_with(expected), "{line}");
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let done = Command::new("kill").args([name, &pid]).status().expect("kill is there");
        assert!(done.success());
    }
}

fn pass_on(lines: Lines<BufReader<ChildStdout>>, to: &mpsc::Sender<String>) {
    for line in lines.map_while(Result::ok) {
        // The first line comes after what the test program says of the test.
        if let Some(at) = line.find("state: ") {
            _ = to.send(line[at..].to_owned());
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
