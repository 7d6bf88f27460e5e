//! A unary call with interceptors.
//!
//! Interceptors' futures are not `Send`, but a call is. So the futures are kept in a table of the core,
//! and the call holds a key to that table.

use std::task::{Context, Poll};
use std::time::Instant;

use ringway_runtime::drop_contained;

use super::hedge::UnaryCall;
use super::interception::Interception;
use super::interceptor::{IncomingReply, InnerCall, Scope};
use super::local_clients::{self, INTERCEPTOR, LocalClients};
use super::options::CallOptions;
use super::outcome::CallOutcome;
use crate::call::metadata::Metadata;
use crate::call::method::Method;
use crate::call::status::Status;
use crate::call::trace::TraceContext;
use crate::slab::SlabKey;

pub(super) struct InterceptedCall {
    stage: InterceptedStage,
    method: &'static Method,
}

enum InterceptedStage {
    New(Box<UnaryCall>),
    /// The future is in the table of a core.
    Begun {
        core: u32,
        key: SlabKey,
        deadline: Option<Instant>,
    },
    Over,
}

impl InterceptedCall {
    /// Makes a call that begins when it is polled.
    pub(super) fn new(call: UnaryCall) -> Self {
        Self { method: call.method(), stage: InterceptedStage::New(Box::new(call)) }
    }

    pub(super) fn method(&self) -> &'static Method {
        self.method
    }

    /// Changes the options of a call that has not begun.
    pub(super) fn change_options(&mut self, change: impl FnOnce(CallOptions) -> CallOptions) {
        if let InterceptedStage::New(call) = &mut self.stage {
            call.change_options(change);
        }
    }

    /// Starts the call's time on a thread that is not its core. Returns the call's deadline.
    pub(super) fn begin_elsewhere(&mut self) -> Option<Instant> {
        match &mut self.stage {
            InterceptedStage::New(call) => call.begin_elsewhere(),
            InterceptedStage::Begun { .. } | InterceptedStage::Over => None,
        }
    }

    /// The call's deadline, once it has begun.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.stage {
            InterceptedStage::Begun { deadline, .. } => *deadline,
            InterceptedStage::New(_) | InterceptedStage::Over => None,
        }
    }

    /// Polls the call on its core.
    pub(super) fn poll(&mut self, local: &LocalClients, cx: &mut Context<'_>) -> Poll<CallOutcome> {
        if let InterceptedStage::New(_) = self.stage
            && let InterceptedStage::New(call) =
                std::mem::replace(&mut self.stage, InterceptedStage::Over)
        {
            self.stage = begin(local, call)?;
        }
        let InterceptedStage::Begun { key, .. } = self.stage else {
            panic!("a call was polled after it had ended");
        };
        let polled = poll_interception(local, key, cx);
        if polled.is_ready() {
            self.stage = InterceptedStage::Over;
        }
        polled
    }
}

/// # Errors
/// Fails when the client's last handle was dropped.
fn begin(local: &LocalClients, call: Box<UnaryCall>) -> Result<InterceptedStage, Status> {
    let pool = local.pool(call.client())?;
    let deadline = call.options().span(call.method(), pool.context().clock).1.instant();
    let interception = Interception::start(pool.interceptors(), call, deadline);
    let key = local.interceptions.borrow_mut().insert(Some(interception));
    let core = local.core().unwrap_or_default();
    Ok(InterceptedStage::Begun { core, key, deadline })
}

/// Polls an entry of the table. The table is not borrowed meanwhile, because interceptors may make calls.
fn poll_interception(
    local: &LocalClients,
    key: SlabKey,
    cx: &mut Context<'_>,
) -> Poll<CallOutcome> {
    let taken = local.interceptions.borrow_mut().get_mut(key).and_then(Option::take);
    let Some(mut interception) = taken else {
        return Poll::Ready(Err(Status::unavailable("the core of the call has ended")));
    };
    let polled = interception.poll(cx);
    let mut interceptions = local.interceptions.borrow_mut();
    match polled {
        Poll::Pending => {
            let left = match interceptions.get_mut(key) {
                Some(entry) => entry.replace(interception),
                None => Some(interception), // the core ends
            };
            drop(interceptions);
            drop_contained(INTERCEPTOR, left);
        }
        Poll::Ready(_) => {
            interceptions.remove(key);
            drop(interceptions);
            drop_contained(INTERCEPTOR, interception);
        }
    }
    polled.map(|outcome| outcome.and_then(IncomingReply::into_reply))
}

impl Drop for InterceptedCall {
    /// Cancels the call; works on any thread.
    fn drop(&mut self) {
        if let InterceptedStage::Begun { core, key, .. } = self.stage {
            local_clients::on_core(core, move |local| {
                let left = local.interceptions.borrow_mut().remove(key);
                drop_contained(INTERCEPTOR, left);
            });
        }
    }
}

impl InnerCall for UnaryCall {
    fn method(&self) -> &'static Method {
        UnaryCall::method(self)
    }

    fn take_metadata(&mut self) -> Metadata {
        self.options_mut().take_metadata()
    }

    fn trace(&self) -> Option<TraceContext> {
        self.options().said_trace()
    }

    fn begin(
        &mut self,
        metadata: Metadata,
        trace: Option<TraceContext>,
        deadline: Option<Instant>,
    ) {
        self.change_options(|options| options.settled(metadata, trace, deadline));
    }

    fn poll(&mut self, _: &Scope, cx: &mut Context<'_>) -> Poll<Result<IncomingReply, Status>> {
        let polled = local_clients::with(|local| UnaryCall::poll(self, local, cx));
        polled.map(|outcome| outcome.map(IncomingReply::of_server))
    }
}
