//! Checks of single header fields (RFC 9113, sections 8.2 and 8.3).

use super::Violation;
use super::blanks::without_blanks;
use super::meaning::Key;

/// Most digits of a number: no message has 10^18 bytes.
const DIGITS_MAX: usize = 18;

/// Checks the name of a field.
///
/// # Errors
///
/// Fails when no message may have a field of that name.
pub(super) fn check_name(name: &[u8]) -> Result<(), Violation> {
    let is_pseudo = name.first() == Some(&b':');
    let regular = if is_pseudo { &name[1..] } else { name };
    let is_good = regular.iter().fold(true, |good, &byte| good & NAME_BYTES[usize::from(byte)]);
    if regular.is_empty() || !is_good {
        return Err(Violation::BadFieldName);
    }
    match name {
        b":method" | b":scheme" | b":path" | b":authority" | b":status" => Ok(()),
        _ if is_pseudo => Err(Violation::BadPseudoField),
        b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => {
            Err(Violation::ConnectionField)
        }
        _ => Ok(()),
    }
}

/// Checks the value of a field with this key. What HTTP/2 itself interprets must not have blanks
/// around it; for other fields they are [left out](without_blanks).
///
/// # Errors
///
/// Fails when the field must not have that value.
#[inline]
pub(super) fn check_value(key: Key, value: &[u8]) -> Result<(), Violation> {
    let has_blanks = || without_blanks(value).len() < value.len();
    if has_control(value) || key.is_of_http2() && has_blanks() {
        return Err(Violation::BadFieldValue);
    }
    let is_status = |value: &[u8]| value.len() == 3 && number(value).is_some_and(|it| it >= 100);
    match key {
        Key::METHOD | Key::SCHEME | Key::PATH if value.is_empty() => Err(Violation::BadPseudoField),
        Key::STATUS if !is_status(value) => Err(Violation::BadPseudoField),
        // The names of transfer codings have no case (RFC 9110, section 10.1.4).
        Key::TE if !value.eq_ignore_ascii_case(b"trailers") => Err(Violation::ConnectionField),
        Key::CONTENT_LENGTH if number(value).is_none() => Err(Violation::BadContentLength),
        _ => Ok(()),
    }
}

/// Whether a value contains a forbidden byte. All of those are small, so eight bytes are checked at
/// a time.
#[inline]
fn has_control(value: &[u8]) -> bool {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let is_control = |bytes: &[u8]| bytes.iter().any(|&byte| CONTROLS[usize::from(byte)]);
    let mut eights = value.chunks_exact(8);
    let has_low = eights.by_ref().any(|eight| {
        let eight = u64::from_le_bytes(*eight.first_chunk().unwrap_or(&[0; 8]));
        let low = u64::from(b'\r') + 1;
        eight.wrapping_sub(EACH * low) & !eight & (EACH << 7) != 0
    });
    has_low && is_control(value) || is_control(eights.remainder())
}

/// Bytes allowed in a name: no upper case, no separators.
static NAME_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0x21_u8;
    while byte <= 0x7e {
        table[byte as usize] = !byte.is_ascii_uppercase() && byte != b':';
        byte += 1;
    }
    table
};

/// Bytes forbidden in a value.
static CONTROLS: [bool; 256] = {
    let mut table = [false; 256];
    table[0] = true;
    table[b'\n' as usize] = true;
    table[b'\r' as usize] = true;
    table
};

/// Parses a decimal number.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    digits.iter().try_fold(0, |sum: u64, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0'))
    })
}

/// The violations that tables store, by number.
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
    fn forbidden_names_and_values_are_rejected() {
        use Violation::*;
        for (name, value, expected) in [
            (&b"x-1_~"[..], &b"a b"[..], Ok(())),
            (b":path", b"/a", Ok(())),
            (b":authority", b"", Ok(())),
            (b":status", b"200", Ok(())),
            (b"te", b"trailers", Ok(())),
            (b"te", b"Trailers", Ok(())),
            (b"x", b"\xff\x01", Ok(())),
            (b"", b"x", Err(BadFieldName)),
            (b":", b"x", Err(BadFieldName)),
            (b"X", b"x", Err(BadFieldName)),
            (b"a b", b"x", Err(BadFieldName)),
            (b"a:b", b"x", Err(BadFieldName)),
            (b"a\x7f", b"x", Err(BadFieldName)),
            (b"x", b"a\0", Err(BadFieldValue)),
            (b"x", b"a\r\nb", Err(BadFieldValue)),
            (b"x", b" a", Ok(())),
            (b"x", b"a\t", Ok(())),
            (b":path", b"/a ", Err(BadFieldValue)),
            (b"te", b" trailers", Err(BadFieldValue)),
            (b"content-length", b"1 ", Err(BadFieldValue)),
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
            let key = match name {
                b":path" => Key::PATH,
                b":status" => Key::STATUS,
                b"te" => Key::TE,
                b"content-length" => Key::CONTENT_LENGTH,
                _ => Key::NONE,
            };
            let result = check_name(name).and_then(|()| check_value(key, value));
            assert_eq!(result, expected, "{name:?}: {value:?}");
            if let Err(violation) = expected {
                assert_eq!(fault(fault_number(violation).into()), violation);
            }
        }
    }
}
