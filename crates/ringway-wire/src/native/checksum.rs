//! The optional checksum at the end of a frame (section 8).

/// Length of a checksum in bytes, which the header's length includes.
pub const CHECKSUM_LEN: usize = 4;

/// CRC32C over `parts` in order: the header with its final length, then the body without the
/// checksum.
///
/// # Examples
///
/// ```
/// assert_eq!(ringway_wire::native::checksum(&[b"1234", b"56789"]), 0xe306_9283);
/// ```
#[must_use]
pub fn checksum(parts: &[&[u8]]) -> u32 {
    parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part))
}

#[cfg(test)]
mod tests {
    use super::checksum;

    /// The test vectors of RFC 3720, appendix B.4.
    #[test]
    fn the_rfc_test_vectors_match() {
        let rising: Vec<u8> = (0..32).collect();
        let cases: [(&[u8], u32); 4] =
            [(&[0; 32], 0x8a91_36aa), (&[0xff; 32], 0x62a8_ab43), (&rising, 0x46dd_794e), (b"", 0)];
        for (bytes, sum) in cases {
            assert_eq!(checksum(&[bytes]), sum);
            let (head, tail) = bytes.split_at(bytes.len() / 3);
            assert_eq!(checksum(&[head, &[], tail]), sum);
        }
    }
}
