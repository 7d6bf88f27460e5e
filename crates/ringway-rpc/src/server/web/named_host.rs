//! The host that a request names, and whether a page can have made that name lead here (DNS rebinding).
//!
//! A browser takes a page and what its host's name leads to for one origin. Whoever owns a name can have it lead to a
//! loopback address after the page has come, and the page then calls servers of its reader's machine. Such a page may set
//! any header but a few, so what it says of proxies proves nothing; `Host` it cannot set.

use std::net::IpAddr;

use ringway_http::http::header::{HOST, HeaderMap};
use ringway_net::Endpoint;

use crate::call::context::Peer;
use crate::server::hosts::Hosts;

/// Whether a request names a host that may belong to somebody else: a name with a dot. Nobody else can own an address, a name
/// without a dot or one below `localhost`. Names that are not listed as `own` may; if no list is set, those over loopback.
pub(crate) fn may_be_rebound(peer: &Peer, headers: &HeaderMap, own: Option<&Hosts>) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    may_belong_to_others(name_of(host))
        && match own {
            Some(own) => !own.has(host),
            None => is_loopback(peer) && !is_passed_on(peer, host),
        }
}

/// Whether something else has taken the request first. A browser names the port that it connects to, unless it is 80 or
/// 443. Where this server listens on another one, a request without a port came to a proxy, such as nginx with
/// `proxy_set_header Host $host`.
fn is_passed_on(peer: &Peer, host: &str) -> bool {
    let is_usual = |port: u16| matches!(port, 80 | 443);
    let named = host.rsplit_once(':').map(|(_, port)| port.parse());
    let is_named_as_usual = named.is_none_or(|port| port.is_ok_and(is_usual));
    let Some(Endpoint::Ip(local)) = peer.local_address() else { return false };
    is_named_as_usual && !is_usual(local.port())
}

/// Whether a host is `localhost` or a loopback address, with or without a port.
pub(crate) fn is_this_machine(host: &str) -> bool {
    let name = name_of(host);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_loopback(peer: &Peer) -> bool {
    let Some(Endpoint::Ip(address)) = peer.address() else { return false };
    address.ip().to_canonical().is_loopback()
}

fn may_belong_to_others(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let last = name.rsplit('.').next().unwrap_or_default();
    name.contains('.') && !last.eq_ignore_ascii_case("localhost") && name.parse::<IpAddr>().is_err()
}

/// The name or address of a host with a port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_others_may_own_are_those_with_a_dot() {
        for host in
            ["evil.example:9000", "evil.example.", "127.0.0.1.evil.example", "a.localhost.b"]
        {
            assert!(may_belong_to_others(name_of(host)), "{host}");
        }
        for host in [
            "",
            "here",
            "localhost:80",
            "a.localhost",
            "127.0.0.1:9000",
            "10.0.0.1",
            "[::1]:9",
            "[fe80::1]",
        ] {
            assert!(!may_belong_to_others(name_of(host)), "{host}");
        }
    }
}
