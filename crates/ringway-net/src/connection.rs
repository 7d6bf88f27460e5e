//! A connection: what a program receives from and sends to.

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
/// Received bytes are lent as [`View`]s, without a copy. Sending only queues: all that a turn of
/// the loop queued leaves in one system call at the turn's end. Dropping the connection sends what
/// is queued, then closes; that this was all is said by [`shutdown`](Peer::shutdown). The other half
/// of its methods is on [`Peer`].
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

/// A connection without the right to receive: what a [`Handler`](crate::Handler) is given, and
/// what a [`Connection`] is beyond receiving.
pub struct Peer {
    inner: Rc<ConnectionInner>,
}

impl Connection {
    /// A connection of the program's own, outside of any server.
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

    /// A connection over a stream that the program has opened or accepted by itself, with the stream's
    /// limits.
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

    /// The next received bytes; `None` once the peer has finished sending, or the server drains.
    ///
    /// Dropping the future loses nothing. Whether this waits while the send queue is full is up to
    /// [`set_paced`](Peer::set_paced): it does on connections that a server hands out.
    ///
    /// # Errors
    /// [`is_closed`](Error::is_closed) when the peer has reset the connection,
    /// [`is_timeout`](Error::is_timeout) after an idle, lifetime or write-stall timeout,
    /// [`is_limit`](Error::is_limit) when the send queue has reached its bound. Every later call
    /// repeats it.
    pub fn recv(&mut self) -> Receiving<'_> {
        Receiving { connection: self }
    }

    /// Polls for what [`recv`](Self::recv) waits for, for hand-written futures.
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

    /// Queues bytes without copying them; they leave at the end of the turn. Await the answer to
    /// wait for room, or ignore it.
    #[inline]
    pub fn send(&self, segment: impl Into<Segment>) -> Sending<'_> {
        let pressure = self.inner.transport.send(segment.into());
        Sending { inner: &self.inner, pressure }
    }

    /// Queues a copy of `bytes`; small pieces of one turn are gathered.
    #[inline]
    pub fn write(&self, bytes: &[u8]) -> Sending<'_> {
        let pressure = self.inner.transport.write(bytes);
        Sending { inner: &self.inner, pressure }
    }

    /// Waits until the kernel has accepted everything that is queued.
    ///
    /// # Errors
    /// When the connection has failed; what was queued is then lost.
    pub async fn flushed(&self) -> Result {
        std::future::poll_fn(|cx| self.poll_flushed(cx)).await
    }

    /// Polls for what [`flushed`](Self::flushed) waits for, for hand-written futures.
    pub fn poll_flushed(&self, cx: &mut Context<'_>) -> Poll<Result> {
        self.inner.transport.poll_flushed(cx).map_err(Error::from)
    }

    /// Waits, for hand-written futures, until the send queue is below its low-water mark.
    pub fn poll_drained(&self, cx: &mut Context<'_>) -> Poll<Result> {
        self.inner.transport.poll_drained(cx).map_err(Error::from)
    }

    /// Bytes queued that the kernel has not accepted yet.
    pub fn queued_bytes(&self) -> usize {
        self.inner.transport.queued_bytes()
    }

    /// Finishes sending after what is queued (half-close): it tells the peer that this is all.
    /// Receiving goes on.
    ///
    /// Over TLS nothing else tells the peer that (`close_notify`): a connection that is only dropped
    /// looks cut off to it, and should, since its owner may have been in the middle of something.
    /// Over TCP and Unix sockets a drop looks the same as this, because the kernel has only one word
    /// for both. A server says it for its handlers: when the one in a task returns `Ok`, and when a
    /// [`Handler`](crate::Handler) is done.
    pub fn shutdown(&self) {
        self.inner.transport.shutdown();
    }

    /// Ends receiving as though the peer had finished: what has arrived is still received, then the
    /// end. A [`Handler`](crate::Handler) that asks for this itself is done at once. What is queued,
    /// or still sent, leaves before the connection is closed, when its owner drops it.
    pub fn close(&self) {
        self.inner.close();
    }

    /// Whether receiving waits while the send queue is above its high-water mark, until it is below
    /// the low one.
    ///
    /// That suits whoever answers what it receives: a peer who does not read the answers is not read
    /// either, and cannot make us queue without bound. So it is on for connections that a server
    /// hands out. It does not suit ends that both send on their own account, of which each would
    /// wait for the other to read: so it is off for clients, a [`Requester`](crate::Requester) and an
    /// [`IoStream`](crate::IoStream), and a handler that sends what was not asked for, such as a
    /// proxy, turns it off.
    pub fn set_paced(&self, paced: bool) {
        self.inner.set_paced(paced);
    }

    /// Resets the connection: what is queued is dropped, its owner gets an error, and so does the
    /// peer. Unix sockets have no reset: there a peer of which all bytes were received sees an end, so
    /// what it is sent should tell a half from the whole.
    pub fn abort(&self) {
        self.inner.abort();
    }

    /// Names the connection in this process.
    pub fn id(&self) -> ConnectionId {
        self.inner.session.id()
    }

    /// The connection's id and the program's items.
    pub fn session(&self) -> &Session {
        &self.inner.session
    }

    /// The address of the other end.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn peer_addr(&self) -> Result<Endpoint> {
        Ok(self.inner.transport.stream().peer_addr()?.into())
    }

    /// The number of the server's core that this connection lives on, its place in
    /// [`ServerHandle::cores`](crate::ServerHandle::cores); `None` on a connection of no server.
    pub fn core(&self) -> Option<usize> {
        self.inner.hooks().map(|hooks| hooks.core)
    }

    /// The address of our end.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn local_addr(&self) -> Result<Endpoint> {
        Ok(self.inner.transport.stream().local_addr()?.into())
    }

    /// Whether the bytes are encrypted on their way.
    pub fn is_tls(&self) -> bool {
        self.inner.transport.tls().is_some()
    }

    /// The protocol that the TLS handshake agreed on (ALPN), if it did.
    pub fn alpn_protocol(&self) -> Option<&[u8]> {
        self.inner.transport.tls()?.alpn_protocol()
    }

    /// The certificates that the peer has shown, its own first; empty without TLS. They were verified,
    /// unless a client was told to accept any
    /// ([`dangerous_accept_any_certificate`](crate::ClientTls::dangerous_accept_any_certificate)).
    pub fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        self.inner.transport.tls().map_or(&[], TlsStream::peer_certificates)
    }

    /// The process at the other end of a Unix socket; `None` for all others, and when the connection is gone.
    pub fn peer_credentials(&self) -> Option<Credentials> {
        let stream = self.inner.transport.stream();
        if !stream.local_addr().ok()?.is_unix() {
            return None; // the kernel has an answer for them too, of nobody
        }
        let mut credentials = None;
        let asked = stream.with_socket(|socket| {
            credentials = Some(Credentials::of_peer(&*socket)?);
            Ok(())
        });
        asked.ok().and(credentials)
    }

    /// The name by which a TLS client has called this server (SNI).
    pub fn server_name(&self) -> Option<&str> {
        self.inner.transport.tls()?.server_name()
    }

    /// Sets options of the socket.
    ///
    /// # Errors
    /// What `f` returns.
    pub fn with_socket(&self, f: impl FnOnce(SockRef<'_>) -> std::io::Result<()>) -> Result {
        Ok(self.inner.transport.stream().with_socket(f)?)
    }

    /// Closes the connection after this time without a byte in either direction.
    pub fn set_idle_timeout(&self, timeout: Option<Duration>) {
        self.inner.change_limits(|limits| limits.idle_timeout = timeout);
    }

    /// Closes the connection when it reaches this age, whatever it does.
    pub fn set_lifetime(&self, lifetime: Option<Duration>) {
        self.inner.change_limits(|limits| limits.lifetime = lifetime);
    }

    /// Queued bytes at which [`Pressure::High`](crate::Pressure::High) begins, at least 1 KiB, and below which it ends. The
    /// bound above which the connection is closed is raised to the former where it is lower.
    pub fn set_send_marks(&self, high_water: usize, low_water: usize) {
        self.inner.change_limits(|limits| {
            limits.send_high_water = high_water;
            limits.send_low_water = low_water;
            marks::put_in_order(limits);
        });
    }

    /// The bounds and timeouts in force.
    pub fn limits(&self) -> Rc<StreamLimits> {
        Rc::clone(&self.inner.limits.borrow())
    }

    /// Whether the server has been asked to stop.
    pub fn is_draining(&self) -> bool {
        self.inner.hooks().is_some_and(|hooks| hooks.draining.is_cancelled())
    }

    /// Waits until the server is asked to stop; for ever on a connection of no server.
    pub async fn draining(&self) {
        match self.inner.hooks() {
            Some(hooks) => hooks.draining.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// The token that is cancelled when the server is asked to stop, to be kept apart from the connection;
    /// `None` on a connection of no server.
    pub fn drain_token(&self) -> Option<CancellationToken> {
        self.inner.hooks().map(|hooks| hooks.draining.clone())
    }

    /// Lets [`recv`](Connection::recv) go on while the server drains, until the peer or the drain's
    /// deadline ends it. Otherwise what has arrived is delivered and then the end is told, so that
    /// handlers finish by themselves.
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

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer({})", self.id())
    }
}
