//! A process of `ringway-cost`, and what it says of its counts.

use super::asleep::{BUSY_MAX, Threads};
use std::cell::Cell;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};

/// How a process runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Under callgrind, over epoll.
    Callgrind,
    /// By itself, over io_uring.
    Plain,
}

pub(super) struct Side {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    pub(super) threads: Threads,
    /// Where callgrind writes, with a number behind.
    profile: Option<PathBuf>,
    marks: Cell<u32>,
}

/// A point in time, at which the counts were noted.
pub(super) struct Mark {
    /// What the process said of itself.
    line: String,
    profile: Option<PathBuf>,
}

/// Counts since the process began; instructions since the mark before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) instructions: u64,
    pub(super) syscalls: u64,
    pub(super) allocations: u64,
    pub(super) bytes: u64,
}

impl Side {
    pub(super) fn start(
        program: &Path,
        folder: &Path,
        mode: Mode,
        words: &[&str; 3],
    ) -> Result<Self, String> {
        let [side, row, rest] = *words;
        let profile = folder.join(format!("{row}.{side}"));
        let (mut command, backend) = match mode {
            Mode::Callgrind => (callgrind(&profile, program), "epoll"),
            Mode::Plain => (Command::new(program), "uring"),
        };
        command.args([side, backend, row, rest]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{side}: {error}"))?;
        let output = child.stdout.take().expect("standard output is piped");
        let (say, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.map_while(|line| say.send(line).ok()).for_each(drop);
        });
        Ok(Self {
            threads: Threads::of(child.id()),
            input: child.stdin.take(),
            child,
            lines,
            profile: (mode == Mode::Callgrind).then_some(profile),
            marks: Cell::new(0),
        })
    }

    pub(super) fn tell(&mut self, line: &str) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("told after its end")?;
        writeln!(input, "{line}").map_err(|error| format!("a side does not listen: {error}"))
    }

    /// The next line that it says.
    pub(super) fn answer(&self) -> Result<String, String> {
        self.lines.recv_timeout(BUSY_MAX).map_err(|error| match error {
            RecvTimeoutError::Timeout => "a side does not answer".to_owned(),
            RecvTimeoutError::Disconnected => ENDED.to_owned(),
        })
    }

    /// Whether it has said so.
    pub(super) fn is_done(&self) -> Result<bool, String> {
        match self.lines.try_recv() {
            Ok(_) => Ok(true),
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => Err(ENDED.to_owned()),
        }
    }

    pub(super) fn mark(&mut self) -> Result<Mark, String> {
        self.tell("mark")?;
        let line = self.answer()?;
        self.threads.wait(None)?;
        self.marks.set(self.marks.get() + 1);
        let numbered =
            |profile: &PathBuf| profile.with_added_extension(self.marks.get().to_string());
        Ok(Mark { line, profile: self.profile.as_ref().map(numbered) })
    }

    pub(super) fn end(mut self) -> Result<(), String> {
        drop(self.input.take());
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("a side ended with {status}")) }
    }
}

/// Whatever goes wrong, no process is left behind.
impl Drop for Side {
    fn drop(&mut self) {
        if self.input.is_some() {
            _ = self.child.kill();
            _ = self.child.wait();
        }
    }
}

const ENDED: &str = "a side has ended too early; what it said stands above";

fn callgrind(profile: &Path, program: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind", "--dump-before=ringway_cost::side::mark"]);
    command.arg(format!("--callgrind-out-file={}", profile.display()));
    // It complains of epoll_pwait2, for which the runtime has a substitute.
    command.arg(format!("--log-file={}.log", profile.display()));
    command.arg(program);
    command
}

impl Mark {
    /// # Errors
    /// It is not written as it should be.
    pub(super) fn read(&self) -> Result<Counts, String> {
        let said: Option<Vec<u64>> = self.line.split(' ').map(|word| word.parse().ok()).collect();
        let Some([allocations, bytes, syscalls]) = said.as_deref() else {
            return Err(format!("a side says `{}` instead of its counts", self.line));
        };
        let instructions = match &self.profile {
            None => 0,
            Some(path) => {
                let shown = |why: &str| format!("{}: {why}", path.display());
                let text = fs::read_to_string(path).map_err(|error| shown(&error.to_string()))?;
                total(&text).ok_or_else(|| shown("no total"))?
            }
        };
        let (syscalls, allocations, bytes) = (*syscalls, *allocations, *bytes);
        Ok(Counts { instructions, syscalls, allocations, bytes })
    }
}

/// The instructions of a profile.
fn total(profile: &str) -> Option<u64> {
    let line = profile.lines().find_map(|line| line.strip_prefix("totals: "))?;
    line.trim().parse().ok()
}

impl Counts {
    /// What came between `before` and `self`, less what came between `first` and `before`.
    pub(super) fn since(&self, before: &Self, first: &Self) -> Self {
        let twice =
            |of: fn(&Self) -> u64| (of(self) - of(before)).saturating_sub(of(before) - of(first));
        Self {
            // These begin anew at each mark.
            instructions: self.instructions.saturating_sub(before.instructions),
            syscalls: twice(|counts| counts.syscalls),
            allocations: twice(|counts| counts.allocations),
            bytes: twice(|counts| counts.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_a_profile_is_read() {
        assert_eq!(total("version: 1\nevents: Ir\nfn=(1)\n0 5\ntotals: 1234\n"), Some(1234));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn what_a_command_takes_by_itself_is_subtracted() {
        let counts = |each: [u64; 4]| Counts {
            instructions: each[0],
            syscalls: each[1],
            allocations: each[2],
            bytes: each[3],
        };
        let (first, empty, full) =
            (counts([9, 10, 20, 300]), counts([50, 12, 21, 310]), counts([1050, 114, 72, 1320]));
        assert_eq!(full.since(&empty, &first), counts([1000, 100, 50, 1000]));
    }

    #[test]
    fn a_mark_that_is_no_counts_is_an_error() {
        let read = |line: &str| Mark { line: line.to_owned(), profile: None }.read();
        assert_eq!(read("1 2 3").map(|counts| counts.syscalls), Ok(3));
        assert!(read("1 2").is_err());
        assert!(read("done").is_err());
    }
}
