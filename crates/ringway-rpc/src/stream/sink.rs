//! The writer of a stream.

#[cfg(test)]
mod tests;

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use ringway_runtime::{contain, drop_contained};
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
/// It may be used and dropped on any thread; its own core is the fastest.
///
/// On a client, dropping it without [`finish`](Self::finish) cancels the call, because the server
/// could otherwise take a partial stream for a complete one. In a handler it may be dropped at any
/// time, since the handler's return ends the stream. Messages sent before the return arrive before
/// that end.
pub struct Sink<T> {
    state: SinkState,
    codec: Codec<T>,
    /// Whether the last message left room for another.
    has_room: bool,
}

enum SinkState {
    PendingHandle(PendingHandle),
    At(StreamAt),
    Remote(RemoteWriter),
    /// Left, or failed with a status that is returned again.
    Over(Option<Status>),
}

impl<T> Sink<T> {
    /// Makes the writer of an open stream; the stream's table must know of it.
    pub(crate) fn new(at: StreamAt, codec: Codec<T>) -> Self {
        Self { state: SinkState::At(at), codec, has_room: false }
    }

    pub(crate) fn opening(pending: PendingHandle, codec: Codec<T>) -> Self {
        Self { state: SinkState::PendingHandle(pending), codec, has_room: false }
    }

    /// Finishes the stream: the peer learns that no more messages follow. Messages sent before
    /// still arrive.
    pub fn finish(mut self) {
        self.leave(HandleEnd::Finished);
    }

    /// Cancels the call in both directions, with a reason for the peer.
    pub fn cancel(mut self, reason: impl Into<String>) {
        self.leave(HandleEnd::Cancelled(reason.into()));
    }

    fn leave(&mut self, how: HandleEnd) {
        match std::mem::replace(&mut self.state, SinkState::Over(None)) {
            SinkState::At(at) => at.leave(HandleSide::Writer, how),
            SinkState::PendingHandle(pending) => pending.leave(how),
            SinkState::Remote(remote) => remote.leave(how),
            SinkState::Over(_) => {}
        }
    }
}

impl<T: 'static> Sink<T> {
    /// Sends a message. Waits while more of this stream is queued than its mark allows, because the
    /// peer grants no credit or the network is slow.
    ///
    /// Dropping the future while it waits means that the message was not sent.
    ///
    /// # Errors
    /// Fails when the call is over: cancelled, answered by the peer, or its connection lost. The
    /// outcome of the call itself is with its other handle. Also fails when the message cannot be
    /// encoded; the stream then stays usable.
    #[inline]
    pub fn send(&mut self, message: T) -> SendMessage<'_, T> {
        SendMessage { sink: self, message: Some(message) }
    }

    /// Sends a message unless it would have to wait.
    ///
    /// # Errors
    /// Fails like [`send`](Self::send), and with [`TrySendError::Full`] when there is no room; that
    /// returns the message.
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

    #[inline]
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        message: &mut Option<T>,
    ) -> Poll<Result<(), Status>> {
        loop {
            match &mut self.state {
                SinkState::At(at) => {
                    let (key, has_room) = (at.key, self.has_room);
                    let polled = carrier::with(at.carrier, |carrier| {
                        if !has_room {
                            ready!(carrier.poll_ready(key, cx))?;
                        }
                        let send = |body: Body<'_>| carrier.send(key, body);
                        Poll::Ready(encode_in_place(&self.codec, message, send)?)
                    });
                    if let Some(polled) = polled {
                        self.has_room = matches!(polled, Poll::Ready(Ok(true)));
                        return polled.map_ok(drop);
                    }
                    self.state = SinkState::elsewhere(*at);
                }
                SinkState::PendingHandle(pending) => {
                    let outcome = ready!(pending.poll(cx));
                    self.state = outcome.map_or_else(|e| SinkState::Over(Some(e)), SinkState::At);
                }
                SinkState::Remote(remote) => {
                    let mut sent = ready!(remote.poll_ready(cx));
                    if sent.is_ok() {
                        sent = encode(&self.codec, message, |body| remote.send(owned(body)))?;
                    }
                    match sent {
                        Ok(()) => return Poll::Ready(Ok(())),
                        Err(status) => self.state = SinkState::Over(Some(status)), // from the next poll on
                    }
                }
                SinkState::Over(status) => {
                    return Poll::Ready(Err(status.clone().unwrap_or_else(unreachable)));
                }
            }
        }
    }
}

