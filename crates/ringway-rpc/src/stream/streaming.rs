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

/// Receives the messages of one stream, in order.
///
/// [`next`](Self::next) returns them one by one; the type also implements [`Stream`]. It may be
/// used and dropped on any thread; its own core is the fastest.
///
/// On a client, dropping it cancels the call unless the call is over. In a handler, dropping it
/// means that no more is read: the peer may send as much as it has credit for, and then waits for
/// the reply.
pub struct Streaming<T> {
    state: StreamingState,
    codec: Codec<T>,
    /// Maps the status of a message that cannot be decoded.
    undecodable: fn(Status) -> Status,
    /// Received messages that were not asked for yet.
    batch: Batch,
    /// Messages of the batch that were used but not yet reported to the connection. On another
    /// thread they add up until the stream is read there.
    taken: Taken,
    /// Whether the initial metadata was returned or is not expected.
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
    Remote(RemoteReader),
    /// Ended or failed; a failure is returned again.
    Over(Result<(), Status>),
}

impl<T> Streaming<T> {
    /// Makes the reader of an open stream of requests; the stream's table must know of it.
    pub(crate) fn new(at: StreamAt, codec: Codec<T>) -> Self {
        let mut requests = Self::at(StreamingState::At(at), codec, |status| status);
        requests.has_metadata = true;
        requests
    }

    /// Makes the reader of an open stream of replies. A reply that cannot be decoded is INTERNAL,
    /// since the caller is not at fault.
    pub(crate) fn replies(at: StreamAt, codec: Codec<T>) -> Self {
        Self::at(StreamingState::At(at), codec, codec::unreadable_reply)
    }

    /// Makes the reader of a stream of replies that a client is about to open.
    pub(crate) fn opening(pending: PendingHandle, codec: Codec<T>) -> Self {
        Self::at(StreamingState::PendingHandle(pending), codec, codec::unreadable_reply)
    }

    fn at(state: StreamingState, codec: Codec<T>, undecodable: fn(Status) -> Status) -> Self {
        let (batch, taken) = (Batch::default(), Taken::default());
        Self { state, codec, undecodable, batch, taken, has_metadata: false, trailers: None }
    }

    /// Waits for the metadata that the peer sends before its first message. It is empty if the peer
    /// sent none, for every later call, and on a server, where the [context](crate::Context) has
    /// the request's metadata.
    ///
    /// # Errors
    /// Fails when the stream could not be opened.
    pub async fn metadata(&mut self) -> Result<Metadata, Status> {
        poll_fn(|cx| self.poll_metadata(cx)).await
    }

    /// Returns the metadata that the server sent with its final status, after [`next`](Self::next)
    /// has returned `None`. After a failure the trailers are in its status.
    pub fn trailers(&self) -> Option<&Metadata> {
        self.trailers.as_ref()
    }

    /// Cancels the call in both directions, with a reason for the peer.
    pub fn cancel(mut self, reason: impl Into<String>) {
        self.leave(HandleEnd::Cancelled(reason.into()));
    }

    /// Reports taken messages to the connection at the end of a batch, and earlier after many
    /// bytes.
    #[inline]
    fn tell_taken(&mut self) {
        if self.batch.is_empty() || self.taken.bytes >= limits::STREAM_TAKEN_BYTES_MAX {
            let messages = self.taken.messages;
            let is_told = match self.state {
                StreamingState::At(at) => {
                    carrier::with(at.carrier, |carrier| carrier.taken(at.key, messages)).is_some()
                }
                // Messages from another thread were reported by their task.
                _ => true,
            };
            if is_told {
                self.taken = Taken::default();
            }
        }
    }

