//! Which fields may be in a message at all (RFC 9113, sections 8.2 and 8.3).

use super::Violation;

/// Digits of a number that are read: no message has 10^18 bytes.
const DIGITS_MAX: usize = 18;

/// Checks a field by itself.
///
/// # Errors
///
/// When no message may have it.
pub(super) fn check(name: &[u8], value: &[u8]) -> Result<(), Violation> {
    let is_pseudo = name.first() == Some(&b':');
    let regular = if is_pseudo { &name[1..] } else { name };
    if regular.is_empty() || !regular.iter().all(|&byte| is_name_byte(byte)) {
        return Err(Violation::BadFieldName);
    }
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let has_control = value.iter().any(|byte| matches!(byte, 0 | b'\n' | b'\r'));
    if has_control || is_blank(value.first()) || is_blank(value.last()) {
        return Err(Violation::BadFieldValue);
    }
    if is_pseudo { check_pseudo(name, value) } else { check_regular(name, value) }
}

fn check_pseudo(name: &[u8], value: &[u8]) -> Result<(), Violation> {
    let is_good = match name {
        b":method" | b":scheme" | b":path" => !value.is_empty(),
        b":authority" => true,
        b":status" => value.len() == 3 && number(value).is_some_and(|status| status >= 100),
        _ => false,
    };
    if is_good { Ok(()) } else { Err(Violation::BadPseudoField) }
}

fn check_regular(name: &[u8], value: &[u8]) -> Result<(), Violation> {
    match name {
        b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => {
            Err(Violation::ConnectionField)
        }
        b"te" if value != b"trailers" => Err(Violation::ConnectionField),
        b"content-length" if number(value).is_none() => Err(Violation::BadContentLength),
        _ => Ok(()),
    }
}

/// Not above the letters: neither capitals, nor signs that end a name elsewhere.
fn is_name_byte(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e) && !byte.is_ascii_uppercase() && byte != b':'
}

/// A number of decimal digits.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    digits.iter().try_fold(0, |sum: u64, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0'))
    })
}

/// Faults as they are kept in tables.
const FAULTS: [Violation; 5] = [
    Violation::BadFieldName,
    Violation::BadFieldValue,
    Violation::ConnectionField,
    Violation::BadPseudoField,
    Violation::BadContentLength,
];

pub(super) fn fault_number(violation: Violation) -> u8 {
    FAULTS.iter().position(|&fault| fault == violation).unwrap_or_default() as u8
}

pub(super) fn fault(number: u64) -> Violation {
    FAULTS[number as usize % FAULTS.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_no_message_may_have() {
        use Violation::*;
        for (name, value, expected) in [
            (&b"x-1_~"[..], &b"a b"[..], Ok(())),
            (b":path", b"/a", Ok(())),
            (b":authority", b"", Ok(())),
            (b":status", b"200", Ok(())),
            (b"te", b"trailers", Ok(())),
            (b"x", b"\xff\x01", Ok(())),
            (b"", b"x", Err(BadFieldName)),
            (b":", b"x", Err(BadFieldName)),
            (b"X", b"x", Err(BadFieldName)),
            (b"a b", b"x", Err(BadFieldName)),
            (b"a:b", b"x", Err(BadFieldName)),
            (b"a\x7f", b"x", Err(BadFieldName)),
            (b"x", b"a\0", Err(BadFieldValue)),
            (b"x", b"a\r\nb", Err(BadFieldValue)),
            (b"x", b" a", Err(BadFieldValue)),
            (b"x", b"a\t", Err(BadFieldValue)),
            (b":path", b"", Err(BadPseudoField)),
            (b":protocol", b"websocket", Err(BadPseudoField)),
            (b":status", b"2000", Err(BadPseudoField)),
            (b":status", b"099", Err(BadPseudoField)),
            (b"connection", b"close", Err(ConnectionField)),
            (b"transfer-encoding", b"chunked", Err(ConnectionField)),
            (b"te", b"gzip", Err(ConnectionField)),
            (b"content-length", b"-1", Err(BadContentLength)),
            (b"content-length", b"1000000000000000000", Err(BadContentLength)),
        ] {
            assert_eq!(check(name, value), expected, "{name:?}: {value:?}");
            if let Err(violation) = expected {
                assert_eq!(fault(fault_number(violation).into()), violation);
            }
        }
    }
}
