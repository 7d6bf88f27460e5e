//! Closed streams for which frames may still arrive (RFC 9113, section 5.1).

use crate::limits::{HTTP2_CONNECTION_WINDOW, HTTP2_RESETS_REMEMBERED};
use crate::rare_queue::RareQueue;

/// Number of streams that ended on both sides and are still distinguished from unopened ones.
const ENDED_KEPT: usize = 8;

/// Why a stream is closed, which decides what the peer may still send on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    /// This end reset it: frames that the peer sent before it knew are ignored.
    Reset,
    /// The peer ended or reset it, and may send nothing more.
    Ended,
    /// It was never opened, or was closed long ago.
    Unknown,
}

/// A bounded memory of closed streams.
#[derive(Debug, Default)]
pub(super) struct Closed {
    /// In the order of the ids: a frame for any of them costs the same.
    resets: RareQueue<u32>,
    /// The highest forgotten id: streams up to it count as reset.
    forgotten: u32,
    /// Bytes that the peer may have sent on streams before it knew that we reset them.
    late: u32,
    ended: [u32; ENDED_KEPT],
    next: u8,
}

impl Closed {
    /// Notes that this end reset a stream, on which the peer might still send `late` bytes then.
    pub(super) fn note_reset(&mut self, id: u32, late: u32) {
        self.late = self.late.saturating_add(late).min(HTTP2_CONNECTION_WINDOW);
        self.resets.insert_sorted(id);
        if self.resets.len() > HTTP2_RESETS_REMEMBERED
            && let Some(lowest) = self.resets.pop_front()
        {
            self.forgotten = self.forgotten.max(lowest);
        }
    }

    /// Whether so many bytes on a stream that was reset may have left before the peer knew of it.
    pub(super) fn take_late(&mut self, len: u32) -> bool {
        let left = self.late.checked_sub(len);
        self.late = left.unwrap_or(self.late);
        left.is_some()
    }

    #[inline]
    pub(super) fn note_ended(&mut self, id: u32) {
        self.ended[usize::from(self.next) % ENDED_KEPT] = id;
        self.next = self.next.wrapping_add(1);
    }

    /// Whether this end reset a stream and remembers it. `visit` is told each id that this one is
    /// compared with.
    fn was_reset(&self, id: u32, mut visit: impl FnMut(u32)) -> bool {
        self.resets.has_sorted(|&other| {
            visit(other);
            other.cmp(&id)
        })
    }

    /// Frees memory that holds nothing.
    pub(super) fn drop_spare(&mut self) {
        self.resets.drop_spare();
    }

    /// Why a stream that is not open is closed.
    pub(super) fn past(&self, id: u32) -> Past {
        if self.ended.contains(&id) {
            Past::Ended
        } else if id <= self.forgotten || self.was_reset(id, |_| {}) {
            Past::Reset
        } else {
            Past::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_forgotten_resets_are_still_tolerated() {
        let mut closed = Closed::default();
        closed.note_ended(1);
        closed.note_reset(3, 0);
        assert_eq!([1, 3, 5].map(|id| closed.past(id)), [Past::Ended, Past::Reset, Past::Unknown]);
        for id in 0..2 * HTTP2_RESETS_REMEMBERED as u32 {
            closed.note_reset(7 + 2 * id, 0);
        }
        assert_eq!(closed.resets.len(), HTTP2_RESETS_REMEMBERED);
        let last = 7 + 2 * (2 * HTTP2_RESETS_REMEMBERED as u32 - 1);
        assert_eq!(
            [7, last, last + 2].map(|id| closed.past(id)),
            [Past::Reset, Past::Reset, Past::Unknown]
        );
    }

    #[test]
    fn a_frame_for_any_stream_that_was_reset_is_recognised_in_few_steps() {
        let mut closed = Closed::default();
        let id = |number: u32| 2 * (number * 389 % HTTP2_RESETS_REMEMBERED as u32) + 1;
        let all = 0..HTTP2_RESETS_REMEMBERED as u32;
        all.clone().for_each(|number| closed.note_reset(id(number), 0)); // in any order
        for number in all {
            let mut visited = 0;
            assert!(closed.was_reset(id(number), |_| visited += 1));
            assert!(visited <= 13, "{visited}");
        }
        assert_eq!((closed.forgotten, closed.past(2_051)), (0, Past::Unknown));
    }
}
