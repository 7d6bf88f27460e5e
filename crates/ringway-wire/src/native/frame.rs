//! A frame, and how it is written.

use super::{
    CHECKSUM_LEN, Flags, FrameKind, HEADER_LEN, Header, Piece, REQUEST_HEAD_LEN, StreamId, checksum,
};
use crate::limits::NATIVE_COST_MIN;

/// A received frame, whose body does not include the checksum.
#[derive(Debug)]
pub(super) struct Frame<'i> {
    pub(super) header: Header,
    pub(super) body: Piece<'i>,
}

/// A frame to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutgoingFrame<'a> {
    pub(super) kind: FrameKind,
    pub(super) flags: Flags,
    pub(super) stream: StreamId,
    pub(super) aux: u32,
    /// The encoded [`RequestHead`](super::RequestHead) of a REQUEST, otherwise empty.
    pub(super) head: &'a [u8],
    pub(super) meta: &'a [u8],
    pub(super) payload: &'a [u8],
}

impl<'a> OutgoingFrame<'a> {
    /// Makes a frame of the connection itself, without a stream.
    pub(super) fn control(kind: FrameKind, flags: Flags, aux: u32, payload: &'a [u8]) -> Self {
        OutgoingFrame {
            kind,
            flags,
            stream: StreamId::CONNECTION,
            aux,
            head: &[],
            meta: &[],
            payload,
        }
    }

    /// Appends the frame to `target`. Inlined, because each caller writes one kind of frame and its
    /// constants fold away.
    #[inline(always)]
    pub(super) fn append(&self, with_crc: bool, target: &mut Vec<u8>) {
        let body_len = self.head.len() + self.meta.len() + self.payload.len();
        let start = target.len();
        target.reserve(HEADER_LEN + body_len + CHECKSUM_LEN);
        target.extend_from_slice(&self.header(body_len, with_crc).encode());
        if let Some(head) = self.head.first_chunk::<REQUEST_HEAD_LEN>() {
            target.extend_from_slice(head);
        }
        if !self.meta.is_empty() {
            target.extend_from_slice(self.meta);
        }
        target.extend_from_slice(self.payload);
        if with_crc {
            let crc = checksum(&[&target[start..]]);
            target.extend_from_slice(&crc.to_le_bytes());
        }
    }

    /// Appends the frame without the last `payload_len` bytes of its payload, which are sent
    /// separately, and returns the checksum up to there.
    pub(super) fn append_head(
        &self,
        payload_len: usize,
        with_crc: bool,
        target: &mut Vec<u8>,
    ) -> Option<u32> {
        let body_len = self.head.len() + self.meta.len() + payload_len;
        let start = target.len();
        target.extend_from_slice(&self.header(body_len, with_crc).encode());
        target.extend_from_slice(self.head);
        target.extend_from_slice(self.meta);
        with_crc.then(|| checksum(&[&target[start..]]))
    }

    #[inline(always)]
    fn header(&self, body_len: usize, with_crc: bool) -> Header {
        let (flags, crc_len) =
            if with_crc { (self.flags | Flags::CRC, CHECKSUM_LEN) } else { (self.flags, 0) };
        Header {
            len: (body_len + crc_len) as u32,
            kind: self.kind,
            flags,
            meta_len: self.meta.len() as u16,
            stream: self.stream,
            aux: self.aux,
        }
    }
}

/// Credit that a fragment of `payload_len` bytes costs: its length, with a minimum since the
/// receiver also keeps a record of an empty one.
#[inline]
pub(super) fn cost(payload_len: usize) -> u32 {
    (payload_len as u32).max(NATIVE_COST_MIN)
}
