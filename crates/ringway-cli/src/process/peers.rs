//! The peer programs: servers of other runtimes and plain loops, in separate binaries that the product
//! never depends on.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::child::PipedChild;
use super::error::ProcessError;
use super::interval::Edge;
use super::server::ServerProcess;
use super::tether::tethered;
use crate::args::{MongoOp, RpcMode, Uri};
use crate::limits;

/// A binary of peers.
#[derive(Debug, Clone)]
pub(crate) struct Peers {
    name: &'static str,
    binary: PathBuf,
}

/// The name of Go's JSON-RPC, as a server and as a client.
pub(crate) const GO_RPC: &str = "go-rpc";

/// The workload of a peer's client.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PeerJob {
    /// The ping-pong of the plain epoll client.
    PingPong,
    Rpc {
        peer: &'static str,
        mode: RpcMode,
        depth: u32,
    },
    Stream {
        peer: &'static str,
        frames: u32,
        window: u32,
    },
    /// One endless stream from the server.
    Flood {
        peer: &'static str,
    },
    /// MongoDB's own driver. `fills` if the server keeps documents.
    Mongo {
        op: MongoOp,
        is_sync: bool,
        fills: bool,
    },
}

/// One run of a peer's client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerClientRun<'a> {
    pub(crate) job: PeerJob,
    pub(crate) addr: &'a Uri,
    /// The connection string of MongoDB's driver, if it is more than the address: it may have a password.
    pub(crate) uri: Option<&'a str>,
    pub(crate) connections: u32,
    pub(crate) size: u32,
    pub(crate) warmup: Duration,
    pub(crate) measured: Duration,
    /// The core it is pinned to.
    pub(crate) core: usize,
}

/// The result of a peer's client, printed as one JSON object.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct PeerResult {
    /// Messages per second.
    pub(crate) rate: f64,
    pub(crate) messages: u64,
    /// Measured seconds, not the requested ones.
    pub(crate) seconds: f64,
    pub(crate) goodput_mib_s: f64,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p90_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    pub(crate) p999_us: Option<f64>,
    pub(crate) max_us: Option<f64>,
    pub(crate) errors: u64,
    pub(crate) mismatches: u64,
    pub(crate) client_cpu_us_per_op: Option<f64>,
}

impl Peers {
    /// Builds the peers in the checkout of this program, or finds them beside it if there is none.
    /// Calls `say` before a build, which may take minutes.
    ///
    /// # Errors
    /// [`ProcessError::NoPeers`], [`ProcessError::PeersBuild`], or cargo cannot be started.
    pub(crate) fn prepare(say: impl FnOnce(&str)) -> Result<Self, ProcessError> {
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        if checkout.join("peers/Cargo.toml").is_file() {
            say("building the peer programs (the first time takes minutes)");
            return build(&checkout).map(|binary| Self { name: NAME, binary });
        }
        let binary = beside_this(NAME);
        if binary.is_file() {
            return Ok(Self { name: NAME, binary });
        }
        let looked_in = binary.parent().unwrap_or(Path::new("")).display().to_string();
        Err(ProcessError::NoPeers { looked_in })
    }

