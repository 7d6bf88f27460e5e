//! FerretDB, which speaks MongoDB's protocol over SQLite: a Go module, built once.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use super::alone;

/// Seconds after which a forgotten server ends: no test takes as long, however busy the machine is.
const SECONDS_MAX: &str = "900";

/// A server with an empty database. It ends when it is dropped.
pub(crate) struct Ferret {
    pub(crate) address: String,
    /// `host:port`
    pub(crate) place: String,
    process: Child,
    _data: TempDir,
}

impl Ferret {
    /// Starts a server, which accepts connections; `None`, with a word on stderr, where there is no Go to build it.
    ///
    /// It chooses its port itself and prints it. A port that were chosen here could be another's by the time it listens.
    pub(crate) fn start() -> Option<Self> {
        let program = program()?;
        let data = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("timeout");
        command.arg(SECONDS_MAX).arg(program).arg("127.0.0.1:0").arg(data.path());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = alone::start(&mut command).expect("it starts");
        let mut place = String::new();
        let told = process.stdout.take().expect("a pipe");
        BufReader::new(told).read_line(&mut place).expect("it says where it listens");
        let place = place.trim_end().to_owned();
        assert!(!place.is_empty(), "FerretDB ended before it listened");
        Some(Self { address: format!("mongodb://{place}"), place, process, _data: data })
    }
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
