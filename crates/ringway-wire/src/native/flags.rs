//! The flags of a frame (section 2).

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// A set of frame flags.
///
/// # Examples
///
/// ```
/// use ringway_wire::native::Flags;
///
/// let flags = Flags::END | Flags::NOMSG;
/// assert!(flags.contains(Flags::END));
/// assert_eq!(format!("{flags:?}"), "END|NOMSG");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u8);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// The sender's last frame on this stream; RESPONSE always has it.
    pub const END: Self = Self(0x01);
    /// The message continues in the next DATA or RESPONSE of the stream.
    pub const MORE: Self = Self(0x02);
    /// The frame ends in a checksum of four bytes.
    pub const CRC: Self = Self(0x04);
    /// The message that starts in this frame is compressed.
    pub const COMPRESSED: Self = Self(0x08);
    /// Attachment bytes, outside the codec, of the preceding message.
    pub const RAW: Self = Self(0x10);
    /// The metadata of this REQUEST carries the name of the method.
    pub const NAMED: Self = Self(0x20);
    /// The frame carries no message, which differs from an empty message.
    pub const NOMSG: Self = Self(0x40);
    /// The frame acknowledges a SETTINGS or a PING.
    pub const ACK: Self = Self(0x80);

    /// Makes a set from its bits; all eight bits are defined for some kind of frame.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The bits of the set, as sent on the wire.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether all of `flags` are set.
    #[inline]
    #[must_use]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any of `flags` is set.
    #[inline]
    #[must_use]
    pub const fn intersects(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// The union of both sets; unlike `|`, it works in constants.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The flags of this set without `others`.
    #[inline]
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }
}

impl BitOr for Flags {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl BitOrAssign for Flags {
    #[inline]
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (bit, name) in NAMES.iter().enumerate() {
            if self.0 & 1 << bit != 0 {
                write!(f, "{separator}{name}")?;
                separator = "|";
            }
        }
        if self.0 == 0 { f.write_str("none") } else { Ok(()) }
    }
}

/// Names of the flags, lowest bit first.
const NAMES: [&str; 8] = ["END", "MORE", "CRC", "COMPRESSED", "RAW", "NAMED", "NOMSG", "ACK"];

#[cfg(test)]
mod tests {
    use super::Flags;

    #[test]
    fn sets_contain_intersect_and_combine() {
        let both = Flags::END | Flags::CRC;
        assert_eq!(both.bits(), 0x05);
        assert_eq!(Flags::from_bits(0x05), both);
        assert!(both.contains(Flags::CRC) && both.contains(both) && both.contains(Flags::NONE));
        assert!(!Flags::END.contains(both) && both.intersects(Flags::END));
        assert!(!both.intersects(Flags::ACK | Flags::MORE));
        assert_eq!(both.without(Flags::END), Flags::CRC);
        let mut grown = Flags::NONE;
        grown |= Flags::ACK;
        assert_eq!(grown, Flags::ACK);
    }

    #[test]
    fn debug_names_the_flags() {
        assert_eq!(format!("{:?}", Flags::NONE), "none");
        assert_eq!(
            format!("{:?}", Flags::from_bits(0xff)),
            "END|MORE|CRC|COMPRESSED|RAW|NAMED|NOMSG|ACK"
        );
    }
}