    /// Builds the JSON-RPC of Go's standard library from its source in the checkout of this program, or finds it
    /// beside this program if there is none. Calls `say` before a build.
    ///
    /// # Errors
    /// Why it is not there, for the report.
    pub(crate) fn prepare_go(say: impl FnOnce(&str)) -> Result<Self, String> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/go");
        let binary = beside_this(GO_NAME);
        if source.join("go.mod").is_file() {
            say("building Go's JSON-RPC");
            build_go(&source, &binary)?;
        } else if !binary.is_file() {
            return Err(format!("there is neither {GO_NAME} beside this program nor its source"));
        }
        Ok(Self { name: GO_NAME, binary })
    }

    /// Starts the echo server `kind` (`epoll`, `uring`, `tokio`, `monoio`, …) listening on `listen`, pinned to
    /// `core`. It ends with the calling thread.
    ///
    /// # Errors
    /// Fails as [`ServerProcess::start`] does.
    pub(crate) fn serve(
        &self,
        kind: &str,
        listen: &str,
        core: usize,
    ) -> Result<ServerProcess, ProcessError> {
        let core = core.to_string();
        let args = ["serve", kind, "--listen", listen, "--core", &core];
        ServerProcess::start(self.command(&args)?, &format!("{} serve {kind}", self.name))
    }

    /// Runs a peer's client to its end, and reports the measured interval.
    ///
    /// # Errors
    /// It does not start, fails, takes [`limits::PEER_CLIENT_SLACK`] longer than it should, or prints
    /// no result; or `told` fails.
    pub(crate) fn run_client(
        &self,
        run: PeerClientRun<'_>,
        mut told: impl FnMut(Edge) -> Result<(), ProcessError>,
    ) -> Result<PeerResult, ProcessError> {
        let limit = run.warmup + run.measured + limits::PEER_CLIENT_SLACK;
        let name = format!("{} client", self.name);
        let args = run.args();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut command = self.command(&args)?;
        command.envs(run.uri.map(|uri| (MONGODB_URI_VARIABLE, uri)));
        let mut child = PipedChild::start(command, &name)?;
        let line = loop {
            let line = child.next_line("a result", limit)?;
            match line.as_str() {
                "measuring" => told(Edge::Begin)?,
                "measured" => told(Edge::End)?,
                _ => break line,
            }
        };
        serde_json::from_str(&line).map_err(|_| ProcessError::Answer {
            program: name,
            awaited: "a result",
            line,
        })
    }

    fn command(&self, args: &[&str]) -> Result<Command, ProcessError> {
        tethered(&self.binary, args)
            .map_err(|source| ProcessError::Start { program: self.name.to_owned(), source })
    }
}

impl PeerClientRun<'_> {
    fn args(&self) -> Vec<String> {
        let mut args: Vec<String> =
            ["client", self.job.name(), "--addr", self.addr.as_str()].map(str::to_owned).into();
        let mut flag = |name: &str, value: String| args.extend([name.to_owned(), value]);
        if !matches!(self.job, PeerJob::Flood { .. }) {
            flag("-c", self.connections.to_string());
        }
        if !matches!(self.job, PeerJob::Mongo { .. }) {
            flag("-s", self.size.to_string());
        }
        flag("-d", self.measured.as_secs_f64().to_string());
        flag("--warmup", self.warmup.as_secs_f64().to_string());
        flag("--core", self.core.to_string());
        match self.job {
            PeerJob::PingPong => {}
            PeerJob::Rpc { peer, mode, depth } => {
                flag("--peer", peer.to_owned());
                flag("-m", mode.as_str().to_owned());
                flag("-l", depth.to_string());
            }
            PeerJob::Stream { peer, frames, window } => {
                flag("--peer", peer.to_owned());
                flag("-f", frames.to_string());
                flag("-w", window.to_string());
            }
            PeerJob::Flood { peer } => flag("--peer", peer.to_owned()),
            PeerJob::Mongo { op, is_sync, fills } => {
                flag("--op", op.as_str().to_owned());
                args.extend(is_sync.then(|| "--sync".to_owned()));
                args.extend(fills.then(|| "--fill".to_owned()));
            }
        }
        args.push("--phases".to_owned());
        args
    }
}

impl PeerJob {
    fn name(self) -> &'static str {
        match self {
            Self::PingPong => "pingpong",
            Self::Rpc { .. } => "rpc",
            Self::Stream { .. } => "stream",
            Self::Flood { .. } => "flood",
            Self::Mongo { .. } => "mongo",
        }
    }
}

/// The path of a program in the folder of this one.
fn beside_this(name: &str) -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name(name)
}

/// Builds without the network: the program needs the standard library alone.
fn build_go(source: &Path, binary: &Path) -> Result<(), String> {
    let mut go = Command::new("go");
    go.current_dir(source).env("GOTOOLCHAIN", "local").args(["build", "-o"]).arg(binary).arg(".");
    match go.stdin(Stdio::null()).stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`go build` failed ({status}); its message is above")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err("Go is not installed (https://go.dev/doc/install)".to_owned())
        }
        Err(error) => Err(format!("`go` cannot be started: {error}")),
    }
}

