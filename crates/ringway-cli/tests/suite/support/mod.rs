//! The binary under test as a process with a time limit.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// Far more than anything here takes, even while the machine compiles.
const LIMIT: Duration = Duration::from_secs(60);

/// A run of the binary; dropping it kills it.
pub(crate) struct Ringway {
    child: Child,
    lines: Receiver<String>,
    errors: Option<thread::JoinHandle<String>>,
}

/// How a run ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ringway {
    pub(crate) fn start(words: &str) -> Self {
        Self::start_with(words.split_whitespace())
    }

    pub(crate) fn start_with<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        Self::start_command(Command::new(env!("CARGO_BIN_EXE_ringway")).args(words))
    }

    /// The same with a variable of the environment.
    pub(crate) fn start_in((name, value): (&str, &str), words: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringway"));
        Self::start_command(command.args(words.split_whitespace()).env(name, value))
    }

    fn start_command(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary under test starts");
        let (out, mut err) =
            (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            lines.for_each(|line| _ = sender.send(line));
        });
        let errors = thread::spawn(move || {
            let mut text = String::new();
            err.read_to_string(&mut text).expect("standard error is UTF-8");
            text
        });
        Self { child, lines, errors: Some(errors) }
    }

    /// The next line on standard output.
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(LIMIT).expect("a line within the limit")
    }

    pub(crate) fn stdin(&mut self) -> &mut ChildStdin {
        self.child.stdin.as_mut().expect("piped, and never taken")
    }

    pub(crate) fn close_stdin(&mut self) {
        self.child.stdin = None;
    }

    pub(crate) fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(&self) {
        self.signal(rustix::process::Signal::KILL);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.expect("a child"), signal)
            .expect("the child of this process can be signalled");
    }

    /// Waits for the end of its output, and then for its own. Its input is open until then.
    pub(crate) fn wait(mut self) -> Ended {
        let deadline = Instant::now() + LIMIT;
        let mut out = String::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => out = out + &line + "\n",
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("no end within {LIMIT:?}: {out}"),
            }
        }
        let status = self.child.wait().expect("the child of this process");
        let errors = self.errors.take().expect("taken once");
        let err = errors.join().expect("the reader does not panic");
        Ended { status, out, err }
    }
}

impl Drop for Ringway {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Runs the binary to its end.
pub(crate) fn run(words: &str) -> Ended {
    Ringway::start(words).wait()
}

/// The same, where no program is installed.
pub(crate) fn run_alone(words: &str) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringway"));
    Ringway::start_command(command.args(words.split_whitespace()).env("PATH", "")).wait()
}

/// The same, with `input` as its standard input.
pub(crate) fn run_with_input(words: &str, input: &str) -> Ended {
    let mut started = Ringway::start(words);
    started.stdin().write_all(input.as_bytes()).expect("a pipe holds a few bytes");
    started.close_stdin();
    started.wait()
}
