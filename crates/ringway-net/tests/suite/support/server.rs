//! Support for server tests: starting, connecting and ending servers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use ringway_net::{Address, Backend, Connection, Result, Server, ServerHandle};
use socket2::{Domain, Socket, Type};

/// Both kernel interfaces.
pub(crate) const BACKENDS: [Backend; 2] = [Backend::Uring, Backend::Epoll];

/// A guard against hanging: nothing in these tests takes this long.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) async fn echo(mut conn: Connection) -> Result {
    while let Some(view) = conn.recv().await? {
        conn.send(view);
    }
    Ok(())
}

/// Makes a server with two threads and a free port, to be configured further.
pub(crate) fn server(backend: Backend) -> Server {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port");
    server.threads(2).backend(backend)
}

pub(crate) fn socket_addr(address: &Address) -> SocketAddr {
    let authority = address.authority().expect("an internet address");
    SocketAddr::new(authority.host().parse().expect("a number"), authority.port())
}

/// Connects to the server's first address, with timeouts.
pub(crate) fn connect(handle: &ServerHandle) -> TcpStream {
    connect_to(socket_addr(&handle.addresses()[0]))
}

pub(crate) fn connect_to(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).expect("connected");
    client.set_read_timeout(Some(LIMIT)).expect("a socket option");
    client.set_write_timeout(Some(LIMIT)).expect("a socket option");
    client
}

/// Connects from the given address in 127/8.
pub(crate) fn connect_from(ip: [u8; 4], handle: &ServerHandle) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((ip, 0)).into()).expect("all of 127/8 is ours");
    let to = socket_addr(&handle.addresses()[0]);
    socket.connect(&to.into()).expect("connected");
    socket.set_read_timeout(Some(LIMIT)).expect("a socket option");
    socket.set_write_timeout(Some(LIMIT)).expect("a socket option");
    socket.into()
}

/// Connects with a small receive buffer.
pub(crate) fn connect_with_small_buffer(handle: &ServerHandle) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(16 * 1024).expect("a socket option");
    socket.connect(&socket_addr(&handle.addresses()[0]).into()).expect("connected");
    socket.set_read_timeout(Some(LIMIT)).expect("a socket option");
    socket.set_write_timeout(Some(LIMIT)).expect("a socket option");
    socket.into()
}

/// Sends `bytes` and reads as many back.
pub(crate) fn round_trip(mut client: impl Read + Write, bytes: &[u8]) {
    client.write_all(bytes).expect("written");
    let mut echoed = vec![0; bytes.len()];
    client.read_exact(&mut echoed).expect("an echo");
    assert!(echoed == bytes, "the echo differs");
}

/// Whether the server has closed the connection, in order or by a reset.
pub(crate) fn is_closed(mut client: &TcpStream) -> bool {
    match client.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// Ends the server and checks that it took no longer than a drain with nothing to wait for.
pub(crate) fn end(handle: &ServerHandle) {
    handle.shutdown();
    handle.wait().expect("the server ends in order");
    assert_eq!(handle.stats().open, 0, "{:?}", handle.stats());
}

/// Polls until a condition holds that other threads bring about.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}");
        std::thread::yield_now();
    }
}

/// Returns the number of open descriptors of this process.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("a process has descriptors").count()
}
