//! The addresses of a server, bound from the moment they are given.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use socket2::{Domain, SockAddr, Socket, Type};

use super::unix_path::{self, UnixPath};
use crate::address::{Address, unix_sock_addr};
use crate::error::{Error, Result};
use crate::limits;

/// The addresses of one server, in the order in which they were given.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    list: Vec<Binding>,
}

/// One address, and the sockets that reserve it until the cores listen.
#[derive(Debug)]
pub(crate) struct Binding {
    /// The address with its real port.
    pub(crate) address: Address,
    pub(crate) held: Held,
}

#[derive(Debug)]
pub(crate) enum Held {
    Inet {
        wanted: Wanted,
        reserves: Vec<Reserve>,
    },
    /// The socket listens already: clients wait until the server accepts.
    Unix {
        listening: Socket,
        path: Option<Arc<UnixPath>>,
    },
}

/// An internet address as it was requested.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    address: Address,
    /// The addresses that the host resolves to: one, or several for a name.
    hosts: Vec<SocketAddr>,
}

/// A bound socket that reserves an address; it neither listens nor sends.
#[derive(Debug)]
pub(crate) struct Reserve {
    pub(crate) socket: Socket,
    pub(crate) sock_addr: SockAddr,
    pub(crate) only_v6: bool,
}

impl Bindings {
    /// Adds an address. Port 0 means the port of an earlier address if that is free for this one,
    /// or any port.
    pub(crate) fn add(&mut self, address: Address) -> Result {
        if let Address::Unix(path) = &address {
            let held = patiently(|| Held::unix(path, &address))?;
            self.list.push(Binding { address, held });
            return Ok(());
        }
        let wanted = Wanted::resolve(address)?;
        if wanted.has_v4() {
            self.leave_v4_to(&wanted)?;
        }
        match self.shared_port(&wanted) {
            None => self.push_with_port_of_its_own(wanted),
            Some(port) => match wanted.bind(port, self.has_v4_for(&wanted)) {
                Ok(binding) => {
                    self.list.push(binding);
                    Ok(())
                }
                Err(_taken_by_another_program) => self.move_to_one_port_with(wanted),
            },
        }
    }

    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.list.iter().map(|binding| binding.address.clone()).collect()
    }

    pub(crate) fn into_list(self) -> Vec<Binding> {
        self.list
    }

    fn inet(&self) -> impl Iterator<Item = (&Wanted, &[Reserve], u16)> {
        self.list.iter().filter_map(|binding| match &binding.held {
            Held::Inet { wanted, reserves } => {
                Some((wanted, &**reserves, binding.address.port().unwrap_or(0)))
            }
            Held::Unix { .. } => None,
        })
    }

    /// Whether IPv6 wildcards of `wanted` must leave IPv4 to another address.
    fn has_v4_for(&self, wanted: &Wanted) -> bool {
        wanted.has_v4() || self.inet().any(|(other, ..)| other.has_v4() && other.could_meet(wanted))
    }

    /// Rebinds earlier IPv6 wildcards that also took IPv4 without IPv4, so that `wanted` can have
    /// it.
    fn leave_v4_to(&mut self, wanted: &Wanted) -> Result {
        for binding in &mut self.list {
            let Held::Inet { wanted: other, reserves } = &mut binding.held else { continue };
            let takes_v4 =
                |reserve: &Reserve| !reserve.only_v6 && is_v6_wildcard(&reserve.sock_addr);
            if !other.could_meet(wanted) || !reserves.iter().any(takes_v4) {
                continue;
            }
            let other = other.clone();
            let port = binding.address.port().unwrap_or(0);
            reserves.clear();
            *binding = other.bind(port, true)?;
        }
        Ok(())
    }

    /// Returns the port of the earlier addresses, if `wanted` takes any port and does not overlap
    /// with them.
    fn shared_port(&self, wanted: &Wanted) -> Option<u16> {
        let overlaps = |(other, ..): (&Wanted, &[Reserve], u16)| other.overlaps(wanted);
        if wanted.asks_for_port() || self.inet().any(overlaps) {
            return None;
        }
        self.inet().map(|(_, _, port)| port).next()
    }

    fn push_with_port_of_its_own(&mut self, wanted: Wanted) -> Result {
        let has_v4 = self.has_v4_for(&wanted);
        let port = wanted.address.port().unwrap_or(0);
        let mut bound = patiently(|| wanted.bind(port, has_v4));
        // The port that the first address of a name got may be taken on the next one.
        for _ in 0..limits::SHARED_PORT_TRIES {
            if bound.is_ok() || wanted.asks_for_port() || wanted.hosts.len() == 1 {
                break;
            }
            bound = wanted.bind(0, has_v4);
        }
        self.list.push(bound?);
        Ok(())
    }

    /// Looks for one port that is free for `wanted` and all earlier addresses, because theirs is
    /// not. If there is none, or an earlier address asks for a certain port, `wanted` gets a port
    /// of its own.
    fn move_to_one_port_with(&mut self, wanted: Wanted) -> Result {
        if self.inet().any(|(other, ..)| other.asks_for_port()) {
            return self.push_with_port_of_its_own(wanted);
        }
        let mut all: Vec<Wanted> = self.inet().map(|(other, ..)| other.clone()).collect();
        all.push(wanted.clone());
        let has_v4 = |of: &Wanted| all.iter().any(|other| other.has_v4() && other.could_meet(of));
        for _ in 0..limits::SHARED_PORT_TRIES {
            let mut on_one_port = Self::default();
            let fits = all.iter().all(|wanted| {
                let port = on_one_port.shared_port(wanted).unwrap_or(0);
                let bound = wanted.bind(port, has_v4(wanted));
                bound.map(|binding| on_one_port.list.push(binding)).is_ok()
            });
            if fits {
                self.replace_inet(on_one_port);
                return Ok(());
            }
        }
        self.push_with_port_of_its_own(wanted)
    }

    /// Replaces the internet addresses by those of `anew`, and appends the rest.
    fn replace_inet(&mut self, anew: Self) {
        let mut anew = anew.list.into_iter();
        for binding in &mut self.list {
            if let Held::Inet { .. } = binding.held
                && let Some(next) = anew.next()
            {
                *binding = next;
            }
        }
        self.list.extend(anew);
    }
}

