//! Checks whether a server speaks the protocol of its address.

use ringway_net::{Address, TlsStream};
use ringway_wire::native::PREFACE;

use super::connector::ALPN_HTTP2;
use super::server_address::{Protocol, ServerAddress};
use crate::limits;

/// The failure to report if ALPN did not agree on the protocol of the address.
pub(super) fn alpn_mismatch(address: &ServerAddress, agreed: Option<&[u8]>) -> Option<String> {
    let is_asked = address.protocol == Protocol::Grpc && address.is_secure();
    if !is_asked || agreed == Some(ALPN_HTTP2.as_bytes()) {
        return None;
    }
    Some(format!(
        "{address} did not accept {ALPN_HTTP2} by ALPN in its TLS handshake, so it is not a gRPC server"
    ))
}

/// The failure to report if a server's first bytes do not belong to the protocol of its address.
pub(super) fn protocol_mismatch(address: &ServerAddress, first: &[u8]) -> Option<String> {
    let is_right = match address.protocol {
        Protocol::Native => is_native(first),
        Protocol::Grpc => is_http2(first),
        Protocol::JsonLines => is_json(first),
        Protocol::JsonPost | Protocol::JsonSocket => is_http1(first),
    };
    if is_right {
        return None;
    }
    Some(if TlsStream::is_alert(first) {
        format!("{address} expects TLS: connect to it by a {}:// address", address.scheme(true))
    } else if address.protocol == Protocol::Grpc && is_native(first) {
        format!("{address} speaks the native protocol, not gRPC: use a tcp:// or tls:// address")
    } else if address.protocol == Protocol::Grpc && first.starts_with(b"HTTP/1") {
        let line = first_line(first);
        format!("{address} answered in HTTP/1, so it is not a gRPC server: `{line}`")
    } else if address.protocol.is_json() {
        format!("{address} does not speak JSON-RPC: it sent `{}`", first_line(first))
    } else {
        format!("{address} speaks another protocol than this client")
    })
}

/// The failure to report if a server closed a connection before it sent anything.
pub(super) fn closed_in_silence(address: &ServerAddress) -> String {
    let or_tls = match &address.at {
        Address::Tcp(_) => {
            format!(", or it expects TLS and a {}:// address", address.scheme(true))
        }
        _ => String::new(),
    };
    format!(
        "{address} closed the connection before it sent anything: it is shutting down, or does not \
         speak the protocol of this client{or_tls}"
    )
}

/// Whether the bytes begin like the native preface, as far as that is the same in all versions.
fn is_native(first: &[u8]) -> bool {
    const MARK: usize = 4;
    let common = first.len().min(MARK);
    first[..common] == PREFACE[..common]
}

/// Whether the bytes begin like a SETTINGS frame (RFC 9113, section 3.4): shorter than 64 KiB, of type 4.
fn is_http2(first: &[u8]) -> bool {
    first.first().is_none_or(|len| *len == 0) && first.get(3).is_none_or(|kind| *kind == 4)
}

/// Whether the bytes begin like an answer of HTTP/1.
fn is_http1(first: &[u8]) -> bool {
    const MARK: &[u8] = b"HTTP/1.";
    let common = first.len().min(MARK.len());
    first[..common] == MARK[..common]
}

/// Whether the bytes begin like a text of JSON-RPC.
fn is_json(first: &[u8]) -> bool {
    let first = first.iter().find(|byte| !byte.is_ascii_whitespace());
    first.is_none_or(|byte| matches!(byte, b'{' | b'['))
}

fn first_line(first: &[u8]) -> String {
    let line = first.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let line = &line[..line.len().min(limits::FOREIGN_LINE_SHOWN)];
    line.escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(address: &str, first: &[u8]) -> String {
        let address = address.parse().expect("an address");
        protocol_mismatch(&address, first).unwrap_or_default()
    }

    #[test]
    fn first_bytes_tell_what_a_server_speaks() {
        const SETTINGS: &[u8] = &[0, 0, 6, 4, 0, 0, 0, 0, 0];
        for len in 0..=SETTINGS.len() {
            assert_eq!(says("grpc://a:1", &SETTINGS[..len]), "");
        }
        for first in ["", " ", "\r\n", " {", "["] {
            assert_eq!(says("jsonrpc+tcp://a:1", first.as_bytes()), "");
        }
        for len in 0..=PREFACE.len() {
            assert_eq!(says("tcp://a:1", &PREFACE[..len]), "");
        }
        for (address, first, text) in [
            (
                "grpc://a:1",
                &b"\x15\x03\x03"[..],
                "expects TLS: connect to it by a grpcs:// address",
            ),
            ("tcp://a:1", b"\x15\x03\x03", "expects TLS: connect to it by a tls:// address"),
            ("grpc://a:1", &PREFACE, "speaks the native protocol, not gRPC"),
            ("grpc://a:1", b"HTTP/1.1 400 Bad Request\r\n", "`HTTP/1.1 400 Bad Request`"),
            ("grpc://a:1", &[0, 0, 6, 7], "another protocol"),
            ("jsonrpc+tcp://a:1", b"\x15\x03\x03", "connect to it by a jsonrpc+tls:// address"),
            ("jsonrpc+tcp://a:1", b"HTTP/1.1 400 Bad Request\r\n", "`HTTP/1.1 400 Bad Request`"),
            ("ws://a:1", b"{}", "does not speak JSON-RPC"),
            ("ws://a:1", b"\x15\x03\x03", "connect to it by a wss:// address"),
            ("tcp://a:1", SETTINGS, "another protocol"),
        ] {
            let said = says(address, first);
            assert!(said.starts_with(address) && said.contains(text), "{said}");
        }
        let endless = [&b"HTTP/1"[..], &[b'x'; 9_000]].concat();
        assert!(says("grpc://a:1", &endless).len() < 300);
    }
}
