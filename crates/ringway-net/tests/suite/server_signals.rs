//! Signals to a serving process; each test starts its own process.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use ringway_net::{Connection, Server};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::alone;
use crate::support::server::{connect_to, echo, eventually, is_closed, round_trip};

/// Selects which of the programs below the process runs.
const PROGRAM: &str = "RINGWAY_TEST_PROGRAM";

/// Whether this process ignores a signal.
fn ignores(signal: Signal) -> bool {
    is_in(&std::fs::read_to_string("/proc/self/status").expect("/proc"), "SigIgn:", signal)
}

/// Whether a signal is in a set of `/proc/PID/status`.
fn is_in(status: &str, set: &str, signal: Signal) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix(set)).expect("a set of signals");
    let mask = u64::from_str_radix(mask.trim(), 16).expect("a number");
    mask >> (signal.as_raw() - 1) & 1 == 1
}

/// The program that the tests start as a process and signal; not a test itself.
#[test]
fn the_program() {
    let Ok(program) = std::env::var(PROGRAM) else { return };
    let port = if program == "fails" { "tls://127.0.0.1:0" } else { "tcp://127.0.0.1:0" };
    let server = Server::bind(port).expect("a free port").threads(1);
    let server = server.on_ready(|addresses| println!("listening on {}", addresses[0]));
    let server = server.on_shutdown(|| println!("asked to end"));
    let served = match &*program {
        "keeps its core" => server.serve(async |mut conn: Connection| {
            conn.recv().await?;
            println!("keeps its core");
            loop {
                thread::park();
            }
        }),
        "has a handle" => server.start(echo).and_then(|handle| handle.wait_for_signal()),
        _ => server.serve(echo),
    };
    println!("served: {}", if served.is_ok() { "in order" } else { "with an error" });
    // The program goes on; its test ends it.
    std::io::stdin().read_to_end(&mut Vec::new()).expect("standard input");
}

struct Program {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    _goes_on_until_closed: ChildStdin,
}

impl Program {
    /// Starts it like a terminal does: with signals that end it.
    fn start(name: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        // A shell without job control starts background jobs with SIGINT ignored. Children inherit
        // that, and only `env` resets it.
        match ignores(Signal::INT) {
            true => Self::begin(Command::new("env").arg("--default-signal=INT").arg(program), name),
            false => Self::begin(&mut Command::new(program), name),
        }
    }

    /// Starts it with SIGINT ignored.
    fn start_ignoring(name: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        let script = r#"trap "" INT; exec "$0" "$@""#;
        Self::begin(Command::new("sh").args(["-c", script]).arg(program), name)
    }

    fn begin(command: &mut Command, name: &str) -> Self {
        let command = command
            .args(["--exact", "server_signals::the_program", "--nocapture"])
            .env(PROGRAM, name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = alone::start(command).expect("a process");
        let stdin = child.stdin.take().expect("piped");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, lines, _goes_on_until_closed: stdin }
    }

    /// Returns what it prints after `mark`.
    fn prints(&mut self, mark: &str) -> String {
        loop {
            let line = self.lines.next().unwrap_or_else(|| panic!("it ended before: {mark}"));
            if let Some((_, rest)) = line.expect("text").split_once(mark) {
                return rest.to_owned();
            }
        }
    }

    fn connect(&mut self) -> std::net::TcpStream {
        connect_to(self.prints("listening on tcp://").parse().expect("an address"))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("signalled");
    }

    /// Whether it catches a signal.
    fn catches(&self, signal: Signal) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        is_in(&status.expect("it runs"), "SigCgt:", signal)
    }

    /// Returns the signal that ended it.
    fn ended_by(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").signal()
    }
}

#[test]
fn signal_drains_and_the_next_one_ends_a_program_that_goes_on() {
    for (first, name) in [
        (Signal::TERM, "echoes"),
        (Signal::INT, "echoes"),
        (Signal::TERM, "has a handle"),
        (Signal::INT, "has a handle"),
    ] {
        let mut program = Program::start(name);
        let client = program.connect();
        round_trip(&client, b"served");
        eventually("it catches the signal", || program.catches(first));
        program.signal(first);
        assert!(is_closed(&client));
        drop(client);
        assert_eq!(program.prints("served: "), "in order");
        program.signal(Signal::TERM);
        assert_eq!(program.ended_by(), Some(Signal::TERM.as_raw()));
    }
}

#[test]
fn signal_ends_a_program_whose_server_did_not_start() {
    let mut program = Program::start("fails");
    assert_eq!(program.prints("served: "), "with an error");
    program.signal(Signal::INT);
    assert_eq!(program.ended_by(), Some(Signal::INT.as_raw()));
}

#[test]
fn address_of_a_killed_process_can_be_bound_at_once() {
    let is_taken_over = || {
        let mut program = Program::start("echoes");
        let address = program.prints("listening on ");
        let at = address.trim_start_matches("tcp://").parse().expect("an address");
        round_trip(connect_to(at), b"served");
        program.signal(Signal::KILL);
        assert_eq!(program.ended_by(), Some(Signal::KILL.as_raw()));
        Server::bind(&*address).is_ok()
    };
    // A busy kernel may take longer than `bind` retries.
    assert!((0..5).any(|_| is_taken_over()));
}

#[test]
fn third_signal_ends_a_process_whose_handler_blocks_its_core() {
    for program in [Program::start("keeps its core"), Program::start_ignoring("keeps its core")] {
        check_third_signal(program);
    }
}

/// Also holds for a process that was started with the signal ignored.
fn check_third_signal(mut program: Program) {
    let mut client = program.connect();
    client.write_all(b"?").expect("written");
    program.prints("keeps its core");
    program.signal(Signal::INT);
    program.prints("asked to end");
    // The test cannot see when the second signal is noticed.
    eventually("a further one ends it", || {
        program.signal(Signal::INT);
        program.child.try_wait().expect("a child").is_some()
    });
    assert_eq!(program.ended_by(), Some(Signal::INT.as_raw()));
}
