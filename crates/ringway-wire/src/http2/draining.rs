//! The drain of a connection (RFC 9113, section 6.8).

use std::time::Duration;

use crate::stamp::Stamp;

/// The stage of a connection's drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Draining {
    No,
    /// The first GOAWAY and a PING are sent; streams that cross them are served.
    Announced(Stamp),
    /// The last GOAWAY is sent, with the last stream that is served.
    Final(Stamp, u32),
    /// The caller was told that the drain is over; the last GOAWAY named this stream.
    Over(u32),
}

impl Draining {
    /// Whether a new stream is refused.
    #[inline]
    pub(super) fn refuses(self, id: u32) -> bool {
        match self {
            Draining::No | Draining::Announced(_) => false,
            Draining::Final(_, last) | Draining::Over(last) => id > last,
        }
    }

    /// The stream that the last GOAWAY named; a further GOAWAY must not name a higher one.
    pub(super) fn last(self) -> Option<u32> {
        match self {
            Draining::No | Draining::Announced(_) => None,
            Draining::Final(_, last) | Draining::Over(last) => Some(last),
        }
    }

    pub(super) fn deadline(self) -> Stamp {
        match self {
            Draining::No | Draining::Over(_) => Stamp::NEVER,
            Draining::Announced(until) | Draining::Final(until, _) => until,
        }
    }

    pub(super) fn is_over(self, now: Duration) -> bool {
        self.deadline().has_come(now)
    }
}
