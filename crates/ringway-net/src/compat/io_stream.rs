//! A connection as an ordinary byte stream that copies.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::rt::ReadBufCursor;
use ringway_runtime::io::Pressure;
use ringway_runtime::{Sleep, View, sleep};
use tokio::io::ReadBuf;

use crate::connection::Connection;
use crate::limits::{PEER_LOOK_PAUSE, POLL_WRITE_BYTES_MAX};

/// A connection behind tokio's `AsyncRead` and `AsyncWrite` and hyper's `Read` and `Write`; made by
/// [`Connection::into_io`].
///
/// Bytes are copied once in each direction: into the caller's buffer, and into the send queue, unless they are given to
/// [`poll_send`](Self::poll_send).
/// Writing accepts bytes until the send queue is at its high-water mark, then waits until it is
/// below the low-water mark. Flushing waits until the kernel has accepted everything. Shutting down
/// finishes sending and leaves receiving open. An `IoStream` works only on the core that made it,
/// so it is not `Send`; libraries that need a `Send` stream run on a tokio runtime beside the cores
/// (`ringway::tokio`).
///
/// # Examples
///
/// ```no_run
/// use ringway_net::{Connection, Result, Server};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// Server::bind("tcp://127.0.0.1:7001")?.serve(async |connection: Connection| {
///     let mut stream = connection.into_io();
///     let length = stream.read_u32().await?;
///     stream.write_all(&length.to_le_bytes()).await?;
///     stream.shutdown().await?;
///     Ok(())
/// })?;
/// # Ok::<(), ringway_net::Error>(())
/// ```
#[derive(Debug)]
pub struct IoStream {
    connection: Connection,
    /// Received bytes that were not read yet; never an empty view.
    unread: Option<View>,
    /// Whether the send queue was at its high-water mark after the last write.
    is_congested: bool,
    is_shut_down: bool,
    /// When the kernel is next asked for an end behind bytes that nobody reads.
    look: Option<Box<Sleep>>,
}

impl IoStream {
    /// Makes a byte stream over `connection`.
    pub(crate) fn new(connection: Connection) -> Self {
        // Two tasks may use the halves; neither may have to wait for the other.
        connection.inner().stream().set_paced(false);
        Self { connection, unread: None, is_congested: false, is_shut_down: false, look: None }
    }

    /// Makes a byte stream over a connection from which `received` has been taken already: it is
    /// read first.
    pub fn with_received(connection: Connection, received: View) -> Self {
        let unread = Some(received).filter(|view| !view.is_empty());
        Self { unread, ..Self::new(connection) }
    }

    /// Returns the connection, for its addresses, session and state.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the connection, and the received bytes that were not read.
    pub fn into_parts(self) -> (Connection, Option<View>) {
        (self.connection, self.unread)
    }

