//! The addresses of a server, held from the moment they are named.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use socket2::{Domain, SockAddr, Socket, Type};

use crate::address::{Address, Authority, unix_sock_addr};
use crate::error::{Error, Kind, Result};
use crate::limits;

/// The addresses of one server.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    list: Vec<Binding>,
}

/// One address, and the socket that keeps others off its port until the cores listen there.
#[derive(Debug)]
pub(crate) struct Binding {
    requested: Address,
    /// With the port that the kernel gave.
    pub(crate) address: Address,
    pub(crate) sock_addr: SockAddr,
    pub(crate) only_v6: bool,
    /// Never used: it is there to be bound.
    _reserve: Option<Socket>,
}

impl Bindings {
    /// Takes one more address. Port 0 means the port of an earlier listener where that is free
    /// for this one, else any.
    pub(crate) fn add(&mut self, address: Address) -> Result {
        match self.shared_port(&address) {
            None => self.list.push(self.bind(&address, None)?),
            Some(port) => match self.bind(&address, Some(port)) {
                Ok(binding) => self.list.push(binding),
                Err(_taken_by_another_program) => self.rebind_all_with(address)?,
            },
        }
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Binding> {
        self.list.iter()
    }

    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.list.iter().map(|binding| binding.address.clone()).collect()
    }

    /// The port of the earlier listeners that asked for any, if `address` asks for any too and
    /// could have the same.
    fn shared_port(&self, address: &Address) -> Option<u16> {
        if address.port() != Some(0) {
            return None;
        }
        let same_kind = |other: &Address| is_datagram(other) == is_datagram(address);
        let overlaps = |binding: &&Binding| {
            same_kind(&binding.address) && same_host(&binding.requested, address)
        };
        if self.list.iter().any(|binding| overlaps(&binding)) {
            return None;
        }
        self.list.iter().find_map(|binding| binding.address.port())
    }

    /// The port found for the earlier listeners is not free for `address`: looks for another one.
    fn rebind_all_with(&mut self, address: Address) -> Result {
        let fixed = |binding: &&Binding| binding.requested.port().is_some_and(|port| port != 0);
        if self.list.iter().any(|binding| fixed(&binding)) {
            self.list.push(self.bind(&address, None)?);
            return Ok(());
        }
        let mut wanted: Vec<Address> = Vec::new();
        wanted.extend(self.list.drain(..).map(|binding| binding.requested));
        wanted.push(address.clone());
        for _ in 0..limits::SHARED_PORT_TRIES {
            if let Ok(list) = bind_on_one_port(&wanted) {
                self.list = list;
                return Ok(());
            }
        }
        Err(Error::new(Kind::Address, format!("no port is free for {address} and the others")))
    }

    fn bind(&self, address: &Address, port: Option<u16>) -> Result<Binding> {
        let has_v4 = self.list.iter().any(|other| {
            is_datagram(&other.address) == is_datagram(address) && other.sock_addr.is_ipv4()
        });
        Binding::new(address, port, has_v4)
    }
}

fn bind_on_one_port(wanted: &[Address]) -> Result<Vec<Binding>> {
    let mut bound = Bindings::default();
    for address in wanted {
        let port = bound.shared_port(address);
        let binding = bound.bind(address, port)?;
        bound.list.push(binding);
    }
    Ok(bound.list)
}

fn is_datagram(address: &Address) -> bool {
    matches!(address, Address::Udp(_))
}

fn same_host(one: &Address, other: &Address) -> bool {
    one.authority().map(Authority::host) == other.authority().map(Authority::host)
}

impl Binding {
    fn new(address: &Address, port: Option<u16>, has_v4: bool) -> Result<Self> {
        let cannot = |error| Error::io(format!("cannot listen on {address}"), error);
        if let Address::Unix(path) = address {
            clear_stale(path).map_err(cannot)?;
            return Ok(Self {
                requested: address.clone(),
                address: address.clone(),
                sock_addr: unix_sock_addr(path)?,
                only_v6: false,
                _reserve: None,
            });
        }
        let mut wanted = address.resolve_blocking()?[0];
        wanted.set_port(port.unwrap_or(wanted.port()));
        let only_v6 = has_v4 && wanted.is_ipv6();
        let reserve = reserve(wanted, is_datagram(address), only_v6).map_err(cannot)?;
        let sock_addr = reserve.local_addr().map_err(cannot)?;
        let bound = sock_addr.as_socket().map_or(0, |bound| bound.port());
        Ok(Self {
            requested: address.clone(),
            address: address.clone().with_port(bound),
            sock_addr,
            only_v6,
            _reserve: Some(reserve),
        })
    }

    pub(crate) fn is_datagram(&self) -> bool {
        is_datagram(&self.address)
    }

    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.address, Address::Unix(_))
    }
}

/// Binds a socket that never listens. It is bound alone, so that a port in use is found, and lets
/// the cores' sockets join afterwards.
fn reserve(address: SocketAddr, datagram: bool, only_v6: bool) -> io::Result<Socket> {
    let reserved = reserve_with(address, datagram, only_v6, false);
    match reserved {
        // Connections of an earlier server may linger; only for their sake is the port shared.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && !datagram => {
            reserve_with(address, datagram, only_v6, true)
        }
        reserved => reserved,
    }
}

fn reserve_with(
    address: SocketAddr,
    datagram: bool,
    only_v6: bool,
    reuse_address: bool,
) -> io::Result<Socket> {
    let kind = if datagram { Type::DGRAM } else { Type::STREAM };
    let socket = Socket::new(Domain::for_address(address), kind.cloexec(), None)?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    socket.set_reuse_address(reuse_address)?;
    socket.bind(&address.into())?;
    socket.set_reuse_port(true)?;
    Ok(socket)
}

/// Removes the file of a Unix socket that nobody listens on any more.
fn clear_stale(path: &Path) -> io::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "the path is a file of another kind"));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, "somebody listens there")),
    }
}
