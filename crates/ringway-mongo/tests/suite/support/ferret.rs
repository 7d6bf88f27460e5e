//! FerretDB, which speaks MongoDB's protocol over SQLite: a Go module, built once.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;

use tempfile::TempDir;

use super::alone;

/// Seconds after which a forgotten server ends.
const SECONDS_MAX: &str = "120";

/// A server with an empty database. It ends when it is dropped.
pub(crate) struct Ferret {
    pub(crate) address: String,
    /// `host:port`
    pub(crate) place: String,
    process: Child,
    _data: TempDir,
}

impl Ferret {
    /// Starts a server; `None`, with a word on stderr, where there is no Go to build it.
    pub(crate) fn start() -> Option<Self> {
        let program = program()?;
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let place = listener.local_addr().expect("an address").to_string();
        drop(listener);
        let data = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("timeout");
        command.arg(SECONDS_MAX).arg(program).arg(&place).arg(data.path());
        let process = alone::start(command.stderr(std::process::Stdio::null())).expect("it starts");
        Some(Self { address: format!("mongodb://{place}"), place, process, _data: data })
    }

    /// Waits until it accepts connections.
    pub(crate) async fn is_up(&self) {
        is_up(&self.place).await;
    }
}

async fn is_up(place: &str) {
    let connector = ringway_net::Client::new(&*format!("tcp://{place}")).expect("an address");
    connector.attempts_max(100).open().await.expect("FerretDB comes up");
}

impl Drop for Ferret {
    fn drop(&mut self) {
        // `timeout` passes the signal on to its program.
        let mut kill = Command::new("kill");
        let killed = alone::start(kill.arg(self.process.id().to_string()));
        let _ended = killed.and_then(|mut it| it.wait());
        let _ended = self.process.wait();
    }
}

fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ferretdb");
    let mut build = Command::new("go");
    build.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../ringway-mongo/tests/ferretdb"));
    build.args(["build", "-tags", "ferretdb_no_hana", "-o"]).arg(&program).arg(".");
    match alone::start(&mut build).and_then(|mut it| it.wait()) {
        Ok(status) => {
            assert!(status.success(), "{build:?}: {status}");
            Some(program)
        }
        Err(error) => {
            eprintln!("FerretDB is not built, and its tests do nothing: `go`: {error}");
            None
        }
    }
}
