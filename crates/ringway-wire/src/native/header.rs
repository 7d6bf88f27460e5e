//! The 16-byte header of every frame (section 2).

use crate::limits::{NATIVE_REASON_MAX, NATIVE_SETTINGS_LEN_MAX};

use super::{
    CHECKSUM_LEN, Flags, FrameKind, GO_AWAY_FIXED_LEN, REQUEST_HEAD_LEN, StreamId, Violation,
};

/// Length of a frame header in bytes.
pub const HEADER_LEN: usize = 16;

/// The header of a frame.
///
/// A header returned by [`decode`](Self::decode) is consistent: its flags are allowed for its kind,
/// it names a stream exactly if the kind requires one, and the parts of the body fit its length.
/// The caller checks negotiated limits.
///
/// # Examples
///
/// ```
/// use ringway_wire::native::{Flags, FrameKind, Header, StreamId};
///
/// let header = Header {
///     len: 5,
///     kind: FrameKind::Response,
///     flags: Flags::END,
///     meta_len: 0,
///     stream: StreamId::new(0, 1),
///     aux: 0,
/// };
/// let bytes = header.encode();
/// assert_eq!(bytes, [5, 0, 0, 0, 0x11, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
/// assert_eq!(Header::decode(&bytes)?, header);
/// # Ok::<(), ringway_wire::native::Violation>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Length of the rest of the frame: request head, metadata, payload and checksum.
    pub len: u32,
    /// The kind of the frame.
    pub kind: FrameKind,
    /// The flags; the kind decides which ones are allowed.
    pub flags: Flags,
    /// Length of the metadata in bytes.
    pub meta_len: u16,
    /// The stream, or [`StreamId::CONNECTION`].
    pub stream: StreamId,
    /// A nonce, a status, a number of bytes or a number of requests, depending on the kind.
    pub aux: u32,
}

impl Header {
    /// Encodes the header for the wire.
    #[inline(always)]
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let low = u64::from(self.len)
            | u64::from(self.kind.code()) << 32
            | u64::from(self.flags.bits()) << 40
            | u64::from(self.meta_len) << 48;
        let high = u64::from(self.stream.raw()) | u64::from(self.aux) << 32;
        (u128::from(low) | u128::from(high) << 64).to_le_bytes()
    }

    /// Reads a header and checks what can be checked without knowing the connection.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownFrame`](Violation::UnknownFrame),
    /// [`UnexpectedFlags`](Violation::UnexpectedFlags), [`WrongStream`](Violation::WrongStream) or
    /// [`WrongLength`](Violation::WrongLength).
    // Every received frame is decoded here. Inlined, the header stays in registers.
    #[inline(always)]
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, Violation> {
        let whole = u128::from_le_bytes(*bytes);
        let (low, high) = (whole as u64, (whole >> 64) as u64);
        let code = (low >> 32) as u8;
        let rule = if let Some(rule) = RULES.get(usize::from(code)) {
            rule
        } else if code & SKIPPABLE != 0 {
            &UNKNOWN
        } else {
            return Err(Violation::UnknownFrame { code });
        };
        let kind = if code & SKIPPABLE == 0 { rule.kind } else { FrameKind::Unknown(code) };
        let header = Self::from_words(kind, low, high);
        // Combined with `&` so that the compiler needs one branch.
        let is_right = rule.flags_fit(header.flags)
            & rule.stream_fits(header.stream)
            & rule.len_fits(header.len, header.meta_len, header.flags);
        if is_right { Ok(header) } else { Err(wrong(kind, low, high)) }
    }

    #[inline]
    fn from_words(kind: FrameKind, low: u64, high: u64) -> Self {
        Self {
            len: low as u32,
            kind,
            flags: Flags::from_bits((low >> 40) as u8),
            meta_len: (low >> 48) as u16,
            stream: StreamId::from_raw(high as u32),
            aux: (high >> 32) as u32,
        }
    }

    /// Length of the request head: 16 for REQUEST, otherwise 0.
    #[inline]
    #[must_use]
    pub const fn head_len(&self) -> usize {
        if matches!(self.kind, FrameKind::Request) { REQUEST_HEAD_LEN } else { 0 }
    }

    /// Length of the payload between metadata and checksum.
    ///
    /// 0 if the parts do not fit [`len`](Self::len), which cannot happen to a decoded header.
    #[inline]
    #[must_use]
    pub const fn payload_len(&self) -> usize {
        let other = self.head_len() + self.meta_len as usize + crc_len(self.flags) as usize;
        (self.len as usize).saturating_sub(other)
    }
}

