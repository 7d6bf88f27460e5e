//! The RPC servers with their clients, as processes.

mod go_rpc;
mod mongo;
mod process;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::thread;

use process::{
    BINARY, Server, assert_errors, measured, number, serve_in_test, socket_path, stdout,
};

#[test]
fn tonic_echoes_unary_calls() {
    check_calls("tonic", "unary");
}

#[test]
fn tonic_echoes_streams_of_requests() {
    check_calls("tonic", "client_stream");
}

#[test]
fn tonic_echoes_into_streams_of_replies() {
    check_calls("tonic", "server_stream");
}

#[test]
fn tonic_echoes_streams_both_ways() {
    check_calls("tonic", "bidi");
}

#[test]
fn tarpc_echoes_unary_calls() {
    check_calls("tarpc", "unary");
}

#[test]
fn jsonrpsee_echoes_calls_over_http_and_websocket() {
    let server = Server::start("jsonrpsee", "tcp://127.0.0.1:0");
    for peer in ["jsonrpsee-http", "jsonrpsee-ws"] {
        for options in [["-c", "2", "-l", "3", "-s", "47"], ["-c", "1", "-l", "1", "-s", "100000"]]
        {
            measured(&format!("{peer} {options:?}"), "messages", |seconds| {
                run_for(seconds, "rpc", peer, &server.address, &options)
            });
        }
    }
    server.stop();
}

#[test]
fn tonic_keeps_more_calls_in_flight_than_http2_offers_by_default() {
    let server = Server::start("tonic", "tcp://127.0.0.1:0");
    let options = ["-c", "2", "-l", "400", "-s", "47"];
    measured("tonic -l 400", "messages", |seconds| {
        run_for(seconds, "rpc", "tonic", &server.address, &options)
    });
    server.stop();
}

#[test]
fn the_floor_of_http2_answers_as_a_server_does() {
    let server = Server::start("http2-floor", "tcp://127.0.0.1:0");
    for options in [["-c", "1", "-l", "1", "-s", "47"], ["-c", "3", "-l", "100", "-s", "5000"]] {
        measured(&format!("floor {options:?}"), "messages", |seconds| {
            run_for(seconds, "rpc", "tonic", &server.address, &options)
        });
    }
    server.stop();
}

#[test]
fn the_measured_interval_is_told_of_if_asked_for() {
    let server = Server::start("tonic", "tcp://127.0.0.1:0");
    let output = run("rpc", "tonic", &server.address, &["-s", "47", "--phases"]);
    let lines = stdout(&output);
    assert!(lines.starts_with("measuring\nmeasured\n{"), "{lines}");
    server.stop();
    let server = Server::start("epoll", "tcp://127.0.0.1:0");
    let words = ["client", "pingpong", "--addr", &server.address, "-d", "0.1", "--phases"];
    let output = Command::new(BINARY).args(words).output().expect("the client starts");
    let lines = stdout(&output);
    assert!(lines.starts_with("measuring\nmeasured\n{"), "{lines}");
    server.stop();
}

#[test]
fn tonic_streams_frames_within_a_window() {
    let server = Server::start("tonic", "tcp://127.0.0.1:0");
    // Windows smaller than a stream, as large, and larger.
    for [connections, frames, window] in [["1", "16", "1"], ["5", "16", "8"], ["2", "3", "9"]] {
        let options = ["-c", connections, "-f", frames, "-w", window, "-s", "128"];
        measured(&format!("{options:?}"), "max_us", |seconds| {
            run_for(seconds, "stream", "tonic", &server.address, &options)
        });
    }
    server.stop();
}

#[test]
fn tonic_floods() {
    let server = Server::start("tonic", "tcp://127.0.0.1:0");
    for bytes in ["1", "128", "100000"] {
        measured(&format!("-s {bytes}"), "messages", |seconds| {
            run_for(seconds, "flood", "tonic", &server.address, &["-s", bytes])
        });
    }
    server.stop();
}

#[test]
fn a_corrupted_byte_is_a_mismatch_and_a_failure() {
    for (peer, framing) in [("tonic", HTTP2), ("tarpc", LENGTH_DELIMITED)] {
        let server = Server::start(peer, "tcp://127.0.0.1:0");
        let proxy = corrupting_proxy(&server.address, framing);
        let output = run("rpc", peer, &proxy, &["-s", "64"]);
        let json = stdout(&output);
        assert_eq!(output.status.code(), Some(1), "{peer} {json}");
        assert_eq!(number(&json, "mismatches"), 1.0, "{peer} {json}");
        assert_eq!(number(&json, "errors"), 0.0, "{peer} {json}");
        assert!(number(&json, "messages") > 0.0, "{peer} {json}");
        server.stop();
    }
}

#[test]
fn a_corrupted_byte_of_a_stream_is_noticed() {
    let server = Server::start("tonic", "tcp://127.0.0.1:0");
    let proxy = corrupting_proxy(&server.address, HTTP2);
    let output = run("stream", "tonic", &proxy, &["-s", "64"]);
    assert_eq!(number(&stdout(&output), "mismatches"), 1.0);
    assert_eq!(output.status.code(), Some(1));
    // A frame of a flood may end in the middle of a message's prefix, which is an error instead.
    let proxy = corrupting_proxy(&server.address, HTTP2);
    let output = run("flood", "tonic", &proxy, &["-s", "64"]);
    let json = stdout(&output);
    assert!(number(&json, "mismatches") + number(&json, "errors") > 0.0, "{json}");
    assert_eq!(output.status.code(), Some(1));
    server.stop();
}

