//! Sockets, TLS, sessions, servers and clients on the Ringway runtime.

mod address;
mod connection;
mod error;
mod limits;
mod server;
mod session;
mod slow_reader;
mod transport;

pub use address::{Address, Authority, Endpoint};
pub use connection::{Connection, Drained, Peer, Receiving, Sending};
pub use error::{Error, Result};
pub use ringway_runtime::io::{Pressure, StreamLimits};
pub use ringway_runtime::{Backend, Segment, View};
pub use server::{CoreStats, Server, ServerHandle, ServerStats};
pub use session::{ConnectionId, Session};
pub use slow_reader::SlowReader;
