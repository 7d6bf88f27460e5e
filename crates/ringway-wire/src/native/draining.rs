//! The drain of a connection: it ends in two steps, after it has completed its open calls (section 8).

use std::time::Duration;

use super::GoAwayCode;

/// By how much the count of the first GOAWAY is ahead: half of the range, so beyond all that a client
/// may have sent.
pub(super) const UNKNOWN: u32 = 1 << 31;

#[derive(Debug, Clone, Copy)]
pub(super) struct Drain {
    pub(super) code: GoAwayCode,
    pub(super) length: Duration,
    pub(super) step: DrainStep,
    /// End of the drain, set when the time is next known.
    pub(super) until: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum DrainStep {
    /// The first GOAWAY and a PING with this nonce are sent; requests that cross them are served. The
    /// client knows when it has acknowledged the PING, and is assumed to know at `known`.
    Announced { nonce: u32, known: Duration },
    /// The last GOAWAY is sent; further requests are refused.
    Final,
}

impl Drain {
    /// Whether no request can be on its way, since the client knows of the drain.
    pub(super) fn is_final(&self) -> bool {
        matches!(self.step, DrainStep::Final)
    }

    /// Next time to look at it; `None`: at once, to learn the time.
    pub(super) fn next(&self) -> Option<Duration> {
        match self.step {
            DrainStep::Announced { known, .. } => self.until.map(|until| until.min(known)),
            DrainStep::Final => self.until,
        }
    }
}
