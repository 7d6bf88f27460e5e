//! Code that runs around the calls of a client.
//!
//! An interceptor wraps a whole call: it runs once, however many attempts and hedges are made inside
//! of it. The first one declared is the outermost. It runs on the core of its call (its own core, or
//! the one in the background for callers on other threads), in place, each time that the call is
//! polled; so it may wait, and must not block.
//!
//! - What it returns is the outcome: without [`NextCall::run`] nothing is sent.
//! - The call's deadline holds for the interceptors too. While the call itself is under way that
//!   ends by its deadline and the interceptors are told; one that waits for something else then is
//!   dropped.
//! - A caller who drops the call drops the interceptors where they wait.
//! - A panic is the end of its call, INTERNAL, and of nothing else.
//! - Of a call with streams they see the beginning, which they may refuse, and the end: it goes on
//!   until the stream is over, whoever has ended it. The stream belongs to its handles as soon as it
//!   is open, so how it ends can be looked at and not replaced.
//! - Calls that are answered early, or before they are sent, are not in the client's metrics.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_runtime as runtime;

use super::outcome::{RawReply, ReplyMeta};
use crate::call::metadata::Metadata;
use crate::call::method::Method;
use crate::call::status::Status;
use crate::call::trace::TraceContext;
use crate::stream::pending::PendingStream;

/// A call on its way out through the interceptors of a client.
#[derive(Debug)]
pub struct OutgoingCall {
    method: &'static Method,
    metadata: Metadata,
    trace: Option<TraceContext>,
    deadline: Option<Instant>,
}

impl OutgoingCall {
    /// The method that is called.
    pub fn method(&self) -> &'static Method {
        self.method
    }

    /// The metadata that will be sent with the request.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The same, to be added to or changed.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// The span that the server will be told of as the one that makes the call, if any.
    pub fn trace(&self) -> Option<TraceContext> {
        self.trace
    }

    /// Tells the server that this span makes the call.
    ///
    /// ```
    /// use ringway_rpc::{IncomingReply, NextCall, OutgoingCall, Status, TraceContext};
    ///
    /// /// Begins a trace where there is none, of which one call in a hundred is recorded.
    /// async fn begin_trace(mut call: OutgoingCall, next: NextCall) -> Result<IncomingReply, Status> {
    ///     if call.trace().is_none() {
    ///         let span = TraceContext::root(false);
    ///         call.set_trace(TraceContext::root(span.trace_id() % 100 == 0));
    ///     }
    ///     next.run(call).await
    /// }
    /// ```
    pub fn set_trace(&mut self, span: TraceContext) {
        self.trace = Some(span);
    }

    /// When the caller stops waiting, `None` if it waits for ever.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The time until the call's deadline; zero if it has passed, `None` if there is none.
    pub fn remaining(&self) -> Option<Duration> {
        Some(self.deadline?.saturating_duration_since(runtime::now_exact()))
    }
}

/// A server's reply, on its way in through the interceptors of a client.
///
/// A clone may answer a later call of the same method early.
#[derive(Clone, Debug)]
pub struct IncomingReply {
    message: Option<Bytes>,
    meta: Option<Box<ReplyMeta>>,
}

impl IncomingReply {
    /// An answer of one's own, with a message that is encoded as the method's replies are.
    pub fn new(message: impl Into<Bytes>) -> Self {
        Self { message: Some(message.into()), meta: None }
    }

    /// The encoded message; `None` where the method has streams.
    pub fn message(&self) -> Option<&Bytes> {
        self.message.as_ref()
    }

    /// The initial metadata; `None` if the server sent no metadata at all.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.meta.as_deref().map(|meta| &meta.initial)
    }

    /// The trailing metadata; `None` if the server sent no metadata at all.
    pub fn trailers(&self) -> Option<&Metadata> {
        self.meta.as_deref().map(|meta| &meta.trailers)
    }

    /// The answer of a server.
    pub(super) fn of_server(reply: RawReply) -> Self {
        Self { message: Some(reply.message), meta: reply.meta }
    }

    /// The end of a call with streams.
    pub(super) fn of_streams() -> Self {
        Self { message: None, meta: None }
    }

    /// # Errors
    /// INTERNAL when it is that of a call with streams.
    pub(super) fn into_reply(self) -> Result<RawReply, Status> {
        let Some(message) = self.message else {
            return Err(Status::internal("an interceptor of the client answered with no message"));
        };
        Ok(RawReply { message, meta: self.meta })
    }
}

