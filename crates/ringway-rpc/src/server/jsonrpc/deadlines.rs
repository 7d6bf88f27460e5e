//! Deadlines of a connection.

use std::time::Duration;

use ringway_wire::native::GoAwayCode;

/// The end that the server has announced to itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonDrain {
    why: GoAwayCode,
    pub(super) length: Duration,
    /// Known when the time is next known.
    pub(super) until: Option<Duration>,
}

impl JsonDrain {
    pub(super) fn new(why: GoAwayCode, length: Duration) -> Self {
        Self { why, length, until: None }
    }

    /// What those are told who call now.
    pub(super) fn refusal(&self) -> &'static str {
        match self.why {
            GoAwayCode::MaxAge => "the connection has reached its age",
            _ => "the server is shutting down",
        }
    }

    /// What those are told whose calls take too long.
    pub(super) fn end(&self) -> &'static str {
        match self.why {
            GoAwayCode::MaxAge => "the connection has reached its age before the call was done",
            _ => "the server is shutting down and the time to finish open calls is over",
        }
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
