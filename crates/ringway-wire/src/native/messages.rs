//! Types that callers pass to a machine, and the error that they get back.

use std::fmt;

use bytes::Bytes;

/// The bytes of a message to be sent.
///
/// Shared bytes may have a user's destructor. A machine therefore never drops bodies that it does
/// not send, but hands them back through `take_discarded`; drop them where the machine may be
/// called again. For the same reason, keep a clone of a body passed in until the call has returned.
#[derive(Debug, Clone)]
pub enum Body<'a> {
    /// Bytes that are copied before the call returns; right for small messages.
    Copy(&'a [u8]),
    /// Bytes that are kept without copying until the socket takes them, unless copying is cheaper.
    Shared(Bytes),
}

/// The result of a call, as its handler gives it.
#[derive(Debug, Clone)]
pub struct Reply<'a> {
    /// 0 for success, or a status of 1 to 16.
    pub status: u8,
    /// Trailers, written by a [`MetaWriter`](super::MetaWriter); usually empty.
    pub meta: &'a [u8],
    /// The reply to a unary call; `None` if there is none.
    pub message: Option<Body<'a>>,
}

/// The error of an action on a stream that was answered, cancelled or finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stream has ended")
    }
}

impl std::error::Error for Gone {}

impl Body<'_> {
    /// Length of the message in bytes.
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
