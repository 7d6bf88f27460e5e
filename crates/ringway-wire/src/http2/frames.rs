//! Received frames (RFC 9113, sections 4 and 6).

use super::{ErrorCode, Violation};

/// Length of a frame header in bytes (section 4.1).
pub(super) const HEADER_LEN: usize = 9;

/// The client's preface (section 3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Largest stream id, window and increment: 31 bits.
pub(super) const MAX_31: u32 = i32::MAX as u32;

/// Frame types; other types are skipped (section 4.1).
pub(super) mod kind {
    pub(in crate::http2) const DATA: u8 = 0;
    pub(in crate::http2) const HEADERS: u8 = 1;
    pub(in crate::http2) const PRIORITY: u8 = 2;
    pub(in crate::http2) const RST_STREAM: u8 = 3;
    pub(in crate::http2) const SETTINGS: u8 = 4;
    pub(in crate::http2) const PUSH_PROMISE: u8 = 5;
    pub(in crate::http2) const PING: u8 = 6;
    pub(in crate::http2) const GOAWAY: u8 = 7;
    pub(in crate::http2) const WINDOW_UPDATE: u8 = 8;
    pub(in crate::http2) const CONTINUATION: u8 = 9;
}

/// Frame flags; others are ignored (section 4.1).
pub(super) mod flag {
    pub(in crate::http2) const END_STREAM: u8 = 1;
    pub(in crate::http2) const ACK: u8 = 1;
    pub(in crate::http2) const END_HEADERS: u8 = 4;
    pub(in crate::http2) const PADDED: u8 = 8;
    pub(in crate::http2) const PRIORITY: u8 = 0x20;
}

/// The header of a frame (section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) len: u32,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHeader {
    #[inline]
    pub(super) fn decode(bytes: &[u8; HEADER_LEN]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        let len = u32::from_be_bytes([0, a, b, c]);
        // The reserved bit is ignored.
        Self { len, kind, flags, stream: u32::from_be_bytes(stream) & MAX_31 }
    }

    #[inline]
    pub(super) fn encode(self) -> [u8; HEADER_LEN] {
        let [_, a, b, c] = self.len.to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, d, e, f, g]
    }

    #[inline]
    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether the payload is handled as it arrives: that of DATA, and that of unknown types, which
    /// is skipped.
    #[inline]
    pub(super) fn is_unassembled(self) -> bool {
        self.kind == kind::DATA || self.kind > kind::CONTINUATION
    }

    /// Checks length and stream against the rules of the frame's type. A wrong length of PRIORITY
    /// is a stream error (section 6.3) and is found later.
    ///
    /// # Errors
    ///
    /// Fails when the length or the stream does not suit the type.
    pub(super) fn check(self, len_max: u32) -> Result<(), Violation> {
        if self.len > len_max {
            return Err(Violation::FrameTooLong);
        }
        let wants_stream = match self.kind {
            kind::DATA
            | kind::HEADERS
            | kind::PRIORITY
            | kind::RST_STREAM
            | kind::PUSH_PROMISE
            | kind::CONTINUATION => true,
            kind::SETTINGS | kind::PING | kind::GOAWAY => false,
            _ => self.stream != 0,
        };
        if wants_stream && self.stream == 0 {
            return Err(Violation::NeedsStream);
        }
        if !wants_stream && self.stream != 0 {
            return Err(Violation::NeedsConnection);
        }
        let is_right = match self.kind {
            kind::RST_STREAM | kind::WINDOW_UPDATE => self.len == 4,
            kind::PING => self.len == 8,
            kind::GOAWAY => self.len >= 8,
            kind::SETTINGS if self.has(flag::ACK) => self.len == 0,
            kind::SETTINGS => self.len.is_multiple_of(6),
            _ => true,
        };
        if is_right { Ok(()) } else { Err(Violation::WrongLength) }
    }
}

/// The field block in a HEADERS frame, without padding and priority (section 6.2).
///
/// # Errors
///
/// Fails when padding and priority are longer than the frame, or the stream depends on itself.
pub(super) fn headers_block(header: FrameHeader, payload: &[u8]) -> Result<&[u8], Violation> {
    let mut block = payload;
    if header.has(flag::PADDED) {
        let (&padding, rest) = block.split_first().ok_or(Violation::WrongLength)?;
        let len = rest.len().checked_sub(usize::from(padding));
        block = &rest[..len.ok_or(Violation::PaddingTooLong)?];
    }
    if header.has(flag::PRIORITY) {
        let (priority, rest) = block.split_at_checked(5).ok_or(Violation::WrongLength)?;
        check_dependency(header.stream, priority)?;
        block = rest;
    }
    Ok(block)
}

