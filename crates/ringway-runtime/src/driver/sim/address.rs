//! The addresses to which simulated sockets are bound.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::RawFd;

use socket2::SockAddr;

use crate::driver::BindOptions;

/// The bound addresses of one kind of socket. They are only looked up, never iterated, so that the
/// map's order decides nothing.
#[derive(Debug)]
pub(super) struct Addresses {
    bound: HashMap<SockAddr, Group>,
    /// The port at which the search for a free one continues.
    next_port: u16,
}

/// The sockets that share an address.
#[derive(Debug)]
struct Group {
    fds: Vec<RawFd>,
    reuse_port: bool,
    only_v6: bool,
}

/// Ports given to sockets that ask for port 0, as Linux does by default.
const EPHEMERAL_PORTS: std::ops::RangeInclusive<u16> = 32_768..=60_999;

impl Addresses {
    pub(super) fn new() -> Self {
        Self { bound: HashMap::new(), next_port: *EPHEMERAL_PORTS.start() }
    }

    /// Binds `fd` and returns its address, with a free port instead of port 0.
    ///
    /// # Errors
    /// Returns `EADDRINUSE` when the address is taken or no port is left, `EAFNOSUPPORT` for an
    /// address that is neither inet nor a named Unix one.
    pub(super) fn bind(
        &mut self,
        addr: &SockAddr,
        options: BindOptions,
        fd: RawFd,
    ) -> io::Result<SockAddr> {
        let addr = match addr.as_socket() {
            Some(inet) if inet.port() == 0 => self.with_free_port(inet.ip())?,
            Some(inet) => canonical(inet),
            None if is_named_unix(addr) => addr.clone(),
            None => return Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT)),
        };
        let BindOptions { reuse_port, only_v6, .. } = options;
        let group = || Group { fds: Vec::new(), reuse_port, only_v6 };
        let group = self.bound.entry(addr.clone()).or_insert_with(group);
        let shared = group.reuse_port && reuse_port && !addr.is_unix();
        if !group.fds.is_empty() && !shared {
            return Err(io::Error::from_raw_os_error(libc::EADDRINUSE));
        }
        group.fds.push(fd);
        Ok(addr)
    }

    /// Releases the address to which `fd` was bound.
    pub(super) fn release(&mut self, addr: &SockAddr, fd: RawFd) {
        if let Some(group) = self.bound.get_mut(addr) {
            group.fds.retain(|&bound| bound != fd);
            if group.fds.is_empty() {
                self.bound.remove(addr);
            }
        }
    }

    /// The sockets that `to` may reach: those bound to exactly that address, otherwise those bound
    /// to every address of the family.
    pub(super) fn reached_by(&self, to: &SockAddr) -> &[RawFd] {
        let Some(inet) = to.as_socket() else {
            return self.group(to).map_or(&[], |group| &group.fds);
        };
        let exact = canonical(reachable(inet));
        let any = canonical(SocketAddr::new(unspecified(inet.ip()), inet.port()));
        let any_v6 = canonical(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), inet.port()));
        let dual = || self.group(&any_v6).filter(|group| inet.is_ipv6() || !group.only_v6);
        let group = self.group(&exact).or_else(|| self.group(&any)).or_else(dual);
        group.map_or(&[], |group| &group.fds)
    }

    /// Finds a free port of `ip`.
    ///
    /// # Errors
    /// Returns `EADDRINUSE` when none is left.
    pub(super) fn with_free_port(&mut self, ip: IpAddr) -> io::Result<SockAddr> {
        for _ in EPHEMERAL_PORTS {
            let port = self.next_port;
            let next = port.saturating_add(1);
            let wraps = !EPHEMERAL_PORTS.contains(&next);
            self.next_port = if wraps { *EPHEMERAL_PORTS.start() } else { next };
            let addr = canonical(SocketAddr::new(ip, port));
            if self.group(&addr).is_none() {
                return Ok(addr);
            }
        }
        Err(io::Error::from_raw_os_error(libc::EADDRINUSE))
    }

    fn group(&self, addr: &SockAddr) -> Option<&Group> {
        self.bound.get(addr)
    }
}

