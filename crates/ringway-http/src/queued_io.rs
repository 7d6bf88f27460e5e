//! A connection as hyper writes to it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use ringway_net::IoStream;

/// Bytes count as flushed when they are queued: the core sends what a turn has written in one call, so
/// pipelined answers share it. Writing still waits while the queue is at its high-water mark, and
/// shutting down for all of it.
///
/// hyper's own `pipeline_flush` loses the last answer of a connection that closes in front of more requests.
pub(crate) struct QueuedIo(pub(crate) IoStream);

impl QueuedIo {
    fn inner(&mut self) -> Pin<&mut IoStream> {
        Pin::new(&mut self.0)
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
        Write::poll_write(self.inner(), cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Write::poll_shutdown(self.inner(), cx)
    }

    fn is_write_vectored(&self) -> bool {
        Write::is_write_vectored(&self.0)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Write::poll_write_vectored(self.inner(), cx, parts)
    }
}
