//! The writer that hyper gets for a connection.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use ringway_net::IoStream;

use crate::peer_watch::PeerWatch;
use crate::reply_account::ReplyAccount;

/// Bytes count as flushed once they are queued: the core sends everything written in a turn with one call, so
/// pipelined replies share it. A write still waits while the queue is at its high-water mark, and
/// a shutdown waits until the queue is empty.
///
/// hyper writes long pieces of bodies from the memory that they came in. The account of the replies knows these pieces, so
/// they move to the queue as they are; everything else is copied.
///
/// hyper's own `pipeline_flush` loses the last reply of a connection that closes before further requests.
pub(crate) struct QueuedIo {
    io: IoStream,
    watch: PeerWatch,
    replies: ReplyAccount,
}

impl QueuedIo {
    pub(crate) fn new(io: IoStream, watch: PeerWatch, replies: ReplyAccount) -> Self {
        Self { io, watch, replies }
    }

    fn check(&self) -> io::Result<()> {
        if !self.replies.is_given_up() {
            return Ok(());
        }
        self.io.connection().abort();
        let given_up = "the server is short of memory and has ended the connection";
        Err(io::Error::new(io::ErrorKind::ConnectionAborted, given_up))
    }

    pub(crate) fn into_inner(self) -> IoStream {
        self.io
    }

    /// Writes a part whose memory is that of a piece, without a copy; `None` if it is another part.
    fn poll_send(&mut self, cx: &mut Context<'_>, part: &[u8]) -> Option<Poll<io::Result<usize>>> {
        let piece = self.replies.lent(part)?;
        Some(self.io.poll_send(cx, &piece))
    }

    fn inner(&mut self) -> Pin<&mut IoStream> {
        Pin::new(&mut self.io)
    }
}

impl Read for QueuedIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Read::poll_read(self.inner(), cx, buf)
    }
}

impl Write for QueuedIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        match self.poll_send(cx, bytes) {
            Some(sent) => sent,
            None => Write::poll_write(self.inner(), cx, bytes),
        }
    }

    /// Is called whenever the connection is polled, so the peer's close is noticed here.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        if self.watch.is_on() && self.io.poll_peer_end(cx).is_ready() {
            let gone = "the peer has gone before the end of its answer";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, gone)));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Write::poll_shutdown(self.inner(), cx)
    }

    fn is_write_vectored(&self) -> bool {
        Write::is_write_vectored(&self.io)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        let parts = &parts[parts.iter().take_while(|part| part.is_empty()).count()..];
        if let Some(sent) = parts.first().and_then(|part| self.poll_send(cx, part)) {
            return sent;
        }
        // What is behind them is written with the next call.
        let is_copied = |part: &&IoSlice<'_>| self.replies.lent(part).is_none();
        let copied = parts.iter().take_while(is_copied).count();
        Write::poll_write_vectored(self.inner(), cx, &parts[..copied])
    }
}