/// The address that is reached by `to`: itself, or loopback for the wildcard address.
pub(super) fn reachable(to: SocketAddr) -> SocketAddr {
    match to.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => {
            SocketAddr::new(Ipv4Addr::LOCALHOST.into(), to.port())
        }
        IpAddr::V6(ip) if ip.is_unspecified() => {
            SocketAddr::new(Ipv6Addr::LOCALHOST.into(), to.port())
        }
        _ => to,
    }
}

/// The canonical form of an address: without flow or scope, and IPv4 never inside IPv6.
fn canonical(inet: SocketAddr) -> SockAddr {
    SocketAddr::new(inet.ip().to_canonical(), inet.port()).into()
}

fn unspecified(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn is_named_unix(addr: &SockAddr) -> bool {
    addr.is_unix() && !addr.is_unnamed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: BindOptions = BindOptions { reuse_port: false, backlog: 1, only_v6: false };

    fn addr(text: &str) -> SockAddr {
        text.parse::<SocketAddr>().expect("a written address").into()
    }

    #[test]
    fn port_zero_becomes_a_free_port() {
        let mut addresses = Addresses::new();
        let first = addresses.bind(&addr("127.0.0.1:0"), OPTIONS, 1).unwrap();
        let second = addresses.bind(&addr("127.0.0.1:0"), OPTIONS, 2).unwrap();
        assert_ne!(first, second);
        assert_eq!(addresses.reached_by(&first), [1]);
        assert_eq!(addresses.reached_by(&second), [2]);
    }

    #[test]
    fn an_address_is_shared_only_with_reuse_port() {
        let mut addresses = Addresses::new();
        let shared = BindOptions { reuse_port: true, ..OPTIONS };
        let shared_addr = addr("127.0.0.1:80");
        addresses.bind(&shared_addr, shared, 1).unwrap();
        addresses.bind(&shared_addr, shared, 2).unwrap();
        let refused = addresses.bind(&shared_addr, OPTIONS, 3).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EADDRINUSE));
        assert_eq!(addresses.reached_by(&shared_addr), [1, 2]);
        addresses.release(&shared_addr, 1);
        addresses.release(&shared_addr, 2);
        assert!(addresses.reached_by(&shared_addr).is_empty());
        addresses.bind(&shared_addr, OPTIONS, 3).unwrap();
    }

    #[test]
    fn the_most_specific_socket_receives() {
        let mut addresses = Addresses::new();
        addresses.bind(&addr("[::]:80"), OPTIONS, 6).unwrap();
        assert_eq!(addresses.reached_by(&addr("127.0.0.1:80")), [6]);
        addresses.bind(&addr("0.0.0.0:80"), OPTIONS, 4).unwrap();
        assert_eq!(addresses.reached_by(&addr("127.0.0.1:80")), [4]);
        assert_eq!(addresses.reached_by(&addr("[::1]:80")), [6]);
        addresses.bind(&addr("127.0.0.1:80"), OPTIONS, 1).unwrap();
        assert_eq!(addresses.reached_by(&addr("0.0.0.0:80")), [1]);
        assert_eq!(addresses.reached_by(&addr("127.0.0.2:80")), [4]);
        addresses.bind(&addr("[::]:81"), BindOptions { only_v6: true, ..OPTIONS }, 7).unwrap();
        assert!(addresses.reached_by(&addr("127.0.0.1:81")).is_empty());
    }

    #[test]
    fn unix_sockets_need_a_name() {
        let mut addresses = Addresses::new();
        let named = SockAddr::unix("/sim/socket").unwrap();
        addresses.bind(&named, OPTIONS, 1).unwrap();
        assert_eq!(addresses.reached_by(&named), [1]);
        let unnamed = SockAddr::unix("").unwrap();
        assert!(addresses.bind(&unnamed, OPTIONS, 2).is_err());
    }
}
