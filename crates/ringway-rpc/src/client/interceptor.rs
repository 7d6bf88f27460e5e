//! Client interceptors: code that runs around the calls of a client.
//!
//! An interceptor wraps a whole call: it runs once, around all attempts and hedges. The first one
//! declared is the outermost. It runs on the core of its call (the caller's core, or the background core
//! for other threads), each time that the call is polled; so it may wait, but must not block.
//!
//! - Its return value is the outcome. Without [`NextCall::run`] nothing is sent.
//! - The call's deadline also applies to interceptors. While the inner call is in flight, that one ends
//!   at the deadline and the interceptors see its outcome. An interceptor that waits for something else
//!   at the deadline is dropped.
//! - Dropping the call drops its interceptors.
//! - A panic only ends its own call, with INTERNAL.
//! - A streaming call runs inside its interceptors until the stream is over. They may refuse it at the
//!   beginning; once the stream is open it belongs to its handles, so interceptors see the outcome but
//!   cannot replace it.
//! - Calls that interceptors answer without sending them are not in the client's metrics.

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

/// A call on its way through the client's interceptors to the server.
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

    /// The metadata that will be sent with the request, for changes.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// The span that is sent to the server as the caller's, if any.
    pub fn trace(&self) -> Option<TraceContext> {
        self.trace
    }

    /// Sets the span that is sent to the server as the caller's.
    ///
    /// ```
    /// use ringway_rpc::{IncomingReply, NextCall, OutgoingCall, Status, TraceContext};
    ///
    /// // Starts a trace for calls without one, and records one trace in a hundred.
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

    /// The time at which the caller stops waiting; `None` if it has no deadline.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The time until the call's deadline; zero if it has passed, `None` if there is none.
    pub fn remaining(&self) -> Option<Duration> {
        Some(self.deadline?.saturating_duration_since(runtime::now_exact()))
    }
}

/// A server's reply on its way back through the client's interceptors.
///
/// A clone may serve to answer a later call of the same method early.
#[derive(Clone, Debug)]
pub struct IncomingReply {
    message: Option<Bytes>,
    meta: Option<Box<ReplyMeta>>,
}

impl IncomingReply {
    /// Makes a reply in place of the server's, with a message that is already encoded for the method.
    pub fn new(message: impl Into<Bytes>) -> Self {
        Self { message: Some(message.into()), meta: None }
    }

    /// The encoded message; `None` in a streaming call.
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

    /// Wraps the reply of a server.
    pub(super) fn of_server(reply: RawReply) -> Self {
        Self { message: Some(reply.message), meta: reply.meta }
    }

    /// The reply of a streaming call, which has no message.
    pub(super) fn of_streams() -> Self {
        Self { message: None, meta: None }
    }

    /// # Errors
    /// INTERNAL when an interceptor replied without a message to a unary call.
    pub(super) fn into_reply(self) -> Result<RawReply, Status> {
        let Some(message) = self.message else {
            return Err(Status::internal("an interceptor of the client answered with no message"));
        };
        Ok(RawReply { message, meta: self.meta })
    }
}

/// The rest of a call: the remaining interceptors, then the call itself.
///
/// Dropping it ends the call early, with what the interceptor returns instead.
pub struct NextCall {
    interceptors: Rc<[ClientInterceptor]>,
    /// The number of interceptors that the call has passed.
    passed: usize,
    inner: Box<dyn InnerCall>,
    scope: Rc<Scope>,
}

/// The call that interceptors wrap.
pub(super) trait InnerCall {
    fn method(&self) -> &'static Method;

    /// Takes out the metadata for the server, for the interceptors to change.
    fn take_metadata(&mut self) -> Metadata;

    /// The call's trace, for the interceptors to change.
    fn trace(&self) -> Option<TraceContext>;

    /// Begins the call with the metadata and trace that the interceptors have left. It is polled
    /// afterwards.
    fn begin(&mut self, metadata: Metadata, trace: Option<TraceContext>, deadline: Option<Instant>);

    fn poll(&mut self, scope: &Scope, cx: &mut Context<'_>) -> Poll<Result<IncomingReply, Status>>;
}

/// State that the interceptors of one call share with the task that polls them.
#[derive(Default)]
pub(super) struct Scope {
    pub(super) deadline: Option<Instant>,
    /// Whether the inner call is running.
    pub(super) is_inside: Cell<bool>,
    /// Whether the inner call was polled when the interceptors were polled last.
    pub(super) is_polled: Cell<bool>,
    /// Whether the inner call was made and may have been executed.
    pub(super) maybe_executed: Cell<bool>,
    /// The pending stream of the handles, until it is open.
    pub(super) pending: RefCell<Option<PendingStream>>,
}

pub(super) type InterceptedReply = Pin<Box<dyn Future<Output = Result<IncomingReply, Status>>>>;

/// An interceptor, as one core has it.
pub(super) type ClientInterceptor = Rc<dyn Fn(OutgoingCall, NextCall) -> InterceptedReply>;

/// Makes an interceptor for each core.
pub(super) type MakeClientInterceptor = Box<dyn Fn() -> ClientInterceptor + Send + Sync>;

/// Wraps an interceptor so that each core gets its own clone.
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

/// Passes a call through the interceptors, of which there is at least one.
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
    /// Runs the rest of the call.
    ///
    /// # Errors
    /// The failure of the call after all its attempts, of its stream, or of a later interceptor.
    pub async fn run(mut self, call: OutgoingCall) -> Result<IncomingReply, Status> {
        if let Some(intercept) = self.interceptors.get(self.passed).map(Rc::clone) {
            self.passed += 1;
            return intercept(call, self).await;
        }
        let Self { mut inner, scope, .. } = self;
        let _inside = Inside::enter(&scope);
        inner.begin(call.metadata, call.trace, scope.deadline);
        let outcome = poll_fn(|cx| {
            scope.is_polled.set(true);
            inner.poll(&scope, cx)
        })
        .await;
        drop(inner);
        let not_executed = outcome.as_ref().is_err_and(Status::is_not_executed);
        scope.maybe_executed.set(!not_executed);
        outcome
    }
}

/// Marks the inner call as running.
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
