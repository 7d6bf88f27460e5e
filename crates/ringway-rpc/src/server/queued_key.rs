//! The key by which a method's queue refers to a request of a connection.

use std::rc::{Rc, Weak};
use std::time::Duration;

use ringway_wire::native::StreamId;

/// A connection with queued requests. Operations on a request that has ended meanwhile do nothing.
pub(super) trait HasQueued {
    /// Whether the request is still queued.
    fn is_queued(&self, stream: StreamId, number: u64) -> bool;

    /// Runs a request that has waited for `waited`, under the permit that the caller has taken. False if
    /// it has ended meanwhile, so that the permit is still free.
    fn run_queued(self: Rc<Self>, stream: StreamId, number: u64, waited: Duration) -> bool;

    /// Answers a request without running it.
    fn shed_queued(&self, stream: StreamId, number: u64);

    /// Answers a request with DEADLINE_EXCEEDED.
    fn expire_queued(&self, stream: StreamId, number: u64);
}

/// A key to a queued request. It resolves to nothing once the request is gone.
pub(super) struct QueuedKey {
    connection: Weak<dyn HasQueued>,
    stream: StreamId,
    number: u64,
}

impl QueuedKey {
    pub(super) fn new(connection: Weak<dyn HasQueued>, stream: StreamId, number: u64) -> Self {
        Self { connection, stream, number }
    }

    /// Whether the request is [still queued](HasQueued::is_queued).
    pub(super) fn is_valid(&self) -> bool {
        let connection = self.connection.upgrade();
        connection.is_some_and(|it| it.is_queued(self.stream, self.number))
    }

    /// [Runs](HasQueued::run_queued) the request; false if it is gone.
    pub(super) fn run(self, waited: Duration) -> bool {
        let connection = self.connection.upgrade();
        connection.is_some_and(|it| it.run_queued(self.stream, self.number, waited))
    }

    /// [Sheds](HasQueued::shed_queued) the request.
    pub(super) fn shed(self) {
        if let Some(connection) = self.connection.upgrade() {
            connection.shed_queued(self.stream, self.number);
        }
    }

    /// [Expires](HasQueued::expire_queued) the request.
    pub(super) fn expire(self) {
        if let Some(connection) = self.connection.upgrade() {
            connection.expire_queued(self.stream, self.number);
        }
    }
}
