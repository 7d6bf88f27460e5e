//! Streams that this end resets, within the number that servers tolerate.

use super::connection::Connection;
use super::put::put_reset;
use super::role::Role;
use super::{ErrorCode, StreamHandle};

impl<R: Role> Connection<R> {
    /// Ends a stream with RST_STREAM. A server's slot is kept until it is let go, a client's until
    /// the frame is written. That may be later, since servers take many resets for an attack
    /// (CVE-2023-44487), even those they provoked (CVE-2025-8671).
    pub(super) fn give_up(&mut self, stream: StreamHandle, code: ErrorCode) {
        self.retire(stream, true);
        if R::IS_SERVER {
            put_reset(stream.id, code, &mut self.outbox.written);
        } else if self.held_resets.is_empty() && self.budgets.may_reset(self.now) {
            self.put_own_reset(stream, code);
        } else {
            self.held_resets.push_back((stream, code));
        }
    }

    /// Sends as many of the held back RST_STREAMs as the limit allows now.
    #[cold]
    pub(super) fn release_resets(&mut self) {
        while let Some(&(stream, code)) = self.held_resets.front()
            && self.budgets.may_reset(self.now)
        {
            self.held_resets.pop_front();
            self.put_own_reset(stream, code);
        }
    }

    fn put_own_reset(&mut self, stream: StreamHandle, code: ErrorCode) {
        put_reset(stream.id, code, &mut self.outbox.written);
        self.streams.let_go(stream);
        self.note_capacity();
    }
}
