//! One TLS session, without a socket or a clock: ciphertext in and plaintext out, and the reverse.
//!
//! ```text
//!              handshake done              peer's close_notify
//!  Handshaking ──────────────► Open ──────────────────────────► PeerClosed
//!       │                       │                                    │
//!       └───────────────────────┴──────────► Failed ◄────────────────┘
//! ```
//!
//! Our own `close_notify` is independent of these states: it ends only the sending direction.

use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ringway_runtime::View;
use rustls::{Connection, SupportedCipherSuite};

use super::TlsError;
use crate::limits;

/// The state of a TLS session.
pub(super) struct TlsSession {
    rustls: Connection,
    /// Ciphertext that was not processed yet. It is more than one view only if the caller gives
    /// more before it has taken the plaintext.
    input: VecDeque<View>,
    /// Plaintext that was not taken yet.
    plain: Vec<u8>,
    peer_closed: bool,
    close_sent: bool,
    /// How many records may still be sent; known from the first one on.
    records_left: Option<u64>,
    /// The first failure; it is never replaced.
    failed: Option<TlsError>,
}

impl TlsSession {
    pub(super) fn new(rustls: impl Into<Connection>) -> Self {
        let mut rustls = rustls.into();
        // Ciphertext goes to the stream's send queue at once, which has a bound.
        rustls.set_buffer_limit(None);
        Self {
            rustls,
            input: VecDeque::new(),
            plain: Vec::new(),
            peer_closed: false,
            close_sent: false,
            records_left: None,
            failed: None,
        }
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.rustls.is_handshaking()
    }

    /// Returns the rustls connection, for the results of the handshake.
    pub(super) fn rustls(&self) -> &Connection {
        &self.rustls
    }

    /// Returns why the session failed. Earlier plaintext may still wait.
    pub(super) fn failure(&self) -> Option<&TlsError> {
        self.failed.as_ref()
    }

    pub(super) fn fail(&mut self, error: TlsError) {
        self.input.clear();
        self.failed.get_or_insert(error);
    }

    /// Ends receiving as though the peer had sent `close_notify`.
    pub(super) fn end_receiving(&mut self) {
        self.peer_closed = true;
    }

    /// Whether the peer has ended its direction (`close_notify`).
    pub(super) fn is_peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// Whether nothing can be sent any more.
    pub(super) fn is_send_closed(&self) -> bool {
        self.close_sent || self.failed.is_some()
    }

    /// Takes ciphertext in; ignored after a failure.
    pub(super) fn give(&mut self, ciphertext: View) {
        if self.failed.is_none() && !ciphertext.is_empty() {
            self.input.push_back(ciphertext);
            self.advance();
        }
    }

    /// Returns the next plaintext, at most [`limits::TLS_PLAIN_BYTES_MAX`] bytes.
    pub(super) fn next_plain(&mut self) -> Option<View> {
        if self.plain.is_empty() {
            self.advance();
        }
        if self.plain.is_empty() {
            return None;
        }
        Some(View::from(std::mem::take(&mut self.plain)))
    }

    /// Returns the memory of received bytes that were not taken. Callers give no more while any
    /// wait, so it is at most a receive buffer and a view of plaintext.
    pub(super) fn kept_bytes(&self) -> usize {
        self.input.iter().map(View::held_bytes).sum::<usize>() + self.plain.capacity()
    }

    /// Decrypts until the input is empty or a full view of plaintext waits.
    fn advance(&mut self) {
        while self.plain.len() < limits::TLS_PLAIN_BYTES {
            let Some(mut view) = self.input.pop_front() else {
                return;
            };
            if self.plain.capacity() == 0 && !self.rustls.is_handshaking() {
                self.plain.reserve_exact(view.len().min(limits::TLS_PLAIN_BYTES_MAX));
            }
            if let Err(error) = self.decrypt(&mut view) {
                return self.fail(error);
            }
            if !view.is_empty() {
                self.input.push_front(view);
            }
        }
    }

    /// Decrypts from the front of `view`, at most a full view of plaintext.
    fn decrypt(&mut self, view: &mut View) -> Result<(), TlsError> {
        while !view.is_empty() && self.plain.len() < limits::TLS_PLAIN_BYTES {
            let mut rest = &view[..];
            let taken = self.rustls.read_tls(&mut rest);
            let taken = taken.map_err(|error| rustls::Error::General(error.to_string()))?;
            if taken == 0 {
                // Bytes after a close_notify are ignored (RFC 8446, section 6.1).
                view.advance(view.len());
                break;
            }
            view.advance(taken);
            self.process()?;
        }
        Ok(())
    }

    /// Processes complete records, and keeps their plaintext even if a later one is bad.
    fn process(&mut self) -> Result<(), rustls::Error> {
        let outcome = match self.close_sent {
            false => self.rustls.process_new_packets(),
            true => self.process_after_close(),
        };
        if let Ok(state) = &outcome {
            self.peer_closed |= state.peer_has_closed();
        }
        let mut reader = self.rustls.reader();
        while let Ok(chunk) = reader.fill_buf() {
            if chunk.is_empty() {
                break;
            }
            self.plain.extend_from_slice(chunk);
            let taken = chunk.len();
            reader.consume(taken);
        }
        outcome.map(|_| ())
    }

    /// Processes records after our own `close_notify`. In builds with debug assertions, rustls 0.23
    /// panics on a bad record then (`send_fatal_alert`), which a peer must not be able to cause.
    fn process_after_close(&mut self) -> Result<rustls::IoState, rustls::Error> {
        let processed = catch_unwind(AssertUnwindSafe(|| self.rustls.process_new_packets()));
        processed.unwrap_or_else(|_| Err(rustls::Error::General("a bad record".to_owned())))
    }

    /// Encrypts `plain`, at most one record; [`drain_to`](Self::drain_to) then returns it.
    pub(super) fn encrypt(&mut self, plain: &[u8]) {
        let left = self.records_left.unwrap_or_else(|| records_max(&self.rustls));
        if left == 0 {
            return self.fail(TlsError::KeysUsedUp);
        }
        self.records_left = Some(left - 1);
        if let Err(error) = self.rustls.writer().write_all(plain) {
            self.fail(rustls::Error::General(error.to_string()).into());
        }
    }

    /// Ends our direction with `close_notify`.
    pub(super) fn close(&mut self) {
        if !self.is_send_closed() {
            self.close_sent = true;
            self.rustls.send_close_notify();
        }
    }

    /// Moves all pending ciphertext, alerts included, to `out`.
    pub(super) fn drain_to(&mut self, out: &mut impl Write) -> io::Result<()> {
        while self.rustls.wants_write() {
            self.rustls.write_tls(out)?;
        }
        Ok(())
    }
}

/// Returns how many records one key may encrypt. TLS 1.3 renews the keys itself. TLS 1.2 cannot: at
/// its limit rustls drops the data and sends a clean end, so we fail the session before.
fn records_max(rustls: &Connection) -> u64 {
    match rustls.negotiated_cipher_suite() {
        Some(SupportedCipherSuite::Tls12(suite)) => {
            suite.common.confidentiality_limit.saturating_sub(limits::TLS_RECORDS_SPARED)
        }
        Some(SupportedCipherSuite::Tls13(_)) | None => u64::MAX,
    }
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        Self::Protocol(error)
    }
}

#[cfg(test)]
mod tests;
