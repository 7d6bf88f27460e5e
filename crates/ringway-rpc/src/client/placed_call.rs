//! Runs a unary call on the right thread: it is polled in place on its core, and continued by a task of
//! that core if it is polled on any other thread.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use super::background;
use super::hedge::UnaryCall;
use super::intercepted::InterceptedCall;
use super::local_clients::{self, LocalClients};
use super::options::CallOptions;
use super::outcome::CallOutcome;
use super::remote_call::RemoteCall;
use crate::call::method::Method;
use crate::call::status::Status;

/// A unary call that can be polled on any thread. It is `Send` because it refers to objects of its core
/// by keys only.
pub(super) struct PlacedCall {
    placement: Placement,
    /// The core whose keys the call holds, once it has begun.
    core: Option<u32>,
}

#[expect(clippy::large_enum_variant, reason = "a box would be an allocation a call")]
enum Placement {
    Here(LocalCall),
    Remote(RemoteCall),
    /// The call failed when it was polled first, and says so when it is polled again: a caller that repeats such
    /// calls at once lets others run in between, those that connect among them.
    Failed(Status),
    Over,
}

/// A call that runs on this core.
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation a call")]
enum LocalCall {
    Unary(UnaryCall),
    Intercepted(InterceptedCall),
}

impl PlacedCall {
    /// Makes a call that begins when it is polled.
    #[inline]
    pub(super) fn new(call: UnaryCall) -> Self {
        Self { placement: Placement::Here(LocalCall::Unary(call)), core: None }
    }

    /// Makes a call with interceptors that begins when it is polled.
    #[cold]
    pub(super) fn intercepted(call: UnaryCall) -> Self {
        let call = LocalCall::Intercepted(InterceptedCall::new(call));
        Self { placement: Placement::Here(call), core: None }
    }

    /// Whether the call was polled.
    pub(super) fn has_begun(&self) -> bool {
        self.core.is_some() || !matches!(self.placement, Placement::Here(_))
    }

    /// Changes the options of a call that has not begun.
    pub(super) fn change_options(&mut self, change: impl FnOnce(CallOptions) -> CallOptions) {
        debug_assert!(!self.has_begun());
        match &mut self.placement {
            Placement::Here(LocalCall::Unary(call)) => call.change_options(change),
            Placement::Here(LocalCall::Intercepted(call)) => call.change_options(change),
            Placement::Remote(_) | Placement::Failed(_) | Placement::Over => {}
        }
    }

    /// The time at which a blocked caller polls again even if nothing has woken it.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        match &self.placement {
            Placement::Remote(call) => call.until(),
            Placement::Here(_) | Placement::Failed(_) | Placement::Over => None,
        }
    }

    /// Has the call end when it is polled next.
    #[cold]
    fn fail_later(&mut self, status: Status, cx: &Context<'_>) -> Poll<CallOutcome> {
        self.placement = Placement::Failed(status);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Moves the call to a task of its core, or of the background core if it has none yet.
    #[cold]
    fn go_remote(&mut self) -> Result<(), Status> {
        let Placement::Here(call) = &mut self.placement else {
            return Ok(());
        };
        let (core, deadline) = match self.core {
            Some(core) => (core, call.deadline()),
            None => (background::core()?, call.begin_elsewhere()),
        };
        let method = call.method();
        let placement = std::mem::replace(&mut self.placement, Placement::Over);
        let call = Self { placement, core: self.core };
        self.placement = Placement::Remote(RemoteCall::start(core, call, method, deadline));
        Ok(())
    }
}

impl LocalCall {
    fn method(&self) -> &'static Method {
        match self {
            Self::Unary(call) => call.method(),
            Self::Intercepted(call) => call.method(),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Unary(call) => call.deadline(),
            Self::Intercepted(call) => call.deadline(),
        }
    }

    fn begin_elsewhere(&mut self) -> Option<Instant> {
        match self {
            Self::Unary(call) => call.begin_elsewhere(),
            Self::Intercepted(call) => call.begin_elsewhere(),
        }
    }

    #[inline]
    fn poll(&mut self, local: &LocalClients, cx: &mut Context<'_>) -> Poll<CallOutcome> {
        match self {
            Self::Unary(call) => call.poll(local, cx),
            Self::Intercepted(call) => call.poll(local, cx),
        }
    }
}

impl Future for PlacedCall {
    type Output = CallOutcome;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CallOutcome> {
        let this = &mut *self;
        let is_first = this.core.is_none();
        if let Placement::Here(call) = &mut this.placement {
            let core = &mut this.core;
            let polled = local_clients::try_with(|local| {
                let here = local.core()?;
                (*core.get_or_insert(here) == here).then(|| call.poll(local, cx))
            });
            if let Some(Some(polled)) = polled {
                if polled.is_ready() {
                    this.placement = Placement::Over;
                }
                return match polled {
                    Poll::Ready(Err(status)) if is_first => this.fail_later(status, cx),
                    polled => polled,
                };
            }
            if let Err(status) = this.go_remote() {
                this.placement = Placement::Over;
                return Poll::Ready(Err(status));
            }
        }
        let outcome = match &mut this.placement {
            Placement::Remote(call) => ready!(call.poll(cx)),
            Placement::Failed(status) => Err(status.clone()),
            _ => panic!("a call was polled after it had ended"),
        };
        this.placement = Placement::Over;
        Poll::Ready(outcome)
    }
}