/// Checks a priority. Priorities are ignored (section 5.3.2), but a self-dependency was never
/// legal.
///
/// # Errors
///
/// Fails when the stream depends on itself.
pub(super) fn check_dependency(stream: u32, priority: &[u8]) -> Result<(), Violation> {
    match number(priority) & MAX_31 == stream {
        true => Err(Violation::SelfDependency),
        false => Ok(()),
    }
}

/// The first four bytes as a number; the frame's length was checked before.
pub(super) fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Last stream, error code and reason of a GOAWAY (section 6.8).
pub(super) fn go_away(payload: &[u8]) -> (u32, ErrorCode, &[u8]) {
    let code = ErrorCode(number(payload.get(4..).unwrap_or_default()));
    (number(payload) & MAX_31, code, payload.get(8..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip_without_the_reserved_bit() {
        let header = FrameHeader { len: 0x01_0203, kind: 4, flags: 5, stream: 0x7000_0001 };
        let mut bytes = header.encode();
        assert_eq!(bytes, [1, 2, 3, 4, 5, 0x70, 0, 0, 1]);
        bytes[5] |= 0x80;
        assert_eq!(FrameHeader::decode(&bytes), header);
    }

    #[test]
    fn each_frame_type_checks_its_length_and_stream() {
        use Violation::*;
        for (kind, flags, len, stream, expected) in [
            (kind::DATA, 0, 16_384, 1, Ok(())),
            (kind::DATA, 0, 16_385, 1, Err(FrameTooLong)),
            (kind::DATA, 0, 0, 0, Err(NeedsStream)),
            (kind::HEADERS, 0, 0, 0, Err(NeedsStream)),
            (kind::CONTINUATION, 0, 0, 0, Err(NeedsStream)),
            (kind::PRIORITY, 0, 5, 1, Ok(())),
            (kind::PRIORITY, 0, 4, 1, Ok(())),
            (kind::PRIORITY, 0, 5, 0, Err(NeedsStream)),
            (kind::RST_STREAM, 0, 4, 1, Ok(())),
            (kind::RST_STREAM, 0, 5, 1, Err(WrongLength)),
            (kind::RST_STREAM, 0, 4, 0, Err(NeedsStream)),
            (kind::SETTINGS, 0, 12, 0, Ok(())),
            (kind::SETTINGS, 0, 13, 0, Err(WrongLength)),
            (kind::SETTINGS, 0, 6, 3, Err(NeedsConnection)),
            (kind::SETTINGS, flag::ACK, 0, 0, Ok(())),
            (kind::SETTINGS, flag::ACK, 6, 0, Err(WrongLength)),
            (kind::PING, 0, 8, 0, Ok(())),
            (kind::PING, 0, 7, 0, Err(WrongLength)),
            (kind::PING, 0, 8, 1, Err(NeedsConnection)),
            (kind::GOAWAY, 0, 8, 0, Ok(())),
            (kind::GOAWAY, 0, 7, 0, Err(WrongLength)),
            (kind::GOAWAY, 0, 8, 1, Err(NeedsConnection)),
            (kind::WINDOW_UPDATE, 0, 4, 0, Ok(())),
            (kind::WINDOW_UPDATE, 0, 4, 1, Ok(())),
            (kind::WINDOW_UPDATE, 0, 3, 1, Err(WrongLength)),
            (77, 0xff, 3, 1, Ok(())),
            (77, 0xff, 3, 0, Ok(())),
        ] {
            let header = FrameHeader { len, kind, flags, stream };
            assert_eq!(header.check(16_384), expected, "{header:?}");
        }
    }

    #[test]
    fn padding_and_priority_are_removed() {
        let check = |flags, stream, payload: &'static [u8]| {
            let header = FrameHeader { len: payload.len() as u32, kind: 1, flags, stream };
            headers_block(header, payload)
        };
        let (padded, priority) = (flag::PADDED, flag::PRIORITY);
        assert_eq!(check(0, 1, b"block"), Ok(&b"block"[..]));
        assert_eq!(check(padded, 1, b"\x02block\0\0"), Ok(&b"block"[..]));
        assert_eq!(check(padded | priority, 1, b"\x01\0\0\0\x03\x10block\0"), Ok(&b"block"[..]));
        assert_eq!(check(padded, 1, b"\x05bloc"), Err(Violation::PaddingTooLong));
        assert_eq!(check(padded, 1, b""), Err(Violation::WrongLength));
        assert_eq!(check(priority, 1, b"\0\0\0\x03"), Err(Violation::WrongLength));
        assert_eq!(check(priority, 3, b"\x80\0\0\x03\0"), Err(Violation::SelfDependency));
    }
}
