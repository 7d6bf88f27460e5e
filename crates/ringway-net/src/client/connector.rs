//! One attempt to connect: look up the name, try its addresses, shake hands.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use ringway_runtime::io::Stream;
use ringway_runtime::timeout;
use socket2::SockAddr;

use super::race::first;
use crate::address::{Address, unix_sock_addr};
use crate::error::{Error, Kind, Result};
use crate::keepalive;
use crate::limits;
use crate::tls::{ClientTls, TlsStream};
use crate::transport::Transport;

/// The settings of an attempt to connect.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    pub(super) address: Address,
    pub(super) tls: ClientTls,
    /// The limit of looking up the name, and of connecting to each address.
    pub(super) timeout: Duration,
    pub(super) nodelay: bool,
    pub(super) keepalive: Option<Duration>,
}

impl Connector {
    pub(super) fn new(address: Address) -> Self {
        let timeout = limits::CONNECT_TIMEOUT;
        Self { address, tls: ClientTls::new(), timeout, nodelay: true, keepalive: None }
    }

    pub(super) async fn connect(&self) -> Result<Transport> {
        if let Address::Unix(path) = &self.address {
            let stream = self.connect_to(&unix_sock_addr(path)?).await?;
            return Ok(Transport::Plain(stream));
        }
        let resolved = within(self.timeout, self.address.resolve()).await??;
        self.reach(families_in_turn(resolved)).await
    }

    /// Returns the first of a name's addresses that connects.
    async fn reach(&self, addresses: Vec<SocketAddr>) -> Result<Transport> {
        let addresses = addresses.into_iter().take(limits::ADDRESSES_TRIED_MAX);
        let outcome = first(addresses.map(|address| self.reach_one(address))).await;
        let none = || Error::new(Kind::Address, format!("{} has no address", self.address));
        outcome.unwrap_or_else(|| Err(none()))
    }

    /// Connects, and completes the TLS handshake for a `tls://` address.
    async fn reach_one(&self, address: SocketAddr) -> Result<Transport> {
        let reached = async {
            let stream = self.connect_to(&address.into()).await?;
            let Address::Tls(authority) = &self.address else {
                return Ok(Transport::Plain(stream));
            };
            let secured = TlsStream::connect(stream, &self.tls, &authority.host()).await?;
            Ok(Transport::Tls(Box::new(secured)))
        };
        reached.await.inspect_err(|error| tracing::debug!(%address, %error, "cannot connect"))
    }

    async fn connect_to(&self, address: &SockAddr) -> Result<Stream> {
        let stream = within(self.timeout, Stream::connect(address)).await??;
        if address.as_socket().is_some() {
            refuse_self(&stream)?;
            stream.with_socket(|socket| {
                socket.set_tcp_nodelay(self.nodelay)?;
                let quiet = self.keepalive;
                quiet.map_or(Ok(()), |quiet| socket.set_tcp_keepalive(&keepalive::after(quiet)))
            })?;
        }
        Ok(stream)
    }
}

async fn within<F: Future>(limit: Duration, future: F) -> Result<F::Output> {
    let outcome = timeout(limit, future).await;
    outcome.map_err(|elapsed| Error::with_source(Kind::Timeout, "connect", elapsed))
}

/// Resets a connection of a socket to itself: if no server listens on a local port, the kernel may
/// pick that port for our end. Keeping it would keep the server from starting; the reset frees it
/// at once.
fn refuse_self(stream: &Stream) -> io::Result<()> {
    let ends = (stream.local_addr(), stream.peer_addr());
    let (Ok(local), Ok(peer)) = ends else {
        return Ok(());
    };
    if local.as_socket().is_none() || local.as_socket() != peer.as_socket() {
        return Ok(());
    }
    stream.abort();
    Err(io::Error::new(
        io::ErrorKind::ConnectionRefused,
        "no server listens on this port (the socket was connected to itself)",
    ))
}

