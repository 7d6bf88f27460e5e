//! Detection of a connection's protocol by its first bytes.

use crate::native;

/// Largest number of bytes that [`detect`] needs to be certain.
pub const DETECT_LEN: usize = 24;

/// The protocol of a connection, detected by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detected {
    /// More bytes are needed to be certain.
    NeedMore,
    /// The native protocol; see [`native`].
    Native,
    /// A TLS record; detect the protocol inside by ALPN or by its first bytes.
    Tls,
    /// HTTP/2 with prior knowledge.
    Http2,
    /// A request of HTTP/1.1 or an older version.
    Http1,
    /// JSON text: an object or an array, perhaps after white space.
    Json,
    /// A PROXY header of version 1 or 2. Anybody can forge one, so trust it only from peers that
    /// are configured to send it.
    Proxy,
    /// None of the known protocols.
    Unknown,
}

/// Detects a protocol by the first bytes of the side that connected.
///
/// The answer is final unless it is [`NeedMore`](Detected::NeedMore): it is never based on part of
/// a prefix. [`DETECT_LEN`] bytes always suffice.
///
/// # Examples
///
/// ```
/// use ringway_wire::{Detected, detect};
///
/// assert_eq!(detect(b"P"), Detected::NeedMore);
/// assert_eq!(detect(b"POST / HTTP/1.1"), Detected::Http1);
/// assert_eq!(detect(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Detected::Http2);
/// ```
#[must_use]
pub fn detect(first_bytes: &[u8]) -> Detected {
    let mut is_prefix = false;
    for (prefix, protocol) in PREFIXES {
        if first_bytes.starts_with(prefix) {
            return *protocol;
        }
        is_prefix |= prefix.starts_with(first_bytes);
    }
    if is_prefix { Detected::NeedMore } else { detect_text(first_bytes) }
}

/// Tells a request from JSON. Empty lines may precede both. RFC 9112, section 2.2: "a server that is expecting to receive and
/// parse a request-line SHOULD ignore at least one empty line (CRLF) received prior to the request-line".
fn detect_text(first_bytes: &[u8]) -> Detected {
    let is_certain = first_bytes.len() >= DETECT_LEN;
    let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let Some(start) = first_bytes.iter().position(|byte| !is_line_end(byte)) else {
        return if is_certain { Detected::Json } else { Detected::NeedMore };
    };
    let text = &first_bytes[start..];
    if matches!(text[0], b'{' | b'[' | b' ' | b'\t') || text.starts_with(BYTE_ORDER_MARK) {
        return Detected::Json;
    }
    if BYTE_ORDER_MARK.starts_with(text) && !is_certain {
        return Detected::NeedMore;
    }
    // A program may serve methods of its own, and whoever sends a wrong one is told so.
    match text.iter().position(|byte| !is_of_token(*byte)) {
        Some(end) if end > 0 && text[end] == b' ' => Detected::Http1,
        None if !is_certain => Detected::NeedMore,
        _ => Detected::Unknown,
    }
}

/// Whether a byte may be in a token, such as a method (RFC 9110, section 5.6.2).
fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// What some programs write before a text of JSON.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The prefixes of protocols; none starts with another.
const PREFIXES: &[(&[u8], Detected)] = &[
    (&native::MAGIC, Detected::Native),
    (b"\x16\x03", Detected::Tls),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Detected::Http2),
    (b"PROXY ", Detected::Proxy),
    (b"\r\n\r\n\0", Detected::Proxy),
];

/// Checks prefixes of `data` of every length: the answer is certain in time, and does not change.
pub fn fuzz(data: &[u8]) {
    let mut last = Detected::NeedMore;
    for len in 0..=data.len() {
        let answer = detect(&data[..len]);
        assert!(last == Detected::NeedMore || answer == last, "{last:?}, then {answer:?}");
        assert!(answer != Detected::NeedMore || len < DETECT_LEN);
        last = answer;
    }
}

#[cfg(test)]
mod tests {
    use super::{DETECT_LEN, Detected, PREFIXES, detect};

    #[test]
    fn a_prefix_is_detected_only_when_complete() {
        for (prefix, protocol) in PREFIXES {
            for len in 0..prefix.len() {
                assert_eq!(detect(&prefix[..len]), Detected::NeedMore, "{:?}", &prefix[..len]);
            }
            assert_eq!(detect(prefix), *protocol);
            assert_eq!(detect(&[prefix, &b"rest"[..]].concat()), *protocol);
            assert!(prefix.len() <= DETECT_LEN);
        }
    }

    #[test]
    fn a_wrong_byte_is_detected_at_once() {
        for (prefix, _) in PREFIXES {
            for at in 0..prefix.len() {
                let mut bytes = prefix[..=at].to_vec();
                bytes[at] = 0xee;
                // By then it may be a request with the method PRI.
                let is_request = bytes.starts_with(b"PRI ");
                let expected = if is_request { Detected::Http1 } else { Detected::Unknown };
                assert_eq!(detect(&bytes), expected, "{bytes:?}");
            }
        }
    }

    #[test]
    fn json_and_unknown_protocols_are_detected() {
        let empty_lines = "\n".repeat(DETECT_LEN);
        for text in
            ["{", "[1]", " {", "\t", "\n[", "\r{", "\r\n{", "\n ", "\u{feff}", &*empty_lines]
        {
            assert_eq!(detect(text.as_bytes()), Detected::Json, "{text:?}");
        }
        // The last one is a record of SSL 2.
        for bytes in [
            &b"\0"[..],
            b"\xf7RWX",
            b"SSH-2.0-OpenSSH_9.6\r\n",
            b"PING\r\n",
            b"\"json\"",
            b"ALongWordWithoutAnyBlanks",
            b"\x80\x2e\x01\x03\x01",
        ] {
            assert_eq!(detect(bytes), Detected::Unknown, "{bytes:?}");
        }
        for partial in ["\r", "\n\n", "\r\nG", "get", "SSH-2.0", "PRI"] {
            assert_eq!(detect(partial.as_bytes()), Detected::NeedMore, "{partial:?}");
        }
        for partial in [&b"\xef"[..], b"\n\xef\xbb"] {
            assert_eq!(detect(partial), Detected::NeedMore, "{partial:?}");
        }
    }

    #[test]
    fn a_request_may_have_any_method_and_an_empty_line_before_it() {
        for request in [
            "GET /",
            "POST /",
            "\r\nGET /",
            "\nGET /",
            "\r\n\r\nGET /",
            "PROPFIND /",
            "UPDATEREDIRECTREF /",
            "get /",
            "M-SEARCH *",
            "PRI / HTTP/1.1",
            "PROXIED /",
        ] {
            assert_eq!(detect(request.as_bytes()), Detected::Http1, "{request:?}");
        }
    }
}
