//! The id that matches a reply to its request.

use std::fmt;

/// The id of one request of one matcher.
///
/// Ids count up from 1 in the order of the requests. Those of an
/// [`IdMatcher::with_u32_ids`](crate::IdMatcher::with_u32_ids) fit 32 bits, start again at 1 after
/// the last, and are converted by [`to_u32`](Self::to_u32).
///
/// # Examples
///
/// ```
/// use ringway_wire::RequestId;
///
/// let id = RequestId::from(7_u32);
/// assert_eq!((id.to_u32(), id.to_u64()), (Some(7), 7));
/// assert_eq!(RequestId::from(1_u64 << 40).to_u32(), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

impl RequestId {
    /// The id for a protocol with 64-bit ids.
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        self.0
    }

    /// The id for a protocol with 32-bit ids; `None` if it has more bits.
    #[must_use]
    pub fn to_u32(self) -> Option<u32> {
        u32::try_from(self.0).ok()
    }
}

impl From<u64> for RequestId {
    fn from(id: u64) -> Self {
        Self(id)
    }
}

impl From<u32> for RequestId {
    fn from(id: u32) -> Self {
        Self(u64::from(id))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
