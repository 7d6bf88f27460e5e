//! Messages in the content of a stream, each with a prefix of five bytes.

use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::limits::GRPC_MESSAGE_LEAST;
use crate::native::Piece;

/// Length of a message's prefix: the compression flag, and the length of the message.
pub const PREFIX_LEN: usize = 5;

/// The prefix of a message of `len` bytes.
#[inline]
#[must_use]
pub fn prefix(len: u32, is_compressed: bool) -> [u8; PREFIX_LEN] {
    let [a, b, c, d] = len.to_be_bytes();
    [u8::from(is_compressed), a, b, c, d]
}

/// A complete message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message<'i> {
    /// Whether it must be decompressed as `grpc-encoding` said.
    pub is_compressed: bool,
    /// The bytes: borrowed if the input had them in one piece, otherwise owned.
    pub bytes: Piece<'i>,
}

/// The reason why the content of a stream is not a sequence of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageError {
    /// A message is too long; the status is RESOURCE_EXHAUSTED.
    TooLong {
        /// The announced length in bytes.
        len: u32,
        /// The largest accepted length in bytes.
        max: u32,
    },
    /// The compression flag is neither 0 nor 1; the status is INTERNAL.
    WrongFlag(u8),
    /// The content ended inside a message; the status is INTERNAL.
    Cut,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { len, max } => {
                write!(f, "a message of {len} bytes is longer than the limit of {max}")
            }
            Self::WrongFlag(flag) => write!(f, "a message has the unknown flag {flag:#x}"),
            Self::Cut => f.write_str("the stream ended inside a message"),
        }
    }
}

impl std::error::Error for MessageError {}

/// Decodes the messages in the content of one stream, however its DATA frames were cut.
#[derive(Debug)]
pub struct Messages {
    head: [u8; PREFIX_LEN],
    head_len: u8,
    /// The start of a message whose prefix is complete.
    body: BytesMut,
    len_max: u32,
}

impl Messages {
    /// Creates a decoder for messages of up to `len_max` bytes on the wire.
    #[must_use]
    pub fn new(len_max: u32) -> Self {
        Self { head: [0; PREFIX_LEN], head_len: 0, body: BytesMut::new(), len_max }
    }

