//! The binary as a user meets it: where its words go and how it ends.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;

fn ringway(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringway"));
    command.args(args);
    command
}

fn output(args: &[&str]) -> Output {
    ringway(args).stdin(Stdio::null()).output().expect("the binary under test starts")
}

#[test]
fn help_and_version_go_to_standard_output() {
    for args in [&["--help"][..], &["--version"], &["bench", "pingpong", "--help"]] {
        let output = output(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn wrong_arguments_end_with_status_2_and_a_message_on_standard_error() {
    for args in [&[][..], &["serve"], &["bench", "-c", "0"], &["serve", "echo", "--cores", "1023"]]
    {
        let output = output(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{args:?}");
    }
}

/// As behind `2>&1 | head`, when that has read enough.
#[test]
fn a_closed_standard_error_is_no_reason_to_panic() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let words = ["call", "tcp://127.0.0.1:1", "Some/Method", "--timeout", "50ms"];
    let status = ringway(&words).stderr(writer).status().expect("the binary under test starts");
    assert_eq!(status.code(), Some(1));
}

/// As behind `| head`, when that has read enough.
#[test]
fn a_closed_standard_output_ends_the_tool_quietly() {
    let bench = "bench pingpong -c 1 -s 64 -d 0.02 --warmup 0 --repeat 1";
    for words in ["bench rpc --help", bench] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let words: Vec<&str> = words.split_whitespace().collect();
        let mut command = ringway(&words);
        let output = command.stdin(Stdio::null()).stdout(writer).output();
        let output = output.expect("the binary under test starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {errors}");
        assert!(!errors.contains("ringway:"), "{words:?}: {errors}");
    }
}

#[test]
fn a_tether_becomes_its_command() {
    let parent = std::process::id().to_string();
    let output = output(&["tether", &parent, "sh", "-c", "echo $0 $1; exit 7", "--control", "-x"]);
    assert_eq!(output.stdout, b"--control -x\n");
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn a_tethered_command_ends_with_the_thread_that_started_it() {
    let (sender, children) = mpsc::channel();
    let parent = thread::spawn(move || sender.send(start_tethered()).expect("the test waits"));
    let mut child: Child = children.recv().expect("the thread started a child");
    parent.join().expect("the thread only starts a child");
    let status = child.wait().expect("the child of this process");
    assert_eq!(status.signal(), Some(9));
}

/// A command that would run until its standard input ends, which is open for as long as the child is kept.
fn start_tethered() -> Child {
    let parent = std::process::id().to_string();
    let mut child = ringway(&["tether", &parent, "sh", "-c", "echo ready; read end"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary under test starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("standard output was piped");
    BufReader::new(stdout).read_line(&mut line).expect("a line from the command");
    assert_eq!(line, "ready\n");
    child
}

#[test]
fn a_tether_whose_parent_is_another_refuses() {
    let output = output(&["tether", "1", "true"]);
    assert_eq!(output.status.code(), Some(1));
}
