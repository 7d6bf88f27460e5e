//! Stream ids (section 7).

use std::fmt;

/// The id of a stream in its connection: a slot, and the generation that counts its uses.
///
/// Bit 31 tells who opened the stream (0: the side that connected), bits 30–12 hold the slot, bits
/// 11–0 the generation. Generations start at 1, so that the id 0 is the connection itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(u32);

impl StreamId {
    /// The connection as a whole.
    pub const CONNECTION: Self = Self(0);

    /// Number of slots that an id can express: 2^19.
    pub const SLOTS: u32 = 1 << 19;

    /// The generation of a slot's first use.
    pub const GENERATION_FIRST: u16 = 1;

    /// The mask of the bits that hold the generation.
    pub(crate) const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

    /// The id of the `generation`-th use of `slot`, for a stream opened by the side that connected.
    ///
    /// # Panics
    ///
    /// Panics when `slot` is not below [`SLOTS`](Self::SLOTS) or `generation` is not within 1 to
    /// 4,095: the caller chooses both, never a peer.
    #[inline]
    #[must_use]
    pub const fn new(slot: u32, generation: u16) -> Self {
        assert!(slot < Self::SLOTS, "a slot has 19 bits");
        assert!(generation != 0 && generation <= Self::GENERATION_MASK as u16, "1 to 4,095");
        Self(slot << GENERATION_BITS | generation as u32)
    }

    /// The id with these bits, which may be invalid; see [`is_valid`](Self::is_valid).
    #[inline]
    #[must_use]
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// The bits of the id, as sent on the wire.
    #[inline]
    #[must_use]
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// The slot, an index into tables of streams.
    #[inline]
    #[must_use]
    pub const fn slot(self) -> u32 {
        (self.0 & !ACCEPTOR) >> GENERATION_BITS
    }

    /// The generation, which counts the uses of the slot from 1 to 4,095 and then from 1 again.
    #[inline]
    #[must_use]
    pub const fn generation(self) -> u16 {
        (self.0 & Self::GENERATION_MASK) as u16
    }

    /// Whether the side that accepted the connection opened the stream.
    #[inline]
    #[must_use]
    pub const fn is_from_acceptor(self) -> bool {
        self.0 & ACCEPTOR != 0
    }

    /// Whether this id can belong to a stream: its generation is not 0.
    #[inline]
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.0 & Self::GENERATION_MASK != 0
    }

    /// The id of the slot's next use. Generation 4,095 is followed by 1.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        let generation = self.0 & Self::GENERATION_MASK;
        let next = if generation == Self::GENERATION_MASK { 1 } else { generation + 1 };
        Self(self.0 & !Self::GENERATION_MASK | next)
    }

    /// The id of the slot's previous use, the inverse of [`next`](Self::next).
    #[must_use]
    pub(super) const fn previous(self) -> Self {
        let generation = self.0 & Self::GENERATION_MASK;
        let previous = if generation <= 1 { Self::GENERATION_MASK } else { generation - 1 };
        Self(self.0 & !Self::GENERATION_MASK | previous)
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("connection");
        }
        let side = if self.is_from_acceptor() { "acceptor's " } else { "" };
        write!(f, "{side}slot {} generation {}", self.slot(), self.generation())
    }
}

const GENERATION_BITS: u32 = 12;
const ACCEPTOR: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::StreamId;

    #[test]
    fn slot_and_generation_are_encoded_in_their_bits() {
        for (slot, generation, raw) in
            [(0, 1, 1), (0, 2, 2), (1, 1, 0x1001), (0x7ffff, 0xfff, 0x7fff_ffff)]
        {
            let stream = StreamId::new(slot, generation);
            assert_eq!(stream.raw(), raw);
            assert_eq!((stream.slot(), stream.generation()), (slot, generation));
            assert_eq!(StreamId::from_raw(raw), stream);
            assert!(stream.is_valid() && !stream.is_from_acceptor());
        }
        let back = StreamId::from_raw(0x8000_2003);
        assert_eq!((back.slot(), back.generation()), (2, 3));
        assert!(back.is_from_acceptor());
    }

    #[test]
    fn generations_skip_zero() {
        assert_eq!(StreamId::new(5, 1).next(), StreamId::new(5, 2));
        assert_eq!(StreamId::new(5, 4095).next(), StreamId::new(5, 1));
        for generation in [1, 2, 4094, 4095] {
            let id = StreamId::new(5, generation);
            assert_eq!((id.next().previous(), id.previous().next()), (id, id));
        }
        assert!(!StreamId::from_raw(0x5000).is_valid());
        assert!(!StreamId::CONNECTION.is_valid());
    }

    #[test]
    fn ids_print_their_parts() {
        assert_eq!(StreamId::CONNECTION.to_string(), "connection");
        assert_eq!(StreamId::new(3, 2).to_string(), "slot 3 generation 2");
        assert_eq!(StreamId::from_raw(0x8000_0001).to_string(), "acceptor's slot 0 generation 1");
    }
}
