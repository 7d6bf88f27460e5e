//! A connection: the receiving and sending side of a byte stream.

mod inner;
mod opening;
mod sending;
mod server_hooks;

use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use ringway_runtime::io::{Stream, StreamLimits};
use ringway_runtime::sync::CancellationToken;
use ringway_runtime::{Segment, View};
use rustls::pki_types::CertificateDer;
use socket2::SockRef;

pub(crate) use self::inner::{ConnectionInner, Pushed, WeakConnection};
pub use self::sending::{Drained, Sending};
pub(crate) use self::server_hooks::ServerHooks;
use crate::address::Endpoint;
use crate::credentials::Credentials;
use crate::error::{Error, Result};
use crate::marks;
use crate::session::{ConnectionId, Session};
use crate::slow_reader::SlowReader;
use crate::tls::TlsStream;
use crate::transport::Transport;

/// A connected stream with a session, owned by one task.
///
/// Received bytes are lent as [`View`]s, without a copy. Sending only queues: everything queued
/// within one turn of the loop leaves in one system call at the end of the turn. Dropping the
/// connection sends the queue, then closes; call [`shutdown`](Peer::shutdown) first to tell the
/// peer that no more data follows. All methods except receiving are on [`Peer`], to which a
/// `Connection` dereferences.
///
/// ```no_run
/// # use ringway_net::{Connection, Result};
/// async fn echo(mut conn: Connection) -> Result {
///     while let Some(view) = conn.recv().await? {
///         conn.send(view);
///     }
///     Ok(())
/// }
/// ```
pub struct Connection {
    peer: Peer,
}

/// The sending side and the state of a connection, without the right to receive.
///
/// A [`Handler`](crate::Handler) gets a `&Peer`; a [`Connection`] dereferences to it.
pub struct Peer {
    inner: Rc<ConnectionInner>,
}

/// A handle to a connection, for other tasks of its core. It does not keep the connection open.
///
/// ```no_run
/// # use ringway_net::{Connection, Result};
/// async fn greet_later(conn: &Connection) {
///     let peer = conn.downgrade();
///     ringway_runtime::spawn(async move {
///         if let Some(peer) = peer.upgrade() {
///             peer.write(b"hello\n");
///         }
///     });
/// }
/// ```
#[derive(Clone)]
pub struct WeakPeer {
    inner: WeakConnection,
}

impl WeakPeer {
    /// Returns the connection, or `None` if its owner has dropped it. The connection stays open as long as
    /// the returned [`Peer`] exists.
    pub fn upgrade(&self) -> Option<Peer> {
        Some(Peer { inner: self.inner.upgrade()? })
    }
}

impl Connection {
    /// Makes a connection that belongs to no server.
    pub(crate) fn of_client(transport: Transport, limits: Rc<StreamLimits>) -> Self {
        let id = ConnectionId::next_client();
        Self::of_inner(Rc::new(ConnectionInner::new(
            transport,
            id,
            limits,
            None,
            SlowReader::Pause,
        )))
    }

    /// Makes a connection of a stream that the program has opened or accepted itself, and applies
    /// `limits` to it.
    ///
    /// ```
    /// use ringway_net::Connection;
    /// use ringway_runtime::io::{ListenOptions, Listener};
    ///
    /// async fn first_connection(listener: Listener) -> ringway_net::Result<Connection> {
    ///     let stream = listener.accept().await?.into_stream(&Default::default())?;
    ///     Ok(Connection::adopt(stream, Default::default()))
    /// }
    /// ```
    pub fn adopt(stream: Stream, limits: Rc<StreamLimits>) -> Self {
        stream.set_limits(Rc::clone(&limits));
        Self::of_client(Transport::Plain(stream), limits)
    }

    pub(crate) fn of_inner(inner: Rc<ConnectionInner>) -> Self {
        Self { peer: Peer { inner } }
    }

    pub(crate) fn into_peer(self) -> Peer {
        self.peer
    }

    /// Receives the next bytes; `None` once the peer has finished sending or the server drains.
    ///
    /// Dropping the future loses nothing. [`set_paced`](Peer::set_paced) decides whether this waits
    /// while the send queue is full; by default it does on connections of a server.
    ///
    /// # Errors
    /// [`is_closed`](Error::is_closed) when the peer has reset the connection,
    /// [`is_timeout`](Error::is_timeout) after an idle, lifetime or write-stall timeout,
    /// [`is_limit`](Error::is_limit) when the send queue has reached its bound. Every later call
    /// repeats the error.
    pub fn recv(&mut self) -> Receiving<'_> {
        Receiving { connection: self }
    }

    /// Polls like [`recv`](Self::recv), for hand-written futures.
    #[inline]
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<View>>> {
        self.peer.inner.poll_recv(cx)
    }
}

impl Deref for Connection {
    type Target = Peer;

    fn deref(&self) -> &Peer {
        &self.peer
    }
}

