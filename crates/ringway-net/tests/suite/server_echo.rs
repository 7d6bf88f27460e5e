//! Echo over every kind of plain socket and both kernel interfaces.

use std::io::{Read, Write};
use std::net::{
    Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket,
};
use std::os::unix::net::UnixStream;

use ringway_net::{Address, Connection, Datagram, Responder, Server, ServerHandle};

use crate::support::alone::NoForks;
use crate::support::server::{
    BACKENDS, LIMIT, connect, connect_to, echo, end, eventually, round_trip,
};
use crate::support::server::{server, socket_addr};

/// Sends more than any buffer holds, half-closes, and reads it all back at the same time.
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
fn tcp_echoes_and_half_closed_client_gets_everything() {
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
fn unix_sockets_have_peer_credentials() {
    for backend in BACKENDS {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("who.sock");
        let addresses = [Address::Unix(path.clone()).to_string(), "tcp://127.0.0.1:0".to_owned()];
        let server = Server::bind(addresses).expect("a free path").threads(1).backend(backend);
        let (tell, told) = std::sync::mpsc::channel();
        let handle = server.start(move |connection: Connection| {
            tell.send(connection.peer_credentials()).expect("the test waits");
            async { Ok(()) }
        });
        let handle = handle.expect("the server starts");
        let _client = UnixStream::connect(&path).expect("connected");
        let known = told.recv_timeout(LIMIT).expect("it is served").expect("a process");
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        assert_eq!((known.uid, known.gid), (uid.as_raw(), gid.as_raw()));
        assert_eq!(known.pid, Some(std::process::id()));
        let _client = connect_to(socket_addr(&handle.addresses()[1]));
        assert_eq!(told.recv_timeout(LIMIT).expect("it is served"), None, "over TCP");
        end(&handle);
    }
}

#[test]
fn stale_unix_file_is_replaced_and_live_one_is_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
    let server = Server::bind(Address::Unix(path.clone())).expect("the file is stale");
    let handle = server.threads(1).start(echo).expect("the server starts");
    let taken =
        Server::bind(Address::Unix(path.clone())).expect_err("another process listens there");
    assert!(taken.is_address(), "{taken}");
    end(&handle);
    std::fs::write(&path, "not a socket").expect("written");
    assert!(Server::bind(Address::Unix(path.clone())).is_err());
    assert!(path.exists(), "a file of another kind is left alone");
}

#[test]
fn unix_path_passes_from_one_server_to_the_next() {
    for backend in BACKENDS {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("handed-on.sock");
        let wants_more = async |conn: Connection| {
            conn.receive_while_draining(true);
            echo(conn).await
        };
        let at = || Server::bind(Address::Unix(path.clone())).map(|server| server.threads(1));
        let old = at().expect("a free path").backend(backend);
        let old = old.start(wants_more).expect("the server starts");
        let busy = UnixStream::connect(&path).expect("connected");
        round_trip(&busy, b"the old one");
        assert!(at().expect_err("another process listens there").is_address());
        old.shutdown();
        eventually("the path is given back", || !path.exists());
        let new = at().expect("given back").backend(backend);
        let early = UnixStream::connect(&path).expect("it waits until the server starts");
        round_trip(&busy, b"the old one still drains");
        let new = new.start(echo).expect("the server starts");
        drop(busy);
        old.wait().expect("an end in order");
        round_trip(&early, b"the new one");
        round_trip(UnixStream::connect(&path).expect("connected"), b"the new one");
        drop(early);
        end(&new);
        assert!(!path.exists());
    }
}

#[test]
fn path_that_was_bound_and_never_served_is_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("unused.sock");
    let unused = Server::bind(Address::Unix(path.clone())).expect("a free path");
    assert!(Server::bind(Address::Unix(path.clone())).is_err(), "it is taken");
    drop(unused);
    assert!(!path.exists());
    let datagrams: Address = "udp://127.0.0.1:0".parse().expect("an address");
    let unserved = Server::bind([Address::Unix(path.clone()), datagrams]).expect("free addresses");
    let without = unserved.threads(1);
    assert!(without.start(echo).is_err(), "nobody handles datagrams");
    assert!(!path.exists());
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
fn one_server_serves_tcp_udp_and_unix_and_shares_port_0() {
    for backend in BACKENDS {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("several.sock");
        let unix = Address::Unix(path.clone()).to_string();
        let addresses =
            ["tcp://127.0.0.1:0", "udp://127.0.0.1:0", unix.as_str(), "tcp://127.0.0.1:0"];
        let server = Server::bind(addresses).expect("free addresses").threads(2).backend(backend);
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
fn panic_for_one_datagram_does_not_affect_the_next() {
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
fn panic_before_a_datagram_handlers_first_await_is_contained() {
    fn handle(
        datagram: Datagram,
        responder: Responder,
    ) -> impl Future<Output = ringway_net::Result> {
        assert_ne!(&*datagram, b"panic", "as the test asked for");
        async move {
            responder.send(datagram.into_view());
            Ok(())
        }
    }
    let server = Server::bind("udp://127.0.0.1:0").expect("a free port").threads(1);
    let server = server.on_datagram(handle).start(echo).expect("the server starts");
    let client = udp_client(&server);
    for _ in 0..2 {
        client.send(b"panic").expect("sent");
        client.send(b"next").expect("sent");
        let mut echoed = [0; 8];
        assert_eq!(client.recv(&mut echoed).expect("an echo"), 4);
    }
    assert_eq!(server.stats().handler_panics, 2);
    end(&server);
}

/// Makes a socket that is connected to the server's first address.
fn udp_client(handle: &ServerHandle) -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    client.set_read_timeout(Some(LIMIT)).expect("a socket option");
    client.connect(socket_addr(&handle.addresses()[0])).expect("an address");
    client
}

#[test]
fn datagrams_received_before_the_start_are_handled() {
    for backend in BACKENDS {
        let server = Server::bind("udp://127.0.0.1:0").expect("a free port").threads(2);
        let address = socket_addr(&server.addresses()[0]);
        let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        client.set_read_timeout(Some(LIMIT)).expect("a socket option");
        for number in 0..10u8 {
            client.send_to(&[number], address).expect("sent");
        }
        let answer = async |datagram: Datagram, responder: Responder| {
            responder.send(datagram.into_view());
            Ok(())
        };
        let handle = server.backend(backend).on_datagram(answer).start(echo);
        let handle = handle.expect("the server starts");
        for number in 0..10u8 {
            let mut echoed = [0; 8];
            let (len, from) = client.recv_from(&mut echoed).expect("an echo");
            assert_eq!((&echoed[..len], from), (&[number][..], address));
        }
        end(&handle);
    }
}

#[test]
fn ipv4_peer_of_a_dual_stack_socket_has_an_ipv4_address() {
    if let Err(error) = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)) {
        return eprintln!("skipped: ::1 cannot be bound here: {error}");
    }
    let server = Server::bind("udp://[::]:0").expect("a free port").threads(1);
    let answer = async |datagram: Datagram, responder: Responder| {
        responder.send(datagram.from().to_string().into_bytes());
        Ok(())
    };
    let handle = server.on_datagram(answer).start(echo).expect("the server starts");
    let port = handle.addresses()[0].port().expect("a port");
    let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    client.set_read_timeout(Some(LIMIT)).expect("a socket option");
    client.send_to(b"who am I?", (Ipv4Addr::LOCALHOST, port)).expect("sent");
    let mut heard = [0; 64];
    let len = client.recv(&mut heard).expect("an answer");
    let own = client.local_addr().expect("bound").to_string();
    assert_eq!(std::str::from_utf8(&heard[..len]), Ok(&*own));
    end(&handle);
}

