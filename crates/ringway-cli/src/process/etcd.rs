//! A real etcd of one member, as a process.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::cpu;
use crate::args::{Cores, Uri};
use crate::limits;

/// A running etcd. Dropping it kills it and removes its data.
pub(crate) struct EtcdProcess {
    child: Child,
    uri: Uri,
    _data: DataFolder,
}

impl EtcdProcess {
    /// Starts etcd on some cores, with its data in a new folder for temporary files.
    ///
    /// # Errors
    /// It is not installed, or does not serve within [`limits::SERVER_READY_MAX`].
    pub(crate) fn start(cores: &Cores) -> io::Result<Self> {
        let data = DataFolder::create()?;
        let [client, peer] = [free_address()?, free_address()?].map(|it| format!("http://{it}"));
        // Its threads stay on these cores, as many as it believes to have.
        let mut command = Command::new("taskset");
        command.args(["-c", &cores.to_string(), "etcd", "--logger=zap", "--log-outputs=stderr"]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}")]);
        command.arg("--data-dir").arg(data.path());
        command.env("GOMAXPROCS", cores.as_slice().len().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("cannot start etcd by taskset: {error}"))
        })?;
        let log = child.stderr.take();
        let uri = client.replace("http://", "grpc://").parse().map_err(io::Error::other)?;
        let etcd = Self { child, uri, _data: data };
        let (ready, is_ready) = mpsc::channel();
        // Read to its end, so that etcd never waits for its log to be read.
        thread::Builder::new().name("log of etcd".to_owned()).spawn(move || {
            for line in log.into_iter().flat_map(|log| BufReader::new(log).lines()).flatten() {
                if line.contains("serving client traffic insecurely") {
                    _ = ready.send(());
                }
            }
        })?;
        match is_ready.recv_timeout(limits::SERVER_READY_MAX) {
            Ok(()) => Ok(etcd),
            Err(_) => Err(io::Error::other(
                "etcd does not serve; it is Debian's package etcd-server, and `etcd --version` should work",
            )),
        }
    }

    /// Returns its address.
    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Returns the user and system time of all its threads.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn cpu_time(&self) -> io::Result<Duration> {
        cpu::cpu_time(self.child.id())
    }
}

impl Drop for EtcdProcess {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// A folder for the data of one server, which is removed with this.
#[derive(Debug)]
pub(crate) struct DataFolder(PathBuf);

impl DataFolder {
    /// Makes a folder among the temporary files, where all servers of a run have theirs.
    ///
    /// # Errors
    /// The system refuses that.
    pub(crate) fn create() -> io::Result<Self> {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("ringway-registry-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder)?;
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        // What is left is for the system to tidy up.
        _ = fs::remove_dir_all(&self.0);
    }
}

fn free_address() -> io::Result<std::net::SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}
