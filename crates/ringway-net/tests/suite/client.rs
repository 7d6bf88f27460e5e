//! Clients on real sockets: refused, timed out, over TLS and Unix sockets, and after a server's
//! restart.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::time::Duration;

use ringway_net::{Address, Backoff, Client, ClientTls, Connection, Result, ServerTls, TlsStream};
use ringway_runtime::io::{ListenOptions, Listener, Stream};
use ringway_runtime::{JoinHandle, spawn};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::support::alone::NoForks;
use crate::support::certificates::Authority;
use crate::support::trust::{listen, run, server_of, socket_addr};

const MS: Duration = Duration::from_millis(1);

#[test]
fn refused_attempts_are_counted_and_bounded() {
    let _no_forks = NoForks::begin();
    run(async {
        for (attempts, text) in [(1, "(1 attempt)"), (3, "(3 attempts)"), (0, "(1 attempt)")] {
            let client = quick(unused_address())?.attempts_max(attempts);
            let error = client.open().await.expect_err("nobody listens");
            assert!(error.to_string().contains(text), "{error}");
            let cause = error.as_io().expect("the kernel's");
            assert_eq!(cause.kind(), io::ErrorKind::ConnectionRefused);
            assert!(cause.raw_os_error().is_some(), "the error keeps the kernel's number");
        }
        Ok(())
    });
}

#[test]
fn unresolvable_name_is_an_address_error() {
    run(async {
        // No host name begins with a hyphen, so no name server is asked.
        let error = quick("tcp://-:1")?.attempts_max(2).open().await.expect_err("no name");
        assert!(error.is_address(), "{error:?}");
        assert!(error.to_string().contains("(2 attempts): cannot look up"), "{error}");
        Ok(())
    });
}

#[test]
fn connect_to_a_listener_with_a_full_queue_times_out() {
    run(async {
        let (listener, waiting) = full_listener()?;
        let address = socket_addr(&listener.local_addr()?);
        let client = quick(address)?.connect_timeout(30 * MS).attempts_max(2);
        let error = client.open().await.expect_err("no room in the queue");
        assert!(error.is_timeout(), "{error:?}");
        assert!(error.to_string().contains("(2 attempts)"), "{error}");
        drop(waiting);
        Ok(())
    });
}

#[test]
fn nodelay_is_on_by_default() {
    run(async {
        let (address, _server) = echo_server(&"127.0.0.1:0".parse().expect("an address"))?;
        for on in [true, false] {
            let connection = quick(address)?.nodelay(on).open().await?;
            connection.with_socket(|socket| {
                assert_eq!(socket.tcp_nodelay()?, on);
                Ok(())
            })?;
        }
        let connection = Client::connect(address).await?;
        connection.with_socket(|socket| socket.tcp_nodelay().map(|on| assert!(on)))?;
        Ok(())
    });
}

#[test]
fn every_address_of_a_name_is_tried() {
    run(async {
        // `localhost` is usually ::1 and 127.0.0.1; the server has only the second.
        let (address, _server) = echo_server(&"127.0.0.1:0".parse().expect("an address"))?;
        let name = format!("tcp://localhost:{}", address.port());
        assert_echo(&mut Client::new(&*name)?.attempts_max(1).open().await?).await
    });
}

#[test]
fn client_reconnects_when_the_server_is_back() {
    let _no_forks = NoForks::begin();
    run(async {
        let (address, server) = echo_server(&"127.0.0.1:0".parse().expect("an address"))?;
        let client = quick(address)?.stable_after(Duration::ZERO).attempts_max(2);
        let mut connections = client.reconnecting();
        let mut connection = connections.next().await?;
        assert_echo(&mut connection).await?;

        server.abort();
        let ended = connection.recv().await;
        assert!(!matches!(ended, Ok(Some(_))), "{ended:?}");
        drop(connection);
        let error = connections.next().await.expect_err("nobody listens");
        assert!(error.to_string().contains("(2 attempts)"), "{error}");

        let (_, _server) = echo_server(&address)?;
        assert_echo(&mut connections.next().await?).await?;
        assert_eq!(connections.failures(), 0);
        Ok(())
    });
}

