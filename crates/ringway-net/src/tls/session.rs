//! One TLS session: ciphertext in, plaintext out, and the other way. No socket, no clock.
//!
//! ```text
//!              handshake done              peer's close_notify
//!  Handshaking ──────────────► Open ──────────────────────────► PeerClosed
//!       │                       │                                    │
//!       └───────────────────────┴──────────► Failed ◄────────────────┘
//! ```
//!
//! Our own `close_notify` is independent of that: it ends one direction only.

use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ringway_runtime::View;
use rustls::{Connection, SupportedCipherSuite};

use super::TlsError;
use crate::limits;

/// The state between a byte stream's two directions and their plaintext.
pub(super) struct TlsSession {
    rustls: Connection,
    /// Ciphertext that has not been taken in yet. More than one piece only where plaintext is not
    /// taken before more is given.
    input: VecDeque<View>,
    /// Plaintext that nobody has taken yet.
    plain: Vec<u8>,
    peer_closed: bool,
    close_sent: bool,
    /// Records that may be sent still; known since the first that was.
    records_left: Option<u64>,
    /// The first failure; it stays.
    failed: Option<TlsError>,
}

impl TlsSession {
    pub(super) fn new(rustls: impl Into<Connection>) -> Self {
        let mut rustls = rustls.into();
        // What is encrypted goes to the stream's send queue at once, and that one has a bound.
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

    /// What the handshake agreed on.
    pub(super) fn rustls(&self) -> &Connection {
        &self.rustls
    }

    /// Why the session failed. Plaintext that arrived before that may still wait.
    pub(super) fn failure(&self) -> Option<&TlsError> {
        self.failed.as_ref()
    }

    pub(super) fn fail(&mut self, error: TlsError) {
        self.input.clear();
        self.failed.get_or_insert(error);
    }

    /// No more ciphertext comes, as though the peer had said that it sends no more.
    pub(super) fn end_receiving(&mut self) {
        self.peer_closed = true;
    }

    /// Whether the peer has said that it sends no more.
    pub(super) fn is_peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// Whether nothing can be sent any more.
    pub(super) fn is_send_closed(&self) -> bool {
        self.close_sent || self.failed.is_some()
    }

    /// Takes ciphertext in. Who only wants to go on gives none.
    pub(super) fn give(&mut self, ciphertext: View) {
        if self.failed.is_none() && !ciphertext.is_empty() {
            self.input.push_back(ciphertext);
            self.advance();
        }
    }

    /// The next piece of plaintext; at most [`limits::TLS_PLAIN_BYTES_MAX`].
    pub(super) fn next_plain(&mut self) -> Option<View> {
        if self.plain.is_empty() {
            self.advance();
        }
        if self.plain.is_empty() {
            return None;
        }
        Some(View::from(std::mem::take(&mut self.plain)))
    }

    /// Memory of received bytes that nobody has taken. As no more is given while any waits, it is a receive
    /// buffer and a piece of plaintext at most.
    pub(super) fn kept_bytes(&self) -> usize {
        self.input.iter().map(View::held_bytes).sum::<usize>() + self.plain.capacity()
    }

    /// Decrypts until the input is used up or a full piece of plaintext waits.
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

    /// Decrypts from the front of `view`, a full piece of plaintext at most.
    fn decrypt(&mut self, view: &mut View) -> Result<(), TlsError> {
        while !view.is_empty() && self.plain.len() < limits::TLS_PLAIN_BYTES {
            let mut rest = &view[..];
            let taken = self.rustls.read_tls(&mut rest);
            let taken = taken.map_err(|error| rustls::Error::General(error.to_string()))?;
            if taken == 0 {
                // What follows a close_notify means nothing.
                view.advance(view.len());
                break;
            }
            view.advance(taken);
            self.process()?;
        }
        Ok(())
    }

    /// Handles whole records, and collects their plaintext even when a later one is bad.
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

    /// In builds with debug assertions, rustls 0.23 takes a bad record that arrives after our own
    /// `close_notify` for a mistake of its own and panics (`send_fatal_alert`). A peer must not be
    /// able to do that.
    fn process_after_close(&mut self) -> Result<rustls::IoState, rustls::Error> {
        let processed = catch_unwind(AssertUnwindSafe(|| self.rustls.process_new_packets()));
        processed.unwrap_or_else(|_| Err(rustls::Error::General("a bad record".to_owned())))
    }

    /// Encrypts `plain`, one record at most; [`drain_to`](Self::drain_to) then has it.
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

    /// Tells the peer that we send no more.
    pub(super) fn close(&mut self) {
        if !self.is_send_closed() {
            self.close_sent = true;
            self.rustls.send_close_notify();
        }
    }

    /// Moves all ciphertext that waits, alerts included, to `out`.
    pub(super) fn drain_to(&mut self, out: &mut impl Write) -> io::Result<()> {
        while self.rustls.wants_write() {
            self.rustls.write_tls(out)?;
        }
        Ok(())
    }
}

/// Records that one key may encrypt. TLS 1.3 changes the keys by itself before that. TLS 1.2 cannot, and
/// rustls then drops what is to be sent, and says a clean end: so we end before it does.
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
