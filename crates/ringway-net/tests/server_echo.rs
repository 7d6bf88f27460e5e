//! Echo over every kind of plain socket and both kernel interfaces.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;

use ringway_net::{Address, Backend, Connection, Result, Server, ServerHandle};

async fn echo(mut conn: Connection) -> Result {
    while let Some(view) = conn.recv().await? {
        conn.send(view);
    }
    Ok(())
}

const BACKENDS: [Backend; 2] = [Backend::Uring, Backend::Epoll];

fn start(address: &str, backend: Backend) -> ServerHandle {
    let server = Server::bind(address).expect("a free address");
    server.threads(2).backend(backend).start(echo).expect("the server starts")
}

fn tcp(address: &Address) -> SocketAddr {
    let authority = address.authority().expect("an internet address");
    SocketAddr::new(authority.host().parse().expect("a number"), authority.port())
}

fn end(handle: &ServerHandle) {
    handle.shutdown();
    handle.wait().expect("the server ends in order");
}

/// Sends more than any buffer holds, half-closes, and reads it all back.
fn exchange(mut client: impl Read + Write, half_close: impl FnOnce()) {
    let sent: Vec<u8> = (0..200_000u32).map(|at| (at * 7) as u8).collect();
    client.write_all(&sent).expect("written");
    half_close();
    let mut echoed = Vec::new();
    client.read_to_end(&mut echoed).expect("read to the end");
    assert_eq!(echoed.len(), sent.len());
    assert!(echoed == sent, "the echo differs");
}

#[test]
fn tcp_echoes_and_a_half_closed_client_gets_everything() {
    for backend in BACKENDS {
        let handle = start("tcp://127.0.0.1:0", backend);
        for _ in 0..4 {
            let client = TcpStream::connect(tcp(&handle.addresses()[0])).expect("connected");
            exchange(&client, || client.shutdown(Shutdown::Write).expect("half-closed"));
        }
        end(&handle);
        let stats = handle.stats();
        assert_eq!((stats.accepted, stats.open), (4, 0), "{stats:?}");
    }
}

#[test]
fn unix_echoes_and_the_file_is_removed() {
    for backend in BACKENDS {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("echo.sock");
        let handle = start(&format!("unix://{}", path.display()), backend);
        for _ in 0..4 {
            let client = UnixStream::connect(&path).expect("connected");
            exchange(&client, || client.shutdown(Shutdown::Write).expect("half-closed"));
        }
        end(&handle);
        assert!(!path.exists());
    }
}