#[test]
fn tls_address_is_connected_with_tls() {
    run(async {
        let authority = Authority::new();
        let tls = server_of(&authority.sign("127.0.0.1")).alpn(["echo"]);
        let listener = listen();
        let address = format!("tls://{}", socket_addr(listener.local_addr()));
        let server = spawn(tls_server(listener, tls));

        let trusting = ClientTls::new().roots_pem(authority.pem())?.alpn(["echo"]);
        let mut connection = Client::new(&*address)?.tls(trusting).open().await?;
        assert_echo(&mut connection).await?;
        connection.shutdown();
        assert!(connection.recv().await?.is_none());

        let wary = ClientTls::new().roots_pem(Authority::new().pem())?;
        let error = Client::new(&*address)?.tls(wary).open().await.expect_err("unknown authority");
        assert!(error.is_tls(), "{error:?}");
        assert!(error.to_string().contains("(1 attempt)"), "not retried: {error}");
        server.await??;
        Ok(())
    });
}

#[test]
fn unix_server_is_reached_once_its_socket_exists() {
    run(async {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("echo");
        let address: Address = format!("unix://{}", path.display()).parse()?;
        let client = quick(&address)?.attempts_max(2);
        let error = client.open().await.expect_err("no socket file");
        assert_eq!(error.as_io().expect("the kernel's").kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("(2 attempts)"), "{error}");

        let listener = Listener::bind(&SockAddr::unix(&path)?, ListenOptions::default())?;
        let _server = spawn(serve_echo(listener));
        assert_echo(&mut client.open().await?).await
    });
}

#[test]
fn addresses_that_cannot_be_connected_to_are_rejected_at_once() {
    for (address, why) in [
        ("udp://127.0.0.1:1", "UDP has no connections"),
        ("tcp://127.0.0.1:0", "port 0"),
        ("127.0.0.1:1", "tcp://"),
    ] {
        let error = Client::new(address).expect_err(why);
        assert!(error.is_address() && error.to_string().contains(why), "{error:?}");
    }
}

/// Makes a client with short pauses.
fn quick<A>(address: A) -> Result<Client>
where
    A: TryInto<Address>,
    ringway_net::Error: From<A::Error>,
{
    Ok(Client::new(address)?.backoff(Backoff::new(MS, 2 * MS)))
}

/// Returns a port that was free a moment ago, on an address where no other test takes ports.
fn unused_address() -> SocketAddr {
    let listener = TcpListener::bind("127.77.0.1:0").expect("a free port");
    listener.local_addr().expect("bound")
}

/// Makes a listener that does not accept, with connections that fill its queue: the kernel drops
/// further SYNs.
fn full_listener() -> io::Result<(Socket, Vec<Socket>)> {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    let any_port: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    listener.bind(&any_port.into())?;
    listener.listen(0)?;
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        // The connect is under way or waits for room: either suits the test.
        let _begun = socket.connect(&listener.local_addr()?);
        waiting.push(socket);
    }
    Ok((listener, waiting))
}

/// Starts an echo server that ends, with its connections, when its task does.
fn echo_server(address: &SocketAddr) -> Result<(SocketAddr, JoinHandle<io::Result<()>>)> {
    let listener = Listener::bind(&(*address).into(), ListenOptions::default())?;
    let address = socket_addr(listener.local_addr());
    Ok((address, spawn(serve_echo(listener))))
}

/// Serves one connection after the other.
async fn serve_echo(listener: Listener) -> io::Result<()> {
    loop {
        let stream = listener.accept().await?.into_stream(&Rc::default())?;
        echo(stream).await?;
    }
}

async fn echo(stream: Stream) -> io::Result<()> {
    while let Some(view) = stream.recv().await? {
        stream.send(view);
    }
    Ok(())
}

/// Echoes one connection, then takes another one whose client rejects our certificate.
async fn tls_server(listener: Listener, tls: ServerTls) -> Result {
    let stream = listener.accept().await?.into_stream(&Rc::default())?;
    let stream = TlsStream::accept(stream, &tls).await?;
    while let Some(view) = stream.recv().await? {
        stream.send(view);
    }
    stream.shutdown();
    drop(stream);
    let stream = listener.accept().await?.into_stream(&Rc::default())?;
    assert!(TlsStream::accept(stream, &tls).await.expect_err("refused").is_tls());
    Ok(())
}

async fn assert_echo(connection: &mut Connection) -> Result {
    connection.write(b"are you there?");
    let mut received = Vec::new();
    while received.len() < 14 {
        let view = connection.recv().await?.expect("an echo");
        received.extend_from_slice(&view);
    }
    assert_eq!(received, b"are you there?");
    Ok(())
}
