//! Every server with the plain client, as processes.

mod process;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Command, Output};

use process::{
    BINARY, Server, assert_errors, measured, number, serve_in_test, socket_path, stdout,
};

#[test]
fn epoll_echoes() {
    check_echo("epoll");
}

#[test]
fn uring_echoes() {
    check_echo("uring");
}

#[test]
fn tokio_echoes() {
    check_echo("tokio");
}

#[test]
fn monoio_echoes() {
    check_echo("monoio");
}

#[test]
fn discard_reads_everything_and_answers_nothing() {
    let server = Server::start("epoll-discard", "tcp://127.0.0.1:0");
    let host_port = server.address.strip_prefix("tcp://").expect("listens on TCP");
    let mut stream = TcpStream::connect(host_port).expect("the server listens");
    // Far more than the two socket buffers hold, so this ends only if the server reads.
    stream.write_all(&vec![7; 64 << 20]).expect("the server reads");
    stream.shutdown(std::net::Shutdown::Write).expect("still connected");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("closed in order");
    assert!(answer.is_empty());
    server.stop();
}

#[test]
fn a_corrupted_byte_is_a_mismatch_and_a_failure() {
    let address = serve_in_test(|stream| {
        let mut buffer = vec![0; 4096];
        let mut total = 0;
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            // The last byte of the tenth message, so that nine are right.
            if (total..total + count).contains(&(10 * 64 - 1)) {
                buffer[10 * 64 - 1 - total] ^= 0x40;
            }
            total += count;
            if stream.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    });
    let output = run_client(&address, 1, 64);
    assert_eq!(output.status.code(), Some(1));
    let json = stdout(&output);
    assert_eq!(number(&json, "mismatches"), 1.0, "{json}");
    assert!(number(&json, "messages") > 0.0, "{json}");
}

#[test]
fn a_reply_given_twice_is_a_failure() {
    let address = serve_in_test(|stream| {
        let mut message = [0; 64];
        while stream.read_exact(&mut message).is_ok() {
            if stream.write_all(&[message, message].concat()).is_err() {
                return;
            }
        }
    });
    assert_errors(&run_client(&address, 1, 64));
}

#[test]
fn a_connection_closed_early_is_an_error() {
    let address = serve_in_test(|stream| {
        let mut message = [0; 64];
        let _ = stream.read_exact(&mut message);
    });
    assert_errors(&run_client(&address, 2, 64));
}

#[test]
fn a_request_never_answered_is_an_error() {
    let address = serve_in_test(|stream| {
        let mut message = [0; 64];
        while stream.read_exact(&mut message).is_ok() {}
    });
    let output = run_client(&address, 3, 64);
    assert_errors(&output);
    assert_eq!(number(&stdout(&output), "errors"), 3.0);
}

#[test]
fn nobody_listening_is_an_error_without_a_report() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        format!("tcp://{}", listener.local_addr().expect("bound"))
    };
    let output = run_client(&address, 1, 64);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("refused"));
}

#[test]
fn the_file_of_a_dead_server_is_replaced_and_that_of_a_living_one_is_not() {
    let path = socket_path("stale");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a free path"));
    let address = format!("unix://{}", path.display());
    let server = Server::start("epoll", &address);
    let second = Command::new(BINARY).args(["serve", "epoll", "--listen", &address]).output();
    assert_eq!(second.expect("starts").status.code(), Some(2));
    UnixStream::connect(&path).expect("the first server still listens");
    server.stop();
    assert!(!path.exists());
}

fn check_echo(kind: &str) {
    let path = socket_path(kind);
    let unix = format!("unix://{}", path.display());
    for listen in ["tcp://127.0.0.1:0", "tcp://[::1]:0", &unix] {
        let server = Server::start(kind, listen);
        for connections in [1, 10] {
            // The last is larger than any buffer, so that short reads and writes happen.
            for bytes in [1, 64, 16_384, 3_000_000] {
                measured(
                    &format!("{kind} {listen} -c {connections} -s {bytes}"),
                    "max_us",
                    |time| run_client_for(time, &server.address, connections, bytes),
                );
            }
        }
        server.stop();
    }
    assert!(!path.exists(), "the socket file is removed at the end");
}

fn run_client(address: &str, connections: usize, bytes: usize) -> Output {
    run_client_for("0.3", address, connections, bytes)
}

fn run_client_for(seconds: &str, address: &str, connections: usize, bytes: usize) -> Output {
    let (connections, bytes) = (connections.to_string(), bytes.to_string());
    Command::new(BINARY)
        .args(["client", "pingpong", "--addr", address, "-c", &connections, "-s", &bytes])
        .args(["-d", seconds, "--warmup", "0.05"])
        .output()
        .expect("the client starts")
}
