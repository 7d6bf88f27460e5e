//! Connections that stop speaking HTTP.

use std::pin::Pin;

use bytes::Bytes;
use ringway_net::{Connection, IoStream, View};

/// A connection behind its last response, which was a 101.
pub(crate) struct Upgraded {
    pub(crate) connection: Connection,
    pub(crate) received: Received,
}

/// What was received behind the last message of HTTP and not read yet.
#[derive(Default)]
pub(crate) struct Received {
    /// It was copied out of the connection already, and comes first.
    pub(crate) early: Bytes,
    pub(crate) view: Option<View>,
}

impl Upgraded {
    pub(crate) fn new(io: IoStream, early: Bytes) -> Self {
        let (connection, view) = io.into_parts();
        Self { connection, received: Received { early, view } }
    }
}

/// What becomes of such a connection.
pub(crate) type Upgrade = Box<dyn FnOnce(Upgraded) -> Pin<Box<dyn Future<Output = ()>>>>;
