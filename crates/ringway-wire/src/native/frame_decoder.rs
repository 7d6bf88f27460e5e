//! The frame decoder: whole frames are borrowed from the input, cut frames are copied once.

use bytes::{Buf, Bytes, BytesMut};

use super::frame::Frame;
use super::{
    CHECKSUM_LEN, Flags, FrameKind, HEADER_LEN, Header, Piece, REQUEST_HEAD_LEN, StreamId,
    Violation, checksum, spare,
};
use crate::limits::{NATIVE_FRAME_LEAST, NATIVE_REUSED_MAX, NATIVE_SPARE_BYTES};

/// Decodes frames from input slices that may be cut anywhere.
#[derive(Debug)]
pub(super) struct FrameDecoder {
    /// The start of a frame that has not arrived completely; empty between frames.
    partial: BytesMut,
    /// A frame that is returned once more by the next call.
    held: Option<(Header, Bytes)>,
    /// The longest body that may be buffered.
    len_max: u32,
    payload_max: u32,
}

/// Kind and flags of a frame without metadata, as in bytes 4 to 7 of its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form(u32);

impl Form {
    pub(super) const fn new(kind: FrameKind, flags: Flags) -> Self {
        Self(kind.code() as u32 | (flags.bits() as u32) << 8)
    }
}

/// A frame that was looked at and not yet consumed.
#[derive(Debug)]
pub(super) struct Peeked<'i> {
    pub(super) stream: StreamId,
    pub(super) aux: u32,
    pub(super) body: &'i [u8],
    /// The input behind the frame.
    pub(super) rest: &'i [u8],
}

impl FrameDecoder {
    /// Creates a decoder for payloads up to `payload_max` bytes.
    pub(super) fn new(payload_max: u32) -> Self {
        let around = REQUEST_HEAD_LEN + usize::from(u16::MAX) + CHECKSUM_LEN;
        let len_max = payload_max.saturating_add(around as u32);
        Self { partial: BytesMut::new(), held: None, len_max, payload_max }
    }

