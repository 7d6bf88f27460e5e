//! Percent encoding (RFC 3986 section 2.1), without tolerance: a stray percent sign is more likely part of a password
//! that was not encoded than a character of its own.

use super::InvalidUri;

/// Decodes `text`, which errors call `what`.
pub(super) fn decode(text: &str, what: &str) -> Result<String, InvalidUri> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = (rest.next().and_then(hex), rest.next().and_then(hex));
        let (Some(high), Some(low)) = digits else {
            let message = format!(
                "a percent sign in {what} needs two hex digits after it; write % itself as %25"
            );
            return Err(InvalidUri::new(message));
        };
        bytes.push(high << 4 | low);
    }
    String::from_utf8(bytes)
        .map_err(|_| InvalidUri::new(format!("{what} is not UTF-8 once decoded")))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn only_two_hex_digits_follow_a_percent_sign() {
        assert_eq!(decode("a%20b%2fC%c3%bc", "it").as_deref(), Ok("a b/C\u{fc}"));
        for text in ["%", "a%2", "%zz", "%2", "%%41", "%+1", "%ff"] {
            assert!(decode(text, "it").is_err(), "{text}");
        }
    }
}