    /// Continues on another thread. All messages in hand count as taken.
    #[cold]
    fn go_elsewhere(&mut self, at: StreamAt) {
        let in_hand = std::mem::take(&mut self.taken).messages + self.batch.len();
        self.state = match carrier::is_here(at.carrier) {
            true => StreamingState::Over(Err(unreachable())),
            false => StreamingState::Remote(RemoteReader::start(at, in_hand)),
        };
    }

    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        loop {
            match &mut self.state {
                &mut StreamingState::At(at) => {
                    let (key, batch) = (at.key, &mut self.batch);
                    let polled =
                        carrier::with(at.carrier, |carrier| carrier.poll_messages(key, cx, batch));
                    if let Some(polled) = polled {
                        return polled;
                    }
                    self.go_elsewhere(at);
                }
                StreamingState::PendingHandle(pending) => {
                    let outcome = ready!(pending.poll(cx));
                    self.state =
                        outcome.map_or_else(|e| StreamingState::Over(Err(e)), StreamingState::At);
                }
                StreamingState::Remote(remote) => return remote.poll_messages(cx, &mut self.batch),
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
        if self.has_metadata && !matches!(self.state, StreamingState::Over(_)) {
            return Poll::Ready(Ok(Metadata::default()));
        }
        let metadata = ready!(self.wait_metadata(cx));
        self.has_metadata |= metadata.is_ok();
        Poll::Ready(metadata)
    }

    fn wait_metadata(&mut self, cx: &mut Context<'_>) -> Poll<Result<Metadata, Status>> {
        loop {
            match &mut self.state {
                &mut StreamingState::At(at) => {
                    let key = at.key;
                    let polled = carrier::with(at.carrier, |carrier| carrier.poll_initial(key, cx));
                    if let Some(polled) = polled {
                        return polled.map(Ok);
                    }
                    self.go_elsewhere(at);
                }
                StreamingState::PendingHandle(pending) => {
                    let outcome = ready!(pending.poll(cx));
                    self.state =
                        outcome.map_or_else(|e| StreamingState::Over(Err(e)), StreamingState::At);
                }
                StreamingState::Remote(remote) => return remote.poll_initial(cx).map(Ok),
                StreamingState::Over(outcome) => {
                    return Poll::Ready(outcome.clone().map(|()| Metadata::default()));
                }
            }
        }
    }

    fn leave(&mut self, how: HandleEnd) {
        match std::mem::replace(&mut self.state, StreamingState::Over(Ok(()))) {
            StreamingState::At(at) => at.leave(HandleSide::Reader, how),
            StreamingState::PendingHandle(pending) => pending.leave(how),
            StreamingState::Remote(remote) => remote.leave(how),
            StreamingState::Over(outcome) => self.state = StreamingState::Over(outcome),
        }
    }
}

impl<T: 'static> Streaming<T> {
    /// Waits for the next message; `None` when the peer has finished.
    ///
    /// Dropping the future while it waits loses nothing.
    ///
    /// # Errors
    /// Fails when the call has failed: with the peer's status, a cancellation, or the loss of the
    /// connection; later calls repeat that. Also fails when a message cannot be decoded; the next
    /// call then returns the next message.
    #[expect(clippy::should_implement_trait, reason = "it waits, like the `next` of streams")]
    #[inline]
    pub fn next(&mut self) -> NextMessage<'_, T> {
        NextMessage { stream: self }
    }

    #[inline]
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<T>, Status>> {
        loop {
            if let Some(len) = self.batch.next_len() {
                // Counted before decoding, which is user code and may panic.
                self.taken.messages += 1;
                self.taken.bytes += len;
                if self.batch.begin_raw(len, &self.codec) {
                    // Taken last: it is then made where the caller reads it.
                    self.tell_taken();
                    return Poll::Ready(Ok(Some(self.batch.take_raw(len))));
                }
                let decoded = self.batch.decode_next(len, &self.codec);
                self.tell_taken();
                return Poll::Ready(decoded.map(Some).map_err(self.undecodable));
            }
            if self.taken.messages > 0 {
                self.tell_taken(); // a panic may have ended the last batch
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
                    self.state = StreamingState::Over(Err(status.clone()));
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
    /// Blocks the calling thread until the message has arrived.
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
    /// Fails like [`Streaming::next`], and with FAILED_PRECONDITION on a core of Ringway and in a task of
    /// tokio, which must not block: await it there.
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

/// Yields messages until the peer has finished, or up to and including the failure.
impl<T: 'static> Stream for Streaming<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if matches!(self.state, StreamingState::Over(_)) {
            return Poll::Ready(None);
        }
        self.poll_message(cx).map(Result::transpose)
    }
}

impl<T> std::fmt::Debug for Streaming<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let over = matches!(self.state, StreamingState::Over(_));
        f.debug_struct("Streaming").field("over", &over).finish_non_exhaustive()
    }
}
