//! Hosts from DNS: `dns://host:port` and, for SRV records, `dns://_service._proto.name`.
//!
//! The list is looked up again when the TTL of its records ends, or when none of its hosts can be reached. A name that cannot be looked up, or has no records any
//! more, is a failure, not an empty list: the client keeps the hosts that it has. So it does with each target of SRV
//! records by itself.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use ringway_rpc::{Host, HostUpdates, Resolver, Resolving, Status, Verdict};
use ringway_runtime::{sleep, timeout};

use super::dns_records::{self, Found, Query, Target};
use crate::limits;

/// The resolver of an address.
///
/// # Errors
/// INVALID_ARGUMENT when the address is malformed.
pub(crate) fn resolver(address: &str) -> Result<Box<dyn Resolver>, Status> {
    Ok(Box::new(DnsResolver::parse(address)?))
}

/// Looks up a name again and again.
#[derive(Debug)]
struct DnsResolver {
    name: String,
    /// The port of the hosts; `None` if SRV records have it.
    port: Option<u16>,
    /// The scheme of the hosts' addresses.
    scheme: &'static str,
    /// The name server to ask, instead of the system's.
    server: Option<SocketAddr>,
    /// The address as it was written.
    address: String,
}

impl DnsResolver {
    /// The resolver of an address. Behind a question mark may stand `protocol=tcp` or `protocol=grpc`, and
    /// `server=ip:port`.
    fn parse(address: &str) -> Result<Self, Status> {
        let wrong = |why: &dyn fmt::Display| {
            Status::invalid_argument(format!("`{address}` is no address in DNS: {why}"))
        };
        let rest = address.strip_prefix("dns://").unwrap_or(address);
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (name, port) = match place.rsplit_once(':') {
            Some((name, port)) => {
                let port: u16 = port.parse().map_err(|_| wrong(&"the port is not a number"))?;
                (name, Some(port))
            }
            None if place.starts_with('_') => (place, None),
            None => return Err(wrong(&"write dns://host:port, or dns://_service._tcp.name")),
        };
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > 253 || !name.bytes().all(is_of_name) {
            return Err(wrong(&"the name of the host is malformed"));
        }
        let (mut scheme, mut server) = ("tcp", None);
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("protocol", "tcp")) => scheme = "tcp",
                Some(("protocol", "grpc")) => scheme = "grpc",
                Some(("server", at)) => {
                    let at = at.parse().map_err(|_| wrong(&"the server is not ip:port"))?;
                    server = Some(at);
                }
                _ => return Err(wrong(&format_args!("`{option}` is not known"))),
            }
        }
        let (name, address) = (name.to_owned(), address.to_owned());
        Ok(Self { name, port, scheme, server, address })
    }

    async fn follow(self: Box<Self>, updates: HostUpdates) {
        let mut wait = limits::DNS_RETRY_FIRST;
        let (mut known, mut told) = (Known::default(), Vec::new());
        loop {
            let mut pause = limits::DNS_TTL_MAX;
            let failure = match self.look_up().await {
                Ok(found) => {
                    let left = found.valid_until.saturating_duration_since(Instant::now());
                    pause = left.clamp(limits::DNS_TTL_MIN, limits::DNS_TTL_MAX);
                    let (hosts, failure) = known.merge(found.targets);
                    // Of a failure that goes on the same hosts are not told again and again.
                    if failure.is_none() || (hosts != told && !hosts.is_empty()) {
                        told.clone_from(&hosts);
                        let hosts = hosts.iter().map(|(at, weight)| self.host(*at, *weight));
                        if updates.set(hosts) == Verdict::Held {
                            pause = HostUpdates::CONFIRM_AFTER;
                            told.clear();
                        }
                    }
                    failure.or(found.why_none)
                }
                Err(why) => Some(why),
            };
            if let Some(why) = failure {
                updates.failed(why);
                pause = pause.min(wait);
                wait = (wait * 2).min(limits::RETRY_MAX);
            } else {
                wait = limits::DNS_RETRY_FIRST;
            }
            let least = pause.min(limits::DNS_ASKED_AGAIN);
            sleep(least).await;
            // Hosts that are all gone may have moved.
            _ = timeout(pause - least, updates.all_unreachable()).await;
        }
    }

    async fn look_up(&self) -> Result<Found, String> {
        let query = Query { name: self.name.clone(), port: self.port, server: self.server };
        let found = timeout(limits::DNS_TIMEOUT, dns_records::look_up(query)).await;
        found.unwrap_or_else(|_late| Err(late(limits::DNS_TIMEOUT)))
    }

    fn host(&self, at: SocketAddr, weight: u32) -> Result<Host, Status> {
        Ok(Host::new(format!("{}://{at}", self.scheme))?.weight(weight))
    }
}

/// The last addresses of each target.
#[derive(Default)]
struct Known {
    targets: BTreeMap<String, Vec<IpAddr>>,
}

impl Known {
    /// The hosts of the targets, and why the first failed of those that have. One that could not be looked up has the
    /// addresses that it had; one that is not named any more is forgotten.
    fn merge(&mut self, targets: Vec<Target>) -> (Vec<(SocketAddr, u32)>, Option<String>) {
        let mut former = std::mem::take(&mut self.targets);
        let (mut hosts, mut failure) = (Vec::new(), None);
        for Target { name, port, weight, addresses } in targets {
            if let Some(known) = former.remove(&name) {
                self.targets.insert(name.clone(), known);
            }
            match addresses {
                Ok(addresses) => drop(self.targets.insert(name.clone(), addresses)),
                Err(why) => drop(failure.get_or_insert(why)),
            }
            let addresses = self.targets.get(&name).map_or(&[][..], Vec::as_slice);
            hosts.extend(addresses.iter().map(|ip| (SocketAddr::new(*ip, port), weight)));
        }
        (hosts, failure)
    }
}

fn late(limit: Duration) -> String {
    format!("no name server has answered within {limit:?}")
}

impl Resolver for DnsResolver {
    fn name(&self) -> String {
        self.address.clone()
    }

    fn run(self: Box<Self>, updates: HostUpdates) -> Resolving {
        Box::pin(self.follow(updates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_host_or_a_service() {
        for (address, name, port, scheme) in [
            ("dns://market:9000", "market", Some(9000), "tcp"),
            ("dns://market.example.:1?protocol=grpc", "market.example.", Some(1), "grpc"),
            ("dns://_market._tcp.example", "_market._tcp.example", None, "tcp"),
            ("dns://a:1?server=127.0.0.1:5353&protocol=tcp", "a", Some(1), "tcp"),
        ] {
            let resolver = DnsResolver::parse(address).expect(address);
            assert_eq!((&*resolver.name, resolver.port, resolver.scheme), (name, port, scheme));
        }
    }

    #[test]
    fn malformed_addresses_say_why() {
        for (address, said) in [
            ("dns://market", "write dns://host:port"),
            ("dns://:1", "the name of the host"),
            ("dns://a b:1", "the name of the host"),
            ("dns://a:x", "the port is not a number"),
            ("dns://a:1?server=b", "the server is not ip:port"),
            ("dns://a:1?colour=red", "`colour=red` is not known"),
            (&format!("dns://{}:1", "a".repeat(300)), "the name of the host"),
        ] {
            let status = DnsResolver::parse(address).expect_err(address);
            assert!(status.is_invalid_argument() && status.message().contains(said), "{status}");
        }
    }
}
