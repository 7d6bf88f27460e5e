//! Metadata: names, and the base64 values of `-bin` names (PROTOCOL-HTTP2.md of gRPC).

use base64::alphabet::STANDARD;
use base64::encoded_len;
use base64::engine::{DecodePaddingMode, Engine as _, GeneralPurpose, GeneralPurposeConfig};

use crate::http2::{Fields, field_size};

/// The standard alphabet. Padding is looked at before, because a text may leave it out.
static BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// Whether the values of a name are bytes, which are base64 on the wire.
#[inline]
#[must_use]
pub fn is_binary(name: &[u8]) -> bool {
    name.ends_with(b"-bin")
}

/// Whether a name may be metadata of an application: lower case letters, digits, `_`, `-` and `.`,
/// and not a name that the protocol uses itself.
#[must_use]
pub fn is_metadata_name(name: &[u8]) -> bool {
    let is_legal = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.');
    !name.is_empty() && name.iter().all(is_legal) && !is_reserved(name)
}

/// Whether a name is one that the protocol uses itself.
#[must_use]
pub fn is_reserved(name: &[u8]) -> bool {
    const RESERVED: [&[u8]; 10] = [
        b"content-type",
        b"te",
        b"user-agent",
        b"host",
        b"content-length",
        b"connection",
        b"proxy-connection",
        b"keep-alive",
        b"transfer-encoding",
        b"upgrade",
    ];
    name.starts_with(b"grpc-") || name.starts_with(b"ringway-") || RESERVED.contains(&name)
}

/// Whether a text may be the value of a name that does not end in `-bin`: printable ASCII without a
/// blank at either end.
#[must_use]
pub fn is_ascii_value(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| byte == Some(&b' ');
    value.iter().all(|byte| matches!(byte, b' '..=b'~'))
        && !is_blank(value.first())
        && !is_blank(value.last())
}

/// Appends `bytes` in base64 without padding.
pub fn put_base64(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let len = encoded_len(bytes.len(), false).expect("shorter than memory");
    out.resize(start + len, 0);
    let _len = BASE64.encode_slice(bytes, &mut out[start..]).expect("as long as it says");
}

/// Appends the bytes that `text` encodes, with or without padding; `false` if it is not base64, and
/// nothing is appended.
pub fn parse_base64(text: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let unpadded = match text {
        [rest @ .., b'=', b'='] | [rest @ .., b'='] => rest,
        _ => text,
    };
    let is_padded = unpadded.len() < text.len();
    let is_whole = !is_padded || text.len().is_multiple_of(4);
    let is_good = is_whole && BASE64.decode_vec(unpadded, out).is_ok();
    if !is_good {
        out.truncate(start);
    }
    is_good
}

/// The values of a `-bin` field, which may be several, each in base64, joined by commas.
pub fn binary_values(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

/// The rest of the limit on a message's fields, for values that share a field: each becomes an
/// entry with a copy of the name, so it counts as a field of its own.
#[derive(Debug)]
pub struct ValueRoom(usize);

impl ValueRoom {
    /// Room for values of so many bytes, with the name and 32 bytes added for each.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self(bytes)
    }

    pub(super) fn of(fields: &Fields) -> Self {
        Self::new(fields.room_left())
    }

    /// Whether the values of this field fit, in addition to those before.
    pub fn has_for(&mut self, name: &[u8], value: &[u8]) -> bool {
        let more = value.iter().filter(|&&byte| byte == b',').count();
        match self.0.checked_sub(more * field_size(name.len(), 0)) {
            Some(left) => self.0 = left,
            None => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_round_trips_with_and_without_padding() {
        for (bytes, text, padded) in [
            (&b""[..], "", ""),
            (b"f", "Zg", "Zg=="),
            (b"fo", "Zm8", "Zm8="),
            (b"foo", "Zm9v", "Zm9v"),
            (b"foob", "Zm9vYg", "Zm9vYg=="),
            (b"\xff\xfe\xfd", "//79", "//79"),
            (b"\xfb", "+w", "+w=="),
        ] {
            let mut out = Vec::new();
            put_base64(bytes, &mut out);
            assert_eq!(out, text.as_bytes());
            for text in [text, padded] {
                let mut out = b"x".to_vec();
                assert!(parse_base64(text.as_bytes(), &mut out), "{text}");
                assert_eq!(&out[1..], bytes, "{text}");
            }
        }
        for wrong in
            ["A", "=", "A=", "A===", "Zg=", "Zm9vY", "Zm9v====", "Z g=", "Zg==Zg==", "Z-_w"]
        {
            let mut out = b"x".to_vec();
            assert!(!parse_base64(wrong.as_bytes(), &mut out), "{wrong}");
            assert_eq!(out, b"x");
        }
    }

    #[test]
    fn values_are_joined_by_commas() {
        let values: Vec<_> = binary_values(b"Zg==, Zm8,Zm9v").collect();
        assert_eq!(values, [&b"Zg=="[..], b"Zm8", b"Zm9v"]);
    }

    #[test]
    fn names_of_the_protocol_are_not_metadata() {
        for (name, is_good) in [
            (&b"x-request.id_1"[..], true),
            (b"authorization", true),
            (b"trace-bin", true),
            (b"", false),
            (b"Upper", false),
            (b"a b", false),
            (b":path", false),
            (b"grpc-timeout", false),
            (b"grpc-anything", false),
            (b"ringway-x", false),
            (b"te", false),
            (b"content-type", false),
        ] {
            assert_eq!(is_metadata_name(name), is_good, "{name:?}");
        }
        assert!(is_binary(b"x-bin") && !is_binary(b"binary"));
        assert!(is_ascii_value(b"a b~") && is_ascii_value(b""));
        assert!(!is_ascii_value(b" a") && !is_ascii_value(b"a ") && !is_ascii_value(b"\xc3"));
    }
}
