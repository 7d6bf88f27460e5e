//! A stream whose bytes are encrypted.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, IoSlice, Write};
use std::task::{Context, Poll, ready};

use ringway_runtime::io::{Pressure, Stream};
use ringway_runtime::{Segment, View};
use rustls::pki_types::CertificateDer;

use super::TlsError;
use super::session::TlsSession;
use crate::limits;

/// A [`Stream`] under TLS, with the same ways to receive and send.
///
/// Received bytes are decrypted into views of their own memory; all ciphertext goes through the
/// stream's send queue, so its marks and bounds count encrypted bytes. Dropping it sends what is
/// queued, then closes; that this was all is told by [`shutdown`](Self::shutdown) alone, so that a
/// peer does not take a half of something for the whole.
pub struct TlsStream {
    stream: Stream,
    session: RefCell<TlsSession>,
    agreed: Agreed,
    /// Our own side has ended receiving.
    receiving_ended: Cell<bool>,
    /// What the stream was told that the session keeps.
    kept: Cell<usize>,
}

/// The results of the handshake.
struct Agreed {
    peer_certificates: Vec<CertificateDer<'static>>,
    alpn: Option<Vec<u8>>,
    server_name: Option<String>,
}

impl TlsStream {
    /// A session whose handshake is done, over its stream.
    pub(super) fn new(stream: Stream, session: TlsSession) -> Self {
        let rustls = session.rustls();
        let agreed = Agreed {
            peer_certificates: rustls.peer_certificates().unwrap_or_default().to_vec(),
            alpn: rustls.alpn_protocol().map(<[u8]>::to_vec),
            server_name: match rustls {
                rustls::Connection::Server(server) => server.server_name().map(str::to_owned),
                rustls::Connection::Client(_) => None,
            },
        };
        Self {
            stream,
            session: RefCell::new(session),
            agreed,
            receiving_ended: Cell::new(false),
            kept: Cell::new(0),
        }
    }

    /// Whether the first bytes that a server has sent are a TLS alert: what a server that expects TLS
    /// answers to a client that does not speak it.
    ///
    /// ```
    /// use ringway_net::TlsStream;
    ///
    /// assert!(TlsStream::is_alert(b"\x15\x03\x03\0\x02\x02\x32"));
    /// assert!(!TlsStream::is_alert(b"HTTP/1.1 400 Bad Request\r\n"));
    /// ```
    pub fn is_alert(first_bytes: &[u8]) -> bool {
        // RFC 8446, section 5.1: the content type, and the major version of all TLS.
        first_bytes.starts_with(&[21, 3])
    }

    /// The stream beneath, for its limits, addresses and socket options. Bytes sent on it directly
    /// break the session.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The next received bytes, at most 64 KiB; `None` once the peer has said that it sends no more
    /// (`close_notify`).
    ///
    /// # Errors
    /// `UnexpectedEof` when the stream ends without that: bytes may be missing. `InvalidData` when
    /// the peer breaks the protocol, `ConnectionAborted` when it sends an alert; further as
    /// [`Stream::recv`]. Repeated by every later call.
    pub async fn recv(&self) -> io::Result<Option<View>> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls for what [`recv`](Self::recv) waits for, for hand-written futures.
    pub fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<io::Result<Option<View>>> {
        loop {
            // Plaintext that waits here is held back as what waits in the stream is.
            if self.stream.poll_room(cx).is_pending() {
                self.waits();
                return Poll::Pending;
            }
            if let Some(view) = self.next_plain() {
                return Poll::Ready(Ok(Some(view)));
            }
            if let Some(end) = self.end() {
                return Poll::Ready(end.map(|()| None).map_err(io::Error::from));
            }
            match ready!(self.stream.poll_recv(cx))? {
                Some(ciphertext) => self.give(ciphertext),
                None => self.stream_ended(),
            }
        }
    }

    /// Decrypts what the stream has received.
    pub(crate) fn give(&self, ciphertext: View) {
        self.session.borrow_mut().give(ciphertext);
    }

    /// The next piece of what was decrypted.
    pub(crate) fn next_plain(&self) -> Option<View> {
        let mut session = self.session.borrow_mut();
        let plain = session.next_plain();
        // Answers to what was just taken in: key updates, alerts.
        flush(&mut session, &self.stream);
        self.count_kept(&session);
        plain
    }

    /// What was decrypted, or is to be, waits for its reader: it counts among what the core holds.
    pub(crate) fn waits(&self) {
        self.count_kept(&self.session.borrow());
    }

    fn count_kept(&self, session: &TlsSession) {
        let kept = session.kept_bytes();
        if self.kept.replace(kept) != kept {
            self.stream.count_kept(kept);
        }
    }

