//! The head of a frame, RFC 6455 section 5.2.

use super::fault::FrameFault;
use crate::limits::WEBSOCKET_CONTROL_MAX;

/// The longest head: two bytes, a length of eight and a mask.
pub(super) const HEAD_LEN_MAX: usize = 14;

const FINAL: u8 = 0x80;
/// The first reserved bit: the message is compressed (RFC 7692 section 6).
const COMPRESSED: u8 = 0x40;
const RESERVED: u8 = 0x30;
const MASKED: u8 = 0x80;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataKind {
    /// UTF-8.
    Text,
    /// Any bytes.
    Binary,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ControlKind {
    Close,
    Ping,
    Pong,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation,
    Data(DataKind),
    Control(ControlKind),
}

impl Opcode {
    fn of(number: u8) -> Result<Self, FrameFault> {
        Ok(match number {
            0 => Self::Continuation,
            1 => Self::Data(DataKind::Text),
            2 => Self::Data(DataKind::Binary),
            8 => Self::Control(ControlKind::Close),
            9 => Self::Control(ControlKind::Ping),
            10 => Self::Control(ControlKind::Pong),
            other => return Err(FrameFault::Opcode(other)),
        })
    }

    fn number(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Data(DataKind::Text) => 1,
            Self::Data(DataKind::Binary) => 2,
            Self::Control(ControlKind::Close) => 8,
            Self::Control(ControlKind::Ping) => 9,
            Self::Control(ControlKind::Pong) => 10,
        }
    }
}

/// What heads of a peer may say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) is_of_client: bool,
    /// Whether permessage-deflate was agreed on.
    pub(super) deflates: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) is_final: bool,
    /// Whether the message that begins is compressed.
    pub(super) is_compressed: bool,
    pub(super) opcode: Opcode,
    pub(super) mask: Option<[u8; 4]>,
    pub(super) length: u64,
}

impl FrameHead {
    /// Reads a head and tells how long it is; `None` if not all of it is there. What its first two bytes say
    /// is checked as soon as they are.
    pub(super) fn read(input: &[u8], rules: Rules) -> Result<Option<(Self, usize)>, FrameFault> {
        let &[first, second, ref rest @ ..] = input else { return Ok(None) };
        if first & RESERVED != 0 || (first & COMPRESSED != 0 && !rules.deflates) {
            return Err(FrameFault::ReservedBit);
        }
        let (is_final, opcode) = (first & FINAL != 0, Opcode::of(first & 0x0F)?);
        let is_compressed = first & COMPRESSED != 0;
        if is_compressed && !matches!(opcode, Opcode::Data(_)) {
            return Err(FrameFault::ReservedBit);
        }
        let (is_masked, short) = (second & MASKED != 0, second & !MASKED);
        match (is_masked, rules.is_of_client) {
            (false, true) => return Err(FrameFault::Unmasked),
            (true, false) => return Err(FrameFault::Masked),
            _ => {}
        }
        if let Opcode::Control(_) = opcode {
            if !is_final {
                return Err(FrameFault::ControlFragmented);
            }
            if usize::from(short) > WEBSOCKET_CONTROL_MAX {
                return Err(FrameFault::ControlTooLong);
            }
        }
        let Some((length, rest)) = read_length(short, rest)? else { return Ok(None) };
        let (mask, rest) = match is_masked {
            false => (None, rest),
            true => match rest.split_first_chunk() {
                Some((mask, rest)) => (Some(*mask), rest),
                None => return Ok(None),
            },
        };
        let head = Self { is_final, is_compressed, opcode, mask, length };
        Ok(Some((head, input.len() - rest.len())))
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; HEAD_LEN_MAX];
        let masked = if self.mask.is_some() { MASKED } else { 0 };
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        bytes[0] = self.opcode.number()
            | flag(self.is_final, FINAL)
            | flag(self.is_compressed, COMPRESSED);
        let mut len = match self.length {
            0..=125 => {
                bytes[1] = self.length as u8;
                2
            }
            126..=0xFFFF => {
                bytes[1] = 126;
                bytes[2..4].copy_from_slice(&(self.length as u16).to_be_bytes());
                4
            }
            _ => {
                bytes[1] = 127;
                bytes[2..10].copy_from_slice(&self.length.to_be_bytes());
                10
            }
        };
        bytes[1] |= masked;
        if let Some(mask) = self.mask {
            bytes[len..len + 4].copy_from_slice(&mask);
            len += 4;
        }
        out.extend_from_slice(&bytes[..len]);
    }
}

/// The length behind its first seven bits: the shortest form that holds it, 63 bits at most.
fn read_length(short: u8, rest: &[u8]) -> Result<Option<(u64, &[u8])>, FrameFault> {
    let (length, rest, least) = match short {
        0..=125 => return Ok(Some((u64::from(short), rest))),
        126 => match rest.split_first_chunk() {
            Some((length, rest)) => (u64::from(u16::from_be_bytes(*length)), rest, 126),
            None => return Ok(None),
        },
        _ => match rest.split_first_chunk() {
            Some((length, rest)) => (u64::from_be_bytes(*length), rest, 0x1_0000),
            None => return Ok(None),
        },
    };
    if length < least || length > i64::MAX as u64 {
        return Err(FrameFault::LengthForm);
    }
    Ok(Some((length, rest)))
}
