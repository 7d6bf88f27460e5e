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

use std::io::{self, BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ringway_runtime::View;
use rustls::Connection;

use super::TlsError;
use crate::limits;

/// The state between a byte stream's two directions and their plaintext.
pub(super) struct Session {
    rustls: Connection,
    /// Ciphertext that has not been taken in yet.
    input: Option<View>,
    /// Plaintext that nobody has taken yet.
    plain: Vec<u8>,
    peer_closed: bool,
    close_sent: bool,
    /// The first failure; it stays.
    failed: Option<TlsError>,
}

impl Session {
    pub(super) fn new(rustls: impl Into<Connection>) -> Self {
        let mut rustls = rustls.into();
        // What is encrypted goes to the stream's send queue at once, and that one has a bound.
        rustls.set_buffer_limit(None);
        Self {
            rustls,
            input: None,
            plain: Vec::new(),
            peer_closed: false,
            close_sent: false,
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
        self.input = None;
        self.failed.get_or_insert(error);
    }

    /// Whether the peer has said that it sends no more.
    pub(super) fn is_peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// Whether nothing can be sent any more.
    pub(super) fn is_send_closed(&self) -> bool {
        self.close_sent || self.failed.is_some()
    }

    /// Takes ciphertext in: the one before has been used up.
    pub(super) fn give(&mut self, ciphertext: View) {
        debug_assert!(self.input.is_none(), "taken in before more is given");
        self.input = Some(ciphertext);
        self.advance();
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

    /// Decrypts until the input is used up or a full piece of plaintext waits.
    fn advance(&mut self) {
        let Some(mut view) = self.input.take() else {
            return;
        };
        if self.plain.capacity() == 0 && !self.rustls.is_handshaking() {
            self.plain.reserve_exact(view.len().min(limits::TLS_PLAIN_BYTES_MAX));
        }
        while !view.is_empty() && self.plain.len() < limits::TLS_PLAIN_BYTES {
            let mut rest = &view[..];
            match self.rustls.read_tls(&mut rest) {
                // What follows a close_notify means nothing.
                Ok(0) => return,
                Ok(taken) => view.advance(taken),
                Err(error) => return self.fail(rustls::Error::General(error.to_string()).into()),
            }
            if let Err(error) = self.process() {
                return self.fail(error.into());
            }
        }
        if !view.is_empty() {
            self.input = Some(view);
        }
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

    /// Encrypts `plain`; [`drain_to`](Self::drain_to) then has its records.
    pub(super) fn encrypt(&mut self, plain: &[u8]) {
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

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        Self::Protocol(error)
    }
}

#[cfg(test)]
mod tests;
