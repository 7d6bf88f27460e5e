//! A unary call from its first poll to its end, for counts.

use std::time::{Duration, Instant};

use super::tally::{Ended, Tally};
use crate::call::method::Method;
use crate::call::status::Code;

/// A call that was counted as begun, and is to be counted as ended.
#[derive(Clone, Copy)]
pub(super) struct Life {
    begun: Instant,
    /// When it was first given to a connection.
    sent: Option<Instant>,
}

impl Life {
    #[inline]
    pub(super) fn begin(now: Instant) -> Self {
        Self { begun: now, sent: None }
    }

    /// The call is given to a connection; the first time counts.
    #[inline]
    pub(super) fn sent(&mut self, now: Instant) {
        self.sent.get_or_insert(now);
    }

    /// The call ends.
    #[inline]
    pub(super) fn count(
        self,
        tally: &Tally,
        method: &'static Method,
        code: Code,
        bytes: usize,
        now: Instant,
    ) {
        let waited = match self.sent {
            Some(sent) if sent == self.begun => Duration::ZERO,
            sent => sent.unwrap_or(now).saturating_duration_since(self.begun),
        };
        let service = self.sent.map(|sent| now.saturating_duration_since(sent));
        tally.call_ended(method, Ended { code, bytes, waited, service });
    }
}
