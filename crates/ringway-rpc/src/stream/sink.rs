//! The writer of a stream.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use ringway_wire::native::Body;

use crate::call::codec::{self, Codec};
use crate::call::status::Status;
use crate::connection::carrier;
use crate::limits;
use crate::remote::blocking;
use crate::stream::pending::PendingHandle;
use crate::stream::remote::{HandleEnd, HandleSide, RemoteWriter, StreamAt, unreachable};

/// Sends messages on one stream, in order.
///
/// It may be used and dropped on any thread, core or not; on its own core that is fastest.
///
/// Dropping it at a client without [`finish`](Self::finish) cancels the call: half a stream would
/// otherwise pass for a whole one. In a handler it may be dropped at any time, since the handler's
/// return ends the stream. What has been sent before the return arrives before that end.
pub struct Sink<T> {
    place: SinkState,
    codec: Codec<T>,
    /// The last message found room for another.
    has_room: bool,
}

enum SinkState {
    PendingHandle(PendingHandle),
    At(StreamAt),
    Far(RemoteWriter),
    /// Left, or failed in a way that is given again.
    Over(Option<Status>),
}

impl<T> Sink<T> {
    /// The writer of an open stream, which its table knows as having one.
    pub(crate) fn new(at: StreamAt, codec: Codec<T>) -> Self {
        Self { place: SinkState::At(at), codec, has_room: false }
    }

    pub(crate) fn opening(opening: PendingHandle, codec: Codec<T>) -> Self {
        Self { place: SinkState::PendingHandle(opening), codec, has_room: false }
    }

    /// Sends a message. Waits while more of this stream is queued than its mark allows, because
    /// the peer grants no credit or the network is slow.
    ///
    /// A call of `send` that is dropped while it waits has not sent its message.
    ///
    /// # Errors
    /// When the call is over: cancelled, answered by the peer, or its connection lost. The call's
    /// own outcome is with its other half. Also when the message cannot be encoded, which ends
    /// nothing.
    #[inline]
    pub fn send(&mut self, message: T) -> SendMessage<'_, T> {
        SendMessage { sink: self, message: Some(message) }
    }

    /// Sends a message unless it would have to wait.
    ///
    /// # Errors
    /// As [`send`](Self::send), or that there is no room: then the message is given back.
    pub fn try_send(&mut self, message: T) -> Result<(), TrySendError<T>> {
        let mut message = Some(message);
        match self.poll_send(&mut Context::from_waker(Waker::noop()), &mut message) {
            Poll::Ready(Ok(())) => Ok(()),
            Poll::Ready(Err(status)) => Err(TrySendError::Failed(status)),
            Poll::Pending => {
                Err(TrySendError::Full(message.expect("a message that waits is not sent")))
            }
        }
    }

    /// Tells the peer that this was all. What has been sent before still arrives.
    pub fn finish(mut self) {
        self.leave(HandleEnd::Finished);
    }

    /// Ends the call in both directions, with a reason that the peer can read.
    pub fn cancel(mut self, reason: impl Into<String>) {
        self.leave(HandleEnd::Cancelled(reason.into()));
    }

    #[inline]
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        message: &mut Option<T>,
    ) -> Poll<Result<(), Status>> {
        loop {
            match &mut self.place {
                SinkState::At(at) => {
                    let (key, has_room) = (at.key, self.has_room);
                    let polled = carrier::with(at.carrier, |carrier| {
                        if !has_room {
                            ready!(carrier.poll_ready(key, cx))?;
                        }
                        Poll::Ready(encode(&self.codec, message, |body| carrier.send(key, body))?)
                    });
                    if let Some(polled) = polled {
                        self.has_room = matches!(polled, Poll::Ready(Ok(true)));
                        return polled.map_ok(drop);
                    }
                    self.place = SinkState::elsewhere(*at);
                }
                SinkState::PendingHandle(opening) => {
                    let outcome = ready!(opening.poll(cx));
                    self.place = outcome.map_or_else(|e| SinkState::Over(Some(e)), SinkState::At);
                }
                SinkState::Far(far) => {
                    let mut sent = ready!(far.poll_ready(cx));
                    if sent.is_ok() {
                        sent = encode(&self.codec, message, |body| far.send(owned(body)))?;
                    }
                    match sent {
                        Ok(()) => return Poll::Ready(Ok(())),
                        Err(status) => self.place = SinkState::Over(Some(status)), // told once
                    }
                }
                SinkState::Over(status) => {
                    return Poll::Ready(Err(status.clone().unwrap_or_else(unreachable)));
                }
            }
        }
    }

    fn leave(&mut self, how: HandleEnd) {
        match std::mem::replace(&mut self.place, SinkState::Over(None)) {
            SinkState::At(at) => at.leave(HandleSide::Writer, how),
            SinkState::PendingHandle(opening) => opening.leave(how),
            SinkState::Far(far) => far.leave(how),
            SinkState::Over(_) => {}
        }
    }
}

