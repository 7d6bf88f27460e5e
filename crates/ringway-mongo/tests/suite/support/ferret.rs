//! FerretDB, which speaks MongoDB's protocol over SQLite: a Go module, whose command is built once.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;

use tempfile::TempDir;

use super::alone;

/// Seconds after which a forgotten server ends: no test takes as long, however busy the machine is.
const SECONDS_MAX: &str = "900";

const MODULE: &str = "github.com/FerretDB/FerretDB";

/// What every server is told: an empty database, no telemetry, and nothing that listens but the database.
///
/// The data of a test need not survive a crash, and disks of busy machines take seconds to confirm them.
const ARGUMENTS: [&str; 5] = [
    "--handler=sqlite",
    "--state-dir=-",
    "--telemetry=disable",
    "--debug-addr=-",
    "--log-level=INFO",
];

/// How a server guards itself; by default it does not.
#[derive(Clone, Copy, Default)]
pub(crate) struct Guards<'a> {
    /// The name and the password of its first user, if it wants to know who asks.
    pub(crate) user: Option<(&'a str, &'a str)>,
    /// Its certificate and key as PEM text, if it speaks TLS.
    pub(crate) identity: Option<(&'a str, &'a str)>,
    /// The authority, as PEM text, of the certificates that its clients have to show.
    pub(crate) clients: Option<&'a str>,
}

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
    pub(crate) fn start() -> Option<Self> {
        Self::start_guarded(Guards::default())
    }

    /// Starts a server that guards itself.
    ///
    /// It chooses its port itself and logs it. A port that were chosen here could be another's by the time it listens.
    pub(crate) fn start_guarded(guards: Guards<'_>) -> Option<Self> {
        let program = program()?;
        let data = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("timeout");
        command.arg(SECONDS_MAX).arg(program).args(ARGUMENTS);
        let url = format!("--sqlite-url=file:{}/?_pragma=synchronous(off)", data.path().display());
        command.arg(url).args(guards.arguments(data.path()));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = alone::start(&mut command).expect("it starts");
        let place = place(process.stderr.take().expect("a pipe"));
        Some(Self { address: format!("mongodb://{place}"), place, process, _data: data })
    }
}

impl Guards<'_> {
    /// The arguments of the command, whose files go into a folder.
    fn arguments(&self, folder: &Path) -> Vec<String> {
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).expect("a file");
            path.display().to_string()
        };
        let mut arguments = match self.identity {
            None => vec!["--listen-addr=127.0.0.1:0".to_owned()],
            Some((certificate, key)) => vec![
                "--listen-addr=".to_owned(),
                "--listen-tls=127.0.0.1:0".to_owned(),
                format!("--listen-tls-cert-file={}", file("certificate.pem", certificate)),
                format!("--listen-tls-key-file={}", file("key.pem", key)),
            ],
        };
        if let Some(authority) = self.clients {
            arguments.push(format!("--listen-tls-ca-file={}", file("clients.pem", authority)));
        }
        if let Some((name, password)) = self.user {
            arguments.push("--test-enable-new-auth".to_owned());
            arguments.push("--setup-database=admin".to_owned());
            arguments.push(format!("--setup-username={name}"));
            arguments.push(format!("--setup-password={password}"));
        }
        arguments
    }
}

/// Where a server listens, by its log, of which the rest is read and thrown away.
fn place(log: impl Read + Send + 'static) -> String {
    let mut log = BufReader::new(log);
    let mut told = String::new();
    loop {
        let begin = told.len();
        let len = log.read_line(&mut told).expect("a log of text");
        assert!(len > 0, "FerretDB ended before it listened: {told}");
        let place = told[begin..].split_once("Listening on ").and_then(|(_, at)| {
            let place = at.split_whitespace().nth(1)?;
            Some(place.trim_end_matches('.').to_owned())
        });
        if let Some(place) = place {
            thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            return place;
        }
    }
}

impl Drop for Ferret {
    fn drop(&mut self) {
        // `timeout` passes the signal on to its program. That of the other signals waits three seconds for its connections.
        let mut kill = Command::new("kill");
        let killed = alone::start(kill.arg("-HUP").arg(self.process.id().to_string()));
        let _ended = killed.and_then(|mut it| it.wait());
        let _ended = self.process.wait();
    }
}

fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/../ringway-mongo/tests/ferretdb");
    // The checksums of the folder hold for what is fetched.
    if let Err(error) = run(Command::new("go").current_dir(here).args(["mod", "download", MODULE]))
    {
        eprintln!("FerretDB is not built, and its tests do nothing: `go`: {error}");
        return None;
    }
    let mut list = Command::new("go");
    let fetched = run(list.current_dir(here).args(["list", "-m", "-f", "{{.Dir}}", MODULE]));
    let source = source(folder, fetched.expect("it was there a moment ago").trim_end());
    let program = folder.join("ferretdb");
    let mut build = Command::new("go");
    build.current_dir(source).args(["build", "-buildvcs=false", "-tags", "ferretdb_no_postgresql"]);
    run(build.arg("-o").arg(&program).arg("./cmd/ferretdb")).expect("it was there a moment ago");
    Some(program)
}

/// A copy of the module with a file that it has not as it is published, and without which its command does not start.
fn source(folder: &Path, fetched: &str) -> PathBuf {
    let source = folder.join("ferretdb-source");
    if !source.exists() {
        let begun = tempfile::tempdir_in(folder).expect("a folder");
        let copy = begun.path().join("copy");
        let mut command = Command::new("cp");
        run(command.args(["-r", "--no-preserve=mode", fetched]).arg(&copy)).expect("a copy");
        let version = copy.join("build/version/version.txt");
        std::fs::write(version, "v1.24.2\n").expect("a file");
        // Another process may have been faster.
        let _renamed = std::fs::rename(copy, &source);
    }
    source
}

/// Runs a program that has to succeed, and returns what it prints.
fn run(command: &mut Command) -> std::io::Result<String> {
    let mut started = alone::start(command.stdout(Stdio::piped()))?;
    let mut printed = String::new();
    started.stdout.take().expect("a pipe").read_to_string(&mut printed).expect("text");
    let status = started.wait()?;
    assert!(status.success(), "{command:?}: {status}");
    Ok(printed)
}