    /// Ready when the peer sends nothing more: it has closed the connection or its half of it. What arrives
    /// meanwhile is kept for reading, one piece of it. Behind that, an end is noticed within a second or so.
    pub fn poll_peer_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.unread.is_none() {
            match ready!(self.poll_received(cx)) {
                Ok(Some(view)) => self.unread = Some(view),
                Ok(None) | Err(_) => return Poll::Ready(()),
            }
        }
        loop {
            let look = self.look.get_or_insert_with(|| Box::new(sleep(PEER_LOOK_PAUSE)));
            ready!(Pin::new(&mut **look).poll(cx));
            self.look = None;
            if self.connection.has_peer_ended() {
                return Poll::Ready(());
            }
        }
    }

    /// Passes up to `room` bytes to `put`. At the end of the stream `put` is not called.
    fn poll_read_with(
        &mut self,
        cx: &mut Context<'_>,
        room: usize,
        put: impl FnOnce(&[u8]),
    ) -> Poll<io::Result<()>> {
        if room == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut view = match self.unread.take() {
            Some(view) => view,
            None => match ready!(self.poll_received(cx))? {
                Some(view) => view,
                None => return Poll::Ready(Ok(())),
            },
        };
        self.look = None;
        let taken = room.min(view.len());
        put(&view[..taken]);
        if taken < view.len() {
            view.advance(taken);
            self.unread = Some(view);
        }
        Poll::Ready(Ok(()))
    }

    /// Receives the next view that is not empty: to a reader an empty one would mean the end.
    fn poll_received(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<View>>> {
        loop {
            match ready!(self.connection.poll_recv(cx))? {
                Some(view) if view.is_empty() => {}
                received => return Poll::Ready(Ok(received)),
            }
        }
    }

    /// Queues bytes without copying them: as many from the front as one write accepts, whose number is returned.
    ///
    /// # Errors
    /// Fails as a write does.
    pub fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &Bytes) -> Poll<io::Result<usize>> {
        self.poll_queue(cx, bytes.len(), |connection, taken| {
            connection.send(bytes.slice(..taken)).pressure()
        })
    }

    fn poll_write_bytes(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_queue(cx, bytes.len(), |connection, taken| {
            connection.write(&bytes[..taken]).pressure()
        })
    }

    /// Has `queue` take as many of `len` bytes as one write accepts.
    fn poll_queue(
        &mut self,
        cx: &mut Context<'_>,
        len: usize,
        queue: impl FnOnce(&Connection, usize) -> Pressure,
    ) -> Poll<io::Result<usize>> {
        if self.is_congested {
            ready!(self.connection.poll_drained(cx))?;
            self.is_congested = false;
        }
        let most = self.connection.limits().send_queue_max;
        let mut taken = len.min(POLL_WRITE_BYTES_MAX);
        if self.room(most) < taken {
            // A longer queue would end the connection, as that of a peer that does not read.
            if self.room(most) < most / 4 {
                ready!(self.connection.poll_flushed(cx))?;
            }
            taken = taken.min(self.room(most)).max(1);
        }
        match queue(&self.connection, taken) {
            Pressure::Low => {}
            Pressure::High => self.is_congested = true,
            Pressure::Closed => return Poll::Ready(Err(self.write_error(cx))),
        }
        Poll::Ready(Ok(taken))
    }

    /// The bytes that may be queued where the queue may have `most`. An eighth is left for what TLS adds, and for what
    /// short segments count besides their bytes.
    fn room(&self, most: usize) -> usize {
        (most - most / 8).saturating_sub(self.connection.queued_bytes())
    }

    /// Writes as many slices as one write accepts; a small head and its body then leave together.
    fn poll_write_parts(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut taken = 0;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            if taken > 0 && (self.is_congested || taken + part.len() > POLL_WRITE_BYTES_MAX) {
                break;
            }
            match self.poll_write_bytes(cx, part) {
                Poll::Ready(Ok(bytes)) => taken += bytes,
                // Report what was accepted; the next call returns the error.
                _ if taken > 0 => break,
                stopped => return stopped,
            }
        }
        Poll::Ready(Ok(taken))
    }

    /// Returns why nothing can be written any more: the connection's own error if it has one.
    fn write_error(&mut self, cx: &mut Context<'_>) -> io::Error {
        match self.connection.poll_flushed(cx) {
            Poll::Ready(Err(error)) => error.into(),
            _ => io::Error::new(io::ErrorKind::BrokenPipe, "write after shutdown"),
        }
    }

    fn poll_flush_all(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.poll_flushed(cx).map_err(io::Error::from)
    }

    fn poll_shut_down(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.is_shut_down, true) {
            self.connection.shutdown();
        }
        self.poll_flush_all(cx)
    }
}

impl tokio::io::AsyncRead for IoStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buf.remaining();
        self.poll_read_with(cx, room, |bytes| buf.put_slice(bytes))
    }
}

impl hyper::rt::Read for IoStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buf.remaining();
        self.poll_read_with(cx, room, |bytes| buf.put_slice(bytes))
    }
}

macro_rules! write_half {
    ($($write:path),*) => {$(
        impl $write for IoStream {
            fn poll_write(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.poll_write_bytes(cx, bytes)
            }

            fn poll_write_vectored(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                parts: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.poll_write_parts(cx, parts)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                self.poll_flush_all(cx)
            }

            fn poll_shutdown(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                self.poll_shut_down(cx)
            }
        }
    )*};
}

write_half!(tokio::io::AsyncWrite, hyper::rt::Write);
