//! Sends to peers that have half-closed and read slowly.
//!
//! On such a stream the kernel's own wait for room ends at once, because the peer's end counts as
//! an event, and the send would block a thread of the kernel instead. Here it waits for a change: a
//! multishot poll reports only changes, and each is followed by one try.

use super::{Completion, Room, Uring, kind, tag};
use crate::driver::{Event, Key};

impl Uring {
    /// Keeps a send that found no room.
    pub(super) fn on_full(&mut self, key: Key, slot: u32) {
        let handle = &mut self.handles[key.index()];
        match handle.room {
            Room::Came => {
                handle.room = Room::Armed;
                return self.sends.retry(&mut self.ring, slot);
            }
            Room::Off => self.arm_room(key),
            Room::Armed => {}
        }
        self.handles[key.index()].full = Some(slot);
    }

    /// Handles a report of possible room, or the end of the poll.
    pub(super) fn on_room(&mut self, key: Key, completion: Completion, events: &mut Vec<Event>) {
        let handle = &mut self.handles[key.index()];
        if !completion.more() {
            handle.in_flight -= 1;
            handle.room = Room::Off;
            if handle.closing {
                return self.close_if_idle(key, events);
            }
            if handle.full.is_some() {
                // A change meanwhile is reported at once.
                self.counters.rearms += 1;
                self.arm_room(key);
            }
            return;
        }
        if handle.closing {
            return;
        }
        match handle.full.take() {
            Some(slot) => self.sends.retry(&mut self.ring, slot),
            None => handle.room = Room::Came,
        }
    }

    fn arm_room(&mut self, key: Key) {
        let handle = &mut self.handles[key.index()];
        handle.room = Room::Armed;
        handle.in_flight += 1;
        let fd = handle.fd;
        self.ring.poll_multishot(fd, libc::POLLOUT, tag(kind::ROOM, key.bits()));
    }
}
