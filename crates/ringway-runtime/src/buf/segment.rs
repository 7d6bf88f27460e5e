//! One contiguous piece of bytes to send.

use bytes::Bytes;

use super::{Chunk, View};
use crate::contain::drop_contained;
use crate::limits;

/// Bytes to send, moved into the runtime without a copy.
///
/// A segment is made from a received [`View`] (echo, proxy), from [`Bytes`] (shared by many
/// connections), from static data or from a vector.
#[derive(Debug)]
pub struct Segment(Kind);

#[derive(Debug)]
enum Kind {
    View(View),
    Shared(Bytes),
    Chunk(Chunk),
}

impl Segment {
    pub(crate) fn from_chunk(chunk: Chunk) -> Self {
        Self(Kind::Chunk(chunk))
    }

    /// The bytes of this segment.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Kind::View(view) => view,
            Kind::Shared(bytes) => bytes,
            Kind::Chunk(chunk) => chunk.as_slice(),
        }
    }

    /// The view, if the segment consists of received bytes.
    #[inline]
    pub(crate) fn as_view(&self) -> Option<&View> {
        match &self.0 {
            Kind::View(view) => Some(view),
            _ => None,
        }
    }

    /// Memory, in bytes, that this segment keeps in use.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.0 {
            Kind::View(view) => view.held_bytes(),
            Kind::Shared(bytes) => bytes.len(),
            Kind::Chunk(_) => limits::SEND_CHUNK_BYTES,
        }
    }

    /// Returns this segment, copied if it is a view of a pool whose buffers are running out.
    pub(crate) fn spared(self) -> Segment {
        match self.0 {
            Kind::View(view) => Self(Kind::View(view.spared())),
            kind => Self(kind),
        }
    }

    /// Drops the segment. Its memory may have a user's destructor, whose panic is contained here.
    #[inline]
    pub(crate) fn retire(self) {
        match self.0 {
            Kind::Shared(bytes) => drop_contained("the owner of sent bytes", bytes),
            Kind::View(_) | Kind::Chunk(_) => {}
        }
    }

    /// The chunk, if more bytes can be appended to it.
    pub(crate) fn as_open_chunk(&mut self) -> Option<&mut Chunk> {
        match &mut self.0 {
            Kind::Chunk(chunk) => Some(chunk),
            _ => None,
        }
    }
}

impl From<View> for Segment {
    fn from(view: View) -> Self {
        Self(Kind::View(view))
    }
}

impl From<Bytes> for Segment {
    fn from(bytes: Bytes) -> Self {
        Self(Kind::Shared(bytes))
    }
}

impl From<Vec<u8>> for Segment {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Kind::Shared(bytes.into()))
    }
}

impl From<&'static [u8]> for Segment {
    fn from(bytes: &'static [u8]) -> Self {
        Self(Kind::Shared(Bytes::from_static(bytes)))
    }
}

impl From<&'static str> for Segment {
    fn from(text: &'static str) -> Self {
        Self(Kind::Shared(Bytes::from_static(text.as_bytes())))
    }
}