    /// Takes the next message off the front of `data`; `None` if it is incomplete, and then all of
    /// `data` is taken.
    ///
    /// # Errors
    ///
    /// Fails when the content is not a sequence of messages; the rest cannot be decoded either.
    #[inline]
    pub fn next<'i>(&mut self, data: &mut Piece<'i>) -> Result<Option<Message<'i>>, MessageError> {
        if self.head_len == 0
            && let Some(head) = data.first_chunk::<PREFIX_LEN>()
        {
            let (is_compressed, len) = self.check(*head)?;
            if data.len() - PREFIX_LEN >= len {
                drop(data.split_to(PREFIX_LEN));
                return Ok(Some(Message { is_compressed, bytes: data.split_to(len) }));
            }
        }
        self.resume(data)
    }

    /// Returns the first message of `data` if it is complete and not compressed; takes nothing.
    #[inline]
    pub(super) fn plain<'i>(&self, data: &'i [u8]) -> Option<&'i [u8]> {
        let (&[flag, a, b, c, d], rest) = data.split_first_chunk()?;
        let len = u32::from_be_bytes([a, b, c, d]);
        let is_plain = self.head_len == 0 && flag == 0 && len <= self.len_max;
        rest.get(..len as usize).filter(|_| is_plain)
    }

    fn check(&self, head: [u8; PREFIX_LEN]) -> Result<(bool, usize), MessageError> {
        let [flag, a, b, c, d] = head;
        let len = u32::from_be_bytes([a, b, c, d]);
        if flag > 1 {
            return Err(MessageError::WrongFlag(flag));
        }
        if len > self.len_max {
            return Err(MessageError::TooLong { len, max: self.len_max });
        }
        Ok((flag == 1, len as usize))
    }

    #[cold]
    fn resume<'i>(&mut self, data: &mut Piece<'i>) -> Result<Option<Message<'i>>, MessageError> {
        while usize::from(self.head_len) < PREFIX_LEN {
            if data.is_empty() {
                return Ok(None);
            }
            self.head[usize::from(self.head_len)] = data[0];
            self.head_len += 1;
            drop(data.split_to(1));
        }
        let (is_compressed, len) = self.check(self.head)?;
        if self.body.is_empty() && data.len() >= len {
            self.head_len = 0;
            return Ok(Some(Message { is_compressed, bytes: data.split_to(len) }));
        }
        let now = data.split_to(data.len().min(len - self.body.len()));
        self.keep(&now, len);
        if self.body.len() < len {
            return Ok(None);
        }
        self.head_len = 0;
        let bytes: Bytes = std::mem::take(&mut self.body).freeze();
        Ok(Some(Message { is_compressed, bytes: Piece::Owned(bytes) }))
    }

    /// Buffers a part of a message. Memory is at most twice what has arrived: an announced length
    /// alone reserves nothing.
    fn keep(&mut self, bytes: &[u8], len: usize) {
        let needed = self.body.len() + bytes.len();
        if needed > self.body.capacity() {
            let wanted = len.min(needed * 2).max(GRPC_MESSAGE_LEAST.min(len));
            self.body.reserve(wanted - self.body.len());
        }
        self.body.extend_from_slice(bytes);
    }

    /// Checks the end of the content.
    ///
    /// # Errors
    ///
    /// Fails when the content ended inside a message.
    pub fn finish(&self) -> Result<(), MessageError> {
        if self.head_len == 0 { Ok(()) } else { Err(MessageError::Cut) }
    }

    /// Resets the decoder for another stream.
    pub(super) fn clear(&mut self) {
        (self.head_len, self.body) = (0, BytesMut::new());
    }

    /// Memory, in bytes, of an incomplete message.
    #[must_use]
    pub fn incomplete_len(&self) -> usize {
        self.body.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(messages: &[&[u8]]) -> Vec<u8> {
        let with_prefix = |m: &&[u8]| [&prefix(m.len() as u32, m.len() % 2 == 1)[..], m].concat();
        messages.iter().flat_map(with_prefix).collect()
    }

    fn split(parts: &[&[u8]]) -> Result<Vec<(bool, Vec<u8>)>, MessageError> {
        let (mut messages, mut found) = (Messages::new(1_000), Vec::new());
        for part in parts {
            let mut data = Piece::Borrowed(part);
            while let Some(message) = messages.next(&mut data)? {
                found.push((message.is_compressed, message.bytes.to_vec()));
            }
            assert!(data.is_empty());
        }
        messages.finish().map(|()| found)
    }

    #[test]
    fn messages_are_decoded_however_they_are_cut() {
        let long = [7; 1_000];
        let wire = wire(&[b"", b"abc", &long, b"", b"xy"]);
        let whole = split(&[&wire]).expect("well-formed");
        assert_eq!(whole.len(), 5);
        assert_eq!((&whole[1], whole[2].1.len()), (&(true, b"abc".to_vec()), 1_000));
        for at in 0..=wire.len() {
            assert_eq!(split(&[&wire[..at], &wire[at..]]), Ok(whole.clone()), "cut at {at}");
        }
        assert_eq!(split(&wire.chunks(1).collect::<Vec<_>>()), Ok(whole));
    }

    #[test]
    fn a_message_in_one_piece_is_not_copied() {
        let wire = wire(&[b"hello", b"again"]);
        let mut messages = Messages::new(100);
        let mut data = Piece::Owned(Bytes::from(wire));
        let start = data.as_ptr();
        let first = messages.next(&mut data).expect("well-formed").expect("whole");
        assert_eq!(first.bytes.as_ptr(), start.wrapping_add(PREFIX_LEN));
        // The same if the prefix arrived alone.
        assert_eq!(messages.next(&mut data.split_to(PREFIX_LEN)), Ok(None));
        let start = data.as_ptr();
        let second = messages.next(&mut data).expect("well-formed").expect("whole");
        assert_eq!((second.bytes.as_ptr(), &*second.bytes), (start, &b"again"[..]));
        assert_eq!(messages.incomplete_len(), 0);
    }

    #[test]
    fn content_that_is_no_sequence_of_messages_is_rejected() {
        let too_long = MessageError::TooLong { len: 1_001, max: 1_000 };
        assert_eq!(split(&[&prefix(1_001, false)]), Err(too_long));
        assert_eq!(split(&[&[2, 0, 0, 0, 0]]), Err(MessageError::WrongFlag(2)));
        for cut in [&[0][..], &[0, 0, 0, 0, 1], &[0, 0, 0, 0, 2, 7]] {
            assert_eq!(split(&[cut]), Err(MessageError::Cut), "{cut:?}");
        }
    }

    #[test]
    fn memory_grows_with_the_bytes_received() {
        let mut messages = Messages::new(u32::MAX);
        messages.next(&mut Piece::Borrowed(&prefix(1 << 30, false))).expect("so far");
        let mut came = 0;
        while came < 100_000 {
            came += 100;
            messages.next(&mut Piece::Borrowed(&[1; 100])).expect("so far");
            assert!(messages.incomplete_len() <= (2 * came).max(GRPC_MESSAGE_LEAST) * 2);
        }
    }
}
