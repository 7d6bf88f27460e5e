//! What a client tells of its servers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bson::RawDocument;
use ringway_runtime::contain;

use crate::error::Error;
use crate::topology::{ServerDescription, Topology};
use crate::uri::HostAddress;

/// Something that a client has learned of its servers, or that its monitors do. See
/// [`ClientOptions::on_topology`](crate::ClientOptions::on_topology).
///
/// Specification: SDAM Logging and Monitoring.
#[derive(Debug)]
#[non_exhaustive]
pub struct TopologyEvent<'a> {
    /// The number of the deployment among all of the process. Each core of a client has its own view.
    pub topology: u64,
    /// What has happened.
    pub change: TopologyChange<'a>,
}

/// What has happened.
///
/// `Opening` is the first, `Closed` the last. Each heartbeat that is started succeeds or fails, unless the client has
/// gone meanwhile.
#[derive(Debug)]
#[non_exhaustive]
pub enum TopologyChange<'a> {
    /// The client begins.
    Opening,
    /// Another view of the servers than before. At the end it is one without servers.
    Changed {
        /// The view before.
        previous: &'a Topology,
        /// The view now.
        current: &'a Topology,
    },
    /// The client has ended.
    Closed,
    /// A server belongs to the deployment from now on.
    ServerOpening {
        /// The server.
        server: &'a HostAddress,
    },
    /// A server is not what it was. Its round trips may change without this.
    ServerChanged {
        /// What was known of it.
        previous: &'a ServerDescription,
        /// What is known of it now.
        current: &'a ServerDescription,
    },
    /// A server does not belong to the deployment any more.
    ServerClosed {
        /// The server.
        server: &'a HostAddress,
    },
    /// A server is about to be asked how it is, or its next answer is waited for.
    HeartbeatStarted {
        /// The server.
        server: &'a HostAddress,
        /// Whether the server answers when something has changed, instead of at once.
        is_awaited: bool,
    },
    /// A server has told how it is.
    HeartbeatSucceeded {
        /// The server.
        server: &'a HostAddress,
        /// Whether it was to answer when something has changed.
        is_awaited: bool,
        /// The time since the start.
        after: Duration,
        /// The answer.
        reply: &'a RawDocument,
    },
    /// A server has not told how it is.
    HeartbeatFailed {
        /// The server.
        server: &'a HostAddress,
        /// Whether it was to answer when something has changed.
        is_awaited: bool,
        /// The time since the start.
        after: Duration,
        /// Why.
        error: &'a Error,
    },
}

type HearTopology = dyn Fn(&TopologyEvent<'_>) + Send + Sync;

/// Who is told of servers.
#[derive(Clone)]
pub(crate) struct TopologyObserver(Arc<HearTopology>);

impl TopologyObserver {
    pub(crate) fn new(hear: impl Fn(&TopologyEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    pub(crate) fn tell(&self, event: &TopologyEvent<'_>) {
        contain("an observer of servers", || (self.0)(event));
    }
}

impl fmt::Debug for TopologyObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TopologyObserver")
    }
}
