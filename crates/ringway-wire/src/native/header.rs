//! The 16 bytes in front of every frame (section 2).

use crate::limits::{NATIVE_REASON_MAX, NATIVE_SETTINGS_LEN_MAX};

use super::{CHECKSUM_LEN, Flags, REQUEST_HEAD_LEN, StreamId, Violation};

/// Bytes of a frame header.
pub const HEADER_LEN: usize = 16;

/// What a frame is; the number on the wire stands beside each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// `01`: what its sender accepts, or the ACK of that.
    Settings,
    /// `02`: a nonce to return; the ACK returns it.
    Ping,
    /// `03`: the connection is about to end.
    GoAway,
    /// `04`: how many requests may be in flight.
    Lease,
    /// `10`: opens a stream.
    Request,
    /// `11`: ends a stream.
    Response,
    /// `12`: a message of a stream, or a fragment of one.
    Data,
    /// `13`: more bytes may be sent on a stream.
    Credit,
    /// `14`: the initiator gives a stream up.
    Rst,
    /// A kind of a later version that may be skipped: its high bit is set.
    Unknown(u8),
}

/// The header of a frame.
///
/// A header made by [`decode`](Self::decode) is consistent: the flags belong to the kind, the
/// stream is one exactly when the kind needs it, and the parts of the body fit its length.
/// Limits that were negotiated are the caller's to check.
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
    /// Bytes that follow the header: request head, metadata, payload and checksum.
    pub len: u32,
    /// What the frame is.
    pub kind: FrameKind,
    /// The flags; which ones make sense depends on the kind.
    pub flags: Flags,
    /// Bytes of metadata.
    pub meta_len: u16,
    /// The stream, or [`StreamId::CONNECTION`].
    pub stream: StreamId,
    /// By kind: a nonce, a status, a number of bytes or of requests.
    pub aux: u32,
}

impl Header {
    /// The header as it goes on the wire.
    #[inline]
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let low = u64::from(self.len)
            | u64::from(self.kind.code()) << 32
            | u64::from(self.flags.bits()) << 40
            | u64::from(self.meta_len) << 48;
        let high = u64::from(self.stream.raw()) | u64::from(self.aux) << 32;
        (u128::from(low) | u128::from(high) << 64).to_le_bytes()
    }

    /// Reads a header and checks whatever can be checked without knowing the connection.
    ///
    /// # Errors
    ///
    /// [`UnknownFrame`](Violation::UnknownFrame), [`UnexpectedFlags`](Violation::UnexpectedFlags),
    /// [`WrongStream`](Violation::WrongStream), [`WrongLength`](Violation::WrongLength).
    #[inline]
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, Violation> {
        let whole = u128::from_le_bytes(*bytes);
        let (low, high) = (whole as u64, (whole >> 64) as u64);
        let code = (low >> 32) as u8;
        let Some(kind) = FrameKind::from_code(code) else {
            return Err(Violation::UnknownFrame { code });
        };
        let header = Self {
            len: low as u32,
            kind,
            flags: Flags::from_bits((low >> 40) as u8),
            meta_len: (low >> 48) as u16,
            stream: StreamId::from_raw(high as u32),
            aux: (high >> 32) as u32,
        };
        if header.is_consistent() { Ok(header) } else { Err(header.inconsistency()) }
    }

    /// Bytes of request head: 16 on REQUEST, otherwise none.
    #[inline]
    #[must_use]
    pub fn head_len(&self) -> usize {
        usize::from(self.kind.rule().head_len)
    }

    /// Bytes between metadata and checksum.
    ///
    /// 0 where the parts do not fit [`len`](Self::len), which no decoded header is.
    #[inline]
    #[must_use]
    pub fn payload_len(&self) -> usize {
        (self.len as usize).saturating_sub(self.overhead() as usize)
    }

    /// Bytes of the body that are no payload.
    #[inline]
    fn overhead(&self) -> u32 {
        let crc_len = if self.flags.contains(Flags::CRC) { CHECKSUM_LEN as u32 } else { 0 };
        u32::from(self.kind.rule().head_len) + u32::from(self.meta_len) + crc_len
    }

    // Conditions are joined by `&`, so that the common case costs one branch.
    #[inline]
    fn is_consistent(&self) -> bool {
        let rule = self.kind.rule();
        self.has_right_flags(rule) & self.has_right_stream(rule) & self.has_right_len(rule)
    }

    #[inline]
    fn has_right_flags(&self, rule: &Rule) -> bool {
        let flags = self.flags;
        let contradicts = flags.contains(Flags::MORE) & flags.intersects(rule.not_with_more);
        flags.contains(rule.required) & rule.allowed.contains(flags) & !contradicts
    }

    #[inline]
    fn has_right_stream(&self, rule: &Rule) -> bool {
        match rule.scope {
            Scope::Connection => self.stream == StreamId::CONNECTION,
            Scope::Stream => self.stream.is_valid(),
            Scope::Any => true,
        }
    }

    #[inline]
    fn has_right_len(&self, rule: &Rule) -> bool {
        let is_empty = self.flags.intersects(rule.empty_with);
        let (min, max) = if is_empty { (0, 0) } else { (rule.payload_min, rule.payload_max) };
        // Wraps to a value above any limit when the parts are longer than the body.
        let payload = u64::from(self.len).wrapping_sub(u64::from(self.overhead()));
        (self.meta_len <= rule.meta_len_max)
            & (payload >= u64::from(min))
            & (payload <= u64::from(max))
    }

    #[cold]
    fn inconsistency(&self) -> Violation {
        let rule = self.kind.rule();
        if !self.has_right_flags(rule) {
            Violation::UnexpectedFlags { kind: self.kind, flags: self.flags }
        } else if !self.has_right_stream(rule) {
            Violation::WrongStream { kind: self.kind, stream: self.stream }
        } else {
            Violation::WrongLength { kind: self.kind, len: self.len, meta_len: self.meta_len }
        }
    }
}

