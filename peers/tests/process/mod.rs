//! Servers and clients as processes, and sessions in the test itself.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_ringway-peers");

pub(crate) fn assert_errors(output: &Output) {
    let json = stdout(output);
    assert_eq!(output.status.code(), Some(1), "{json}");
    assert!(number(&json, "errors") > 0.0, "{json}");
}

/// The report of a run without an error that measured something under `key`; `run` is given seconds.
///
/// A loaded machine may not echo a single large message in a short time, so it gets more until it does.
pub(crate) fn measured(case: &str, key: &str, run: impl Fn(&str) -> Output) -> String {
    for seconds in ["0.2", "1", "5", "20"] {
        let output = run(seconds);
        let json = stdout(&output);
        assert!(output.status.success(), "{case}: {json}");
        // What began in the time may end behind it: then it has a latency, and counts for no rate.
        let is_there = member(&json, key).parse().is_ok_and(|value: f64| value > 0.0);
        if is_there && number(&json, "rate") > 0.0 {
            return json;
        }
    }
    panic!("{case}: nothing under {key} within 20 s");
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("JSON is UTF-8")
}

/// The number under `key` in a flat JSON object.
pub(crate) fn number(json: &str, key: &str) -> f64 {
    member(json, key).parse().expect("a number")
}

fn member<'a>(json: &'a str, key: &str) -> &'a str {
    let key = format!("\"{key}\":");
    let start = json.find(&key).unwrap_or_else(|| panic!("no {key} in {json}")) + key.len();
    let end = start + json[start..].find([',', '}']).expect("an object ends");
    &json[start..end]
}

/// A server process; killed if a test fails before `stop`.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(kind: &str, listen: &str) -> Self {
        Self::start_program(BINARY, kind, listen)
    }

    pub(crate) fn start_program(program: &str, kind: &str, listen: &str) -> Self {
        let mut child = Command::new(program)
            .args(["serve", kind, "--listen", listen])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped above");
        BufReader::new(stdout).read_line(&mut line).expect("one line");
        let address = line.trim_end().strip_prefix("listening on ").expect(&line).to_owned();
        Self { child, address }
    }

    pub(crate) fn stop(mut self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("the server still runs");
        assert_eq!(self.child.wait().expect("it is our child").code(), Some(0));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails after `stop`, when there is no process any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves each connection of a TCP listener on a thread of the test.
pub(crate) fn serve_in_test(session: impl Fn(&mut TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("tcp://{}", listener.local_addr().expect("bound"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let session = session.clone();
            thread::spawn(move || session(&mut stream.expect("accepted")));
        }
    });
    address
}

pub(crate) fn socket_path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("ringway-peers-{name}-{}.sock", std::process::id()))
}
