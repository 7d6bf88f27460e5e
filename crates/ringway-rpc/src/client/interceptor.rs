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
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_runtime::{self as runtime, sync::oneshot};

use super::call::Call;
use super::hub;
use super::outcome::{Reply, ReplyMeta};
use super::stream_call::{Opening, StreamCall};
use super::unary::Unary;
use crate::call::codec::Codec;
use crate::call::metadata::Metadata;
use crate::call::method::Method;
use crate::call::status::Status;
use crate::stream::pending::Opener;
use crate::stream::remote::{self, OpenedStream};

/// A call on its way out through the interceptors of a client.
#[derive(Debug)]
pub struct OutgoingCall {
    method: &'static Method,
    metadata: Metadata,
    deadline: Option<Instant>,
}

impl OutgoingCall {
    /// The method that is called.
    pub fn method(&self) -> &'static Method {
        self.method
    }

    /// What the server will be told beside the request.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The same, to be added to or changed.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// When the caller stops waiting, `None` if it waits for ever.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// How long the caller still waits; zero if it does no more, `None` if it waits for ever.
    pub fn remaining(&self) -> Option<Duration> {
        Some(self.deadline?.saturating_duration_since(runtime::now_exact()))
    }
}

/// What a server has answered, on its way in through the interceptors of a client.
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

    /// What the server said before its message, `None` if it said nothing at all.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.meta.as_deref().map(|meta| &meta.initial)
    }

    /// What it said after, `None` if it said nothing at all.
    pub fn trailers(&self) -> Option<&Metadata> {
        self.meta.as_deref().map(|meta| &meta.trailers)
    }

    /// # Errors
    /// INTERNAL when it is that of a call with streams.
    pub(super) fn into_reply(self) -> Result<Reply, Status> {
        let Some(message) = self.message else {
            return Err(Status::internal("an interceptor of the client answered with no message"));
        };
        Ok(Reply { message, meta: self.meta })
    }
}

/// The rest of a call: the interceptors further in, and at last the call itself.
///
/// Dropping it answers the call early, with what the interceptor returns in its place.
pub struct NextCall {
    interceptors: Rc<[Intercept]>,
    /// Interceptors that the call has passed.
    passed: usize,
    inner: Inner,
    scope: Rc<Scope>,
}

/// The call itself, not begun.
pub(super) enum Inner {
    Unary(Box<Unary>),
    Stream(Box<StreamCall>),
}

/// What the interceptors of one call and whoever polls them share.
#[derive(Default)]
pub(super) struct Scope {
    pub(super) deadline: Option<Instant>,
    /// The call itself is under way.
    pub(super) is_inside: Cell<bool>,
    /// The call was made, and was not refused by all that it was offered to.
    pub(super) maybe_executed: Cell<bool>,
    /// Whom to tell where the stream is, until it is open.
    pub(super) opener: RefCell<Option<Opener>>,
}

pub(super) type Intercepting = Pin<Box<dyn Future<Output = Result<IncomingReply, Status>>>>;

/// An interceptor of one core.
pub(super) type Intercept = Rc<dyn Fn(OutgoingCall, NextCall) -> Intercepting>;

/// Makes an interceptor for each core.
pub(super) type MakeIntercept = Box<dyn Fn() -> Intercept + Send + Sync>;

/// Gives every core a clone of `interceptor`.
pub(super) fn maker<F>(interceptor: F) -> MakeIntercept
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
    interceptors: Rc<[Intercept]>,
    mut inner: Inner,
    scope: Rc<Scope>,
) -> Intercepting {
    let (method, metadata) = match &mut inner {
        Inner::Unary(call) => (call.method, call.options.take_metadata()),
        Inner::Stream(call) => (call.method, call.options.take_metadata()),
    };
    let call = OutgoingCall { method, metadata, deadline: scope.deadline };
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
        let Self { inner, scope, .. } = self;
        let _inside = Inside::enter(&scope);
        let outcome = make(inner, call, &scope).await;
        let not_executed = outcome.as_ref().is_err_and(Status::is_not_executed);
        scope.maybe_executed.set(!not_executed);
        outcome
    }
}

/// Makes the call itself, inside of all interceptors.
async fn make(inner: Inner, call: OutgoingCall, scope: &Scope) -> Result<IncomingReply, Status> {
    match inner {
        Inner::Unary(mut unary) => {
            unary.change_options(|options| options.settled(call.metadata, scope.deadline));
            let mut call = Call::unary(*unary, Codec::<Bytes>::raw());
            let Reply { message, meta } = poll_fn(|cx| call.poll_reply(cx)).await?;
            Ok(IncomingReply { message: Some(message), meta })
        }
        Inner::Stream(mut stream) => {
            stream.options = stream.options.settled(call.metadata, scope.deadline);
            let (tell_end, end) = oneshot::channel();
            let (mut opening, mut watcher) = (Opening::new(*stream), Some(tell_end));
            let at = poll_fn(|cx| hub::with(|hub| opening.poll(hub, cx, &mut watcher)));
            let opened = OpenedStream::new(at.await?);
            match scope.opener.take() {
                Some(opener) => opener.complete(Ok(opened.take())),
                // Another interceptor has answered meanwhile, so nobody has its handles.
                None => drop(opened),
            }
            end.await.unwrap_or_else(|_| Err(remote::unreachable()))?;
            Ok(IncomingReply { message: None, meta: None })
        }
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
        let method = match &self.inner {
            Inner::Unary(call) => call.method,
            Inner::Stream(call) => call.method,
        };
        f.debug_struct("NextCall").field("method", &method.name()).finish_non_exhaustive()
    }
}
