//! The reader of a stream.

#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use crate::call::codec::{self, Codec};
use crate::call::metadata::Metadata;
use crate::call::status::Status;
use crate::connection::batch::Batch;
use crate::connection::carrier::{self, Received};
use crate::limits;
use crate::remote::blocking;
use crate::stream::pending::PendingHandle;
use crate::stream::remote::{HandleEnd, HandleSide, RemoteReader, StreamAt, unreachable};

/// The messages that a peer sends on one stream, in order.
///
/// [`next`](Self::next) gives them one by one; the type is also a [`Stream`]. It may be used and
/// dropped on any thread, core or not; on its own core that is fastest.
///
/// Dropping it at a client cancels the call, unless that is over. Dropping it in a handler means
/// that no more is read: the peer may send what it has credit for, and then waits for the answer.
pub struct Streaming<T> {
    place: StreamingState,
    codec: Codec<T>,
    /// What a message that cannot be decoded amounts to.
    undecodable: fn(Status) -> Status,
    /// Received, and not asked for yet.
    batch: Batch,
    /// Used of the batch, and not yet told to the connection. On another thread it gathers here until
    /// the stream is read from there.
    taken: Taken,
    /// What the peer says before its first message was given, or is not to be waited for.
    has_metadata: bool,
    trailers: Option<Metadata>,
}

#[derive(Default)]
struct Taken {
    messages: usize,
    bytes: usize,
}

enum StreamingState {
    PendingHandle(PendingHandle),
    At(StreamAt),
    Far(RemoteReader),
    /// The failure is given again to whoever asks again.
    Over(Result<(), Status>),
}

impl<T> Streaming<T> {
    /// The reader of an open stream of requests, which its table knows as having one.
    pub(crate) fn new(at: StreamAt, codec: Codec<T>) -> Self {
        let mut requests = Self::at(StreamingState::At(at), codec, |status| status);
        requests.has_metadata = true;
        requests
    }

    /// The same for replies: that one cannot be decoded is no fault of this side.
    pub(crate) fn replies(at: StreamAt, codec: Codec<T>) -> Self {
        Self::at(StreamingState::At(at), codec, codec::unreadable_reply)
    }

    /// The reader of the replies of a stream that a client is about to open.
    pub(crate) fn opening(opening: PendingHandle, codec: Codec<T>) -> Self {
        Self::at(StreamingState::PendingHandle(opening), codec, codec::unreadable_reply)
    }

    fn at(place: StreamingState, codec: Codec<T>, undecodable: fn(Status) -> Status) -> Self {
        let (batch, taken) = (Batch::default(), Taken::default());
        Self { place, codec, undecodable, batch, taken, has_metadata: false, trailers: None }
    }

    /// Waits for what the peer says before its first message. Empty the second time, where the
    /// peer said nothing, and on the server, where the [context](crate::Context) has the request's.
    ///
    /// # Errors
    /// When the stream could not be opened.
    pub async fn metadata(&mut self) -> Result<Metadata, Status> {
        poll_fn(|cx| self.poll_metadata(cx)).await
    }

    /// The metadata that the server sent with its final status, after [`next`](Self::next) has returned `None`.
    /// After a failure they are with its status.
    pub fn trailers(&self) -> Option<&Metadata> {
        self.trailers.as_ref()
    }

    /// Ends the call in both directions, with a reason that the peer can read.
    pub fn cancel(mut self, reason: impl Into<String>) {
        self.leave(HandleEnd::Cancelled(reason.into()));
    }

    /// Tells the connection at the end of a batch, and before that once for many small messages.
    #[inline]
    fn tell_taken(&mut self) {
        if self.batch.is_empty() || self.taken.bytes >= limits::STREAM_TAKEN_BYTES_MAX {
            let messages = self.taken.messages;
            let is_told = match self.place {
                StreamingState::At(at) => {
                    carrier::with(at.carrier, |carrier| carrier.taken(at.key, messages)).is_some()
                }
                // What has come from elsewhere was counted on its way.
                _ => true,
            };
            if is_told {
                self.taken = Taken::default();
            }
        }
    }

