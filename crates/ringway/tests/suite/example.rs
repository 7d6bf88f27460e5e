//! An example as a process of its own.

#![allow(dead_code)] // each test uses its part

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// No wait of a test may be longer.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A running example; killed when dropped.
pub(crate) struct Example {
    name: &'static str,
    pid: Pid,
    /// What it prints, line by line.
    lines: Receiver<String>,
    ended: Receiver<ExitStatus>,
}

impl Example {
    /// Starts an example that `cargo test` has built.
    pub(crate) fn start(name: &'static str, args: &[&str]) -> Self {
        let path = directory().join(name);
        let child = Command::new(&path).args(args).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| {
            panic!("cannot run {path:?} ({error}): build it by cargo build -p ringway --examples")
        });
        let pid = Pid::from_child(&child);
        let lines = lines_of(&mut child);
        let (ended_sender, ended) = mpsc::channel();
        thread::spawn(move || ended_sender.send(child.wait().expect("it is our child")));
        Self { name, pid, lines, ended }
    }

    /// The next line that it prints.
    pub(crate) fn line(&self) -> String {
        let line = self.lines.recv_timeout(LIMIT);
        line.unwrap_or_else(|error| panic!("{} printed no further line: {error}", self.name))
    }

    /// The lines up to the one that announces an address, and that address.
    pub(crate) fn listening(&self) -> (Vec<String>, SocketAddr) {
        let mut before = Vec::new();
        loop {
            let line = self.line();
            let Some(address) = line.strip_prefix("listening on ") else {
                before.push(line);
                continue;
            };
            let (_, address) = address.split_once("://").expect("an address has a scheme");
            return (before, address.parse().expect("an IP address"));
        }
    }

    /// The lines up to the end of what it prints, which is its own.
    pub(crate) fn rest(&self) -> Vec<String> {
        let mut rest = Vec::new();
        loop {
            match self.lines.recv_timeout(LIMIT) {
                Ok(line) => rest.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => return rest,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("{} does not end", self.name),
            }
        }
    }

    /// Waits for it to end by itself.
    pub(crate) fn wait(self) {
        let status = self.ended.recv_timeout(LIMIT);
        let status = status.unwrap_or_else(|error| panic!("{} does not end: {error}", self.name));
        assert!(status.success(), "{} ended by {status}", self.name);
    }

    /// Ends it with no time to say goodbye, as `kill -9` does.
    pub(crate) fn kill(&self) {
        kill_process(self.pid, Signal::KILL).expect("it runs");
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        kill_process(self.pid, Signal::TERM).expect("it runs");
    }

    /// Asks it to end, which it must do with status 0.
    pub(crate) fn stop(self) {
        self.terminate();
        self.wait();
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        if matches!(self.ended.try_recv(), Err(mpsc::TryRecvError::Empty)) {
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }
}

/// A socket all of whose waits are limited. The example has announced its address, but is
/// refusing until its cores listen, which nothing tells.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let begun = Instant::now();
    loop {
        match TcpStream::connect_timeout(&address, LIMIT) {
            Err(error)
                if error.kind() == ErrorKind::ConnectionRefused && begun.elapsed() < LIMIT => {}
            connected => return limited(connected.expect("the example listens")),
        }
    }
}

/// Limits all waits of a socket.
pub(crate) fn limited(socket: TcpStream) -> TcpStream {
    socket.set_read_timeout(Some(LIMIT)).expect("not zero");
    socket.set_write_timeout(Some(LIMIT)).expect("not zero");
    socket.set_nodelay(true).expect("it is a TCP socket");
    socket
}

/// Where cargo puts examples: beside the directory of the test programs.
fn directory() -> PathBuf {
    let test = std::env::current_exe().expect("the test runs");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("target/<profile>/deps");
    profile.join("examples")
}

fn lines_of(child: &mut Child) -> Receiver<String> {
    let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}
