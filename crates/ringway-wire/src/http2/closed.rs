//! Streams that have closed and whose frames may still come (RFC 9113, section 5.1).

use std::collections::VecDeque;

use crate::limits::HTTP2_RESETS_REMEMBERED;

/// Streams that ended on both sides and are still told apart from those that were never opened.
const ENDED_KEPT: usize = 8;

/// What a peer may send on a stream that is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    /// We reset it: what the peer had sent before it knew is ignored.
    Reset,
    /// The peer has ended or reset it, and may send nothing more.
    Ended,
    /// It was never opened, or long ago.
    Unknown,
}

/// A bounded memory of closed streams.
#[derive(Debug, Default)]
pub(super) struct Closed {
    resets: VecDeque<u32>,
    /// The highest id that was forgotten: nothing is said against streams up to it.
    forgotten: u32,
    ended: [u32; ENDED_KEPT],
    next: usize,
}

impl Closed {
    pub(super) fn note_reset(&mut self, id: u32) {
        if self.resets.len() >= HTTP2_RESETS_REMEMBERED
            && let Some(oldest) = self.resets.pop_front()
        {
            self.forgotten = self.forgotten.max(oldest);
        }
        self.resets.push_back(id);
    }

    #[inline]
    pub(super) fn note_ended(&mut self, id: u32) {
        self.ended[self.next % ENDED_KEPT] = id;
        self.next = self.next.wrapping_add(1);
    }

    /// What is known of a stream that is not open.
    pub(super) fn past(&self, id: u32) -> Past {
        if self.ended.contains(&id) {
            Past::Ended
        } else if id <= self.forgotten || self.resets.iter().rev().any(|&reset| reset == id) {
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
    fn resets_beyond_the_memory_are_still_borne() {
        let mut closed = Closed::default();
        closed.note_ended(1);
        closed.note_reset(3);
        assert_eq!([1, 3, 5].map(|id| closed.past(id)), [Past::Ended, Past::Reset, Past::Unknown]);
        for id in 0..2 * HTTP2_RESETS_REMEMBERED as u32 {
            closed.note_reset(7 + 2 * id);
        }
        assert_eq!(closed.resets.len(), HTTP2_RESETS_REMEMBERED);
        let last = 7 + 2 * (2 * HTTP2_RESETS_REMEMBERED as u32 - 1);
        assert_eq!(
            [7, last, last + 2].map(|id| closed.past(id)),
            [Past::Reset, Past::Reset, Past::Unknown]
        );
    }
}