/// Sends a message on a stream; made by [`Sink::send`].
#[must_use = "a message is sent when it is awaited"]
pub struct SendMessage<'a, T> {
    sink: &'a mut Sink<T>,
    message: Option<T>,
}

/// The message is moved, and never pinned.
impl<T> Unpin for SendMessage<'_, T> {}

impl<T> SendMessage<'_, T> {
    /// Blocks the calling thread until the message is sent.
    ///
    /// ```no_run
    /// # use ringway_rpc::{Sink, Status};
    /// fn count(mut numbers: Sink<u64>) -> Result<(), Status> {
    ///     for number in 0..1_000 {
    ///         numbers.send(number).wait()?;
    ///     }
    ///     numbers.finish(); // without it the call is cancelled
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Sink::send`]. FAILED_PRECONDITION on a core of Ringway and in a task of tokio, which must not
    /// block: await it there.
    pub fn wait(self) -> Result<(), Status> {
        blocking::wait(self, |_| None)
    }
}

impl<T> Future for SendMessage<'_, T> {
    type Output = Result<(), Status>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.sink.poll_send(cx, &mut this.message)
    }
}

impl<T> fmt::Debug for SendMessage<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SendMessage").field(&self.sink).finish()
    }
}

thread_local! {
    /// What messages are encoded into, kept for its memory.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Encodes the message and gives it to `send`; small ones as bytes of the scratch.
#[inline]
fn encode<T, R>(
    codec: &Codec<T>,
    message: &mut Option<T>,
    send: impl FnOnce(Body<'_>) -> R,
) -> Result<R, Status> {
    let message = message.take().expect("a message is sent once");
    // Raw bytes are the message already and need no memory to be encoded in.
    let needs_scratch = codec.id != codec::RAW;
    let spare = || SCRATCH.try_with(Cell::take).unwrap_or_default();
    let mut scratch = if needs_scratch { spare() } else { Vec::new() };
    scratch.clear();
    let sent = match (codec.encode)(message, &mut scratch) {
        Ok(Some(bytes)) => Ok(send(Body::Shared(bytes))),
        Ok(None) if scratch.len() <= limits::SCRATCH_BYTES_MAX => Ok(send(Body::Copy(&scratch))),
        Ok(None) => Ok(send(Body::Shared(std::mem::take(&mut scratch).into()))),
        Err(status) => Err(status),
    };
    if needs_scratch && scratch.capacity() <= limits::SCRATCH_BYTES_MAX {
        let _thread_ends = SCRATCH.try_with(|spare| spare.set(scratch));
    }
    sent
}

fn owned(body: Body<'_>) -> Bytes {
    match body {
        Body::Copy(bytes) => Bytes::copy_from_slice(bytes),
        Body::Shared(bytes) => bytes,
    }
}

impl SinkState {
    /// Where to go on when the carrier is not found on this thread.
    #[cold]
    fn elsewhere(at: StreamAt) -> Self {
        if carrier::is_here(at.carrier) {
            Self::Over(Some(unreachable()))
        } else {
            Self::Far(RemoteWriter::start(at))
        }
    }
}

impl<T> Drop for Sink<T> {
    fn drop(&mut self) {
        self.leave(HandleEnd::Dropped);
    }
}

impl<T> fmt::Debug for Sink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let over = matches!(self.place, SinkState::Over(_));
        f.debug_struct("Sink").field("over", &over).finish_non_exhaustive()
    }
}

/// Why [`Sink::try_send`] did not send.
#[derive(Debug)]
pub enum TrySendError<T> {
    /// The stream is above its mark, or not open yet. Here is the message.
    Full(T),
    /// The call is over, or the message cannot be encoded.
    Failed(Status),
}
