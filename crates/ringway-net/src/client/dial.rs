//! One attempt: look the name up, try its addresses in turn, shake hands.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use ringway_runtime::io::Stream;
use ringway_runtime::timeout;
use socket2::SockAddr;

use super::Client;
use crate::address::{Address, unix_sock_addr};
use crate::error::{Error, Kind, Result};
use crate::keepalive;
use crate::limits;
use crate::tls::TlsStream;
use crate::transport::Transport;

pub(super) async fn dial(client: &Client) -> Result<Transport> {
    match &client.address {
        Address::Unix(path) => {
            let stream = connect(&unix_sock_addr(path)?, client).await?;
            Ok(Transport::Plain(stream))
        }
        Address::Tls(authority) => {
            let stream = connect_tcp(client).await?;
            let secured = TlsStream::connect(stream, &client.tls, &authority.host()).await?;
            Ok(Transport::Tls(Box::new(secured)))
        }
        Address::Tcp(_) | Address::Udp(_) => Ok(Transport::Plain(connect_tcp(client).await?)),
    }
}

/// The first address of the name that answers.
async fn connect_tcp(client: &Client) -> Result<Stream> {
    let resolved = within(client.connect_timeout, client.address.resolve()).await??;
    let mut failed = Error::new(Kind::Address, format!("{} has no address", client.address));
    for address in families_in_turn(resolved).into_iter().take(limits::ADDRESSES_TRIED_MAX) {
        match connect(&address.into(), client).await {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                tracing::debug!(%address, %error, "cannot connect");
                failed = error;
            }
        }
    }
    Err(failed)
}

async fn connect(address: &SockAddr, client: &Client) -> Result<Stream> {
    let stream = within(client.connect_timeout, Stream::connect(address)).await??;
    if address.as_socket().is_some() {
        refuse_self(&stream)?;
        stream.with_socket(|socket| {
            socket.set_tcp_nodelay(client.nodelay)?;
            client
                .keepalive
                .map_or(Ok(()), |quiet| socket.set_tcp_keepalive(&keepalive::after(quiet)))
        })?;
    }
    Ok(stream)
}

async fn within<F: Future>(limit: Duration, future: F) -> Result<F::Output> {
    let outcome = timeout(limit, future).await;
    outcome.map_err(|elapsed| Error::with_source(Kind::Timeout, "connect", elapsed))
}

/// While nobody listens on a local port, the kernel may pick just that port for our end and connect
/// the socket to itself. Then there is no server, and keeping the port would keep it from starting;
/// the reset frees it at once.
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
        "nobody listens there (the socket was connected to itself)",
    ))
}

/// The resolver's order, with the two families taking turns: when one of them leads nowhere, the
/// other is tried second and not last.
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
    use std::rc::Rc;

    use socket2::{Domain, Socket, Type};

    use super::*;

    /// A socket that is bound to a port and connects to that port is connected to itself: what
    /// happens by chance to a client of a local port that nobody listens on.
    fn connected_to_itself() -> Socket {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        socket.bind(&any.into()).expect("a free port");
        let own = socket.local_addr().expect("bound");
        socket.connect(&own).expect("simultaneous open with itself");
        socket
    }

    #[test]
    fn a_connection_to_itself_is_refused_and_its_port_is_free_again() {
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
    fn a_connection_to_a_listener_is_kept() {
        let kept = ringway_runtime::block_on(async {
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            let stream = Stream::connect(&listener.local_addr()?.into()).await?;
            refuse_self(&stream)
        });
        kept.expect("a core").expect("two ends");
    }

    #[test]
    fn families_take_turns_from_the_resolvers_first() {
        let of = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().expect("an address")).collect()
        };
        let given = of(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"]);
        let expected = of(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"]);
        assert_eq!(families_in_turn(given), expected);
        assert_eq!(families_in_turn(Vec::new()), Vec::new());
    }
}