impl Held {
    fn unix(path: &Path, address: &Address) -> Result<Self> {
        let sock_addr = unix_sock_addr(path)?;
        let taken = match sock_addr.as_pathname() {
            Some(path) => UnixPath::listen(path, &sock_addr)
                .map(|(listening, path)| Self::Unix { listening, path: Some(Arc::new(path)) }),
            None => {
                unix_path::listen(&sock_addr).map(|listening| Self::Unix { listening, path: None })
            }
        };
        taken.map_err(|error| cannot_listen(address, error))
    }
}

impl Wanted {
    fn resolve(address: Address) -> Result<Self> {
        let mut hosts: Vec<SocketAddr> = Vec::new();
        for mut host in address.resolve_blocking()? {
            host.set_ip(host.ip().to_canonical());
            if !hosts.contains(&host) && hosts.len() < limits::ADDRESSES_BOUND_MAX {
                hosts.push(host);
            }
        }
        Ok(Self { address, hosts })
    }

    fn is_datagram(&self) -> bool {
        matches!(self.address, Address::Udp(_))
    }

    fn has_v4(&self) -> bool {
        self.hosts.iter().any(SocketAddr::is_ipv4)
    }

    /// Whether it asks for a certain port.
    fn asks_for_port(&self) -> bool {
        self.address.port() != Some(0)
    }

    /// Whether the two may be bound to the same port.
    fn could_meet(&self, other: &Self) -> bool {
        let same_port = self.address.port() == other.address.port();
        let free_port = !self.asks_for_port() || !other.asks_for_port();
        self.is_datagram() == other.is_datagram() && (same_port || free_port)
    }

