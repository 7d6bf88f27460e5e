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
    match first_bytes.first() {
        _ if is_prefix => Detected::NeedMore,
        Some(b'{' | b'[' | b' ' | b'\t' | b'\n' | b'\r') => Detected::Json,
        _ => Detected::Unknown,
    }
}

/// The prefixes of protocols; none starts with another. The methods are those of RFC 9110 and RFC
/// 5789.
const PREFIXES: &[(&[u8], Detected)] = &[
    (&native::MAGIC, Detected::Native),
    (b"\x16\x03", Detected::Tls),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Detected::Http2),
    (b"GET ", Detected::Http1),
    (b"POST ", Detected::Http1),
    (b"HEAD ", Detected::Http1),
    (b"OPTIONS ", Detected::Http1),
    (b"PUT ", Detected::Http1),
    (b"PATCH ", Detected::Http1),
    (b"DELETE ", Detected::Http1),
    (b"CONNECT ", Detected::Http1),
    (b"TRACE ", Detected::Http1),
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
                let json = bytes[0] == b'\r';
                let expected = if json { Detected::Json } else { Detected::Unknown };
                assert_eq!(detect(&bytes), expected, "{bytes:?}");
            }
        }
    }

    #[test]
    fn json_and_unknown_protocols_are_detected() {
        for text in ["{", "[1]", " {", "\t", "\n[", "\r{", "\r\n{", "\r\n\r\n{"] {
            assert_eq!(detect(text.as_bytes()), Detected::Json, "{text:?}");
        }
        // The last three: an HTTP/1 request that pretends to be HTTP/2, a method in lower case,
        // and a record of SSL 2.
        for bytes in [
            &b"\0"[..],
            b"\xf7RWX",
            b"SSH-2.0",
            b"\"json\"",
            b"PRI / HTTP/1.1",
            b"get /",
            b"\x80\x2e\x01\x03\x01",
        ] {
            assert_eq!(detect(bytes), Detected::Unknown, "{bytes:?}");
        }
    }
}