    /// Goes on from another thread. All that is in hand counts as taken.
    #[cold]
    fn go_elsewhere(&mut self, at: StreamAt) {
        let in_hand = std::mem::take(&mut self.taken).messages + self.batch.len();
        self.place = match carrier::is_here(at.carrier) {
            true => StreamingState::Over(Err(unreachable())),
            false => StreamingState::Far(RemoteReader::start(at, in_hand)),
        };
    }

    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        loop {
            match &mut self.place {
                &mut StreamingState::At(at) => {
                    let (key, batch) = (at.key, &mut self.batch);
                    let polled =
                        carrier::with(at.carrier, |carrier| carrier.poll_messages(key, cx, batch));
                    if let Some(polled) = polled {
                        return polled;
                    }
                    self.go_elsewhere(at);
                }
                StreamingState::PendingHandle(opening) => {
                    let outcome = ready!(opening.poll(cx));
                    self.place =
                        outcome.map_or_else(|e| StreamingState::Over(Err(e)), StreamingState::At);
                }
                StreamingState::Far(far) => return far.poll_messages(cx, &mut self.batch),
                StreamingState::Over(Ok(())) => {
                    return Poll::Ready(Received::End(Metadata::default()));
                }
                StreamingState::Over(Err(status)) => {
                    return Poll::Ready(Received::Failed(status.clone()));
                }
            }
        }
    }

    pub(crate) fn poll_metadata(&mut self, cx: &mut Context<'_>) -> Poll<Result<Metadata, Status>> {
        if self.has_metadata && !matches!(self.place, StreamingState::Over(_)) {
            return Poll::Ready(Ok(Metadata::default()));
        }
        let metadata = ready!(self.wait_metadata(cx));
        self.has_metadata |= metadata.is_ok();
        Poll::Ready(metadata)
    }

    fn wait_metadata(&mut self, cx: &mut Context<'_>) -> Poll<Result<Metadata, Status>> {
        loop {
            match &mut self.place {
                &mut StreamingState::At(at) => {
                    let key = at.key;
                    let polled = carrier::with(at.carrier, |carrier| carrier.poll_initial(key, cx));
                    if let Some(polled) = polled {
                        return polled.map(Ok);
                    }
                    self.go_elsewhere(at);
                }
                StreamingState::PendingHandle(opening) => {
                    let outcome = ready!(opening.poll(cx));
                    self.place =
                        outcome.map_or_else(|e| StreamingState::Over(Err(e)), StreamingState::At);
                }
                StreamingState::Far(far) => return far.poll_initial(cx).map(Ok),
                StreamingState::Over(outcome) => {
                    return Poll::Ready(outcome.clone().map(|()| Metadata::default()));
                }
            }
        }
    }

    fn leave(&mut self, how: HandleEnd) {
        match std::mem::replace(&mut self.place, StreamingState::Over(Ok(()))) {
            StreamingState::At(at) => at.leave(HandleSide::Reader, how),
            StreamingState::PendingHandle(opening) => opening.leave(how),
            StreamingState::Far(far) => far.leave(how),
            StreamingState::Over(outcome) => self.place = StreamingState::Over(outcome),
        }
    }
}

impl<T: 'static> Streaming<T> {
    /// Waits for the next message; `None` when the peer is done.
    ///
    /// A call of `next` that is dropped while it waits loses nothing.
    ///
    /// # Errors
    /// How the call failed: the peer's status, a cancellation, the loss of the connection. Asked
    /// again, it fails the same way. A message that cannot be decoded is an error as well, after
    /// which the next one may be asked for.
    #[expect(clippy::should_implement_trait, reason = "it waits, as every stream's `next` does")]
    #[inline]
    pub fn next(&mut self) -> NextMessage<'_, T> {
        NextMessage { stream: self }
    }

    #[inline]
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<T>, Status>> {
        loop {
            if let Some(len) = self.batch.next_len() {
                // It counts before it is decoded: that is code of a user, which may panic.
                self.taken.messages += 1;
                self.taken.bytes += len;
                let decoded = self.batch.decode_next(len, &self.codec);
                self.tell_taken();
                return Poll::Ready(decoded.map(Some).map_err(self.undecodable));
            }
            if self.taken.messages > 0 {
                self.tell_taken(); // of a batch that a panic has ended
            }
            match ready!(self.poll_batch(cx)) {
                Received::Messages => {}
                Received::End(trailers) => {
                    self.leave(HandleEnd::Dropped);
                    self.trailers.get_or_insert(trailers);
                    return Poll::Ready(Ok(None));
                }
                Received::Failed(status) => {
                    self.leave(HandleEnd::Dropped);
                    self.place = StreamingState::Over(Err(status.clone()));
                    return Poll::Ready(Err(status));
                }
            }
        }
    }
}

/// Waits for a message of a stream; made by [`Streaming::next`].
#[must_use = "a message is received when it is awaited"]
#[derive(Debug)]
pub struct NextMessage<'a, T> {
    stream: &'a mut Streaming<T>,
}

impl<T: 'static> NextMessage<'_, T> {
    /// Blocks the calling thread until the message is here.
    ///
    /// ```no_run
    /// # use ringway_rpc::{Status, Streaming};
    /// fn print_all(mut ticks: Streaming<u64>) -> Result<(), Status> {
    ///     while let Some(tick) = ticks.next().wait()? {
    ///         println!("{tick}");
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Streaming::next`]. FAILED_PRECONDITION on a core of Ringway and in a task of tokio, which must
    /// not block: await it there.
    pub fn wait(self) -> Result<Option<T>, Status> {
        blocking::wait(self, |_| None)
    }
}

impl<T: 'static> Future for NextMessage<'_, T> {
    type Output = Result<Option<T>, Status>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.stream.poll_message(cx)
    }
}

impl<T> Drop for Streaming<T> {
    fn drop(&mut self) {
        std::mem::take(&mut self.batch).recycle();
        self.leave(HandleEnd::Dropped);
    }
}

/// Messages until the peer is done, or up to and including the failure.
impl<T: 'static> Stream for Streaming<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if matches!(self.place, StreamingState::Over(_)) {
            return Poll::Ready(None);
        }
        self.poll_message(cx).map(Result::transpose)
    }
}

impl<T> std::fmt::Debug for Streaming<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let over = matches!(self.place, StreamingState::Over(_));
        f.debug_struct("Streaming").field("over", &over).finish_non_exhaustive()
    }
}