/// Names the violation of an invalid header. Takes words, so that the header need not be in memory.
#[cold]
fn wrong(kind: FrameKind, low: u64, high: u64) -> Violation {
    let Header { len, flags, meta_len, stream, .. } = Header::from_words(kind, low, high);
    let code = (low >> 32) as u8;
    match RULES.get(usize::from(code)) {
        Some(rule) if rule.required == NEVER => Violation::UnknownFrame { code },
        Some(rule) if !rule.flags_fit(flags) => Violation::UnexpectedFlags { kind, flags },
        Some(rule) if !rule.stream_fits(stream) => Violation::WrongStream { kind, stream },
        _ => Violation::WrongLength { kind, len, meta_len },
    }
}

/// The rules for headers of one kind.
#[derive(Clone, Copy)]
struct Rule {
    kind: FrameKind,
    /// Flags that may be set in addition to the required ones.
    optional: Flags,
    required: Flags,
    /// Flags with which the payload must be empty.
    empty_with: Flags,
    head_len: u8,
    /// Bits of `meta_len` that must be zero.
    meta_len_zero: u16,
    /// Bits of the stream id that are all zero on the connection and not all zero on a stream.
    stream_mask: u32,
    is_of_stream: bool,
    payload_max: u32,
}

impl Rule {
    #[inline]
    const fn flags_fit(&self, flags: Flags) -> bool {
        let bits = flags.bits();
        // A message to be continued can be neither the last one nor absent.
        let contradicts = (bits & Flags::MORE.bits() != 0) & (bits & MORE_EXCLUDES.bits() != 0);
        ((bits ^ self.required.bits()) & !self.optional.bits() == 0)
            & (!contradicts | (self.optional.bits() == ALL.bits()))
    }

    #[inline]
    const fn stream_fits(&self, stream: StreamId) -> bool {
        (stream.raw() & self.stream_mask != 0) == self.is_of_stream
    }

    #[inline]
    fn len_fits(&self, len: u32, meta_len: u16, flags: Flags) -> bool {
        let payload_max = if flags.intersects(self.empty_with) { 0 } else { self.payload_max };
        let other = u32::from(self.head_len) + u32::from(meta_len) + crc_len(flags);
        // Wraps to a value above any limit if the parts are longer than the body.
        let payload = u64::from(len).wrapping_sub(u64::from(other));
        (payload <= u64::from(payload_max)) & (meta_len & self.meta_len_zero == 0)
    }
}

#[inline]
const fn crc_len(flags: Flags) -> u32 {
    const { assert!(CHECKSUM_LEN as u8 == Flags::CRC.bits(), "the bit is the length") };
    (flags.bits() & Flags::CRC.bits()) as u32
}

/// The bit in a frame's number which says that receivers may skip an unknown kind.
const SKIPPABLE: u8 = 0x80;

const ALL: Flags = Flags::from_bits(0xff);
const MORE_EXCLUDES: Flags = Flags::END.union(Flags::NOMSG);

/// Optional flags of every kind that carries messages.
const MESSAGE: Flags = Flags::END.union(Flags::CRC).union(Flags::COMPRESSED).union(Flags::NOMSG);

/// Required flags that no frame can have, so that the rule never matches.
const NEVER: Flags = MORE_EXCLUDES.union(Flags::MORE);

/// The rule of a number that is not assigned.
const NOTHING: Rule = Rule { required: NEVER, optional: Flags::NONE, ..EMPTY };

/// The rule of a connection frame without body.
const EMPTY: Rule = Rule {
    kind: FrameKind::Lease,
    optional: Flags::CRC,
    required: Flags::NONE,
    empty_with: Flags::ACK,
    head_len: 0,
    meta_len_zero: u16::MAX,
    stream_mask: u32::MAX,
    is_of_stream: false,
    payload_max: 0,
};

/// The rule of a stream frame without body.
const EMPTY_OF_STREAM: Rule =
    Rule { stream_mask: StreamId::GENERATION_MASK, is_of_stream: true, ..EMPTY };

/// The rule of a stream frame with metadata and a message.
const MESSAGES: Rule = Rule {
    optional: MESSAGE,
    empty_with: Flags::NOMSG,
    meta_len_zero: 0,
    payload_max: u32::MAX,
    ..EMPTY_OF_STREAM
};

