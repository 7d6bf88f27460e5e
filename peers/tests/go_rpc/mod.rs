//! Go's JSON-RPC with its client, as processes. Without Go the tests are skipped, and say so.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::process::{Server, assert_errors, measured, number, serve_in_test, socket_path, stdout};

/// The program, built once; `None` without Go.
fn program() -> Option<&'static str> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = PROGRAM.get_or_init(|| {
        let asked = Command::new("go").arg("version").output();
        if !asked.is_ok_and(|asked| asked.status.success()) {
            eprintln!("skipped: Go is not installed (https://go.dev/doc/install)");
            return None;
        }
        let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("ringway-peers-go");
        let mut go = Command::new("go");
        go.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/go")).env("GOTOOLCHAIN", "local");
        let status = go.args(["build", "-o"]).arg(&program).arg(".").status().expect("it is there");
        assert!(status.success(), "{status}");
        Some(program)
    });
    built.as_ref().map(|path| path.to_str().expect("the target folder has a name in UTF-8"))
}

fn run(program: &str, seconds: &str, address: &str, options: &[&str]) -> Output {
    Command::new(program)
        .args(["client", "rpc", "--peer", "go-rpc", "--addr", address])
        .args(["-d", seconds, "--warmup", "0.02"])
        .args(options)
        .output()
        .expect("the client starts")
}

#[test]
fn calls_are_echoed_over_tcp_and_unix() {
    let Some(program) = program() else { return };
    let path = socket_path("go-rpc");
    let unix = format!("unix://{}", path.display());
    for listen in ["tcp://127.0.0.1:0", &unix] {
        let server = Server::start_program(program, "go-rpc", listen);
        for [connections, depth] in [["1", "1"], ["3", "5"]] {
            for bytes in ["1", "47", "1000000"] {
                let options = ["-c", connections, "-l", depth, "-s", bytes, "-m", "unary"];
                measured(&format!("{listen} {options:?}"), "max_us", |seconds| {
                    run(program, seconds, &server.address, &options)
                });
            }
        }
        let output = run(program, "0.1", &server.address, &["-s", "47", "--phases", "--core", "0"]);
        assert!(stdout(&output).starts_with("measuring\nmeasured\n{"), "{}", stdout(&output));
        server.stop();
    }
    assert!(!path.exists(), "the socket file is removed at the end");
}

#[test]
fn another_reply_is_a_mismatch_and_a_failure() {
    let Some(program) = program() else { return };
    let address = serve_in_test(|stream| {
        // The tenth reply is another one.
        let _ = answer(stream, |id| if id == 10 { "AAAA" } else { "" });
    });
    let output = run(program, "0.2", &address, &["-s", "16"]);
    let json = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{json}");
    assert_eq!((number(&json, "mismatches"), number(&json, "errors")), (1.0, 0.0), "{json}");
}

/// Answers each request with its own payload, or with the one that `other` has for its number.
fn answer(stream: &mut TcpStream, other: impl Fn(u64) -> &'static str) -> std::io::Result<()> {
    let mut requests = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    while requests.read_line(&mut line)? > 0 {
        // {"method":"Echo.Say","params":["AAAA"],"id":7}
        let payload = line.split('"').nth(7).expect("a payload");
        let id = line.rsplit(':').next().expect("an id").trim_end_matches(['}', '\n']);
        let payload = match other(id.parse().expect("a number")) {
            "" => payload,
            other => other,
        };
        stream.write_all(
            format!("{{\"id\":{id},\"result\":\"{payload}\",\"error\":null}}\n").as_bytes(),
        )?;
        line.clear();
    }
    Ok(())
}

#[test]
fn calls_that_fail_or_are_never_answered_are_errors() {
    let Some(program) = program() else { return };
    let closes = serve_in_test(|stream| {
        let _ = BufReader::new(stream).read_line(&mut String::new());
    });
    assert_errors(&run(program, "0.2", &closes, &["-c", "2", "-s", "64"]));
    let ignores = serve_in_test(|stream| {
        let _ = std::io::copy(stream, &mut std::io::sink());
    });
    let output = run(program, "0.2", &ignores, &["-c", "2", "-l", "3", "-s", "64"]);
    assert_errors(&output);
    assert_eq!(number(&stdout(&output), "errors"), 6.0);
}

#[test]
fn what_cannot_begin_has_no_report() {
    let Some(program) = program() else { return };
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        format!("tcp://{}", listener.local_addr().expect("bound"))
    };
    let cases: Vec<(&str, &[&str])> = vec![
        (&nobody, &[]),
        ("http://127.0.0.1:1", &[]),
        (&nobody, &["-c", "0"]),
        (&nobody, &["-s", "99999999"]),
        (&nobody, &["-m", "bidi"]),
        (&nobody, &["--core", "4096"]),
    ];
    for (address, options) in cases {
        let output = run(program, "0.1", address, options);
        assert_eq!(output.status.code(), Some(2), "{address} {options:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{address} {options:?}");
    }
}