impl FrameKind {
    /// The number on the wire.
    #[inline]
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Settings => 0x01,
            Self::Ping => 0x02,
            Self::GoAway => 0x03,
            Self::Lease => 0x04,
            Self::Request => 0x10,
            Self::Response => 0x11,
            Self::Data => 0x12,
            Self::Credit => 0x13,
            Self::Rst => 0x14,
            Self::Unknown(code) => code,
        }
    }

    /// The kind with this number; `None` where an unknown one must not be skipped.
    #[inline]
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x01 => Self::Settings,
            0x02 => Self::Ping,
            0x03 => Self::GoAway,
            0x04 => Self::Lease,
            0x10 => Self::Request,
            0x11 => Self::Response,
            0x12 => Self::Data,
            0x13 => Self::Credit,
            0x14 => Self::Rst,
            0x80.. => Self::Unknown(code),
            _ => return None,
        })
    }

    #[inline]
    const fn rule(self) -> &'static Rule {
        match self {
            Self::Settings => &SETTINGS,
            Self::Ping => &PING,
            Self::GoAway => &GO_AWAY,
            Self::Lease => &LEASE,
            Self::Request => &REQUEST,
            Self::Response => &RESPONSE,
            Self::Data => &DATA,
            Self::Credit => &CREDIT,
            Self::Rst => &RST,
            Self::Unknown(_) => &UNKNOWN,
        }
    }
}

/// What a header of one kind must look like.
struct Rule {
    scope: Scope,
    allowed: Flags,
    required: Flags,
    not_with_more: Flags,
    /// Flags that leave no payload.
    empty_with: Flags,
    head_len: u8,
    meta_len_max: u16,
    payload_min: u32,
    payload_max: u32,
}

enum Scope {
    Connection,
    Stream,
    Any,
}

/// Flags of every kind that carries messages.
const MESSAGE: Flags = Flags::END.union(Flags::CRC).union(Flags::COMPRESSED).union(Flags::NOMSG);

