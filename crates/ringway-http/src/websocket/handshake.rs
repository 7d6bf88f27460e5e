//! Checks of the handshake that both ends share: RFC 6455 section 4.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::HeaderName;

use super::masks::Masks;

/// Makes a client's key: sixteen random bytes in base64.
pub(crate) fn new_key() -> String {
    let masks = Masks::new();
    STANDARD.encode([masks.next(), masks.next(), masks.next(), masks.next()].concat())
}

/// Whether a client's key is valid.
pub(super) fn is_key(key: &[u8]) -> bool {
    STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16)
}

/// Returns the server's answer to a client's key, which proves that the server speaks WebSocket.
pub(crate) fn accept_key(key: &[u8]) -> String {
    let mut sha1 = sha1_smol::Sha1::new();
    sha1.update(key);
    sha1.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(sha1.digest().bytes())
}

/// Whether a field is a list that contains `token`, in any case.
pub(crate) fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    tokens(headers, name).any(|found| found.eq_ignore_ascii_case(token))
}

/// Returns the items of a field that is a list.
pub(super) fn tokens<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'h str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455 section 1.3.
    #[test]
    fn a_key_is_answered_as_the_rfc_has_it() {
        assert_eq!(accept_key(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_key_has_sixteen_bytes_and_does_not_come_again() {
        let (one, other) = (new_key(), new_key());
        assert!(is_key(one.as_bytes()) && is_key(other.as_bytes()) && one != other);
        for bad in
            ["", "x", "dGhlIHNhbXBsZSBub25jZQ", "dGhlIHNhbXBsZSBub25j", "!!!!!!!!!!!!!!!!!!!!!!=="]
        {
            assert!(!is_key(bad.as_bytes()), "{bad:?}");
        }
    }
}
