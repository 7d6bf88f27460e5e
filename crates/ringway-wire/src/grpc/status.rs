//! Statuses of calls, and their mapping from other outcomes (statuscodes.md,
//! http-grpc-status-mapping.md and PROTOCOL-HTTP2.md of gRPC).

use crate::http2::ErrorCode;

/// The statuses used in the tables below.
pub(super) mod code {
    pub(in crate::grpc) const OK: u8 = 0;
    pub(in crate::grpc) const CANCELLED: u8 = 1;
    pub(in crate::grpc) const UNKNOWN: u8 = 2;
    pub(in crate::grpc) const PERMISSION_DENIED: u8 = 7;
    pub(in crate::grpc) const RESOURCE_EXHAUSTED: u8 = 8;
    pub(in crate::grpc) const UNIMPLEMENTED: u8 = 12;
    pub(in crate::grpc) const INTERNAL: u8 = 13;
    pub(in crate::grpc) const UNAVAILABLE: u8 = 14;
    pub(in crate::grpc) const UNAUTHENTICATED: u8 = 16;
}

/// Parses a `grpc-status` field, 0 to 16. Other values are read as UNKNOWN.
#[must_use]
pub fn parse_status(value: &[u8]) -> u8 {
    match value {
        [digit @ b'0'..=b'9'] => digit - b'0',
        [b'1', digit @ b'0'..=b'6'] => 10 + digit - b'0',
        _ => code::UNKNOWN,
    }
}

/// Formats a status for a `grpc-status` field.
#[must_use]
pub fn status_text(status: u8) -> &'static [u8] {
    const TEXTS: [&[u8]; 17] = [
        b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"9", b"10", b"11", b"12", b"13",
        b"14", b"15", b"16",
    ];
    TEXTS.get(usize::from(status)).copied().unwrap_or(TEXTS[usize::from(code::UNKNOWN)])
}

/// The status of a response without `grpc-status`, by its HTTP status.
#[must_use]
pub fn status_of_http(http: u64) -> u8 {
    match http {
        400 => code::INTERNAL,
        401 => code::UNAUTHENTICATED,
        403 => code::PERMISSION_DENIED,
        404 => code::UNIMPLEMENTED,
        429 | 502 | 503 | 504 => code::UNAVAILABLE,
        _ => code::UNKNOWN,
    }
}

/// The status of a call whose stream was reset; a refused call was not executed.
#[must_use]
pub fn status_of_reset(error: ErrorCode) -> u8 {
    match error {
        ErrorCode::REFUSED_STREAM => code::UNAVAILABLE,
        ErrorCode::CANCEL => code::CANCELLED,
        ErrorCode::ENHANCE_YOUR_CALM => code::RESOURCE_EXHAUSTED,
        ErrorCode::INADEQUATE_SECURITY => code::PERMISSION_DENIED,
        _ => code::INTERNAL,
    }
}

/// Appends a status message as encoded in `grpc-message`: `%` and everything but printable ASCII
/// become percent-encoded UTF-8.
pub fn put_status_message(message: &str, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let last = message.len().saturating_sub(1);
    for (at, &byte) in message.as_bytes().iter().enumerate() {
        // A field must not start or end with a blank (RFC 9113, section 8.2.1).
        let is_outer_blank = byte == b' ' && (at == 0 || at == last);
        if matches!(byte, b' '..=b'~') && byte != b'%' && !is_outer_blank {
            out.push(byte);
            continue;
        }
        let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
        out.extend_from_slice(&[b'%', DIGITS[high], DIGITS[low]]);
    }
}

/// Length in bytes of a character in a `grpc-message`, where it may stand at either end.
pub(super) fn encoded_len(char: char) -> usize {
    match char {
        '%' | ' ' => 3,
        '!'..='~' => 1,
        _ => 3 * char.len_utf8(),
    }
}

/// Decodes a `grpc-message` field. Malformed percent-encoding is kept and invalid UTF-8 replaced,
/// because even a part of a message helps its reader.
#[must_use]
pub fn parse_status_message(value: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        let digit = |at: usize| behind.get(at).and_then(|&d| char::from(d).to_digit(16));
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &behind[2..];
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_round_trip_and_others_read_as_unknown() {
        for status in 0..=16 {
            assert_eq!(parse_status(status_text(status)), status);
        }
        for unknown in [&b""[..], b"17", b"-1", b"00", b"1x", b"200"] {
            assert_eq!(parse_status(unknown), 2, "{unknown:?}");
        }
        assert_eq!(status_text(99), b"2");
    }

    #[test]
    fn outcomes_without_a_status_are_mapped_by_the_tables() {
        let http = [200, 400, 401, 403, 404, 429, 431, 500, 502, 503, 504].map(status_of_http);
        assert_eq!(http, [2, 13, 16, 7, 12, 14, 2, 2, 14, 14, 14]);
        let resets: Vec<u8> = (0..=14).map(|code| status_of_reset(ErrorCode(code))).collect();
        assert_eq!(resets, [13, 13, 13, 13, 13, 13, 13, 14, 1, 13, 13, 8, 7, 13, 13]);
    }

    #[test]
    fn messages_are_percent_encoded() {
        for (message, encoded) in [
            ("", ""),
            ("plain text!", "plain text!"),
            ("50%", "50%25"),
            ("a\nb\0", "a%0Ab%00"),
            ("é€", "%C3%A9%E2%82%AC"),
            (" ", "%20"),
            ("  ", "%20%20"),
            (" a ", "%20a%20"),
            (" % é", "%20%25 %C3%A9"),
        ] {
            let mut out = b"before".to_vec();
            put_status_message(message, &mut out);
            assert_eq!(&out[6..], encoded.as_bytes(), "{message:?}");
            assert_eq!(parse_status_message(encoded.as_bytes()), message);
        }
        for (encoded, message) in [("%", "%"), ("%4", "%4"), ("%zz", "%zz"), ("%FF", "\u{fffd}")] {
            assert_eq!(parse_status_message(encoded.as_bytes()), message);
        }
    }
}
