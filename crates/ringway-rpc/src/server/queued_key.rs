//! What the queue of a method has of a request, which is its connection's.

use std::rc::{Rc, Weak};
use std::time::Duration;

use ringway_wire::native::StreamId;

/// A connection that has requests which wait for room to run. Those that have ended meanwhile are not
/// found any more, and nothing happens.
pub(super) trait HasQueued {
    /// Whether one is there and waits.
    fn is_queued(&self, stream: StreamId, number: u64) -> bool;

    /// Runs one in the place that its method has given it, after it has waited for `waited`. False if
    /// it has ended meanwhile, so that the place is still free.
    fn run_queued(self: Rc<Self>, stream: StreamId, number: u64, waited: Duration) -> bool;

    /// Answers one without having run it.
    fn shed_queued(&self, stream: StreamId, number: u64);

    /// Answers that the deadline of one has passed.
    fn expire_queued(&self, stream: StreamId, number: u64);
}

/// A place in the queue. It is good for nothing once the request is gone.
pub(super) struct QueuedKey {
    connection: Weak<dyn HasQueued>,
    stream: StreamId,
    number: u64,
}

impl QueuedKey {
    pub(super) fn new(connection: Weak<dyn HasQueued>, stream: StreamId, number: u64) -> Self {
        Self { connection, stream, number }
    }

    /// As [`HasQueued::is_queued`].
    pub(super) fn is_good(&self) -> bool {
        let connection = self.connection.upgrade();
        connection.is_some_and(|it| it.is_queued(self.stream, self.number))
    }

    /// As [`HasQueued::run_queued`].
    pub(super) fn run(self, waited: Duration) -> bool {
        let connection = self.connection.upgrade();
        connection.is_some_and(|it| it.run_queued(self.stream, self.number, waited))
    }

    /// As [`HasQueued::shed_queued`].
    pub(super) fn shed(self) {
        if let Some(connection) = self.connection.upgrade() {
            connection.shed_queued(self.stream, self.number);
        }
    }

    /// As [`HasQueued::expire_queued`].
    pub(super) fn expire(self) {
        if let Some(connection) = self.connection.upgrade() {
            connection.expire_queued(self.stream, self.number);
        }
    }
}
