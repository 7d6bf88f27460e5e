//! Connections that switch from HTTP to another protocol.

use std::pin::Pin;

use bytes::Bytes;
use ringway_net::{Connection, IoStream, View};

/// A connection after its last response, a 101.
pub(crate) struct Upgraded {
    pub(crate) connection: Connection,
    pub(crate) received: Received,
}

/// Bytes received after the last HTTP message, not read yet.
#[derive(Default)]
pub(crate) struct Received {
    /// These bytes were copied out of the connection already and come first.
    pub(crate) early: Bytes,
    pub(crate) view: Option<View>,
}

impl Upgraded {
    pub(crate) fn new(io: IoStream, early: Bytes) -> Self {
        let (connection, view) = io.into_parts();
        Self { connection, received: Received { early, view } }
    }
}

/// What a switched connection is used for.
pub(crate) type Upgrade = Box<dyn FnOnce(Upgraded) -> Pin<Box<dyn Future<Output = ()>>>>;