/// Alternates the two families and keeps the resolver's order in each: if one family is
/// unreachable, the other is tried second and not last.
fn families_in_turn(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = addresses.first().map(SocketAddr::is_ipv6) else {
        return addresses;
    };
    let (mut preferred, mut others): (Vec<_>, Vec<_>) =
        addresses.into_iter().rev().partition(|address| address.is_ipv6() == first);
    let mut ordered = Vec::with_capacity(preferred.len() + others.len());
    while !preferred.is_empty() || !others.is_empty() {
        ordered.extend(preferred.pop());
        ordered.extend(others.pop());
    }
    ordered
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::rc::Rc;

    use ringway_runtime::io::{ListenOptions, Listener};
    use ringway_runtime::spawn;
    use socket2::{Domain, Socket, Type};

    use super::*;
    use crate::tls::ServerTls;

    /// Connects a socket to itself by binding it to the port that it connects to. A client of a
    /// local port without a listener can get this by chance.
    fn connected_to_itself() -> Socket {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        socket.bind(&any.into()).expect("a free port");
        let own = socket.local_addr().expect("bound");
        socket.connect(&own).expect("simultaneous open with itself");
        socket
    }

    #[test]
    fn connection_to_itself_is_refused_and_frees_its_port() {
        let freed = ringway_runtime::block_on(async {
            let stream = Stream::adopt(connected_to_itself().into(), &Rc::default())?;
            let own = stream.local_addr()?;
            let error = refuse_self(&stream).expect_err("both ends are one");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            let ended = stream.recv().await.expect_err("aborted");
            assert_eq!(ended.kind(), io::ErrorKind::ConnectionAborted);
            drop(stream);
            Ok::<_, io::Error>(own)
        });
        let own = freed.expect("a core").expect("adopted").as_socket().expect("TCP");
        std::net::TcpListener::bind(own).expect("no trace of the connection is left");
    }

    #[test]
    fn connection_to_a_listener_is_kept() {
        let kept = ringway_runtime::block_on(async {
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            let stream = Stream::connect(&listener.local_addr()?.into()).await?;
            refuse_self(&stream)
        });
        kept.expect("a core").expect("two ends");
    }

    /// Makes a connector to `tls://127.0.0.1` that trusts the server, and the server's settings.
    fn trusting_connector() -> (Connector, ServerTls) {
        let identity = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
        let identity = identity.expect("a certificate");
        let (chain, key) = (identity.cert.pem(), identity.signing_key.serialize_pem());
        let tls = ClientTls::new().roots_pem(&chain).expect("a root");
        // Long enough that only the attempt on the next address can succeed in time.
        let tls = tls.handshake_timeout(10 * LIMIT);
        let connector = Connector::new("tls://127.0.0.1:1".parse().expect("an address"));
        let server = ServerTls::from_pem(&chain, &key).expect("they belong together");
        (Connector { tls, timeout: 10 * LIMIT, ..connector }, server)
    }

    /// A guard against hanging, far above what any step takes.
    const LIMIT: Duration = Duration::from_secs(20);

    /// Starts a server that calls `meet` with each connection.
    fn backend(meet: impl AsyncFn(Stream) + 'static) -> SocketAddr {
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let listener = Listener::bind(&any.into(), ListenOptions::default()).expect("a free port");
        let address = listener.local_addr().as_socket().expect("TCP");
        spawn(async move {
            while let Ok(accepted) = listener.accept().await {
                meet(accepted.into_stream(&Rc::default()).expect("room")).await;
            }
        });
        address
    }

    #[test]
    fn bad_backend_does_not_hide_a_good_one() {
        let outcome = ringway_runtime::block_on(async {
            let (connector, tls) = trusting_connector();
            let cuts = backend(async |stream| drop(stream));
            let talks_plainly = backend(async |stream: Stream| {
                stream.write(b"220 welcome\r\n");
                let _until_it_leaves = stream.recv().await;
            });
            let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
            let is_silent = silent.local_addr().expect("bound");
            let good = backend(async move |stream| {
                let Ok(served) = TlsStream::accept(stream, &tls).await else { return };
                served.write(b"good");
                served.shutdown();
                let _until_it_leaves = served.recv().await;
            });
            for bad in [cuts, talks_plainly, is_silent] {
                let reached = timeout(LIMIT, connector.reach(vec![bad, good])).await??;
                let said = poll_fn(|cx| reached.poll_recv(cx)).await?.expect("a word");
                assert_eq!(&*said, b"good");
            }
            let lost = timeout(LIMIT, connector.reach(vec![cuts, talks_plainly])).await?;
            assert!(lost.err().expect("both are bad").is_closed(), "what may pass is told");
            Ok::<_, Error>(())
        });
        outcome.expect("a core").expect("the good one is reached");
    }

    #[test]
    fn families_alternate_in_the_resolvers_order() {
        let of = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().expect("an address")).collect()
        };
        let given = of(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"]);
        let expected = of(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"]);
        assert_eq!(families_in_turn(given), expected);
        assert_eq!(families_in_turn(Vec::new()), Vec::new());
    }
}
