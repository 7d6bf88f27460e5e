//! The result of sending: the pressure of the send queue, and a future that waits for room.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::task::{Context, Poll};

use ringway_runtime::io::Pressure;

use super::inner::ConnectionInner;
use crate::error::{Error, Kind, Result};

/// The result of [`Peer::send`](super::Peer::send) and [`Peer::write`](super::Peer::write). The
/// bytes are queued already. Awaiting it waits until the send queue is below its low-water mark, if
/// it was above the high-water mark.
///
/// # Errors
/// Awaiting fails when the connection has failed or [`shutdown`](super::Peer::shutdown) was called
/// before.
pub struct Sending<'a> {
    pub(super) inner: &'a ConnectionInner,
    pub(super) pressure: Pressure,
}

impl Sending<'_> {
    /// Returns the fill level of the send queue right after the bytes were queued.
    pub fn pressure(&self) -> Pressure {
        self.pressure
    }
}

impl<'a> IntoFuture for Sending<'a> {
    type Output = Result;
    type IntoFuture = Drained<'a>;

    fn into_future(self) -> Drained<'a> {
        Drained { inner: self.inner, pressure: self.pressure }
    }
}

/// Future of an awaited [`Sending`].
#[must_use = "futures do nothing unless awaited"]
pub struct Drained<'a> {
    inner: &'a ConnectionInner,
    pressure: Pressure,
}

impl Future for Drained<'_> {
    type Output = Result;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result> {
        if self.pressure == Pressure::Low {
            return Poll::Ready(Ok(()));
        }
        match self.inner.transport.poll_drained(cx) {
            Poll::Ready(Ok(())) if self.pressure == Pressure::Closed => {
                let what = "cannot send after shutdown()";
                Poll::Ready(Err(Error::new(Kind::Closed, what)))
            }
            polled => polled.map_err(Error::from),
        }
    }
}

impl fmt::Debug for Sending<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sending({:?})", self.pressure)
    }
}