    /// How the session has ended for the receiver, behind all plaintext.
    pub(crate) fn end(&self) -> Option<Result<(), TlsError>> {
        let session = self.session.borrow();
        if let Some(error) = session.failure() {
            self.stream.shutdown();
            return Some(Err(error.clone()));
        }
        session.is_peer_closed().then_some(Ok(()))
    }

    /// The stream has no more bytes: an end that nobody has said, unless the peer has in what was received
    /// before, or it is our own doing.
    pub(crate) fn stream_ended(&self) {
        let mut session = self.session.borrow_mut();
        match self.receiving_ended.get() || session.is_peer_closed() {
            true => session.end_receiving(),
            false => session.fail(TlsError::Truncated),
        }
    }

    /// The next end of the stream is our own doing: no bytes are missing, and sending goes on.
    pub(crate) fn expect_end(&self) {
        self.receiving_ended.set(true);
    }

    /// Encrypts and queues bytes; they leave at the end of the turn.
    pub fn send(&self, segment: impl Into<Segment>) -> Pressure {
        self.write(segment.into().as_slice())
    }

    /// Queues a copy of `bytes`, as [`send`](Self::send) does with bytes that it owns.
    pub fn write(&self, bytes: &[u8]) -> Pressure {
        let mut session = self.session.borrow_mut();
        let mut pressure = self.stream.write(&[]);
        for piece in bytes.chunks(limits::TLS_WRITE_BYTES) {
            if session.is_send_closed() || pressure == Pressure::Closed {
                break;
            }
            session.encrypt(piece);
            pressure = flush(&mut session, &self.stream);
        }
        if session.is_send_closed() { Pressure::Closed } else { pressure }
    }

    /// Waits until the send queue is below its low-water mark.
    ///
    /// # Errors
    /// As [`Stream::drained`], and when the session has failed.
    pub async fn drained(&self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_drained(cx)).await
    }

    /// Waits until everything queued was accepted by the kernel.
    ///
    /// # Errors
    /// As [`drained`](Self::drained).
    pub async fn flushed(&self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_flushed(cx)).await
    }

    /// Polls for what [`drained`](Self::drained) waits for, for hand-written futures.
    pub fn poll_drained(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.stream.poll_drained(cx))?;
        Poll::Ready(self.session_failure().map_or(Ok(()), Err))
    }

    /// Polls for what [`flushed`](Self::flushed) waits for, for hand-written futures.
    pub fn poll_flushed(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.stream.poll_flushed(cx))?;
        Poll::Ready(self.session_failure().map_or(Ok(()), Err))
    }

    /// Why nothing can be sent any more, if it is not our own doing.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        self.stream.failure().or_else(|| self.session_failure())
    }

    fn session_failure(&self) -> Option<io::Error> {
        Some(self.session.borrow().failure()?.clone().into())
    }

    /// Encrypted bytes queued that the kernel has not accepted yet.
    pub fn queued_bytes(&self) -> usize {
        self.stream.queued_bytes()
    }

    /// Finishes sending after what is queued, and tells the peer that this was all: `close_notify`, then
    /// the half-close of the stream. Receiving goes on.
    pub fn shutdown(&self) {
        let mut session = self.session.borrow_mut();
        session.close();
        flush(&mut session, &self.stream);
        self.stream.shutdown();
    }

    /// Resets the connection: what is queued is dropped, whoever waits gets an error, and the peer
    /// sees one too.
    pub fn abort(&self) {
        self.stream.abort();
    }

    /// The certificate chain that the peer has shown, in DER, its own first; empty when it showed none.
    /// It was verified, unless the client was told to accept any.
    pub fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        &self.agreed.peer_certificates
    }

    /// The application protocol that both sides agreed on.
    pub fn alpn_protocol(&self) -> Option<&[u8]> {
        self.agreed.alpn.as_deref()
    }

    /// On a server, the host name that the client asked for.
    pub fn server_name(&self) -> Option<&str> {
        self.agreed.server_name.as_deref()
    }
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsStream({:?})", self.stream)
    }
}

/// Moves all ciphertext of a session to its stream's send queue.
pub(super) fn flush(session: &mut TlsSession, stream: &Stream) -> Pressure {
    let mut queue = SendQueue { stream, pressure: Pressure::Low };
    if let Err(error) = session.drain_to(&mut queue) {
        session.fail(rustls::Error::General(error.to_string()).into());
    }
    queue.pressure
}

/// Lets rustls write its records where they are sent from, without a buffer in between.
struct SendQueue<'a> {
    stream: &'a Stream,
    pressure: Pressure,
}

impl Write for SendQueue<'_> {
    /// Takes everything; a stream that has ended drops it and says so by its pressure.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pressure = self.stream.write(bytes);
        Ok(bytes.len())
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut taken = 0;
        for piece in pieces {
            taken += self.write(piece)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