/// Builds in release mode and returns the path of the binary that cargo prints.
fn build(checkout: &Path) -> Result<PathBuf, ProcessError> {
    let failed = |source| ProcessError::Start { program: "cargo".to_owned(), source };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut child = Command::new(cargo)
        .current_dir(checkout)
        .args(["build", "--release", "--package", NAME, "--bin", NAME])
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let messages = BufReader::new(child.stdout.take().expect("standard output was piped"));
    let binary = messages.lines().map_while(Result::ok).filter_map(|line| executable(&line)).last();
    let status = child.wait().map_err(failed)?;
    binary.filter(|_| status.success()).ok_or(ProcessError::PeersBuild { status })
}

/// Returns the path of the program in one of cargo's messages, if it has one.
fn executable(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_ours = message.pointer("/target/name")?.as_str()? == NAME;
    let path = message.get("executable")?.as_str()?;
    is_ours.then(|| PathBuf::from(path))
}

const NAME: &str = "ringway-peers";
const GO_NAME: &str = "ringway-peers-go";

/// Arguments can be seen by other users of the machine; the environment cannot.
const MONGODB_URI_VARIABLE: &str = "RINGWAY_PEERS_MONGODB_URI";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_their_run_as_flags() {
        let addr: Uri = "tcp://127.0.0.1:7001".parse().expect("an address");
        let run = PeerClientRun {
            job: PeerJob::PingPong,
            addr: &addr,
            uri: None,
            connections: 100,
            size: 64,
            warmup: Duration::from_millis(200),
            measured: Duration::from_secs(2),
            core: 1,
        };
        let expected = "client pingpong --addr tcp://127.0.0.1:7001 -c 100 -s 64 -d 2 --warmup 0.2 --core 1 --phases";
        assert_eq!(run.args().join(" "), expected);
        let job = PeerJob::Rpc { peer: "tonic", mode: RpcMode::ClientStream, depth: 4 };
        let args = PeerClientRun { job, ..run }.args().join(" ");
        assert!(args.starts_with("client rpc --addr "), "{args}");
        assert!(args.ends_with(" --peer tonic -m client_stream -l 4 --phases"), "{args}");
        let args = PeerClientRun { job: PeerJob::Flood { peer: "tonic" }, ..run }.args();
        assert!(!args.contains(&"-c".to_owned()), "{args:?}");
        let job = PeerJob::Mongo { op: MongoOp::FindOne, is_sync: false, fills: true };
        let run = PeerClientRun { job, uri: Some("mongodb://ada:secret@a"), ..run };
        let args = run.args().join(" ");
        assert!(args.ends_with(" --core 1 --op find_one --fill --phases"), "{args}");
        assert!(!args.contains("secret") && !args.contains(" -s "), "{args}");
    }

    #[test]
    fn results_may_lack_percentiles() {
        let text = r#"{"rate":17000.5,"messages":34001,"seconds":2.0,"goodput_mib_s":265.6,"p50_us":58.0,
            "p90_us":61,"p99_us":null,"max_us":900.0,"errors":0,"mismatches":0}"#;
        let result: PeerResult = serde_json::from_str(text).expect("the agreed fields");
        assert_eq!((result.messages, result.p90_us), (34001, Some(61.0)));
        assert_eq!((result.p99_us, result.client_cpu_us_per_op), (None, None));
    }

    #[test]
    fn cargo_says_where_the_binary_is() {
        let artifact = r#"{"reason":"compiler-artifact","target":{"name":"ringway-peers"},"executable":"/t/p"}"#;
        assert_eq!(executable(artifact), Some(PathBuf::from("/t/p")));
        let library =
            r#"{"reason":"compiler-artifact","target":{"name":"tokio"},"executable":null}"#;
        assert_eq!(executable(library), None);
        assert_eq!(executable("warning: something"), None);
    }
}
