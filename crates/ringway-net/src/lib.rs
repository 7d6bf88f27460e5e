//! Sockets, TLS, sessions, servers and clients on the Ringway runtime.

mod address;
mod blocking;
mod client;
mod compat;
mod connection;
mod credentials;
#[cfg(feature = "dns")]
#[doc(hidden)]
pub mod dns;
mod error;
mod framed;
mod group;
mod handler;
mod keepalive;
mod limits;
mod look_up;
mod marks;
#[doc(hidden)]
pub mod remote;
mod requester;
mod server;
mod session;
mod slow_reader;
mod spans;
mod tls;
mod transport;
mod udp;

pub use address::{Address, Authority, Endpoint, ToAddresses};
#[doc(hidden)]
pub use blocking::blocking_refused;
pub use client::{Backoff, Client, Reconnecting};
pub use compat::{HyperTimer, IoStream, LocalExec};
pub use connection::{Connection, Drained, Peer, Receiving, Sending, WeakPeer};
pub use credentials::Credentials;
pub use error::{Error, Result};
pub use framed::{Framed, Outgoing, Payload};
pub use group::{Delivering, Delivery, Group, Membership};
pub use handler::Handler;
pub use requester::Requester;
pub use ringway_runtime::io::{Pressure, StreamLimits};
pub use ringway_runtime::{Backend, Segment, View};
pub use rustls::pki_types::CertificateDer;
pub use server::{CoreStats, Ended, Server, ServerHandle, ServerStats, Sessions};
pub use session::{ConnectionId, Session};
pub use slow_reader::SlowReader;
pub use tls::{ClientAuth, ClientTls, ServerTls, TlsStream, certificate_names};
pub use udp::{Datagram, Responder, UdpSocket};
