//! The end of a connection that finishes what it has begun (RFC 9113, section 6.8).

use std::time::Duration;

/// How far the end of a connection has come that finishes what it has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Draining {
    No,
    /// The first GOAWAY and a PING are sent; what crosses them is served.
    Announced(Duration),
    /// The last GOAWAY names the last stream that is served.
    Final(Duration, u32),
    /// The caller was told that the time is over. The last GOAWAY has named that stream.
    Over(u32),
}

impl Draining {
    /// Whether a new stream comes too late.
    #[inline]
    pub(super) fn refuses(self, id: u32) -> bool {
        match self {
            Draining::No | Draining::Announced(_) => false,
            Draining::Final(_, last) | Draining::Over(last) => id > last,
        }
    }

    /// The stream that the last GOAWAY has named. Another one may not name a higher one.
    pub(super) fn last(self) -> Option<u32> {
        match self {
            Draining::No | Draining::Announced(_) => None,
            Draining::Final(_, last) | Draining::Over(last) => Some(last),
        }
    }

    pub(super) fn deadline(self) -> Option<Duration> {
        match self {
            Draining::No | Draining::Over(_) => None,
            Draining::Announced(until) | Draining::Final(until, _) => Some(until),
        }
    }

    pub(super) fn is_over(self, now: Duration) -> bool {
        self.deadline().is_some_and(|until| now >= until)
    }
}
