//! The future of a call, as users await it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use ringway_wire::native::Piece;

use super::one_reply::OneReply;
use super::options::CallOptions;
use super::outcome::CallOutcome;
use super::placed_call::PlacedCall;
use crate::call::codec::{Codec, unreadable_reply};
use crate::call::metadata::Metadata;
use crate::call::status::Status;
use crate::call::trace::TraceContext;
use crate::remote::blocking;

/// A call with one reply, which begins when it is first polled.
///
/// It may be awaited on any thread. On a Ringway core it uses the core's own connections; elsewhere (in a
/// tokio task, or on a plain thread with [`wait`](Self::wait)) it uses a core in the background. Dropping
/// it cancels the call on the server. Set options before the first poll: an option that comes later
/// cancels the call, which then fails with FAILED_PRECONDITION.
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
    decode: Decode<T>,
}

/// Decodes a reply. Only this part of its codec is kept, because each call is moved a few times.
type Decode<T> = fn(Piece<'_>) -> Result<T, Status>;

enum Way {
    Unary(PlacedCall),
    /// The reply to a stream of requests.
    Stream(OneReply),
    /// The call was cancelled because an option was set too late.
    Refused(Status),
}

/// A reply with its metadata.
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
        Self { way: Way::Unary(call), decode: codec.decode }
    }

    pub(super) fn of_stream(reply: OneReply, codec: Codec<T>) -> Self {
        Self { way: Way::Stream(reply), decode: codec.decode }
    }

    /// Sets the [timeout](CallOptions::timeout) of this call.
    pub fn timeout(self, after: Duration) -> Self {
        self.with(|options| options.timeout(after))
    }

    /// Removes the [timeout](CallOptions::no_timeout) of this call.
    pub fn no_timeout(self) -> Self {
        self.with(CallOptions::no_timeout)
    }

    /// Adds [metadata](CallOptions::metadata) to this call.
    pub fn metadata(self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.with(|options| options.metadata(key, value))
    }

    /// Sets the [trace](CallOptions::trace) of this call.
    pub fn trace(self, span: TraceContext) -> Self {
        self.with(|options| options.trace(span))
    }

    /// Marks this call as [idempotent](CallOptions::idempotent).
    pub fn idempotent(self) -> Self {
        self.with(CallOptions::idempotent)
    }

    /// Lets this call be [hedged](CallOptions::hedge).
    pub fn hedge(self) -> Self {
        self.with(CallOptions::hedge)
    }

    /// Sets whether this call [waits](CallOptions::wait_for_ready) while no server can be reached.
    pub fn wait_for_ready(self, waits: bool) -> Self {
        self.with(|options| options.wait_for_ready(waits))
    }

    /// Sets the [priority](CallOptions::priority) of this call.
    pub fn priority(self, priority: u8) -> Self {
        self.with(|options| options.priority(priority))
    }

    /// Returns metadata and trailers together with the message.
    pub fn full(self) -> FullCall<T> {
        FullCall { call: self }
    }

    /// Blocks the calling thread until the reply has arrived.
    ///
    /// # Errors
    /// Fails as the call does, and with FAILED_PRECONDITION on a Ringway core and in a task of tokio, which
    /// must not block: await the call there.
    pub fn wait(self) -> Result<T, Status> {
        blocking::wait(self, Self::wakes_at)
    }

    /// The time at which a blocked caller polls again even if nothing has woken it.
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
        let decoded = (self.decode)(Piece::Owned(reply.message));
        Poll::Ready(decoded.map_err(unreadable_reply))
    }
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Call")
    }
}

/// A [`Call`] that resolves to a [`Response`].
#[must_use = "a call is made when it is awaited"]
#[derive(Debug)]
pub struct FullCall<T> {
    call: Call<T>,
}

impl<T> FullCall<T> {
    /// Blocks the calling thread until the reply has arrived, like [`Call::wait`].
    ///
    /// # Errors
    /// Fails as [`Call::wait`] does.
    pub fn wait(self) -> Result<Response<T>, Status> {
        blocking::wait(self, |this| this.call.wakes_at())
    }
}

impl<T> Future for FullCall<T> {
    type Output = Result<Response<T>, Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let reply = ready!(self.call.poll_reply(cx))?;
        let decoded = (self.call.decode)(Piece::Owned(reply.message));
        let message = decoded.map_err(unreadable_reply)?;
        let meta = reply.meta.unwrap_or_default();
        let (metadata, trailers) = (meta.initial, meta.trailers);
        Poll::Ready(Ok(Response { message, metadata, trailers }))
    }
}
