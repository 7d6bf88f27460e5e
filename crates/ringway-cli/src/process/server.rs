//! A server under test as a process.

use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::child::PipedChild;
use super::cpu;
use super::error::ProcessError;
use super::memory;
use crate::args::{ServeConfig, Transport, Uri};
use crate::limits;

/// A server that has printed its address. Dropping it kills it; [`stop`](Self::stop) lets it drain.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    name: String,
    child: PipedChild,
    uri: Uri,
}

/// Returns the command that runs this program as a server with `config` and `control`: it ends with its standard input.
///
/// # Errors
/// The system does not know the path of this program.
pub(crate) fn own_server(config: &ServeConfig) -> io::Result<Command> {
    debug_assert!(config.control, "without it the server could outlive this process");
    let mut command = Command::new(std::env::current_exe()?);
    command.args(config.to_args());
    Ok(command)
}

/// Returns an address that no other server has: a free port of the loopback interface, or a socket file named after
/// this process and a counter.
pub(crate) fn private_address(transport: Transport) -> Uri {
    static SOCKETS: AtomicU32 = AtomicU32::new(0);
    let text = match transport {
        Transport::Tcp | Transport::Http | Transport::Ws => "tcp://127.0.0.1:0".to_owned(),
        Transport::Udp => "udp://127.0.0.1:0".to_owned(),
        Transport::Unix => {
            let ordinal = SOCKETS.fetch_add(1, Ordering::Relaxed);
            let name = format!("ringway-{}-{ordinal}.sock", std::process::id());
            format!("unix://{}", std::env::temp_dir().join(name).display())
        }
    };
    text.parse().expect("all forms are addresses")
}

impl ServerProcess {
    /// Starts `command`, which errors call `name`, and waits until it prints `listening on URI`.
    ///
    /// # Errors
    /// It does not start, ends before it listens, or takes longer than [`limits::SERVER_READY_MAX`].
    pub(crate) fn start(command: Command, name: &str) -> Result<Self, ProcessError> {
        Self::start_within(command, name, limits::SERVER_READY_MAX)
    }

    fn start_within(command: Command, name: &str, limit: Duration) -> Result<Self, ProcessError> {
        let mut child = PipedChild::start(command, name)?;
        let line = next_line_with(&mut child, READY_PREFIX, "`listening on`", limit)?;
        let uri = line[READY_PREFIX.len()..].parse().map_err(|_| ProcessError::Answer {
            program: name.to_owned(),
            awaited: "`listening on` and an address",
            line: line.clone(),
        })?;
        Ok(Self { name: name.to_owned(), child, uri })
    }

    /// Returns the server's address; the first one if there are several.
    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Returns the process number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Returns the user and system time that all its present threads have used since they started.
    ///
    /// # Errors
    /// [`ProcessError::System`], for example if it has ended.
    pub(crate) fn cpu_time(&self) -> Result<Duration, ProcessError> {
        cpu::cpu_time(self.pid())
            .map_err(|source| ProcessError::System { program: self.name.clone(), source })
    }

    /// Returns the physical memory that it has now, in bytes; `None` if the system does not tell.
    pub(crate) fn resident_bytes(&self) -> Option<u64> {
        memory::resident_bytes(self.pid()).ok()
    }

    /// Returns the counters of a server started with `--control`.
    ///
    /// # Errors
    /// It has ended, takes longer than [`limits::SNAPSHOT_MAX`], or does not answer with a JSON object.
    pub(crate) fn snapshot(&mut self) -> Result<Value, ProcessError> {
        self.request_snapshot()?;
        let line = next_line_with(&mut self.child, "{", "a snapshot", limits::SNAPSHOT_MAX)?;
        serde_json::from_str(&line).map_err(|_| ProcessError::Answer {
            program: self.name.clone(),
            awaited: "a snapshot",
            line,
        })
    }

    fn request_snapshot(&mut self) -> Result<(), ProcessError> {
        let stdin = self.child.stdin();
        match stdin.write_all(b"snapshot\n").and_then(|()| stdin.flush()) {
            // It has ended; reading its answer will show how.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(source) => Err(ProcessError::System { program: self.name.clone(), source }),
            Ok(()) => Ok(()),
        }
    }

    /// Asks it to drain and waits until it has ended; a server that takes longer than
    /// [`limits::SERVER_STOP_MAX`] is killed.
    ///
    /// # Errors
    /// It had to be killed, or did not end in order.
    pub(crate) fn stop(self) -> Result<(), ProcessError> {
        self.stop_within(limits::SERVER_STOP_MAX)
    }

    fn stop_within(mut self, limit: Duration) -> Result<(), ProcessError> {
        self.child.terminate()?;
        let status = self.child.wait(limit)?;
        if ended_well(status) {
            return Ok(());
        }
        Err(ProcessError::Ended {
            program: self.name.clone(),
            awaited: "its drain was over",
            status,
        })
    }
}

