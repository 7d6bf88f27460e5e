//! Who may see the console.

use ringway_http::http::header::{
    AUTHORIZATION, FORWARDED, HOST, HeaderMap, HeaderName, ORIGIN, VIA,
};
use ringway_net::Endpoint;

use crate::call::context::Peer;
use crate::server::console_access::Access;
use crate::server::web::named_host::is_this_machine;

/// Whether a client may know that there is a console.
pub(super) fn may_know(access: &Access, peer: &Peer, headers: &HeaderMap) -> bool {
    match access {
        Access::Off => false,
        Access::Token(_) => true,
        Access::Local | Access::Link(_) => is_local_peer(peer) && is_local_request(headers),
    }
}

/// Whether a client that knows of the console may see its data.
pub(super) fn may_see(access: &Access, headers: &HeaderMap) -> bool {
    match access {
        Access::Off => false,
        Access::Local => true,
        Access::Token(token) | Access::Link(token) => {
            let value = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
            value
                .and_then(|value| value.strip_prefix(b"Bearer "))
                .is_some_and(|given| is_same(given, token.as_bytes()))
        }
    }
}

fn is_local_peer(peer: &Peer) -> bool {
    match peer.address() {
        Some(Endpoint::Ip(address)) => address.ip().to_canonical().is_loopback(),
        Some(Endpoint::Unix(_) | Endpoint::Unnamed) => true,
        None => false,
    }
}

/// A page of another host can have its own name lead here (DNS rebinding), so the request has to name this
/// machine. A proxy on this machine speaks for others. Not every proxy says that it is one, so this alone protects nothing.
fn is_local_request(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let origin = headers.get(ORIGIN).map(|origin| origin.as_bytes());
    let is_foreign = origin.is_some_and(|origin| {
        let authority = origin.splitn(3, |byte| *byte == b'/').nth(2);
        authority != host.map(str::as_bytes)
    });
    host.is_some_and(is_this_machine) && !is_forwarded(headers) && !is_foreign
}

/// Whether a proxy says that it has passed the request on.
fn is_forwarded(headers: &HeaderMap) -> bool {
    FIELDS_OF_PROXIES.iter().any(|name| headers.contains_key(name))
}

static FIELDS_OF_PROXIES: [HeaderName; 6] = [
    FORWARDED,
    VIA,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
];

/// Compares in a time that does not tell how much is right.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    let difference = given.iter().zip(token).fold(0, |found, (a, b)| found | (a ^ b));
    given.len() == token.len() && difference == 0
}

#[cfg(test)]
mod tests {
    use ringway_http::http::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let field =
            |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        fields.iter().map(field).collect()
    }

    #[test]
    fn only_requests_that_name_this_machine_are_local() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:9000", "127.9.9.9", "[::1]:9000"] {
            assert!(is_local_request(&headers(&[("host", host)])), "{host}");
        }
        for host in [
            "evil.example:9000",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[::1",
            "[fe80::1]",
            "0.0.0.0",
            "",
        ] {
            let is_local = is_local_request(&headers(&[("host", host)]));
            assert!(!is_local || host == "[::1", "{host}");
        }
        let local = ("host", "localhost:1");
        assert!(is_local_request(&headers(&[local, ("origin", "http://localhost:1")])));
        for other in [
            ("origin", "http://localhost:2"),
            ("origin", "null"),
            ("x-forwarded-for", "10.0.0.1"),
            ("via", "1.1 proxy"),
        ] {
            assert!(!is_local_request(&headers(&[local, other])), "{other:?}");
        }
        assert!(!is_local_request(&HeaderMap::new()));
    }

    #[test]
    fn a_token_has_to_be_right_to_the_last_byte() {
        for make in [Access::Token, Access::Link] {
            check_token(&make("0123456789abcdef".to_owned()));
        }
        assert!(!may_see(&Access::Off, &HeaderMap::new()));
    }

    #[track_caller]
    fn check_token(access: &Access) {
        let may = |value| may_see(access, &headers(&[("authorization", value)]));
        assert!(may("Bearer 0123456789abcdef"));
        for wrong in ["Bearer 0123456789abcdeg", "Bearer 0123456789abcde", "Bearer ", "Basic x"] {
            assert!(!may(wrong), "{wrong}");
        }
        assert!(!may_see(access, &HeaderMap::new()));
    }
}
