//! A stream under TLS.

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

/// A [`Stream`] under TLS, which receives and sends in the same ways.
///
/// Received bytes are decrypted into views with their own memory. All ciphertext goes through the
/// stream's send queue, so its marks and bounds count encrypted bytes. Dropping the stream sends
/// the queue, then closes; only [`shutdown`](Self::shutdown) sends `close_notify`, which tells the
/// peer that the data is complete.
pub struct TlsStream {
    stream: Stream,
    session: RefCell<TlsSession>,
    agreed: Agreed,
    /// Whether our side has ended receiving.
    receiving_ended: Cell<bool>,
    /// The number of held bytes that was last reported to the stream.
    kept: Cell<usize>,
}

/// The results of the handshake.
struct Agreed {
    peer_certificates: Vec<CertificateDer<'static>>,
    alpn: Option<Vec<u8>>,
    server_name: Option<String>,
}

impl TlsStream {
    /// Makes a stream of a session whose handshake has completed.
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

    /// Whether the first bytes from a server are a TLS alert: the reply of a TLS server to a client
    /// that does not speak TLS.
    ///
    /// ```
    /// use ringway_net::TlsStream;
    ///
    /// assert!(TlsStream::is_alert(b"\x15\x03\x03\0\x02\x02\x32"));
    /// assert!(!TlsStream::is_alert(b"HTTP/1.1 400 Bad Request\r\n"));
    /// ```
    pub fn is_alert(first_bytes: &[u8]) -> bool {
        // RFC 8446, section 5.1: the content type `alert`, and the major version of all TLS
        // versions.
        first_bytes.starts_with(&[21, 3])
    }

    /// Returns the stream underneath, for its limits, addresses and socket options. Bytes sent on
    /// it directly break the session.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Receives the next bytes, at most 64 KiB; `None` once the peer has finished sending
    /// (`close_notify`).
    ///
    /// # Errors
    /// `UnexpectedEof` when the stream ends without `close_notify`: bytes may be missing.
    /// `InvalidData` when the peer breaks the protocol, `ConnectionAborted` when it sends an alert;
    /// otherwise the errors of [`Stream::recv`]. Every later call repeats the error.
    pub async fn recv(&self) -> io::Result<Option<View>> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls like [`recv`](Self::recv), for hand-written futures.
    pub fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<io::Result<Option<View>>> {
        loop {
            // Plaintext waits for room in the send queue like bytes in the stream do.
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

    /// Decrypts bytes that the stream has received.
    pub(crate) fn give(&self, ciphertext: View) {
        self.session.borrow_mut().give(ciphertext);
    }

    /// Returns the next decrypted bytes.
    pub(crate) fn next_plain(&self) -> Option<View> {
        let mut session = self.session.borrow_mut();
        let plain = session.next_plain();
        // Sends responses to the input: key updates, alerts.
        flush(&mut session, &self.stream);
        self.count_kept(&session);
        plain
    }

    /// Counts waiting bytes as held by the core, because the reader does not take them now.
    pub(crate) fn waits(&self) {
        self.count_kept(&self.session.borrow());
    }

    fn count_kept(&self, session: &TlsSession) {
        let kept = session.kept_bytes();
        if self.kept.replace(kept) != kept {
            self.stream.count_kept(kept);
        }
    }

    /// Returns how the session has ended for the receiver; it applies after all plaintext.
    pub(crate) fn end(&self) -> Option<Result<(), TlsError>> {
        let session = self.session.borrow();
        if let Some(error) = session.failure() {
            self.stream.shutdown();
            return Some(Err(error.clone()));
        }
        session.is_peer_closed().then_some(Ok(()))
    }

    /// Handles the end of the stream: it truncates the session, unless the peer has sent
    /// `close_notify` or our side has ended receiving.
    pub(crate) fn stream_ended(&self) {
        let mut session = self.session.borrow_mut();
        match self.receiving_ended.get() || session.is_peer_closed() {
            true => session.end_receiving(),
            false => session.fail(TlsError::Truncated),
        }
    }

    /// Notes that our side ends the stream next: no bytes are missing, and sending goes on.
    pub(crate) fn expect_end(&self) {
        self.receiving_ended.set(true);
    }

    /// Encrypts and queues bytes; they leave at the end of the turn.
    pub fn send(&self, segment: impl Into<Segment>) -> Pressure {
        self.write(segment.into().as_slice())
    }

    /// Encrypts and queues `bytes`, like [`send`](Self::send).
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
    /// Fails like [`Stream::drained`], and when the session has failed.
    pub async fn drained(&self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_drained(cx)).await
    }

    /// Waits until the kernel has accepted everything that is queued.
    ///
    /// # Errors
    /// Fails like [`drained`](Self::drained).
    pub async fn flushed(&self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_flushed(cx)).await
    }

    /// Polls like [`drained`](Self::drained), for hand-written futures.
    pub fn poll_drained(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.stream.poll_drained(cx))?;
        Poll::Ready(self.session_failure().map_or(Ok(()), Err))
    }

    /// Polls like [`flushed`](Self::flushed), for hand-written futures.
    pub fn poll_flushed(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.stream.poll_flushed(cx))?;
        Poll::Ready(self.session_failure().map_or(Ok(()), Err))
    }

    /// Returns why nothing can be sent any more, unless we ended sending ourselves.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        self.stream.failure().or_else(|| self.session_failure())
    }

    fn session_failure(&self) -> Option<io::Error> {
        Some(self.session.borrow().failure()?.clone().into())
    }

    /// Returns the number of queued encrypted bytes that the kernel has not accepted yet.
    pub fn queued_bytes(&self) -> usize {
        self.stream.queued_bytes()
    }

    /// Finishes sending after the queued bytes: `close_notify`, then the half-close of the stream.
    /// Receiving goes on.
    pub fn shutdown(&self) {
        let mut session = self.session.borrow_mut();
        session.close();
        flush(&mut session, &self.stream);
        self.stream.shutdown();
    }

    /// Resets the connection: drops the send queue; waiting calls and the peer get an error.
    pub fn abort(&self) {
        self.stream.abort();
    }

    /// Returns the certificate chain of the peer, in DER, its own certificate first; empty if it
    /// presented none. The chain is verified, unless the client accepts any certificate.
    pub fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        &self.agreed.peer_certificates
    }

    /// Returns the application protocol that both sides agreed on (ALPN).
    pub fn alpn_protocol(&self) -> Option<&[u8]> {
        self.agreed.alpn.as_deref()
    }

    /// Returns the host name that the client asked for (SNI); `None` on a client.
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

/// Lets rustls write its records directly into the send queue.
struct SendQueue<'a> {
    stream: &'a Stream,
    pressure: Pressure,
}

impl Write for SendQueue<'_> {
    /// Accepts everything; a stream that has ended drops it and reports `Pressure::Closed`.
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
