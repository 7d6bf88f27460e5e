//! A cluster of real etcd, whose members a test stops, starts and cuts off.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use tempfile::TempDir;

use super::LIMIT;
use super::etcd::is_installed;

/// Members of etcd. Dropping it kills them.
pub(crate) struct Cluster {
    members: Vec<Member>,
    arguments: Vec<String>,
    data: TempDir,
}

struct Member {
    client: String,
    peer: String,
    /// The network namespace that it runs in, if not that of the test.
    namespace: Option<String>,
    child: Option<Child>,
}

/// Where a member listens.
pub(crate) struct Place {
    pub(crate) client: String,
    pub(crate) peer: String,
    pub(crate) namespace: Option<String>,
}

impl Cluster {
    /// Starts so many members on free ports. `None`, with a message, if etcd is not installed.
    pub(crate) fn start(count: usize) -> Option<Self> {
        Self::start_with(count, &[])
    }

    /// Starts members with more arguments.
    pub(crate) fn start_with(count: usize, arguments: &[&str]) -> Option<Self> {
        let mut cluster = Self::prepare((0..count).map(|_| free_place()).collect(), arguments)?;
        cluster.start_all();
        Some(cluster)
    }

    /// Chooses where members will be, and starts none.
    pub(crate) fn prepare(places: Vec<Place>, arguments: &[&str]) -> Option<Self> {
        if !is_installed("etcd") || !is_installed("etcdctl") {
            eprintln!("skipped: etcd is not installed (Debian's etcd-server and etcd-client)");
            return None;
        }
        let members = places.into_iter().map(|Place { client, peer, namespace }| Member {
            client,
            peer,
            namespace,
            child: None,
        });
        Some(Self {
            members: members.collect(),
            arguments: arguments.iter().map(ToString::to_string).collect(),
            data: tempfile::tempdir().expect("a directory"),
        })
    }

    /// Starts all members, and waits until they serve.
    pub(crate) fn start_all(&mut self) {
        let ready: Vec<_> = (0..self.members.len()).map(|at| self.spawn(at)).collect();
        for is_ready in ready {
            is_ready.recv_timeout(LIMIT).expect("a member of etcd serves in time");
        }
    }

    /// Starts a member again, with the data that it had, and waits until it serves.
    pub(crate) fn start_member(&mut self, at: usize) {
        self.spawn(at).recv_timeout(LIMIT).expect("a member of etcd serves in time");
    }

    /// Kills a member.
    pub(crate) fn kill(&mut self, at: usize) {
        if let Some(mut child) = self.members[at].child.take() {
            // It may have ended.
            _ = child.kill();
            _ = child.wait();
        }
    }

    /// Takes the data of a member that was killed away.
    pub(crate) fn lose_data(&self, at: usize) {
        std::fs::remove_dir_all(self.directory(at)).expect("its data are there");
    }

    /// The addresses of all members, as clients write them.
    pub(crate) fn authorities(&self) -> Vec<String> {
        self.members.iter().map(|member| member.client.clone()).collect()
    }

    pub(crate) fn authority(&self, at: usize) -> &str {
        &self.members[at].client
    }

    /// The member that leads, as one of those that run says.
    pub(crate) fn leader(&self, asked: usize) -> Option<usize> {
        let status = self.ctl(asked, &["endpoint", "status", "--cluster"]);
        let line = status.lines().find(|line| line.split(", ").nth(4) == Some("true"))?;
        let url = line.split(", ").next()?;
        self.members.iter().position(|member| url.ends_with(&member.client))
    }

    /// Runs `etcdctl` on a member. Returns what it prints, which is nothing if it has failed.
    pub(crate) fn ctl(&self, at: usize, arguments: &[&str]) -> String {
        let output = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.members[at].client])
            .args(arguments)
            .output()
            .expect("etcdctl is installed");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn directory(&self, at: usize) -> std::path::PathBuf {
        self.data.path().join(at.to_string())
    }

    /// Starts a member. What is returned hears when it serves.
    fn spawn(&mut self, at: usize) -> mpsc::Receiver<()> {
        let numbered = self.members.iter().enumerate();
        let all: Vec<_> = numbered.map(|(at, it)| format!("m{at}=http://{}", it.peer)).collect();
        let directory = self.directory(at);
        let member = &mut self.members[at];
        let (client, peer) =
            (format!("http://{}", member.client), format!("http://{}", member.peer));
        let mut command = match &member.namespace {
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace, "etcd"]);
                command
            }
            None => Command::new("etcd"),
        };
        let mut child = command
            .arg("--data-dir")
            .arg(directory)
            .args(["--name", &format!("m{at}")])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &all.join(",")])
            // Elections are short, and with them the shortest TTL.
            .args(["--heartbeat-interval=50", "--election-timeout=500", "--logger=zap"])
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("etcd is installed");
        let log = BufReader::new(child.stderr.take().expect("piped"));
        member.child = Some(child);
        let (ready, is_ready) = mpsc::channel();
        thread::spawn(move || {
            // Read to its end, so that etcd never waits for its log to be read.
            for line in log.lines().map_while(Result::ok) {
                if line.contains("serving client traffic insecurely") {
                    _ = ready.send(());
                }
            }
        });
        is_ready
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|at| self.kill(at));
    }
}

/// Two free ports of this machine.
pub(crate) fn free_place() -> Place {
    let bound = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let [client, peer] = bound.map(|it| it.local_addr().expect("bound").to_string());
    Place { client, peer, namespace: None }
}
