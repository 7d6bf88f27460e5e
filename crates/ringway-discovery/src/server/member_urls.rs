//! The addresses that a registry tells its clients.

use std::net::{Ipv6Addr, SocketAddr};

use ringway_net::Endpoint as Place;

/// The URLs of a member, for a client that has reached it at this address. One that means all addresses of the machine
/// is told as the address that was reached: to the client it would mean its own machine.
pub(super) fn urls_told(urls: &[String], reached: Option<&Place>) -> Vec<String> {
    let reached = reached.and_then(|place| match place {
        Place::Ip(at) => Some(*at),
        Place::Unix(_) | Place::Unnamed => None,
    });
    urls.iter().filter_map(|url| url_told(url, reached)).collect()
}

fn url_told(url: &str, reached: Option<SocketAddr>) -> Option<String> {
    match unspecified(url) {
        None => Some(url.to_owned()),
        Some((scheme, at)) => {
            let ip = reached?.ip().to_canonical();
            Some(format!("{scheme}://{}", SocketAddr::new(ip, at.port())))
        }
    }
}

/// The parts of a URL that means all addresses of the machine.
fn unspecified(url: &str) -> Option<(&str, SocketAddr)> {
    let (scheme, authority) = url.split_once("://")?;
    let at: SocketAddr = authority.trim_end_matches('/').parse().ok()?;
    at.ip().to_canonical().is_unspecified().then_some((scheme, at))
}

/// Whether clients of etcd can dial a URL.
///
/// # Errors
/// Why they cannot.
pub(super) fn check(url: &str) -> Result<(), String> {
    let is_http = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
    let authority = url.split_once("://").map_or("", |(_, rest)| rest.trim_end_matches('/'));
    let has_port = authority.rsplit_once(':').is_some_and(|(host, port)| {
        is_host(host) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    let why = match (is_http && has_port, unspecified(url)) {
        (false, _) => "write http://host:port or https://host:port",
        (true, Some(_)) => "to a client it means the client's own machine",
        (true, None) => return Ok(()),
    };
    Err(format!("`{url}` is no address that clients can be told: {why}"))
}

/// Whether this is a name or an address, that of IPv6 in brackets.
fn is_host(host: &str) -> bool {
    let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match in_brackets {
        // With the zone of a link behind it, if it has one.
        Some(address) => {
            let address = address.split_once('%').map_or(address, |(address, _)| address);
            address.parse::<Ipv6Addr>().is_ok()
        }
        None => {
            let is_odd = |letter: char| letter.is_whitespace() || "/@?#:[]".contains(letter);
            !host.is_empty() && !host.contains(is_odd)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_is_told_an_address_that_means_its_own_machine() {
        let reached = Place::Ip("10.0.0.7:2379".parse().expect("an address"));
        for (url, expected) in [
            ("http://0.0.0.0:2379", "http://10.0.0.7:2379"),
            ("https://[::]:1", "https://10.0.0.7:1"),
            ("http://10.0.0.1:2379", "http://10.0.0.1:2379"),
            ("http://registry:2379", "http://registry:2379"),
            ("unix:///run/registry", "unix:///run/registry"),
        ] {
            assert_eq!(urls_told(&[url.to_owned()], Some(&reached)), [expected]);
        }
        let unreached = urls_told(&["http://0.0.0.0:1".to_owned()], Some(&Place::Unnamed));
        assert!(unreached.is_empty(), "{unreached:?}");
    }

    #[test]
    fn what_is_advertised_can_be_dialled() {
        for url in ["http://10.0.0.1:2379", "https://registry.example:2379/", "http://[::1]:1"] {
            assert_eq!(check(url), Ok(()));
        }
        let means_all = ["http://0.0.0.0:1", "https://[::]:1", "http://[::ffff:0.0.0.0]:1"];
        let malformed = ["10.0.0.1:1", "tcp://a:1", "http://a", "", "http://:1", "http://a/b:1"];
        let unbracketed =
            ["http://::1:1", "http://:::1", "http://[::1:1", "http://[a]:1", "http://a b:1"];
        let with_password = ["http://root:sesame@a:1"];
        for url in means_all.into_iter().chain(malformed).chain(unbracketed).chain(with_password) {
            assert!(check(url).is_err(), "{url}");
        }
    }
}