/// The rule of a kind from a later version: only its length is known, and it is skipped.
static UNKNOWN: Rule = Rule {
    optional: ALL,
    empty_with: Flags::NONE,
    stream_mask: 0,
    is_of_stream: false,
    ..MESSAGES
};

/// The rules by frame number.
static RULES: [Rule; 0x15] = {
    let mut rules = [NOTHING; 0x15];
    let acked = Flags::CRC.union(Flags::ACK);
    rules[0x01] = Rule {
        kind: FrameKind::Settings,
        optional: acked,
        payload_max: NATIVE_SETTINGS_LEN_MAX as u32,
        ..EMPTY
    };
    rules[0x02] = Rule { kind: FrameKind::Ping, optional: acked, ..EMPTY };
    rules[0x03] = Rule {
        kind: FrameKind::GoAway,
        payload_max: (GO_AWAY_FIXED_LEN + NATIVE_REASON_MAX) as u32,
        ..EMPTY
    };
    rules[0x04] = EMPTY;
    rules[0x10] = Rule {
        kind: FrameKind::Request,
        optional: MESSAGE.union(Flags::MORE).union(Flags::NAMED),
        head_len: REQUEST_HEAD_LEN as u8,
        ..MESSAGES
    };
    rules[0x11] = Rule {
        kind: FrameKind::Response,
        optional: MESSAGE.union(Flags::RAW).without(Flags::END),
        required: Flags::END,
        ..MESSAGES
    };
    rules[0x12] = Rule {
        kind: FrameKind::Data,
        optional: MESSAGE.union(Flags::MORE).union(Flags::RAW),
        ..MESSAGES
    };
    rules[0x13] = Rule { kind: FrameKind::Credit, ..EMPTY_OF_STREAM };
    rules[0x14] =
        Rule { kind: FrameKind::Rst, payload_max: NATIVE_REASON_MAX as u32, ..EMPTY_OF_STREAM };
    rules
};

#[cfg(test)]
mod tests {
    use super::{FrameKind, HEADER_LEN, Header};
    use crate::native::{Flags, StreamId, Violation};

    #[test]
    fn every_kind_round_trips_through_its_number() {
        for code in 0..=0xff {
            let known = matches!(code, 0x01..=0x04 | 0x10..=0x14 | 0x80..);
            let kind = FrameKind::from_code(code);
            assert_eq!(kind.map(FrameKind::code), known.then_some(code));
            if !known {
                let mut bytes = [0; HEADER_LEN];
                bytes[4] = code;
                assert_eq!(Header::decode(&bytes), Err(Violation::UnknownFrame { code }));
            }
        }
    }

    #[test]
    fn only_the_allowed_flags_of_each_kind_are_accepted() {
        use FrameKind::{
            Credit, Data, GoAway, Lease, Ping, Request, Response, Rst, Settings, Unknown,
        };
        // kind, allowed flags, required flags
        let rules = [
            (Settings, 0x84, 0),
            (Ping, 0x84, 0),
            (GoAway, 0x04, 0),
            (Lease, 0x04, 0),
            (Request, 0x6f, 0),
            (Response, 0x5d, 0x01),
            (Data, 0x5f, 0),
            (Credit, 0x04, 0),
            (Rst, 0x04, 0),
            (Unknown(0x80), 0xff, 0),
        ];
        for (kind, allowed, required) in rules {
            for bits in 0..=0xff_u8 {
                let header = plain(kind, Flags::from_bits(bits));
                let contradicts = bits & 0x02 != 0 && bits & 0x41 != 0;
                let valid = bits & !allowed == 0 && bits & required == required;
                let valid = valid && (!contradicts || matches!(kind, Unknown(_)));
                let expected = if valid {
                    Ok(header)
                } else {
                    Err(Violation::UnexpectedFlags { kind, flags: header.flags })
                };
                assert_eq!(Header::decode(&header.encode()), expected, "{header:?}");
            }
        }
    }

