//! Cursors that go on at the end of what there is.

use std::time::Duration;

use crate::limits::{EMPTY_PAUSE_FIRST, EMPTY_PAUSE_MAX};

/// What a cursor does at the end of what there is. A tailable one, which only collections of a limited size (capped) have,
/// stays there and returns what is written later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CursorType {
    /// It ends.
    #[default]
    NonTailable,
    /// The server answers at once that there is nothing new. The client asks again after a pause, which grows to a quarter of
    /// a second.
    Tailable,
    /// The server waits a while before it answers that there is nothing new, and the client asks again at once.
    TailableAwait,
}

impl CursorType {
    /// The fields by which `find` asks for it; each is true.
    pub(crate) fn fields(self) -> &'static [&'static str] {
        match self {
            Self::NonTailable => &[],
            Self::Tailable => &["tailable"],
            Self::TailableAwait => &["tailable", "awaitData"],
        }
    }
}

/// How fast a cursor asks for more while the answers are empty: a server that answers all of them at once does not keep a
/// core busy.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Empty answers one after the other.
    empty: u32,
    /// How long the last one took.
    took: Duration,
}

impl Pace {
    /// Notes an answer to the question for more.
    pub(super) fn note(&mut self, is_empty: bool, took: Duration) {
        self.empty = if is_empty { self.empty.saturating_add(1) } else { 0 };
        self.took = took;
    }

    /// How long to wait before the next question. Questions that the server is asked to hold back for `max_await` follow
    /// each other as fast as that.
    pub(super) fn pause(&self, max_await: Option<Duration>) -> Duration {
        let most = max_await
            .map_or(EMPTY_PAUSE_MAX, |time| time.clamp(EMPTY_PAUSE_FIRST, EMPTY_PAUSE_MAX));
        pause_after(self.empty).min(most).saturating_sub(self.took)
    }
}

/// How long to wait after so many questions in vain, one after the other.
pub(crate) fn pause_after(in_vain: u32) -> Duration {
    let Some(earlier) = in_vain.checked_sub(1) else { return Duration::ZERO };
    let grown = EMPTY_PAUSE_FIRST.saturating_mul(1_u32.checked_shl(earlier).unwrap_or(u32::MAX));
    grown.min(EMPTY_PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn pauses_grow_while_nothing_comes() {
        let mut pace = Pace::default();
        let mut pauses = Vec::new();
        for _ in 0..100 {
            pauses.push(pace.pause(None));
            pace.note(true, Duration::ZERO);
        }
        assert_eq!(pauses[..5], [0, 1, 2, 4, 8].map(millis));
        assert_eq!(pauses[99], EMPTY_PAUSE_MAX);
        pace.note(false, Duration::ZERO);
        assert_eq!(pace.pause(None), Duration::ZERO);
    }

    #[test]
    fn a_server_that_waits_is_asked_again_at_once() {
        let mut pace = Pace::default();
        (0..9).for_each(|_| pace.note(true, millis(1000)));
        assert_eq!(pace.pause(None), Duration::ZERO);
        (0..9).for_each(|_| pace.note(true, millis(20)));
        assert_eq!(pace.pause(Some(millis(20))), Duration::ZERO);
        assert_eq!(pace.pause(Some(millis(50))), millis(30), "it has answered too early");
        pace.note(true, Duration::ZERO);
        assert_eq!(pace.pause(Some(Duration::ZERO)), EMPTY_PAUSE_FIRST);
    }
}