/// A frame of the connection that has a header only.
const EMPTY: Rule = Rule {
    scope: Scope::Connection,
    allowed: Flags::CRC,
    required: Flags::NONE,
    not_with_more: Flags::NONE,
    empty_with: Flags::ACK,
    head_len: 0,
    meta_len_max: 0,
    payload_min: 0,
    payload_max: 0,
};

/// A frame with metadata and a message.
const MESSAGES: Rule = Rule {
    scope: Scope::Stream,
    allowed: MESSAGE,
    // A message that goes on can neither be the last thing sent nor be missing.
    not_with_more: Flags::END.union(Flags::NOMSG),
    empty_with: Flags::NOMSG,
    meta_len_max: u16::MAX,
    payload_max: u32::MAX,
    ..EMPTY
};

static SETTINGS: Rule = Rule {
    allowed: Flags::CRC.union(Flags::ACK),
    payload_max: NATIVE_SETTINGS_LEN_MAX as u32,
    ..EMPTY
};
static PING: Rule = Rule { allowed: Flags::CRC.union(Flags::ACK), ..EMPTY };
static GO_AWAY: Rule = Rule { payload_min: 8, payload_max: 8 + NATIVE_REASON_MAX as u32, ..EMPTY };
static LEASE: Rule = EMPTY;
static REQUEST: Rule = Rule {
    allowed: MESSAGE.union(Flags::MORE).union(Flags::NAMED),
    head_len: REQUEST_HEAD_LEN as u8,
    ..MESSAGES
};
static RESPONSE: Rule =
    Rule { allowed: MESSAGE.union(Flags::RAW), required: Flags::END, ..MESSAGES };
static DATA: Rule = Rule { allowed: MESSAGE.union(Flags::MORE).union(Flags::RAW), ..MESSAGES };
static CREDIT: Rule = Rule { scope: Scope::Stream, ..EMPTY };
static RST: Rule = Rule { scope: Scope::Stream, payload_max: NATIVE_REASON_MAX as u32, ..EMPTY };
/// Of a later version's frame only the length is known; it is skipped as a whole.
static UNKNOWN: Rule = Rule {
    scope: Scope::Any,
    allowed: Flags::from_bits(0xff),
    empty_with: Flags::NONE,
    meta_len_max: u16::MAX,
    payload_max: u32::MAX,
    ..EMPTY
};

#[cfg(test)]
mod tests {
    use super::{FrameKind, HEADER_LEN, Header};
    use crate::native::{Flags, StreamId, Violation};

    #[test]
    fn every_kind_goes_both_ways() {
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
    fn every_flag_of_every_kind() {
        use FrameKind::{
            Credit, Data, GoAway, Lease, Ping, Request, Response, Rst, Settings, Unknown,
        };
        // The flags that are allowed one by one, and those that are always there.
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
    fn streams_are_where_they_belong() {
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
    fn lengths_hold_their_parts() {
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
            (GoAway, none, 0, 8, 1032),
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
    fn payload_is_what_the_other_parts_leave() {
        let header = Header {
            len: 16 + 7 + 100 + 4,
            meta_len: 7,
            ..plain(FrameKind::Request, Flags::END | Flags::CRC)
        };
        assert_eq!((header.head_len(), header.payload_len()), (16, 100));
        let torn = Header { len: 3, ..header };
        assert_eq!(torn.payload_len(), 0);
    }

    /// A header with the shortest body that its kind and flags allow.
    fn plain(kind: FrameKind, flags: Flags) -> Header {
        let of_stream = kind.code() & 0x10 != 0;
        let stream = if of_stream { StreamId::new(7, 9) } else { StreamId::CONNECTION };
        let body = match kind {
            FrameKind::Request => 16,
            FrameKind::GoAway => 8,
            _ => 0,
        };
        let len = body + if flags.contains(Flags::CRC) { 4 } else { 0 };
        Header { len, kind, flags, meta_len: 0, stream, aux: 0x0102_0304 }
    }

    fn required(kind: FrameKind) -> Flags {
        if kind == FrameKind::Response { Flags::END } else { Flags::NONE }
    }
}
