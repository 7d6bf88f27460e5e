//! TLS over a stream, with rustls.
//!
//! ```text
//!   Stream ── ciphertext views ──► TlsSession ── plaintext views ──► TlsStream::poll_recv
//!   Stream ◄── its send queue ──── TlsSession ◄─────────────────────  TlsStream::write
//! ```
//!
//! [`session`] knows no socket, [`stream`] knows no records, and [`handshake`] joins them with a
//! deadline. On a server, [`handshake_slots`] bounds the number of handshakes and [`steps`] their
//! computation.

mod arrivals;
mod client;
mod error;
mod handshake;
mod handshake_slots;
mod identity;
mod itself;
mod names;
mod pem;
mod roots;
mod server;
mod session;
mod steps;
mod stream;
mod unverified;

pub use client::ClientTls;
pub(crate) use error::TlsError;
pub(crate) use handshake_slots::{HandshakeSlot, Handshakes};
pub use names::certificate_names;
pub use server::{ClientAuth, ServerTls};
pub use stream::TlsStream;

use std::sync::{Arc, OnceLock};

use rustls::crypto::CryptoProvider;

/// Returns the cryptography provider of all our configurations. Each names it, so that a program
/// which installs another default does not change ours.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())).clone()
}