    /// Whether the two cannot share a port.
    fn overlaps(&self, other: &Self) -> bool {
        let overlap = |one: IpAddr, other: IpAddr| {
            let is_wide = one.is_unspecified() || other.is_unspecified();
            one == other || is_wide && one.is_ipv4() == other.is_ipv4()
        };
        let mut hosts = self.hosts.iter().flat_map(|one| other.hosts.iter().map(move |b| (one, b)));
        self.is_datagram() == other.is_datagram() && hosts.any(|(a, b)| overlap(a.ip(), b.ip()))
    }

    /// Binds all of its hosts to one port. If there are several, hosts that this machine lacks
    /// (such as `::1` where IPv6 is off) are left out.
    fn bind(&self, port: u16, has_v4: bool) -> Result<Binding> {
        let mut reserves: Vec<Reserve> = Vec::new();
        let mut port = port;
        let mut missing = None;
        for host in &self.hosts {
            let mut at = *host;
            at.set_port(port);
            match Reserve::new(at, self.is_datagram(), has_v4 && at.is_ipv6()) {
                Ok(reserve) => {
                    port = reserve.sock_addr.as_socket().map_or(port, |bound| bound.port());
                    reserves.push(reserve);
                }
                Err(error) if self.hosts.len() > 1 && is_missing(&error) => missing = Some(error),
                Err(error) => return Err(cannot_listen(&self.address, error)),
            }
        }
        if let (true, Some(error)) = (reserves.is_empty(), missing) {
            return Err(cannot_listen(&self.address, error));
        }
        let address = self.address.clone().with_port(port);
        Ok(Binding { address, held: Held::Inet { wanted: self.clone(), reserves } })
    }
}

impl Reserve {
    /// Binds a socket that never listens. It is bound exclusively, so that a port in use is found,
    /// and then lets the sockets of the cores share the port.
    fn new(at: SocketAddr, datagram: bool, only_v6: bool) -> io::Result<Self> {
        let socket = match Self::bind(at, datagram, only_v6, false) {
            // Connections of an earlier server may linger on the port; only then is the address
            // reused.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && !datagram => {
                Self::bind(at, datagram, only_v6, true)?
            }
            bound => bound?,
        };
        let sock_addr = socket.local_addr()?;
        Ok(Self { socket, sock_addr, only_v6 })
    }

    fn bind(
        at: SocketAddr,
        datagram: bool,
        only_v6: bool,
        reuse_address: bool,
    ) -> io::Result<Socket> {
        let kind = if datagram { Type::DGRAM } else { Type::STREAM };
        let socket = Socket::new(Domain::for_address(at), kind.cloexec().nonblocking(), None)?;
        if at.is_ipv6() {
            socket.set_only_v6(only_v6)?;
        }
        socket.set_reuse_address(reuse_address)?;
        socket.bind(&at.into())?;
        socket.set_reuse_port(true)?;
        Ok(socket)
    }
}

/// Takes an address, and retries for a while if it is in use: it may belong to a process that was
/// just killed, whose sockets the kernel closes a moment later.
fn patiently<T>(take: impl Fn() -> Result<T>) -> Result<T> {
    let began = Instant::now();
    loop {
        match take() {
            Err(error) if is_in_use(&error) && began.elapsed() < limits::BIND_WAIT => {
                #[expect(clippy::disallowed_methods, reason = "nobody tells when a port is free")]
                thread::sleep(limits::BIND_PAUSE);
            }
            taken => return taken,
        }
    }
}

fn is_v6_wildcard(address: &SockAddr) -> bool {
    address.as_socket_ipv6().is_some_and(|address| address.ip().is_unspecified())
}

/// Whether this machine does not have the address.
fn is_missing(error: &io::Error) -> bool {
    /// "Address family not supported by protocol", on every current Linux architecture.
    const EAFNOSUPPORT: i32 = 97;
    let is_unknown_family = error.raw_os_error() == Some(EAFNOSUPPORT);
    error.kind() == io::ErrorKind::AddrNotAvailable || is_unknown_family
}

fn is_in_use(error: &Error) -> bool {
    error.as_io().is_some_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

fn cannot_listen(address: &Address, error: io::Error) -> Error {
    Error::io(format!("cannot listen on {address}"), error)
}