#[test]
fn every_address_of_a_name_is_served() {
    let server = Server::bind("tcp://localhost:0").expect("a free port").threads(1);
    let handle = server.start(echo).expect("the server starts");
    let port = handle.addresses()[0].port().expect("a port");
    let mut served = 0;
    for address in ("localhost", port).to_socket_addrs().expect("a name") {
        // The name may resolve to an address that this machine does not have.
        if TcpListener::bind((address.ip(), 0)).is_ok() {
            round_trip(connect_to(address), b"served");
            served += 1;
        }
    }
    assert!(served > 0);
    end(&handle);
}

#[test]
fn overlapping_addresses_get_their_own_ports_and_others_share_one() {
    let has_v6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    let cases = [
        ("tcp://0.0.0.0:0", "tcp://127.0.0.1:0", false),
        ("tcp://127.0.0.1:0", "tcp://0.0.0.0:0", false),
        ("tcp://127.0.0.1:0", "tls://127.0.0.1:0", false),
        ("tcp://localhost:0", "tcp://127.0.0.1:0", false),
        ("udp://0.0.0.0:0", "udp://127.0.0.1:0", false),
        ("tcp://127.0.0.1:0", "tcp://127.0.0.2:0", true),
        ("tcp://127.0.0.1:0", "udp://0.0.0.0:0", true),
        ("tcp://[::]:0", "tcp://[::1]:0", false),
        ("tcp://[::]:0", "tcp://127.0.0.1:0", true),
        ("tcp://[::]:0", "tcp://0.0.0.0:0", true),
        ("tcp://0.0.0.0:0", "tcp://[::]:0", true),
        ("udp://[::]:0", "udp://0.0.0.0:0", true),
    ];
    for (one, other, shares) in cases {
        if !has_v6 && one.contains('[') | other.contains('[') {
            continue;
        }
        let both = Server::bind([one, other]);
        let both = both.unwrap_or_else(|error| panic!("{one} and {other}: {error}")).addresses();
        assert_eq!(both[0].port() == both[1].port(), shares, "{both:?}");
    }
}

#[test]
fn ipv6_wildcard_leaves_ipv4_to_an_explicit_address() {
    if let Err(error) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
        return eprintln!("skipped: ::1 cannot be bound here: {error}");
    }
    let server = Server::bind(["tcp://[::]:0", "tcp://127.0.0.1:0"]);
    let handle = server.expect("free ports").threads(1).start(echo).expect("the server starts");
    let port = handle.addresses()[0].port().expect("a port");
    round_trip(connect_to((Ipv6Addr::LOCALHOST, port).into()), b"by IPv6");
    round_trip(connect_to(([127, 0, 0, 1], port).into()), b"by IPv4");
    TcpStream::connect(SocketAddr::from(([127, 0, 0, 2], port)))
        .expect_err("IPv4 is served where it was named");
    end(&handle);
    let both = Server::bind("tcp://[::]:0").expect("a free port").threads(1).start(echo);
    let both = both.expect("the server starts");
    let port = both.addresses()[0].port().expect("a port");
    round_trip(connect_to(([127, 0, 0, 2], port).into()), b"alone it takes both");
    end(&both);
}

#[test]
fn port_in_use_is_an_error_of_bind() {
    let _no_forks = NoForks::begin();
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
fn address_without_certificate_or_handler_is_rejected() {
    let tls = Server::bind("tls://127.0.0.1:0").expect("a free port").threads(1);
    assert!(tls.start(echo).expect_err("no certificate").to_string().contains("a certificate"));
    let udp = Server::bind("udp://127.0.0.1:0").expect("a free port").threads(1);
    assert!(udp.start(echo).expect_err("no handler").to_string().contains("on_datagram"));
}
