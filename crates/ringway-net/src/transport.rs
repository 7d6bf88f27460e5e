//! The stream under a connection: plain, or with TLS.

use std::io;
use std::task::{Context, Poll};

use ringway_runtime::io::{Pressure, Stream};
use ringway_runtime::{Segment, View};

/// Bytes as the program sees them.
pub(crate) enum Transport {
    Plain(Stream),
}

impl Transport {
    /// The socket underneath.
    pub(crate) fn stream(&self) -> &Stream {
        match self {
            Self::Plain(stream) => stream,
        }
    }

    #[inline]
    pub(crate) fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<io::Result<Option<View>>> {
        match self {
            Self::Plain(stream) => stream.poll_recv(cx),
        }
    }

    #[inline]
    pub(crate) fn send(&self, segment: Segment) -> Pressure {
        match self {
            Self::Plain(stream) => stream.send(segment),
        }
    }

    #[inline]
    pub(crate) fn write(&self, bytes: &[u8]) -> Pressure {
        match self {
            Self::Plain(stream) => stream.write(bytes),
        }
    }

    pub(crate) fn poll_flushed(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => stream.poll_flushed(cx),
        }
    }

    pub(crate) fn poll_drained(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => stream.poll_drained(cx),
        }
    }

    pub(crate) fn shutdown(&self) {
        match self {
            Self::Plain(stream) => stream.shutdown(),
        }
    }

    pub(crate) fn queued_bytes(&self) -> usize {
        self.stream().queued_bytes()
    }

    pub(crate) fn abort(&self) {
        self.stream().abort();
    }
}