/// Sends a message on a stream; made by [`Sink::send`].
#[must_use = "a message is sent when it is awaited"]
pub struct SendMessage<'a, T> {
    sink: &'a mut Sink<T>,
    message: Option<T>,
}

/// Sound because the message is moved and never pinned.
impl<T> Unpin for SendMessage<'_, T> {}

impl<T: 'static> SendMessage<'_, T> {
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
    /// Fails like [`Sink::send`], and with FAILED_PRECONDITION on a core of Ringway and in a task of tokio,
    /// which must not block: await it there.
    pub fn wait(self) -> Result<(), Status> {
        blocking::wait(self, |_| None)
    }
}

impl<T: 'static> Future for SendMessage<'_, T> {
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
    /// A buffer to encode messages into, kept for its memory.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Encodes the message and passes it to `send`; small messages stay in the scratch buffer.
#[inline]
fn encode<T, R>(
    codec: &Codec<T>,
    message: &mut Option<T>,
    send: impl FnOnce(Body<'_>) -> R,
) -> Result<R, Status> {
    let message = message.take().expect("a message is sent once");
    // Raw bytes are already encoded and need no buffer.
    let needs_scratch = codec.id != codec::RAW;
    let spare = || SCRATCH.try_with(Cell::take).unwrap_or_default();
    let mut scratch = if needs_scratch { spare() } else { Vec::new() };
    scratch.clear();
    let sent = match (codec.encode)(message, &mut scratch) {
        Ok(Some(bytes)) => match codec::check_len(bytes.len()) {
            Ok(()) => Ok(send(Body::Shared(bytes))),
            Err(status) => {
                drop_contained(codec::MESSAGE, bytes);
                Err(status)
            }
        },
        Ok(None) if scratch.len() <= limits::SCRATCH_BYTES_MAX => Ok(send(Body::Copy(&scratch))),
        Ok(None) => codec::check_len(scratch.len())
            .map(|()| send(Body::Shared(std::mem::take(&mut scratch).into()))),
        Err(status) => Err(status),
    };
    if needs_scratch && scratch.capacity() <= limits::SCRATCH_BYTES_MAX {
        let _thread_ends = SCRATCH.try_with(|spare| spare.set(scratch));
    }
    sent
}

/// Passes the message to `send`, which copies small ones. A small raw message stays where it is: moving
/// it just after it was made would cost more than all the rest of sending it.
#[inline]
fn encode_in_place<T: 'static, R>(
    codec: &Codec<T>,
    message: &mut Option<T>,
    send: impl FnOnce(Body<'_>) -> R,
) -> Result<R, Status> {
    let Some(bytes) = small_raw(codec, message) else { return encode(codec, message, send) };
    let sent = send(Body::Copy(bytes));
    contain(codec::MESSAGE, || *message = None); // its destructor may be user code
    Ok(sent)
}

/// Returns the bytes of a small message that is sent as it is.
#[inline(always)]
fn small_raw<'a, T: 'static>(codec: &Codec<T>, message: &'a Option<T>) -> Option<&'a [u8]> {
    let bytes = (message as &dyn Any).downcast_ref::<Option<Bytes>>()?.as_deref()?;
    (codec.id == codec::RAW && bytes.len() <= limits::REPLY_COPY_MAX).then_some(bytes)
}

fn owned(body: Body<'_>) -> Bytes {
    match body {
        Body::Copy(bytes) => Bytes::copy_from_slice(bytes),
        Body::Shared(bytes) => bytes,
    }
}

impl SinkState {
    /// Returns the next state when the carrier is not on this thread.
    #[cold]
    fn elsewhere(at: StreamAt) -> Self {
        if carrier::is_here(at.carrier) {
            Self::Over(Some(unreachable()))
        } else {
            Self::Remote(RemoteWriter::start(at))
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
        let over = matches!(self.state, SinkState::Over(_));
        f.debug_struct("Sink").field("over", &over).finish_non_exhaustive()
    }
}

/// Why [`Sink::try_send`] did not send.
#[derive(Debug)]
pub enum TrySendError<T> {
    /// The stream is above its mark, or not open yet. The message is returned.
    Full(T),
    /// The call is over, or the message cannot be encoded.
    Failed(Status),
}
