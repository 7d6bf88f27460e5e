//! The header of every message.

use super::fault::MongoFault;

/// Bytes of a header.
pub const HEADER_LEN: usize = 16;

/// The kinds of messages that are still in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MongoOpcode {
    /// A message in a compressed envelope.
    Compressed,
    /// A command or a reply.
    Msg,
}

impl MongoOpcode {
    /// The number of this opcode.
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            Self::Compressed => 2012,
            Self::Msg => 2013,
        }
    }

    pub(super) fn of(number: i32) -> Result<Self, MongoFault> {
        match number {
            2012 => Ok(Self::Compressed),
            2013 => Ok(Self::Msg),
            other => Err(MongoFault::Opcode(other)),
        }
    }
}

/// The header of a message, four numbers in little-endian order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpHeader {
    /// Bytes of the whole message, header included.
    pub len: usize,
    /// The number that its sender has given it.
    pub request_id: i32,
    /// The number of the message that it answers; 0 if it answers none.
    pub response_to: i32,
    /// What follows.
    pub opcode: MongoOpcode,
}

impl OpHeader {
    /// Reads the header at the front of `input`; `None` if it is cut. The length is checked as soon as it
    /// is there.
    ///
    /// # Errors
    /// [`MongoFault::Length`], [`MongoFault::TooLong`], [`MongoFault::Opcode`].
    pub fn read(input: &[u8], len_max: usize) -> Result<Option<Self>, MongoFault> {
        let Some((claimed, _)) = input.split_first_chunk() else { return Ok(None) };
        let claimed = i32::from_le_bytes(*claimed);
        let len = usize::try_from(claimed).ok().filter(|len| *len > HEADER_LEN);
        let len = len.ok_or(MongoFault::Length(claimed))?;
        if len > len_max {
            return Err(MongoFault::TooLong { len, max: len_max });
        }
        let Some(header) = input.first_chunk::<HEADER_LEN>() else { return Ok(None) };
        let number = |at: usize| {
            i32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let opcode = MongoOpcode::of(number(12))?;
        Ok(Some(Self { len, request_id: number(4), response_to: number(8), opcode }))
    }

    /// Appends the header to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let len = i32::try_from(self.len).unwrap_or(i32::MAX);
        for number in [len, self.request_id, self.response_to, self.opcode.number()] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
}
