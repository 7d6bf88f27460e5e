//! The stream under a connection: plain or TLS.

use std::io;
use std::task::{Context, Poll};

use ringway_runtime::io::{Pressure, Stream};
use ringway_runtime::{Segment, View};

use crate::tls::TlsStream;

/// A stream of plaintext. TLS is boxed, so that a plain connection stays small.
pub(crate) enum Transport {
    Plain(Stream),
    Tls(Box<TlsStream>),
}

impl Transport {
    /// Returns the socket's stream.
    pub(crate) fn stream(&self) -> &Stream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(tls) => tls.stream(),
        }
    }

    pub(crate) fn tls(&self) -> Option<&TlsStream> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => Some(tls),
        }
    }

    /// Ends receiving as though the peer had finished sending.
    pub(crate) fn end_receiving(&self) {
        if let Self::Tls(tls) = self {
            tls.expect_end();
        }
        self.stream().end_receiving();
    }

    #[inline]
    pub(crate) fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<io::Result<Option<View>>> {
        match self {
            Self::Plain(stream) => stream.poll_recv(cx),
            Self::Tls(tls) => tls.poll_recv(cx),
        }
    }

    #[inline]
    pub(crate) fn send(&self, segment: Segment) -> Pressure {
        match self {
            Self::Plain(stream) => stream.send(segment),
            Self::Tls(tls) => tls.send(segment),
        }
    }

    #[inline]
    pub(crate) fn write(&self, bytes: &[u8]) -> Pressure {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    pub(crate) fn poll_flushed(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => stream.poll_flushed(cx),
            Self::Tls(tls) => tls.poll_flushed(cx),
        }
    }

    pub(crate) fn poll_drained(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => stream.poll_drained(cx),
            Self::Tls(tls) => tls.poll_drained(cx),
        }
    }

    /// Returns why nothing can be sent any more, unless we ended sending ourselves.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        match self {
            Self::Plain(stream) => stream.failure(),
            Self::Tls(tls) => tls.failure(),
        }
    }

    pub(crate) fn shutdown(&self) {
        match self {
            Self::Plain(stream) => stream.shutdown(),
            Self::Tls(tls) => tls.shutdown(),
        }
    }

    pub(crate) fn queued_bytes(&self) -> usize {
        match self {
            Self::Plain(stream) => stream.queued_bytes(),
            Self::Tls(tls) => tls.queued_bytes(),
        }
    }

    pub(crate) fn abort(&self) {
        match self {
            Self::Plain(stream) => stream.abort(),
            Self::Tls(tls) => tls.abort(),
        }
    }
}
