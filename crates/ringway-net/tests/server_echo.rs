//! Echo over every kind of plain socket and both kernel interfaces.

mod server_support;

use std::io::{Read, Write};
use std::net::{Ipv6Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;

use ringway_net::{Address, Datagram, Responder, Server};
use server_support::{BACKENDS, LIMIT, connect, connect_to, echo, end, server, socket_addr};

/// Sends more than any buffer holds, half-closes, and reads it all back meanwhile.
fn exchange<C: Read + Send>(
    mut reader: C,
    mut writer: impl Write + Send,
    half_close: impl FnOnce() + Send,
) {
    let sent: Vec<u8> = (0..3_000_000u32).map(|at| (at.wrapping_mul(at) >> 3) as u8).collect();
    let mut echoed = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            writer.write_all(&sent).expect("written");
            half_close();
        });
        reader.read_to_end(&mut echoed).expect("read to the end");
    });
    assert_eq!(echoed.len(), sent.len());
    assert!(echoed == sent, "the echo differs");
}

fn exchange_tcp(client: &TcpStream) {
    exchange(client, client, || client.shutdown(Shutdown::Write).expect("half-closed"));
}

#[test]
fn tcp_echoes_and_a_half_closed_client_gets_everything() {
    for backend in BACKENDS {
        let handle = server(backend).start(echo).expect("the server starts");
        for _ in 0..4 {
            exchange_tcp(&connect(&handle));
        }
        end(&handle);
        let stats = handle.stats();
        assert_eq!((stats.accepted, stats.handler_errors), (4, 0), "{stats:?}");
    }
}

#[test]
fn unix_echoes_on_all_cores_and_the_file_is_removed() {
    for backend in BACKENDS {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("echo.sock");
        let server = Server::bind(Address::Unix(path.clone())).expect("a free path");
        let handle = server.threads(2).backend(backend).start(echo).expect("the server starts");
        let clients: Vec<_> =
            (0..4).map(|_| UnixStream::connect(&path).expect("connected")).collect();
        for client in &clients {
            exchange(client, client, || client.shutdown(Shutdown::Write).expect("half-closed"));
        }
        assert!(handle.stats().handed_off > 0, "one listener, two cores: {:?}", handle.stats());
        end(&handle);
        assert!(!path.exists());
    }
}

#[test]
fn a_stale_unix_file_is_replaced_and_a_live_one_is_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
    let server = Server::bind(Address::Unix(path.clone())).expect("the file is stale");
    let handle = server.threads(1).start(echo).expect("the server starts");
    let taken = Server::bind(Address::Unix(path.clone())).expect_err("somebody listens there");
    assert!(taken.is_address(), "{taken}");
    end(&handle);
    std::fs::write(&path, "not a socket").expect("written");
    assert!(Server::bind(Address::Unix(path.clone())).is_err());
    assert!(path.exists(), "a file of another kind is left alone");
}

#[test]
fn ipv6_echoes_where_the_machine_has_it() {
    if let Err(error) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
        return eprintln!("skipped: ::1 cannot be bound here: {error}");
    }
    for backend in BACKENDS {
        let server = Server::bind("tcp://[::1]:0").expect("a free port");
        let handle = server.threads(1).backend(backend).start(echo).expect("the server starts");
        exchange_tcp(&connect(&handle));
        end(&handle);
    }
}

#[test]
fn tcp_udp_and_unix_are_served_by_one_server_and_port_0_is_shared() {
    for backend in BACKENDS {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("several.sock");
        let server = server(backend)
            .and_bind("udp://127.0.0.1:0")
            .and_then(|server| server.and_bind(Address::Unix(path.clone())))
            .and_then(|server| server.and_bind("tcp://127.0.0.1:0"))
            .expect("free addresses");
        let answer = async |datagram: Datagram, responder: Responder| {
            responder.send(datagram.into_view());
            Ok(())
        };
        let handle = server.on_datagram(answer).start(echo).expect("the server starts");
        let [tcp, udp, _, other] = handle.addresses() else { panic!("four addresses") };
        assert_eq!(tcp.port(), udp.port());
        assert_ne!(tcp.port(), other.port(), "two listeners of one kind have a port each");

        exchange_tcp(&connect_to(socket_addr(tcp)));
        exchange_tcp(&connect_to(socket_addr(other)));
        let unix = UnixStream::connect(&path).expect("connected");
        exchange(&unix, &unix, || unix.shutdown(Shutdown::Write).expect("half-closed"));
        let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        client.set_read_timeout(Some(LIMIT)).expect("a socket option");
        for size in [0, 1, 1_400, 16_000] {
            let sent = vec![size as u8; size];
            client.send_to(&sent, socket_addr(udp)).expect("sent");
            let mut echoed = vec![0; 65_536];
            let (count, from) = client.recv_from(&mut echoed).expect("an echo");
            assert_eq!((count, from), (size, socket_addr(udp)));
            assert!(echoed[..count] == sent, "the echo differs");
        }
        end(&handle);
    }
}

#[test]
fn a_panic_for_one_datagram_leaves_the_next_one_served() {
    let server = Server::bind("udp://127.0.0.1:0").expect("a free port").threads(1);
    let handler = async |datagram: Datagram, responder: Responder| {
        assert_ne!(&*datagram, b"panic", "as the test asked for");
        responder.send(datagram.into_view());
        Ok(())
    };
    let handle = server.on_datagram(handler).start(echo).expect("the server starts");
    let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    client.set_read_timeout(Some(LIMIT)).expect("a socket option");
    let address = socket_addr(&handle.addresses()[0]);
    client.send_to(b"panic", address).expect("sent");
    client.send_to(b"next", address).expect("sent");
    let mut echoed = [0; 8];
    assert_eq!(client.recv(&mut echoed).expect("an echo"), 4);
    assert_eq!(handle.stats().handler_panics, 1);
    end(&handle);
}

#[test]
fn a_port_in_use_is_an_error_of_bind() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("tcp://{}", taken.local_addr().expect("bound"));
    let error = Server::bind(&*address).expect_err("it is in use");
    assert!(error.is_address() && error.to_string().contains(&address), "{error}");

    let first = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let address = first.addresses()[0].clone();
    assert!(Server::bind(&address).is_err(), "before it is started");
    let handle = first.start(echo).expect("the server starts");
    assert!(Server::bind(&address).is_err(), "while it runs");
    end(&handle);
    drop(Server::bind(&address).expect("free again"));
}

#[test]
fn an_address_without_what_serves_it_is_refused() {
    let tls = Server::bind("tls://127.0.0.1:0").expect("a free port").threads(1);
    assert!(tls.start(echo).expect_err("no certificate").to_string().contains("a certificate"));
    let udp = Server::bind("udp://127.0.0.1:0").expect("a free port").threads(1);
    assert!(udp.start(echo).expect_err("no handler").to_string().contains("on_datagram"));
}