    #[test]
    fn only_stream_frames_name_a_stream() {
        use FrameKind::{Credit, Data, GoAway, Lease, Ping, Request, Response, Rst, Settings};
        for kind in [Settings, Ping, GoAway, Lease] {
            for raw in [1, 0x1000, 0x8000_0000] {
                check_stream(kind, StreamId::from_raw(raw), false);
            }
        }
        for kind in [Request, Response, Data, Credit, Rst] {
            for (raw, valid) in
                [(0, false), (0x1000, false), (0x8000_0000, false), (1, true), (0x8000_0001, true)]
            {
                check_stream(kind, StreamId::from_raw(raw), valid);
            }
        }
        check_stream(FrameKind::Unknown(0xff), StreamId::from_raw(0x1000), true);
    }

    fn check_stream(kind: FrameKind, stream: StreamId, valid: bool) {
        let header = Header { stream, ..plain(kind, required(kind)) };
        let expected =
            if valid { Ok(header) } else { Err(Violation::WrongStream { kind, stream }) };
        assert_eq!(Header::decode(&header.encode()), expected);
    }

    #[test]
    fn lengths_that_do_not_fit_the_parts_are_rejected() {
        use FrameKind::{Credit, Data, GoAway, Lease, Ping, Request, Response, Rst, Settings};
        let (none, crc, nomsg, ack) = (Flags::NONE, Flags::CRC, Flags::NOMSG, Flags::ACK);
        // kind, flags beyond the required ones, metadata, shortest and longest body
        let cases = [
            (Settings, none, 0, 0, 384),
            (Settings, crc, 0, 4, 388),
            (Settings, ack, 0, 0, 0),
            (Settings, ack | crc, 0, 4, 4),
            (Ping, none, 0, 0, 0),
            (Ping, ack, 0, 0, 0),
            (Ping, crc, 0, 4, 4),
            (GoAway, none, 0, 0, 1032),
            (Lease, none, 0, 0, 0),
            (Request, none, 0, 16, u32::MAX),
            (Request, nomsg, 0, 16, 16),
            (Request, nomsg | crc, 300, 320, 320),
            (Request, crc, 65_535, 65_555, u32::MAX),
            (Response, nomsg, 14, 14, 14),
            (Response, none, 14, 14, u32::MAX),
            (Data, none, 0, 0, u32::MAX),
            (Data, nomsg, 0, 0, 0),
            (Credit, none, 0, 0, 0),
            (Rst, none, 0, 0, 1024),
            (FrameKind::Unknown(0x99), none, 7, 7, u32::MAX),
        ];
        for (kind, extra, meta_len, min, max) in cases {
            let flags = required(kind) | extra;
            for len in [min, max, min.wrapping_sub(1), max.wrapping_add(1), 0, u32::MAX] {
                let header = Header { len, meta_len, flags, ..plain(kind, flags) };
                let expected = if (min..=max).contains(&len) {
                    Ok(header)
                } else {
                    Err(Violation::WrongLength { kind, len, meta_len })
                };
                assert_eq!(Header::decode(&header.encode()), expected, "{header:?}");
            }
        }
    }

    #[test]
    fn only_messages_have_metadata() {
        for kind in [FrameKind::Ping, FrameKind::Credit, FrameKind::Rst, FrameKind::Settings] {
            let header = Header { meta_len: 6, len: 6, ..plain(kind, Flags::NONE) };
            let error = Violation::WrongLength { kind, len: 6, meta_len: 6 };
            assert_eq!(Header::decode(&header.encode()), Err(error));
        }
    }

    #[test]
    fn the_payload_is_the_length_minus_the_other_parts() {
        let header = Header {
            len: 16 + 7 + 100 + 4,
            meta_len: 7,
            ..plain(FrameKind::Request, Flags::END | Flags::CRC)
        };
        assert_eq!((header.head_len(), header.payload_len()), (16, 100));
        let torn = Header { len: 3, ..header };
        assert_eq!(torn.payload_len(), 0);
    }

    /// The header with the shortest body that its kind and flags allow.
    fn plain(kind: FrameKind, flags: Flags) -> Header {
        let of_stream = kind.code() & 0x10 != 0;
        let stream = if of_stream { StreamId::new(7, 9) } else { StreamId::CONNECTION };
        let body = if kind == FrameKind::Request { 16 } else { 0 };
        let len = body + if flags.contains(Flags::CRC) { 4 } else { 0 };
        Header { len, kind, flags, meta_len: 0, stream, aux: 0x0102_0304 }
    }

    fn required(kind: FrameKind) -> Flags {
        if kind == FrameKind::Response { Flags::END } else { Flags::NONE }
    }
}
