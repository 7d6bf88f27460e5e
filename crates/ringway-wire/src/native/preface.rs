//! The preface, which each side sends first (section 1).

use super::Violation;

/// Length of a preface in bytes.
pub const PREFACE_LEN: usize = 8;

/// The magic `F7` `RWY`, with which no other protocol starts.
pub const MAGIC: [u8; 4] = [0xf7, b'R', b'W', b'Y'];

/// The major version of the protocol; peers with another one are incompatible.
pub const VERSION_MAJOR: u8 = 1;

/// The minor version of the protocol; peers with another one are compatible.
pub const VERSION_MINOR: u8 = 0;

/// The first bytes that each side sends: magic, version, and sixteen flags that are all reserved.
pub const PREFACE: [u8; PREFACE_LEN] =
    [MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3], VERSION_MAJOR, VERSION_MINOR, 0, 0];

/// Checks a peer's preface. Its minor version and the reserved flags are ignored.
///
/// # Errors
///
/// [`NotNative`](Violation::NotNative) when the magic is missing, and
/// [`WrongVersion`](Violation::WrongVersion) when the peer speaks another major version.
pub fn check_preface(bytes: &[u8; PREFACE_LEN]) -> Result<(), Violation> {
    let [magic @ .., major, _, _, _] = *bytes;
    if magic != MAGIC {
        Err(Violation::NotNative)
    } else if major != VERSION_MAJOR {
        Err(Violation::WrongVersion { major })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{PREFACE, check_preface};
    use crate::native::Violation;

    #[test]
    fn only_the_magic_and_the_major_version_must_match() {
        assert_eq!(PREFACE, *b"\xf7RWY\x01\0\0\0");
        let cases = [
            (PREFACE, Ok(())),
            (*b"\xf7RWY\x01\x09\0\0", Ok(())),
            (*b"\xf7RWY\x01\0\xff\xff", Ok(())),
            (*b"\xf7RWY\x02\0\0\0", Err(Violation::WrongVersion { major: 2 })),
            (*b"\xf7RWY\x00\0\0\0", Err(Violation::WrongVersion { major: 0 })),
            (*b"\xf7RWX\x01\0\0\0", Err(Violation::NotNative)),
            (*b"GET / HT", Err(Violation::NotNative)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(check_preface(&bytes), expected, "{bytes:?}");
        }
    }
}
