//! A call that is awaited on another thread than its core: in tokio tasks, on plain threads, or on other
//! cores.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use ringway_runtime::{self as runtime, drop_contained};

use super::outcome::CallOutcome;
use crate::call::method::Method;
use crate::call::status::Status;
use crate::limits;
use crate::remote::mailbox;
use crate::waiters;

/// The awaiting side. Dropping it cancels the call.
pub(super) struct RemoteCall {
    shared: Arc<Mutex<SharedOutcome>>,
    method: &'static Method,
    /// The time by which the core must have reported the outcome, if the call has a deadline.
    until: Option<Instant>,
}

#[derive(Default)]
struct SharedOutcome {
    outcome: Option<CallOutcome>,
    caller: Option<Waker>,
    /// Whether the caller has dropped the call.
    given_up: bool,
    runner: Option<Waker>,
}

impl RemoteCall {
    /// Starts or continues the call on a core. `deadline` is the call's, if it is known.
    pub(super) fn start<C>(
        core: u32,
        call: C,
        method: &'static Method,
        deadline: Option<Instant>,
    ) -> Self
    where
        C: Future<Output = CallOutcome> + Unpin + Send + 'static,
    {
        let shared = Arc::new(Mutex::new(SharedOutcome::default()));
        let until = deadline.and_then(|deadline| deadline.checked_add(limits::REMOTE_GRACE));
        let remote = Self { shared: Arc::clone(&shared), method, until };
        let report = Report(shared);
        mailbox::post(
            core,
            Box::new(move || {
                runtime::spawn_named("rpc call from another thread", Runner { call, report });
            }),
        );
        remote
    }

    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<CallOutcome> {
        waiters::poll_with(cx.waker(), |waker| {
            let mut shared = lock(&self.shared);
            if let Some(outcome) = shared.outcome.take() {
                return Poll::Ready(outcome);
            }
            if self.until.is_some_and(|until| until <= Instant::now()) {
                let why = "the deadline passed, and the core that makes the call is held up";
                return Poll::Ready(Err(Status::deadline_exceeded(why).of_call(self.method)));
            }
            let former = waker.renew(&mut shared.caller);
            drop(shared);
            waiters::discard(former);
            Poll::Pending
        })
    }

    /// The time at which a blocked caller polls again even if nothing has woken it.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }
}

impl Drop for RemoteCall {
    fn drop(&mut self) {
        let mut shared = lock(&self.shared);
        shared.given_up = true;
        let runner = shared.runner.take();
        let left = (shared.caller.take(), shared.outcome.take());
        drop(shared);
        drop_contained("a caller", left);
        runner.into_iter().for_each(waiters::wake);
    }
}

/// The task that runs the call on its core.
struct Runner<C> {
    call: C,
    report: Report,
}

impl<C: Future<Output = CallOutcome> + Unpin> Future for Runner<C> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        {
            let mut shared = lock(&self.report.0);
            if shared.given_up {
                return Poll::Ready(());
            }
            shared.runner = Some(cx.waker().clone());
        }
        Pin::new(&mut self.call).poll(cx).map(|outcome| self.report.report(outcome))
    }
}

/// Reports the outcome to the caller, also when the core drops the call unfinished.
struct Report(Arc<Mutex<SharedOutcome>>);

impl Report {
    fn report(&self, outcome: CallOutcome) {
        let mut shared = lock(&self.0);
        if shared.outcome.is_none() && !shared.given_up {
            shared.outcome = Some(outcome);
        }
        let caller = shared.caller.take();
        drop(shared);
        caller.into_iter().for_each(waiters::wake);
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.report(Err(Status::unavailable("the core that made the call has ended")));
    }
}

/// The only user code that runs under the lock is a waker's clone, which changes nothing here.
fn lock(shared: &Mutex<SharedOutcome>) -> MutexGuard<'_, SharedOutcome> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
