//! A child process: its output is read line by line, and every wait has a limit.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::error::ProcessError;
use crate::limits;

/// A running child with piped standard input and output. Dropping it kills and reaps it.
#[derive(Debug)]
pub(super) struct PipedChild {
    name: String,
    child: Child,
    /// Identifies this child even after its process number was given to another process.
    pidfd: OwnedFd,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl PipedChild {
    /// Starts `command`, which errors call `name`.
    ///
    /// # Errors
    /// [`ProcessError::Start`]
    pub(super) fn start(mut command: Command, name: &str) -> Result<Self, ProcessError> {
        let failed = |source| ProcessError::Start { program: name.to_owned(), source };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let stdout = child.stdout.take().expect("standard output was piped");
        let stdin = child.stdin.take().expect("standard input was piped");
        let ready = pidfd_of(&child).and_then(|pidfd| Ok((pidfd, spawn_reader(stdout)?)));
        match ready {
            Ok((pidfd, lines)) => Ok(Self { name: name.to_owned(), child, pidfd, stdin, lines }),
            Err(source) => {
                kill_and_reap(&mut child);
                Err(failed(source))
            }
        }
    }

    /// Returns the process number.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the child's standard input, which stays open as long as this value lives.
    pub(super) fn stdin(&mut self) -> &mut ChildStdin {
        &mut self.stdin
    }

    /// Returns the next line of the child; errors say that `awaited` was expected.
    ///
    /// # Errors
    /// [`ProcessError::Late`] after `limit`; [`ProcessError::Ended`] if the child closed its output first.
    pub(super) fn next_line(
        &mut self,
        awaited: &'static str,
        limit: Duration,
    ) -> Result<String, ProcessError> {
        let program = self.name.clone();
        match self.lines.recv_timeout(limit) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => Err(ProcessError::Late { program, awaited, limit }),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.wait(limit)?;
                Err(ProcessError::Ended { program, awaited, status })
            }
        }
    }

    /// Asks the child to end with SIGTERM.
    ///
    /// # Errors
    /// [`ProcessError::System`]; a child that has ended already is no error.
    pub(super) fn terminate(&self) -> Result<(), ProcessError> {
        match pidfd_send_signal(&self.pidfd, Signal::TERM) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(self.system(errno)),
        }
    }

    /// Waits for the end of the child.
    ///
    /// # Errors
    /// [`ProcessError::Late`] after `limit`, with the child still running.
    pub(super) fn wait(&mut self, limit: Duration) -> Result<ExitStatus, ProcessError> {
        if !ends_within(&self.pidfd, limit).map_err(|errno| self.system(errno))? {
            let program = self.name.clone();
            return Err(ProcessError::Late { program, awaited: "its end", limit });
        }
        self.child.wait().map_err(|source| self.system(source))
    }

    fn system(&self, source: impl Into<std::io::Error>) -> ProcessError {
        ProcessError::System { program: self.name.clone(), source: source.into() }
    }
}

impl Drop for PipedChild {
    fn drop(&mut self) {
        kill_and_reap(&mut self.child);
    }
}

/// Does nothing to a child that has ended; the wait is short, since SIGKILL cannot be delayed.
fn kill_and_reap(child: &mut Child) {
    _ = child.kill();
    _ = child.wait();
}

fn pidfd_of(child: &Child) -> std::io::Result<OwnedFd> {
    let pid = Pid::from_child(child);
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// A process descriptor becomes readable when the process ends.
fn ends_within(pidfd: &OwnedFd, limit: Duration) -> Result<bool, Errno> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).expect("limits are minutes, not centuries");
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => continue,
            ready => return ready.map(|count| count > 0),
        }
    }
}

fn spawn_reader(stdout: ChildStdout) -> std::io::Result<Receiver<String>> {
    let (sender, lines) = sync_channel(limits::CHILD_LINES_MAX);
    thread::Builder::new()
        .name("child output".to_owned())
        .spawn(move || forward_lines(stdout, &sender))?;
    Ok(lines)
}

/// Ends with the output, or when nobody reads the lines any more.
fn forward_lines(stdout: ChildStdout, lines: &SyncSender<String>) {
    let mut stdout = BufReader::new(stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = (&mut stdout).take(limits::CHILD_LINE_BYTES_MAX as u64);
        if !matches!(bounded.read_until(b'\n', &mut line), Ok(1..)) {
            return;
        }
        let text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
        if lines.send(text).is_err() {
            return;
        }
    }
}
