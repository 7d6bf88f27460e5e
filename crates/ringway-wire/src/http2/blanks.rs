//! Blanks around the values of fields.

/// A value without the blanks around it. They make a message malformed (section 8.2.1), but gRPC's
/// own stacks send them in metadata and status messages, and gRPC forbids to fail for that
/// (PROTOCOL-HTTP2.md, "Custom-Metadata").
#[inline]
pub(super) fn without_blanks(value: &[u8]) -> &[u8] {
    match (value.first(), value.last()) {
        (Some(b' ' | b'\t'), _) | (_, Some(b' ' | b'\t')) => trimmed(value),
        _ => value,
    }
}

#[cold]
fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::without_blanks;

    #[test]
    fn blanks_around_a_value_are_left_out() {
        for (value, expected) in [
            (&b"a b"[..], &b"a b"[..]),
            (b" a b", b"a b"),
            (b"a b \t ", b"a b"),
            (b"\t", b""),
            (b"", b""),
        ] {
            assert_eq!(without_blanks(value), expected, "{value:?}");
        }
    }
}
