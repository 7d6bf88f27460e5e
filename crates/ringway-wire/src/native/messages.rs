//! What callers hand to a machine, and what they hear of its failures.

use std::fmt;

use bytes::Bytes;

/// The bytes of a message to be sent.
///
/// The memory of shared ones may belong to anybody, whose destructor may do anything. A machine gives up
/// bodies that are not sent and never drops them: take those by `take_discarded` and drop them where the
/// machine may be called again. Of a body that is handed in, keep a clone until the call has returned.
#[derive(Debug, Clone)]
pub enum Body<'a> {
    /// Copied before the call returns; right for small messages.
    Copy(&'a [u8]),
    /// Kept as it is until the socket takes it, unless it is so small that copying costs less.
    Shared(Bytes),
}

/// The end of a call, as its handler gives it.
#[derive(Debug, Clone)]
pub struct Reply<'a> {
    /// 0 for success, else a status of 1 to 16.
    pub status: u8,
    /// Trailers, from a [`MetaWriter`](super::MetaWriter); usually empty.
    pub meta: &'a [u8],
    /// The only message of a unary call; `None` where there is none.
    pub message: Option<Body<'a>>,
}

/// The stream has ended: it was answered, cancelled, or its sender has finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stream has ended")
    }
}

impl std::error::Error for Gone {}

impl Body<'_> {
    /// Bytes of the message.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_ref().len()
    }

    /// Whether the message has no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn into_shared(self) -> Bytes {
        match self {
            Body::Copy(bytes) => Bytes::copy_from_slice(bytes),
            Body::Shared(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Body<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Body::Copy(bytes) => bytes,
            Body::Shared(bytes) => bytes,
        }
    }
}