    /// Looks at the next frame without consuming it, if it is complete in `input`, has the given
    /// `form`, and nothing is buffered before it. Most frames have one of few forms, and a form
    /// implies all that [`Header::decode`] checks except for the stream.
    #[inline(always)]
    pub(super) fn peek<'i>(&self, form: Form, input: &'i [u8]) -> Option<Peeked<'i>> {
        let (head, rest) = input.split_first_chunk::<HEADER_LEN>()?;
        let whole = u128::from_le_bytes(*head);
        let (low, high) = (whole as u64, (whole >> 64) as u64);
        if (low >> 32) as u32 != form.0 || !self.partial.is_empty() || self.held.is_some() {
            return None;
        }
        let (body, rest) = rest.split_at_checked(low as u32 as usize)?;
        Some(Peeked {
            stream: StreamId::from_raw(high as u32),
            aux: (high >> 32) as u32,
            body,
            rest,
        })
    }

    /// Takes the next frame, or returns `None` when `input` is used up.
    #[inline]
    pub(super) fn next<'i>(
        &mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Frame<'i>>, Violation> {
        if self.partial.is_empty() && self.held.is_none() {
            if let Some((head, rest)) = input.split_first_chunk::<HEADER_LEN>() {
                let header = self.decode(head)?;
                if let Some((body, rest)) = rest.split_at_checked(header.len as usize) {
                    *input = rest;
                    if header.flags.contains(Flags::CRC) {
                        return checked(header, Piece::Borrowed(body), head).map(Some);
                    }
                    return Ok(Some(Frame { header, body: Piece::Borrowed(body) }));
                }
            } else if input.is_empty() {
                return Ok(None);
            }
        }
        self.resume(input)
    }

    /// Makes the next call return `frame`, the last one taken, again.
    pub(super) fn put_back<'i>(
        &mut self,
        frame: Frame<'i>,
        before: &'i [u8],
        input: &mut &'i [u8],
    ) {
        match frame.body {
            Piece::Borrowed(_) => *input = before,
            Piece::Owned(body) => self.held = Some((frame.header, body)),
        }
    }

    /// Drops buffered bytes after a failure; no more frames are taken.
    pub(super) fn drop_contents(&mut self) {
        (self.partial, self.held) = (BytesMut::new(), None);
    }

    /// Memory, in bytes, that an incomplete frame occupies.
    #[inline]
    pub(super) fn buffered(&self) -> usize {
        if self.partial.is_empty() { 0 } else { self.partial.capacity() }
    }

    #[inline]
    fn decode(&self, head: &[u8; HEADER_LEN]) -> Result<Header, Violation> {
        let header = Header::decode(head)?;
        if header.len > self.len_max {
            return Err(Violation::FrameTooLarge { len: header.len, max: self.payload_max });
        }
        Ok(header)
    }

    #[cold]
    fn resume<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Frame<'i>>, Violation> {
        if let Some((header, body)) = self.held.take() {
            return Ok(Some(Frame { header, body: Piece::Owned(body) }));
        }
        let head = match input.first_chunk::<HEADER_LEN>() {
            Some(head) if self.partial.is_empty() => *head,
            _ if !self.fill(HEADER_LEN, input) => return Ok(None),
            _ => *self.partial.first_chunk().expect("a header was filled"),
        };
        let header = self.decode(&head)?;
        if !self.fill(HEADER_LEN + header.len as usize, input) {
            return Ok(None);
        }
        let mut body = spare::freeze(&mut self.partial);
        body.advance(HEADER_LEN);
        if header.flags.contains(Flags::CRC) {
            return checked(header, Piece::Owned(body), &head).map(Some);
        }
        Ok(Some(Frame { header, body: Piece::Owned(body) }))
    }

    /// Moves bytes from `input` until `len` bytes are buffered.
    fn fill(&mut self, len: usize, input: &mut &[u8]) -> bool {
        let missing = len - self.partial.len().min(len);
        let (now, rest) = input.split_at(missing.min(input.len()));
        if self.partial.capacity() < self.partial.len() + now.len() {
            self.grow(self.partial.len() + now.len(), len);
        }
        self.partial.extend_from_slice(now);
        *input = rest;
        now.len() == missing
    }

    /// Makes room for `needed` bytes received of a frame of `len`. Memory is at most twice what has
    /// arrived: an announced length alone reserves nothing.
    fn grow(&mut self, needed: usize, len: usize) {
        let wanted = len.min(needed * 2).max(NATIVE_FRAME_LEAST);
        if wanted <= NATIVE_REUSED_MAX {
            self.partial.reserve(wanted - self.partial.len());
            return;
        }
        let spare = if needed * 2 >= NATIVE_SPARE_BYTES { spare::take(wanted) } else { None };
        // `reserve` could double the capacity although the frame needs less.
        let mut larger = spare.unwrap_or_else(|| BytesMut::with_capacity(wanted));
        larger.extend_from_slice(&self.partial);
        self.partial = larger;
    }
}

/// Verifies the checksum and removes it from the body.
fn checked<'i>(
    header: Header,
    mut body: Piece<'i>,
    head: &[u8; HEADER_LEN],
) -> Result<Frame<'i>, Violation> {
    // The length in a decoded header includes the checksum.
    let content = body.split_to(header.len as usize - CHECKSUM_LEN);
    let computed = checksum(&[head, &content]);
    let mut sent = [0; CHECKSUM_LEN];
    sent.copy_from_slice(&body);
    let sent = u32::from_le_bytes(sent);
    if sent != computed {
        return Err(Violation::WrongChecksum { sent, computed });
    }
    Ok(Frame { header, body: content })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_with_the_bytes_received() {
        let header = Header {
            len: 64 << 10,
            kind: FrameKind::Data,
            flags: Flags::NONE,
            meta_len: 0,
            stream: StreamId::new(0, 1),
            aux: 0,
        };
        let mut wire = header.encode().to_vec();
        wire.extend((0..64 << 10).map(|at: u32| at as u8));
        for step in [1, 15, 17, 1_000, 17_408, 40_000, 65_551] {
            let mut frame_decoder = FrameDecoder::new(64 << 10);
            let mut received = 0;
            for part in wire.chunks(step) {
                received += part.len();
                let frame = frame_decoder.next(&mut &*part).expect("a good frame");
                let bound = NATIVE_FRAME_LEAST.max(received * 2);
                assert!(frame_decoder.partial.capacity() <= bound, "{received} in steps of {step}");
                assert_eq!(frame.is_some(), received == wire.len());
                if let Some(frame) = frame {
                    assert_eq!(*frame.body, wire[HEADER_LEN..]);
                }
            }
        }
    }
}
