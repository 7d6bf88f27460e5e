//! Deadlines of a connection.

use std::time::Duration;

/// The end that the server has announced to itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonDrain {
    pub(super) length: Duration,
    /// Known when the time is next known.
    pub(super) until: Option<Duration>,
}

impl JsonDrain {
    pub(super) fn new(length: Duration) -> Self {
        Self { length, until: None }
    }
}

/// Watches whether a peer takes what is sent to it.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Stall {
    /// When to look, while something is to be sent.
    pub(super) due: Option<Duration>,
    /// Something has left since the last look.
    has_moved: bool,
}

impl Stall {
    /// Something was handed out, and perhaps not everything.
    #[inline]
    pub(super) fn moved(&mut self, is_more: bool, now: Duration, limit: Duration) {
        self.has_moved = true;
        match (is_more, self.due) {
            (false, _) => self.due = None,
            (true, None) => self.due = Some(now.saturating_add(limit)),
            (true, Some(_)) => {}
        }
    }

    /// Looks, when it is due; whether nothing has left since the last time.
    pub(super) fn look(&mut self, now: Duration, limit: Duration) -> bool {
        if self.due.is_none_or(|due| due > now) {
            return false;
        }
        self.due = Some(now.saturating_add(limit));
        !std::mem::take(&mut self.has_moved)
    }
}