impl Drop for ServerProcess {
    /// A killed server leaves its socket file behind.
    fn drop(&mut self) {
        if let Some(path) = self.uri.as_str().strip_prefix("unix://") {
            _ = std::fs::remove_file(path);
        }
    }
}

/// Returns the next line that begins with `prefix`, and skips all others; `limit` covers them together.
fn next_line_with(
    child: &mut PipedChild,
    prefix: &str,
    awaited: &'static str,
    limit: Duration,
) -> Result<String, ProcessError> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = child.next_line(awaited, left).map_err(|error| match error {
            ProcessError::Late { program, awaited, .. } => {
                ProcessError::Late { program, awaited, limit }
            }
            other => other,
        })?;
        if line.starts_with(prefix) {
            return Ok(line);
        }
    }
}

/// A server without a handler dies of the signal itself, which also ends it.
fn ended_well(status: ExitStatus) -> bool {
    status.success() || status.signal() == Some(Signal::TERM.as_raw())
}

const READY_PREFIX: &str = "listening on ";

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell script in place of a server. Scripts that wait end with their standard input.
    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn start(script: &str) -> Result<ServerProcess, ProcessError> {
        ServerProcess::start(shell(script), "the server")
    }

    const ECHO_REQUESTS: &str = "echo hello; echo listening on tcp://127.0.0.1:9; \
        while read request; do echo note; echo \"{\\\"asked\\\":\\\"$request\\\"}\"; done";

    #[test]
    fn a_server_is_started_asked_and_stopped() {
        let mut server = start(ECHO_REQUESTS).expect("it listens");
        assert_eq!(server.uri().as_str(), "tcp://127.0.0.1:9");
        for _ in 0..3 {
            let snapshot = server.snapshot().expect("it answers");
            assert_eq!(snapshot, serde_json::json!({"asked": "snapshot"}));
        }
        server.cpu_time().expect("it runs");
        server.stop().expect("it ends by the signal");
    }

    #[test]
    fn a_server_that_ends_early_is_told_from_one_that_is_late() {
        let error = start("exit 3").expect_err("it never listens");
        assert!(matches!(error, ProcessError::Ended { .. }), "{error:?}");
        insta::assert_snapshot!(error, @"the server ended (exit status: 3) before `listening on`; its own message, if any, is above");
        let limit = Duration::from_millis(10);
        let error = ServerProcess::start_within(shell("read forever"), "the server", limit);
        assert!(matches!(error, Err(ProcessError::Late { .. })), "{error:?}");
    }

    #[test]
    fn answers_that_are_none_are_reported() {
        let error = start("echo listening on the moon; read end").expect_err("no address");
        assert!(matches!(error, ProcessError::Answer { .. }), "{error:?}");
        let script = "echo listening on tcp://a:1; read request; echo {broken; read end";
        let error = start(script).expect("it listens").snapshot().expect_err("no JSON");
        assert!(matches!(error, ProcessError::Answer { .. }), "{error:?}");
        let script = "echo listening on tcp://a:1; read request";
        let error = start(script).expect("it listens").snapshot().expect_err("it ends instead");
        assert!(matches!(error, ProcessError::Ended { .. }), "{error:?}");
    }

    #[test]
    fn a_server_deaf_to_the_signal_is_killed() {
        let server =
            start("trap '' TERM; echo listening on tcp://a:1; read end").expect("it listens");
        let pid = server.pid();
        let error = server.stop_within(Duration::from_millis(10)).expect_err("it stays");
        assert!(matches!(error, ProcessError::Late { .. }), "{error:?}");
        cpu::cpu_time(pid).expect_err("it is gone and reaped");
    }

    #[test]
    fn private_addresses_are_distinct_and_removed_with_their_server() {
        let uri = private_address(Transport::Unix);
        assert_ne!(uri, private_address(Transport::Unix));
        assert_eq!(private_address(Transport::Tcp).as_str(), "tcp://127.0.0.1:0");
        let path = uri.as_str().strip_prefix("unix://").expect("a socket file").to_owned();
        let script = format!("touch {path}; echo listening on {uri}; read end");
        let server = start(&script).expect("it listens");
        assert!(std::fs::exists(&path).expect("the file can be looked for"));
        server.stop().expect("it ends by the signal");
        assert!(!std::fs::exists(&path).expect("the file can be looked for"));
    }

    #[test]
    fn a_missing_program_is_named() {
        let command = Command::new("/nonexistent/ringway-peers");
        let error = ServerProcess::start(command, "ringway-peers").expect_err("nothing to start");
        assert!(error.to_string().starts_with("cannot start ringway-peers:"), "{error}");
    }
}