#[test]
fn a_connection_closed_early_is_an_error() {
    for peer in ["tonic", "tarpc"] {
        let address = serve_in_test(|stream| {
            let _ = stream.read(&mut [0; 64]);
        });
        assert_errors(&run("rpc", peer, &address, &["-c", "2", "-s", "64"]));
    }
}

#[test]
fn calls_never_answered_are_errors() {
    for peer in ["tonic", "tarpc"] {
        let address = serve_in_test(|stream| {
            let _ = io::copy(stream, &mut io::sink());
        });
        let output = run("rpc", peer, &address, &["-c", "2", "-l", "3", "-s", "64"]);
        assert_errors(&output);
        assert_eq!(number(&stdout(&output), "errors"), 6.0, "{peer}");
    }
}

#[test]
fn nobody_listening_is_an_error_without_a_report() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        format!("tcp://{}", listener.local_addr().expect("bound"))
    };
    for peer in ["tonic", "tarpc"] {
        let output = run("rpc", peer, &address, &["-s", "64"]);
        assert_eq!(output.status.code(), Some(2), "{peer}");
        assert!(output.stdout.is_empty(), "{peer}");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains("refused"), "{peer}: {message}");
    }
}

fn check_calls(peer: &str, method: &str) {
    let path = socket_path(&format!("{peer}-{method}"));
    let unix = format!("unix://{}", path.display());
    for listen in ["tcp://127.0.0.1:0", &unix] {
        let server = Server::start(peer, listen);
        for [connections, depth] in [["1", "1"], ["3", "5"]] {
            // The last is larger than any buffer, so that short reads and writes happen.
            for bytes in ["1", "47", "3000000"] {
                let options = ["-c", connections, "-l", depth, "-s", bytes, "-m", method];
                measured(&format!("{peer} {listen} {options:?}"), "max_us", |seconds| {
                    run_for(seconds, "rpc", peer, &server.address, &options)
                });
            }
        }
        server.stop();
    }
    assert!(!path.exists(), "the socket file is removed at the end");
}

fn run(workload: &str, peer: &str, address: &str, options: &[&str]) -> Output {
    run_for("0.2", workload, peer, address, options)
}

fn run_for(seconds: &str, workload: &str, peer: &str, address: &str, options: &[&str]) -> Output {
    Command::new(BINARY)
        .args(["client", workload, "--peer", peer, "--addr", address])
        .args(["-d", seconds, "--warmup", "0.02"])
        .args(options)
        .output()
        .expect("the client starts")
}

/// How a protocol cuts its bytes into frames.
#[derive(Clone, Copy)]
struct Framing {
    header_bytes: usize,
    /// The bytes that follow this header.
    body_bytes: fn(&[u8]) -> usize,
    /// Whether a frame with this header and body ends with a message's payload.
    has_message: fn(&[u8], &[u8]) -> bool,
}

/// RFC 9113, section 4.1. DATA is type 0.
const HTTP2: Framing = Framing {
    header_bytes: 9,
    body_bytes: |header| usize::from(header[1]) << 8 | usize::from(header[2]),
    has_message: |header, body| header[3] == 0 && !body.is_empty(),
};

const LENGTH_DELIMITED: Framing = Framing {
    header_bytes: 4,
    body_bytes: |header| usize::from(header[2]) << 8 | usize::from(header[3]),
    has_message: |_, _| true,
};

/// Passes on what the one client and the server say, but for one bit of the server's tenth message.
fn corrupting_proxy(server: &str, framing: Framing) -> String {
    let server = server.strip_prefix("tcp://").expect("listens on TCP").to_owned();
    serve_in_test(move |client| {
        let mut server = TcpStream::connect(&server).expect("the server listens");
        // Frames pass one by one; a socket that waits for acknowledgements slows them to 25 a second.
        for socket in [&server, client] {
            socket.set_nodelay(true).expect("TCP");
        }
        let mut from_client = client.try_clone().expect("a descriptor is left");
        let mut to_server = server.try_clone().expect("a descriptor is left");
        let requests = thread::spawn(move || {
            let _ = io::copy(&mut from_client, &mut to_server);
            let _ = to_server.shutdown(Shutdown::Both);
        });
        // Ends with an error when either end is closed.
        let _ = pass_replies(&mut server, client, framing);
        let _ = client.shutdown(Shutdown::Both);
        requests.join().expect("the other direction does not panic");
    })
}

fn pass_replies(
    server: &mut TcpStream,
    client: &mut TcpStream,
    framing: Framing,
) -> io::Result<()> {
    let mut messages = 0;
    loop {
        let mut frame = vec![0; framing.header_bytes];
        server.read_exact(&mut frame)?;
        let body_bytes = (framing.body_bytes)(&frame);
        frame.resize(framing.header_bytes + body_bytes, 0);
        server.read_exact(&mut frame[framing.header_bytes..])?;
        let (header, body) = frame.split_at_mut(framing.header_bytes);
        if (framing.has_message)(header, body) {
            messages += 1;
            if messages == 10 {
                *body.last_mut().expect("a message is not empty") ^= 0x40;
            }
        }
        client.write_all(&frame)?;
    }
}
