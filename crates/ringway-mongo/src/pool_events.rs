//! What a client tells of its pools.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bson::oid::ObjectId;
use ringway_runtime::contain;

use crate::error::Error;
use crate::uri::HostAddress;

/// Something that has happened to a pool. See [`ClientOptions::on_pool`](crate::ClientOptions::on_pool).
///
/// Specification: Connection Monitoring and Pooling, "Events".
#[derive(Debug)]
#[non_exhaustive]
pub struct PoolEvent<'a> {
    /// The server that the pool's connections lead to.
    pub server: &'a HostAddress,
    /// The number of the pool among all of the process. Each core has its own.
    pub pool: u64,
    /// What has happened.
    pub change: PoolChange<'a>,
}

/// What has happened to a pool or to one of its connections, which have numbers from 1 on.
///
/// Each check-out that is started fails or gets a connection; each connection that is created is closed.
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolChange<'a> {
    /// The pool was made.
    Created {
        /// The most connections that it has.
        size_max: u32,
        /// The connections that it makes before they are needed.
        size_min: u32,
        /// How long a connection may be idle; `None` for any time.
        idle_max: Option<Duration>,
    },
    /// The server is there.
    Ready,
    /// The server has failed, so the connections of before are not used again.
    Cleared {
        /// The one that has failed of the services behind a load balancer; the others go on.
        service: Option<ObjectId>,
    },
    /// The pool is not used any more.
    Closed,
    /// A connection is about to be made.
    ConnectionCreated {
        /// The number of the connection.
        connection: u64,
    },
    /// A connection was greeted and authenticated.
    ConnectionReady {
        /// The number of the connection.
        connection: u64,
        /// The time since it was created.
        after: Duration,
    },
    /// A connection was closed, or could not be made.
    ConnectionClosed {
        /// The number of the connection.
        connection: u64,
        /// Why.
        reason: CloseReason,
    },
    /// An operation wants a connection.
    CheckOutStarted,
    /// An operation gets no connection.
    CheckOutFailed {
        /// Why, in a word.
        reason: CheckOutFailure,
        /// Why.
        error: &'a Error,
        /// The time since it wanted one.
        after: Duration,
    },
    /// An operation has a connection.
    CheckedOut {
        /// The number of the connection.
        connection: u64,
        /// The time since it wanted one.
        after: Duration,
    },
    /// An operation does not need its connection any more.
    CheckedIn {
        /// The number of the connection.
        connection: u64,
    },
}

/// Why a connection was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CloseReason {
    /// The pool was cleared since it was made.
    Stale,
    /// It was idle for longer than the options allow.
    Idle,
    /// It broke, could not be made, or a reply that nobody waited for did not come in time.
    Error,
    /// The pool was closed.
    PoolClosed,
}

/// Why an operation got no connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CheckOutFailure {
    /// Its time was over, or it was given up.
    Timeout,
    /// A connection could not be made, or the pool was cleared.
    ConnectionError,
    /// The pool is closed.
    PoolClosed,
}

type HearPool = dyn Fn(&PoolEvent<'_>) + Send + Sync;

/// Who is told of pools.
#[derive(Clone)]
pub(crate) struct PoolObserver(Arc<HearPool>);

impl PoolObserver {
    pub(crate) fn new(hear: impl Fn(&PoolEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    pub(crate) fn tell(&self, event: &PoolEvent<'_>) {
        contain("an observer of pools", || (self.0)(event));
    }
}

impl fmt::Debug for PoolObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PoolObserver")
    }
}
