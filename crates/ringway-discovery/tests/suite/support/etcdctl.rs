//! Commands of `etcdctl`, and what is comparable of their output.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc;
use std::thread;

use regex::Regex;

use super::LIMIT;

/// One command for `etcdctl`.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    /// The arguments, separated by spaces. `$LEASE` stands for the lease that was granted last, `''` for an empty one.
    pub(crate) words: &'static str,
    /// The standard input.
    pub(crate) input: &'static str,
    /// A text at the end of the output by which a command is over that would go on for ever.
    pub(crate) until: Option<&'static str>,
}

/// A registry as `etcdctl` talks to it.
pub(crate) struct Etcdctl {
    authority: String,
    lease: String,
}

impl Etcdctl {
    pub(crate) fn new(authority: &str) -> Self {
        Self { authority: authority.to_owned(), lease: String::new() }
    }

    /// Carries out a command. Returns its output, and its error if it has failed; what differs between any two
    /// registries is masked.
    pub(crate) fn run(&mut self, step: &Step) -> String {
        let words = step.words.split(' ').map(|word| match word {
            "''" => String::new(),
            word => word.replace("$LEASE", &self.lease),
        });
        let mut child = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.authority])
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("etcdctl is installed");
        let mut input = child.stdin.take().expect("piped");
        input.write_all(step.input.as_bytes()).expect("it reads its input");
        drop(input);
        let output = output_until(child, step.until)
            .unwrap_or_else(|so_far| panic!("etcdctl {} does not end: {so_far}", step.words));
        if let Some((_, rest)) = output.split_once("lease ")
            && step.words.starts_with("lease grant")
        {
            self.lease = rest.split(' ').next().unwrap_or_default().to_owned();
        }
        masked(&output)
    }
}

/// Everything that a command writes, and its errors, until it ends or has written a text.
fn output_until(mut child: Child, until: Option<&str>) -> Result<String, String> {
    let (sender, pieces) = mpsc::channel();
    let [mut out, mut err]: [Box<dyn Read + Send>; 2] = [
        Box::new(child.stdout.take().expect("piped")),
        Box::new(child.stderr.take().expect("piped")),
    ];
    let to_output = sender.clone();
    thread::spawn(move || copy(&mut out, |piece| _ = to_output.send((true, piece))));
    thread::spawn(move || copy(&mut err, |piece| _ = sender.send((false, piece))));
    let (mut output, mut errors) = (String::new(), String::new());
    let is_over = loop {
        match pieces.recv_timeout(LIMIT) {
            Ok((true, piece)) => output += &piece,
            Ok((false, piece)) => errors += &piece,
            Err(mpsc::RecvTimeoutError::Disconnected) => break true,
            Err(mpsc::RecvTimeoutError::Timeout) => break false,
        }
        if until.is_some_and(|until| output.trim_end().ends_with(until)) {
            break true;
        }
    };
    // It may have ended.
    _ = child.kill();
    _ = child.wait();
    for line in errors.lines().filter(|line| line.starts_with("Error")) {
        output += line;
        output += "\n";
    }
    if is_over { Ok(output) } else { Err(output + &errors) }
}

fn copy(from: &mut dyn Read, mut to: impl FnMut(String)) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        to(String::from_utf8_lossy(&buffer[..count]).into_owned());
    }
}

/// The output without ids, addresses, times, sizes and the state of elections.
fn masked(output: &str) -> String {
    static MASKS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        [
            (r"127\.0\.0\.1:\d+, \d+\n", "ADDRESS, HASH\n"),
            (r"127\.0\.0\.1:\d+", "ADDRESS"),
            (r"\b\d{14,}\b", "ID"),
            (r"\b[0-9a-f]{14,}\b", "ID"),
            (r"took = \S+", "took = TIME"),
            (r"remaining\(\d+s\)", "remaining(TIME)"),
            (r#""ttl":\d+"#, r#""ttl":TIME"#),
            (r#""version":"[^"]*""#, r#""version":VERSION"#),
            (r#""(raft_term|raftTerm|raftIndex|raftAppliedIndex|dbSize|dbSizeInUse)":\d+"#, "$1"),
        ]
        .map(|(mask, with)| (Regex::new(mask).expect("a pattern"), with))
        .into()
    });
    let mut text = output.to_owned();
    for (mask, with) in &*MASKS {
        text = mask.replace_all(&text, *with).into_owned();
    }
    text
}
