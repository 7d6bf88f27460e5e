//! TLS over a stream, by rustls.
//!
//! ```text
//!   Stream ── ciphertext views ──► TlsSession ── plaintext views ──► TlsStream::poll_recv
//!   Stream ◄── its send queue ──── TlsSession ◄─────────────────────  TlsStream::write
//! ```
//!
//! [`session`] knows no socket, [`stream`] knows no record, [`handshake`] joins them under a
//! deadline. On a server, [`places`] and [`steps`] bound what handshakes hold and compute.

mod arrivals;
mod client;
mod error;
mod handshake;
mod identity;
mod itself;
mod names;
mod pem;
mod places;
mod roots;
mod server;
mod session;
mod steps;
mod stream;
mod unverified;

pub use client::ClientTls;
pub(crate) use error::TlsError;
pub use names::certificate_names;
pub(crate) use places::{Handshakes, Place};
pub use server::{ClientAuth, ServerTls};
pub use stream::TlsStream;

use std::sync::{Arc, OnceLock};

use rustls::crypto::CryptoProvider;

/// The one cryptography provider of the process's configurations. Named in each of them, so that a
/// program that installs another default for its own use does not change ours.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())).clone()
}
