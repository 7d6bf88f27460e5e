//! Cuts a stream of bytes into messages.

use std::ops::Deref;

use super::fault::MongoFault;
use super::op_header::{HEADER_LEN, OpHeader};
use crate::limits::ACCUMULATOR_EAGER;

/// A whole message.
#[derive(Debug, PartialEq, Eq)]
pub enum Cut<'i> {
    /// It lay whole in the slice that was received.
    Whole(&'i [u8]),
    /// It was put together, or decompressed.
    Gathered(Vec<u8>),
}

impl Deref for Cut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Gathered(bytes) => bytes,
        }
    }
}

/// Puts messages together that are cut by the ends of received slices.
///
/// ```text
///   header ──► wanted: gathered in `bytes` ──► message
///          └─► unwanted: `skip` bytes pass by, without memory
/// ```
#[derive(Debug)]
pub(super) struct Cutter {
    len_max: usize,
    /// The front of a message. It is shorter than the message.
    bytes: Vec<u8>,
    /// Bytes of an unwanted message that are to come.
    skip: usize,
}

impl Cutter {
    pub(super) fn new(len_max: usize) -> Self {
        Self { len_max, bytes: Vec::new(), skip: 0 }
    }

    /// Takes the next whole message off the front of `input`, or all of `input` if there is none. A message
    /// for which `wants` is false is passed over.
    ///
    /// # Errors
    /// Those of `wants`, and a header that is none.
    pub(super) fn next<'i>(
        &mut self,
        input: &mut &'i [u8],
        mut wants: impl FnMut(&OpHeader) -> Result<bool, MongoFault>,
    ) -> Result<Option<(OpHeader, Cut<'i>)>, MongoFault> {
        loop {
            let skipped = self.skip.min(input.len());
            *input = &input[skipped..];
            self.skip -= skipped;
            if self.skip > 0 || input.is_empty() {
                return Ok(None);
            }
            if self.bytes.is_empty()
                && let Some(header) = OpHeader::read(input, self.len_max)?
            {
                if !wants(&header)? {
                    self.skip = header.len;
                    continue;
                }
                if let Some((whole, rest)) = input.split_at_checked(header.len) {
                    *input = rest;
                    return Ok(Some((header, Cut::Whole(whole))));
                }
            }
            let was_read = self.bytes.len() >= HEADER_LEN;
            if self.bytes.len() < HEADER_LEN {
                self.take(HEADER_LEN - self.bytes.len(), input);
            }
            let Some(header) = OpHeader::read(&self.bytes, self.len_max)? else { return Ok(None) };
            // A header that lay whole in one slice was asked about above, unless the slice began inside.
            if !was_read && !wants(&header)? {
                self.skip = header.len - self.bytes.len();
                self.bytes = Vec::new();
                continue;
            }
            let rest = header.len - self.bytes.len();
            self.take(rest, input);
            if self.bytes.len() < header.len {
                return Ok(None);
            }
            return Ok(Some((header, Cut::Gathered(std::mem::take(&mut self.bytes)))));
        }
    }

    /// Memory that it holds besides itself, in bytes.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether a message has begun and is not whole.
    pub(super) fn is_inside(&self) -> bool {
        self.skip > 0 || !self.bytes.is_empty()
    }

    /// Copies up to `lacking` bytes. What is reserved beyond them is bounded by what has come, so that a
    /// claim costs nothing.
    fn take(&mut self, lacking: usize, input: &mut &[u8]) {
        let piece = &input[..lacking.min(input.len())];
        *input = &input[piece.len()..];
        if self.bytes.capacity() - self.bytes.len() < piece.len() {
            let eager = piece.len().max(self.bytes.len()).max(ACCUMULATOR_EAGER);
            self.bytes.reserve_exact(lacking.min(eager));
        }
        self.bytes.extend_from_slice(piece);
    }
}
