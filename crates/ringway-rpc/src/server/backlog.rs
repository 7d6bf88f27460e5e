//! Calls that wait until their client has taken replies.
//!
//! Replies may wait for the windows of an HTTP/2 client. It is read on meanwhile, since that is how windows open, so
//! its calls would have more and more replies made. So while many bytes of replies wait, its calls are not begun: those
//! that arrive wait in the backlog of their connection, and handlers of request streams that are deferred stay so.
//!
//! ```text
//!           many bytes of replies wait                few do, and the backlog is empty
//!   Begins ────────────────────────────► Holds back ─────────────────────────────────► Begins
//! ```

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ringway_wire::native::StreamId;

use crate::limits;

/// The calls of a connection that wait, in the order of their arrival.
#[derive(Default)]
pub(super) struct Backlog {
    by_number: BTreeMap<u64, StreamId>,
    pub(super) deadlines: BTreeSet<(Duration, u64)>,
    /// The bytes of their requests.
    pub(super) bytes: usize,
}

impl Backlog {
    pub(super) fn push(
        &mut self,
        number: u64,
        stream: StreamId,
        size: usize,
        until: Option<Duration>,
    ) {
        self.by_number.insert(number, stream);
        self.deadlines.extend(until.map(|until| (until, number)));
        self.bytes += size;
    }

    /// Removes a call, if it is here.
    pub(super) fn remove(&mut self, number: u64, size: usize, until: Option<Duration>) {
        if self.by_number.remove(&number).is_some() {
            until.into_iter().for_each(|until| _ = self.deadlines.remove(&(until, number)));
            self.bytes -= size;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    pub(super) fn first(&self) -> Option<(u64, StreamId)> {
        self.by_number.first_key_value().map(|(&number, &stream)| (number, stream))
    }

    /// The call whose deadline has passed first, if one has.
    pub(super) fn first_late(&self, now: Duration) -> Option<(u64, StreamId)> {
        let (_, number) = *self.deadlines.first().filter(|(until, _)| *until <= now)?;
        self.by_number.get(&number).map(|&stream| (number, stream))
    }
}

/// Whether the calls of a connection wait for their client.
pub(super) struct Pause {
    /// The bytes of waiting replies from which on it is to be asked whether calls wait: 0 while some do.
    pub(super) mark: Cell<u32>,
    pub(super) is_on: Cell<bool>,
}

impl Default for Pause {
    fn default() -> Self {
        Self { mark: Cell::new(limits::REPLIES_WAITING_MAX as u32), is_on: Cell::new(false) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_leave_by_any_way_and_keep_nothing() {
        let at = Duration::from_millis;
        let stream = |slot| StreamId::new(slot, StreamId::GENERATION_FIRST);
        let mut backlog = Backlog::default();
        for (number, until) in [(3, Some(at(9))), (4, None), (5, Some(at(7)))] {
            backlog.push(number, stream(number as u32), 10, until);
        }
        assert_eq!(backlog.first(), Some((3, stream(3))));
        assert_eq!(backlog.first_late(at(6)), None);
        assert_eq!(backlog.first_late(at(7)), Some((5, stream(5))));
        backlog.remove(9, 10, Some(at(7))); // one of the queue of a method
        backlog.remove(5, 10, Some(at(7)));
        backlog.remove(3, 10, Some(at(9)));
        assert_eq!((backlog.first(), backlog.bytes), (Some((4, stream(4))), 10));
        assert_eq!(backlog.first_late(at(100)), None);
        backlog.remove(4, 10, None);
        assert!(backlog.is_empty() && backlog.bytes == 0 && backlog.deadlines.is_empty());
    }
}