impl Peer {
    pub(crate) fn of_inner(inner: Rc<ConnectionInner>) -> Self {
        Self { inner }
    }

    pub(crate) fn inner(&self) -> &Rc<ConnectionInner> {
        &self.inner
    }

    /// Makes a handle that does not keep the connection open, for other tasks of this core.
    pub fn downgrade(&self) -> WeakPeer {
        WeakPeer { inner: Rc::downgrade(&self.inner) }
    }

    /// Queues bytes without copying them; they leave at the end of the turn. Await the returned
    /// [`Sending`] to wait for room in the send queue, or ignore it.
    #[inline]
    pub fn send(&self, segment: impl Into<Segment>) -> Sending<'_> {
        let pressure = self.inner.transport.send(segment.into());
        Sending { inner: &self.inner, pressure }
    }

    /// Queues a copy of `bytes`; small pieces of one turn are gathered into one segment.
    #[inline]
    pub fn write(&self, bytes: &[u8]) -> Sending<'_> {
        let pressure = self.inner.transport.write(bytes);
        Sending { inner: &self.inner, pressure }
    }

    /// Waits until the kernel has accepted everything that is queued.
    ///
    /// # Errors
    /// Fails when the connection has failed; queued bytes are then lost.
    pub async fn flushed(&self) -> Result {
        std::future::poll_fn(|cx| self.poll_flushed(cx)).await
    }

    /// Polls like [`flushed`](Self::flushed), for hand-written futures.
    pub fn poll_flushed(&self, cx: &mut Context<'_>) -> Poll<Result> {
        self.inner.transport.poll_flushed(cx).map_err(Error::from)
    }

    /// Polls until the send queue is below its low-water mark, for hand-written futures.
    ///
    /// # Errors
    /// Fails when the connection has failed.
    pub fn poll_drained(&self, cx: &mut Context<'_>) -> Poll<Result> {
        self.inner.transport.poll_drained(cx).map_err(Error::from)
    }

    /// Returns the number of queued bytes that the kernel has not accepted yet.
    pub fn queued_bytes(&self) -> usize {
        self.inner.transport.queued_bytes()
    }

    /// Finishes sending after the queued bytes (half-close): the peer learns that no more data
    /// follows. Receiving goes on.
    ///
    /// Over TLS this sends `close_notify`, and nothing else does: to the peer, a connection that
    /// was only dropped looks truncated. Over TCP and Unix sockets a drop looks the same as a
    /// shutdown, because the kernel sends the same FIN for both. A server calls this for its
    /// handlers: when a handler task returns `Ok`, and when a [`Handler`](crate::Handler) has
    /// ended.
    pub fn shutdown(&self) {
        self.inner.transport.shutdown();
    }

    /// Ends receiving as though the peer had finished sending: received bytes are still delivered,
    /// then the end. A [`Handler`](crate::Handler) that calls this itself ends at once. Queued
    /// bytes, and bytes sent after this, leave before the connection closes, which happens when its
    /// owner drops it.
    pub fn close(&self) {
        self.inner.close();
    }

    /// Sets whether receiving waits while the send queue is above its high-water mark, until it is
    /// below the low-water mark.
    ///
    /// It is on for connections of a server: a peer that does not read its replies is not read
    /// either, so it cannot make the server queue without bound. It is off for clients, a
    /// [`Requester`](crate::Requester) and an [`IoStream`](crate::IoStream): if both ends send
    /// unasked, each would wait for the other to read. A server's handler that sends unasked, such
    /// as a proxy, should turn it off.
    pub fn set_paced(&self, paced: bool) {
        self.inner.set_paced(paced);
    }

    /// Resets the connection: drops the send queue; the owner and the peer both get an error. Unix
    /// sockets have no reset: a peer that has received all bytes sees an ordinary end there, so the
    /// protocol itself should tell a complete message from a truncated one.
    pub fn abort(&self) {
        self.inner.abort();
    }

    /// Returns the id of the connection, which is unique in this process.
    pub fn id(&self) -> ConnectionId {
        self.inner.session.id()
    }

    /// Returns the session: the connection's id and values that the program has stored.
    pub fn session(&self) -> &Session {
        &self.inner.session
    }

    /// Returns the address of the peer.
    ///
    /// # Errors
    /// Fails when the connection is gone.
    pub fn peer_addr(&self) -> Result<Endpoint> {
        Ok(self.inner.transport.stream().peer_addr()?.into())
    }

    /// Returns the number of the server's core that owns this connection, an index into
    /// [`ServerHandle::cores`](crate::ServerHandle::cores); `None` if the connection belongs to no
    /// server.
    pub fn core(&self) -> Option<usize> {
        self.inner.hooks().map(|hooks| hooks.core)
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// Fails when the connection is gone.
    pub fn local_addr(&self) -> Result<Endpoint> {
        Ok(self.inner.transport.stream().local_addr()?.into())
    }

    /// Whether the connection uses TLS.
    pub fn is_tls(&self) -> bool {
        self.inner.transport.tls().is_some()
    }

    /// Returns the protocol that the TLS handshake agreed on (ALPN), if any.
    pub fn alpn_protocol(&self) -> Option<&[u8]> {
        self.inner.transport.tls()?.alpn_protocol()
    }

    /// Returns the certificate chain of the peer, its own certificate first; empty without TLS. The
    /// chain is verified, unless a client accepts any certificate
    /// ([`dangerous_accept_any_certificate`](crate::ClientTls::dangerous_accept_any_certificate)).
    pub fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        self.inner.transport.tls().map_or(&[], TlsStream::peer_certificates)
    }

    /// Returns the credentials of the process at the other end of a Unix socket; `None` for other
    /// sockets and when the connection is gone.
    pub fn peer_credentials(&self) -> Option<Credentials> {
        let stream = self.inner.transport.stream();
        if !stream.local_addr().ok()?.is_unix() {
            return None; // the kernel answers for other sockets too, with nobody's credentials
        }
        let mut credentials = None;
        let asked = stream.with_socket(|socket| {
            credentials = Some(Credentials::of_peer(&*socket)?);
            Ok(())
        });
        asked.ok().and(credentials)
    }

    /// Returns the name by which a TLS client addressed this server (SNI).
    pub fn server_name(&self) -> Option<&str> {
        self.inner.transport.tls()?.server_name()
    }

    /// Whether the peer has finished or is gone, even if bytes that it sent before wait to be received. This asks
    /// the kernel, so ask only now and then.
    pub fn has_peer_ended(&self) -> bool {
        self.inner.transport.stream().has_peer_ended()
    }

    /// Calls `f` with the socket, to set its options.
    ///
    /// # Errors
    /// Returns the error of `f`.
    pub fn with_socket(&self, f: impl FnOnce(SockRef<'_>) -> std::io::Result<()>) -> Result {
        Ok(self.inner.transport.stream().with_socket(f)?)
    }

    /// Sets the time without a byte in either direction after which the connection is closed;
    /// `None`: never.
    pub fn set_idle_timeout(&self, timeout: Option<Duration>) {
        self.inner.change_limits(|limits| limits.idle_timeout = timeout);
    }

    /// Sets the age at which the connection is closed, whether it is idle or not; `None`: never.
    pub fn set_lifetime(&self, lifetime: Option<Duration>) {
        self.inner.change_limits(|limits| limits.lifetime = lifetime);
    }

    /// Sets the number of queued bytes at which [`Pressure::High`](crate::Pressure::High) begins,
    /// at least 1 KiB, and the number below which it ends. Raises the bound of the send queue to
    /// `high_water` if it is lower.
    pub fn set_send_marks(&self, high_water: usize, low_water: usize) {
        self.inner.change_limits(|limits| {
            limits.send_high_water = high_water;
            limits.send_low_water = low_water;
            marks::put_in_order(limits);
        });
    }

    /// Returns the limits and timeouts in force.
    pub fn limits(&self) -> Rc<StreamLimits> {
        Rc::clone(&self.inner.limits.borrow())
    }

    /// Whether the server drains: it was asked to stop, and its
    /// [`drain_delay`](crate::Server::drain_delay) is over. False on a connection of no server.
    pub fn is_draining(&self) -> bool {
        self.inner.hooks().is_some_and(|hooks| hooks.draining.is_cancelled())
    }

    /// Waits until the server drains, see [`is_draining`](Self::is_draining); never returns if the
    /// connection belongs to no server.
    pub async fn draining(&self) {
        match self.inner.hooks() {
            Some(hooks) => hooks.draining.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Returns a token that is cancelled when the server [drains](Self::is_draining), and that may
    /// outlive the connection; `None` if the connection belongs to no server.
    pub fn drain_token(&self) -> Option<CancellationToken> {
        self.inner.hooks().map(|hooks| hooks.draining.clone())
    }

    /// Sets whether [`recv`](Connection::recv) goes on while the server drains, until the peer
    /// finishes or the drain deadline passes. If not (the default), received bytes are delivered,
    /// then the end of the stream, so that handlers finish by themselves.
    pub fn receive_while_draining(&self, receives: bool) {
        self.inner.receives_while_draining.set(receives);
    }
}

/// Future of [`Connection::recv`].
#[must_use = "futures do nothing unless awaited"]
pub struct Receiving<'a> {
    connection: &'a mut Connection,
}

impl Future for Receiving<'_> {
    type Output = Result<Option<View>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.connection.poll_recv(cx)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.id())
    }
}

impl fmt::Debug for WeakPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.upgrade() {
            Some(peer) => write!(f, "WeakPeer({})", peer.id()),
            None => f.write_str("WeakPeer(gone)"),
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer({})", self.id())
    }
}
