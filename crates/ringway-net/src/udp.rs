//! UDP sockets.

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::rc::Rc;

use ringway_runtime::io::{DatagramSocket, ListenOptions, Pressure};
use ringway_runtime::{Segment, View};
use socket2::{SockAddr, SockRef, Socket};

use crate::address::{Address, Endpoint};
use crate::error::{Error, Kind, Result};
use crate::limits;

/// A UDP socket of this core; clones share it.
///
/// ```
/// # ringway_runtime::block_on(async {
/// use ringway_net::UdpSocket;
///
/// let one = UdpSocket::bind("udp://127.0.0.1:0").await?;
/// let other = UdpSocket::bind("udp://127.0.0.1:0").await?;
/// one.send_to("hello", other.local_addr());
/// let datagram = other.recv().await?;
/// assert_eq!(&*datagram, b"hello");
/// assert_eq!(datagram.from(), one.local_addr());
/// # Ok::<_, ringway_net::Error>(())
/// # })??;
/// # Ok::<(), ringway_net::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct UdpSocket {
    socket: Rc<DatagramSocket>,
}

/// One received datagram: its bytes, without a copy, and its sender.
#[derive(Debug)]
pub struct Datagram {
    view: View,
    from: SocketAddr,
}

/// Replies to the sender of a datagram.
#[derive(Clone, Debug)]
pub struct Responder {
    socket: UdpSocket,
    to: SocketAddr,
}

impl UdpSocket {
    /// Binds an address; port 0 takes any free port. Of the addresses of a name, the first that can
    /// be bound is used.
    ///
    /// # Errors
    /// [`is_address`](Error::is_address) when the address is not a `udp://` address, does not
    /// resolve, is in use or does not belong to this machine.
    pub async fn bind<A>(address: A) -> Result<Self>
    where
        A: TryInto<Address>,
        Error: From<A::Error>,
    {
        let address = address.try_into()?;
        if !matches!(address, Address::Udp(_)) {
            let what = format!("{address} is not a UDP address: write udp://host:port");
            return Err(Error::new(Kind::Address, what));
        }
        let mut bound = Err(Error::new(Kind::Address, format!("{address} has no address")));
        for found in address.resolve().await? {
            bound = Self::bind_with(&address, &found.into(), ListenOptions::default());
            if bound.is_ok() {
                break;
            }
        }
        bound
    }

    pub(crate) fn bind_with(
        address: &Address,
        sock_addr: &SockAddr,
        options: ListenOptions,
    ) -> Result<Self> {
        let bound = DatagramSocket::bind(sock_addr, options);
        let socket = bound.map_err(|error| Error::io(format!("cannot bind {address}"), error))?;
        Ok(Self { socket: Rc::new(socket) })
    }

    /// Returns the bound address with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.socket.local_addr().as_socket().expect("bound to an internet address")
    }

    /// Receives the next datagram.
    ///
    /// # Errors
    /// Returns the kernel's error, for example about an earlier datagram that was refused or could
    /// not be sent; the socket stays usable.
    pub async fn recv(&self) -> Result<Datagram> {
        loop {
            let (view, from) = self.socket.recv_from().await?;
            // Every datagram of an internet socket has a sender.
            if let Some(from) = from.and_then(|from| from.as_socket()) {
                return Ok(Datagram::new(view, from));
            }
        }
    }

    /// Queues a datagram. [`Pressure::High`] means that it was dropped, as the network might drop
    /// it; [`drained`](Self::drained) waits for room.
    pub fn send_to(&self, segment: impl Into<Segment>, to: SocketAddr) -> Pressure {
        self.socket.send_to(segment, &to.into())
    }

    /// Waits until there is room for another datagram.
    pub async fn drained(&self) {
        self.socket.drained().await;
    }

    /// Returns the number of received datagrams that were dropped because they were not read in
    /// time.
    pub fn dropped(&self) -> u64 {
        self.socket.dropped()
    }

    /// Returns the number of queued datagrams that the kernel did not send: too long, no route,
    /// forbidden. [`recv`](Self::recv) returns the latest error.
    pub fn unsent(&self) -> u64 {
        self.socket.unsent()
    }

    /// Calls `f` with the socket, to set its options (broadcast, multicast groups …).
    ///
    /// # Errors
    /// Returns the error of `f`.
    pub fn with_socket(&self, f: impl FnOnce(SockRef<'_>) -> std::io::Result<()>) -> Result {
        Ok(self.socket.with_socket(f)?)
    }
}

/// Takes the datagrams that arrived at a socket that was never read, and closes it.
pub(crate) fn take_all(socket: Socket) -> Vec<Datagram> {
    let socket = std::net::UdpSocket::from(socket);
    let mut taken = Vec::new();
    let mut memory = vec![0; limits::DATAGRAM_BYTES_MAX];
    while taken.len() < limits::EARLY_DATAGRAMS_MAX {
        match socket.recv_from(&mut memory) {
            Ok((len, from)) => taken.push(Datagram::new(memory[..len].to_vec().into(), from)),
            Err(_nothing_left) => break,
        }
    }
    taken
}

impl Datagram {
    fn new(view: View, from: SocketAddr) -> Self {
        // A socket of both families reports an IPv4 peer as a mapped IPv6 address.
        match from.ip().to_canonical() {
            IpAddr::V4(ip) => Self { view, from: SocketAddr::new(ip.into(), from.port()) },
            IpAddr::V6(_) => Self { view, from },
        }
    }

    /// Returns the sender's address; that of an IPv4 peer is an IPv4 address, also on a socket of
    /// both families.
    pub fn from(&self) -> SocketAddr {
        self.from
    }

    /// Returns the bytes, to forward them without a copy.
    pub fn into_view(self) -> View {
        self.view
    }
}

impl Deref for Datagram {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.view
    }
}

impl Responder {
    pub(crate) fn new(socket: UdpSocket, to: SocketAddr) -> Self {
        Self { socket, to }
    }

    /// Queues a reply; see [`UdpSocket::send_to`].
    pub fn send(&self, segment: impl Into<Segment>) -> Pressure {
        self.socket.send_to(segment, self.to)
    }

    /// Returns the socket that received the datagram, to send to others.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Returns the address that replies go to.
    pub fn to(&self) -> Endpoint {
        Endpoint::Ip(self.to)
    }
}
