//! A call as users await it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use ringway_wire::native::Piece;

use super::one_reply::OneReply;
use super::options::CallOptions;
use super::outcome::CallOutcome;
use super::placed_call::PlacedCall;
use crate::call::codec::Codec;
use crate::call::metadata::Metadata;
use crate::call::status::Status;
use crate::call::trace::TraceContext;
use crate::remote::blocking;

/// A call with one reply, which begins when it is first polled.
///
/// It may be awaited on any thread: on a core of Ringway it goes straight to the core's own
/// connections, elsewhere (in a task of tokio, on a plain thread with [`wait`](Self::wait)) over a
/// core in the background. Dropping it cancels the call on the server. Its options are named before it
/// is polled: one that comes later gives the call up, which fails with FAILED_PRECONDITION then.
///
/// ```no_run
/// # use std::time::Duration;
/// # use bytes::Bytes;
/// # use ringway_rpc::{Call, Status};
/// # async fn run(say: impl Fn() -> Call<Bytes>) -> Result<(), Status> {
/// let reply = say().timeout(Duration::from_millis(50)).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a call is made when it is awaited"]
pub struct Call<T> {
    way: Way,
    codec: Codec<T>,
}

enum Way {
    Unary(PlacedCall),
    /// The one message of a stream of replies; its request is a stream.
    Stream(OneReply),
    /// It was given up.
    Refused(Status),
}

/// A reply with what the server said beside it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Response<T> {
    /// The message.
    pub message: T,
    /// The metadata that the server sent before the message.
    pub metadata: Metadata,
    /// The metadata that the server sent after the message.
    pub trailers: Metadata,
}

impl<T> Call<T> {
    #[inline]
    pub(super) fn unary(call: PlacedCall, codec: Codec<T>) -> Self {
        Self { way: Way::Unary(call), codec }
    }

    pub(super) fn of_stream(reply: OneReply, codec: Codec<T>) -> Self {
        Self { way: Way::Stream(reply), codec }
    }

    /// See [`CallOptions::timeout`].
    pub fn timeout(self, after: Duration) -> Self {
        self.with(|options| options.timeout(after))
    }

    /// See [`CallOptions::no_timeout`].
    pub fn no_timeout(self) -> Self {
        self.with(CallOptions::no_timeout)
    }

    /// See [`CallOptions::metadata`].
    pub fn metadata(self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.with(|options| options.metadata(key, value))
    }

    /// See [`CallOptions::trace`].
    pub fn trace(self, span: TraceContext) -> Self {
        self.with(|options| options.trace(span))
    }

    /// See [`CallOptions::idempotent`].
    pub fn idempotent(self) -> Self {
        self.with(CallOptions::idempotent)
    }

    /// See [`CallOptions::hedge`].
    pub fn hedge(self) -> Self {
        self.with(CallOptions::hedge)
    }

    /// See [`CallOptions::wait_for_ready`].
    pub fn wait_for_ready(self, waits: bool) -> Self {
        self.with(|options| options.wait_for_ready(waits))
    }

    /// See [`CallOptions::priority`].
    pub fn priority(self, priority: u8) -> Self {
        self.with(|options| options.priority(priority))
    }

    /// Asks for metadata and trailers as well.
    pub fn full(self) -> FullCall<T> {
        FullCall { call: self }
    }

    /// Blocks the calling thread until the reply is here.
    ///
    /// # Errors
    /// As the call. FAILED_PRECONDITION on a core of Ringway, which must not block: await it there.
    pub fn wait(self) -> Result<T, Status> {
        blocking::wait(self, Self::wakes_at)
    }

    /// When it is to be polled although nothing has woken its caller.
    fn wakes_at(&self) -> Option<Instant> {
        match &self.way {
            Way::Unary(call) => call.wakes_at(),
            Way::Stream(_) | Way::Refused(_) => None,
        }
    }

    fn with(mut self, change: impl FnOnce(CallOptions) -> CallOptions) -> Self {
        match &mut self.way {
            Way::Unary(call) if call.has_begun() => {
                let why = "options were named for a call that had begun: it was given up";
                self.way = Way::Refused(Status::failed_precondition(why));
            }
            Way::Unary(call) => call.change_options(change),
            Way::Stream(reply) => reply.refuse_options(),
            Way::Refused(_) => {}
        }
        self
    }

    #[inline]
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<CallOutcome> {
        match &mut self.way {
            Way::Unary(call) => Pin::new(call).poll(cx),
            Way::Stream(reply) => reply.poll(cx),
            Way::Refused(status) => Poll::Ready(Err(status.clone())),
        }
    }
}

impl<T> Future for Call<T> {
    type Output = Result<T, Status>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let reply = ready!(self.poll_reply(cx))?;
        Poll::Ready(self.codec.decode_reply(Piece::Owned(reply.message)))
    }
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Call")
    }
}

/// A [`Call`] that gives a [`Response`].
#[must_use = "a call is made when it is awaited"]
#[derive(Debug)]
pub struct FullCall<T> {
    call: Call<T>,
}

impl<T> FullCall<T> {
    /// Waits for the reply like [`Call::wait`].
    ///
    /// # Errors
    /// As there.
    pub fn wait(self) -> Result<Response<T>, Status> {
        blocking::wait(self, |this| this.call.wakes_at())
    }
}

impl<T> Future for FullCall<T> {
    type Output = Result<Response<T>, Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let reply = ready!(self.call.poll_reply(cx))?;
        let message = self.call.codec.decode_reply(Piece::Owned(reply.message))?;
        let meta = reply.meta.unwrap_or_default();
        let (metadata, trailers) = (meta.initial, meta.trailers);
        Poll::Ready(Ok(Response { message, metadata, trailers }))
    }
}
