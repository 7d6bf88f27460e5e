//! Whether a connection rests, so that it need not keep memory for its next calls.

use std::cell::Cell;
use std::time::Duration;

use crate::limits;

/// Notices that a connection has been quiet for a while: for one to two times
/// [`limits::REST_AFTER`]. Use only sets a flag, which is looked at now and then.
#[derive(Debug)]
pub(super) struct Rest {
    /// Whether the connection was used since the last look.
    is_used: Cell<bool>,
    /// The time of the next look; `None` while the connection rests.
    look_at: Cell<Option<Duration>>,
}

impl Rest {
    pub(super) fn new(now: Duration) -> Self {
        Self { is_used: Cell::new(true), look_at: Cell::new(Some(now + limits::REST_AFTER)) }
    }

    #[inline]
    pub(super) fn note_use(&self, now: Duration) {
        self.is_used.set(true);
        if self.look_at.get().is_none() {
            self.look_at.set(Some(now + limits::REST_AFTER));
        }
    }

    /// The time at which [`begins`](Self::begins) is due.
    #[inline]
    pub(super) fn due(&self) -> Option<Duration> {
        self.look_at.get()
    }

    /// Whether a rest begins, which is told once.
    pub(super) fn begins(&self, now: Duration) -> bool {
        if self.look_at.get().is_none_or(|at| now < at) {
            return false;
        }
        let was_used = self.is_used.replace(false);
        self.look_at.set(was_used.then(|| now + limits::REST_AFTER));
        !was_used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_begins_when_nothing_has_happened_from_one_look_to_the_next() {
        let step = limits::REST_AFTER;
        let rest = Rest::new(Duration::ZERO);
        assert!(!rest.begins(step / 2) && !rest.begins(step), "it was made");
        rest.note_use(step * 3 / 2);
        assert!(!rest.begins(step * 2), "it was used");
        assert!(!rest.begins(step * 5 / 2), "too soon");
        assert!(rest.begins(step * 3));
        assert_eq!((rest.due(), rest.begins(step * 9)), (None, false));
        rest.note_use(step * 9);
        assert_eq!(rest.due(), Some(step * 10));
        assert!(!rest.begins(step * 10) && rest.begins(step * 11));
    }
}