/// The rest of a call: the interceptors further in, and at last the call itself.
///
/// Dropping it answers the call early, with what the interceptor returns in its place.
pub struct NextCall {
    interceptors: Rc<[ClientInterceptor]>,
    /// Interceptors that the call has passed.
    passed: usize,
    inner: Box<dyn InnerCall>,
    scope: Rc<Scope>,
}

/// A call inside of its interceptors.
pub(super) trait InnerCall {
    fn method(&self) -> &'static Method;

    /// Takes out what the server is to be told, for the interceptors to change.
    fn take_metadata(&mut self) -> Metadata;

    /// The trace that it belongs to, for the interceptors to change.
    fn trace(&self) -> Option<TraceContext>;

    /// Gets what they have made of it. It is polled from now on.
    fn begin(&mut self, metadata: Metadata, trace: Option<TraceContext>, deadline: Option<Instant>);

    fn poll(&mut self, scope: &Scope, cx: &mut Context<'_>) -> Poll<Result<IncomingReply, Status>>;
}

/// State that the interceptors of one call and whoever polls them share.
#[derive(Default)]
pub(super) struct Scope {
    pub(super) deadline: Option<Instant>,
    /// The call itself is under way.
    pub(super) is_inside: Cell<bool>,
    /// The call was made, and was not refused by all that it was offered to.
    pub(super) maybe_executed: Cell<bool>,
    /// Promises the stream to its handles until it is open.
    pub(super) pending: RefCell<Option<PendingStream>>,
}

pub(super) type InterceptedReply = Pin<Box<dyn Future<Output = Result<IncomingReply, Status>>>>;

/// An interceptor of one core.
pub(super) type ClientInterceptor = Rc<dyn Fn(OutgoingCall, NextCall) -> InterceptedReply>;

/// Makes an interceptor for each core.
pub(super) type MakeClientInterceptor = Box<dyn Fn() -> ClientInterceptor + Send + Sync>;

/// Gives every core a clone of `interceptor`.
pub(super) fn maker<F>(interceptor: F) -> MakeClientInterceptor
where
    F: AsyncFn(OutgoingCall, NextCall) -> Result<IncomingReply, Status>
        + Clone
        + Send
        + Sync
        + 'static,
{
    Box::new(move || {
        let interceptor = Rc::new(interceptor.clone());
        Rc::new(move |call, next| {
            let interceptor = Rc::clone(&interceptor);
            Box::pin(async move { interceptor(call, next).await })
        })
    })
}

/// Sends a call through the interceptors, of which there is at least one.
pub(super) fn start(
    interceptors: Rc<[ClientInterceptor]>,
    mut inner: Box<dyn InnerCall>,
    scope: Rc<Scope>,
) -> InterceptedReply {
    let (method, metadata) = (inner.method(), inner.take_metadata());
    let call = OutgoingCall { method, metadata, trace: inner.trace(), deadline: scope.deadline };
    let outermost = Rc::clone(&interceptors[0]);
    outermost(call, NextCall { interceptors, passed: 1, inner, scope })
}

impl NextCall {
    /// Makes the rest of the call.
    ///
    /// # Errors
    /// How the call has failed, after all its attempts, or its stream; or the status of an interceptor
    /// further in.
    pub async fn run(mut self, call: OutgoingCall) -> Result<IncomingReply, Status> {
        if let Some(intercept) = self.interceptors.get(self.passed).map(Rc::clone) {
            self.passed += 1;
            return intercept(call, self).await;
        }
        let Self { mut inner, scope, .. } = self;
        let _inside = Inside::enter(&scope);
        inner.begin(call.metadata, call.trace, scope.deadline);
        let outcome = poll_fn(|cx| inner.poll(&scope, cx)).await;
        drop(inner);
        let not_executed = outcome.as_ref().is_err_and(Status::is_not_executed);
        scope.maybe_executed.set(!not_executed);
        outcome
    }
}

/// Marks the time during which the call itself is under way.
struct Inside<'a>(&'a Scope);

impl<'a> Inside<'a> {
    fn enter(scope: &'a Scope) -> Self {
        scope.is_inside.set(true);
        scope.maybe_executed.set(true); // until its outcome says otherwise
        Self(scope)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.is_inside.set(false);
    }
}

impl fmt::Debug for NextCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextCall")
            .field("method", &self.inner.method().name())
            .finish_non_exhaustive()
    }
}
