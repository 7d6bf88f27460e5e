//! The host that a request names, and whether a page can have made that name lead here (DNS rebinding).
//!
//! A browser takes a page and what its host's name leads to for one origin. Whoever owns a name can have it lead to a
//! loopback address after the page has come, and the page then calls servers of its reader's machine.

use std::net::IpAddr;

use ringway_http::http::header::{self, HOST, HeaderMap, HeaderName};
use ringway_net::Endpoint;

use crate::call::context::Peer;

/// Whether a request over loopback names a host that may belong to somebody else: a name with a dot. Nobody else can
/// own an address, a name without a dot or one below `localhost`. A proxy of this machine speaks for others.
pub(crate) fn may_be_rebound(peer: &Peer, headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    may_belong_to_others(name_of(host)) && is_loopback(peer) && !is_forwarded(headers)
}

/// Whether a host is `localhost` or a loopback address, with or without a port.
pub(crate) fn is_this_machine(host: &str) -> bool {
    let name = name_of(host);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether a proxy has passed the request on.
pub(crate) fn is_forwarded(headers: &HeaderMap) -> bool {
    FORWARDED.iter().any(|name| headers.contains_key(name))
}

static FORWARDED: [HeaderName; 6] = [
    header::FORWARDED,
    header::VIA,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
];

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
