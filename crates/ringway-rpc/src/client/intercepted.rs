//! A call that goes through interceptors, polled on any thread.
//!
//! What interceptors do is not `Send`, but a call is. So their futures are kept in a table of the
//! core, and the call holds a place in it. It is polled in place on that core; on any other thread
//! a task of the core goes on with it, as with every call.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use ringway_runtime::{self as runtime, Sleep, drop_contained, drop_each, panic_message};

use super::far::Far;
use super::hub::{self, Hub};
use super::interceptor::{self, IncomingReply, Inner, Intercepting, Scope};
use super::options::CallOptions;
use super::outcome::Outcome;
use super::registry;
use super::unary::Unary;
use crate::call::method::Method;
use crate::call::status::Status;
use crate::stream::pending::Opener;

/// It is `Send`, as [`Unary`] is.
pub(super) struct Intercepted {
    stage: Stage,
    method: &'static Method,
}

enum Stage {
    New(Box<Unary>),
    /// In the table of a core.
    Here {
        core: u32,
        place: Place,
        deadline: Option<Instant>,
    },
    Far(Far),
    Over,
}

impl Intercepted {
    /// A call that will begin when it is polled.
    pub(super) fn new(call: Unary) -> Self {
        Self { method: call.method, stage: Stage::New(Box::new(call)) }
    }

    /// Changes the options of a call that has not begun.
    pub(super) fn change_options(&mut self, change: impl FnOnce(CallOptions) -> CallOptions) {
        if let Stage::New(call) = &mut self.stage {
            call.change_options(change);
        }
    }

    /// Whether it was polled.
    pub(super) fn has_begun(&self) -> bool {
        !matches!(self.stage, Stage::New(_))
    }

    /// `None` on another thread than the call's core.
    fn poll_here(&mut self, hub: &Hub, cx: &mut Context<'_>) -> Option<Poll<Outcome>> {
        let here = hub.core()?;
        match self.stage {
            Stage::New(_) => {
                let Stage::New(call) = std::mem::replace(&mut self.stage, Stage::Over) else {
                    unreachable!("it is new");
                };
                match Running::start(hub, Inner::Unary(call)) {
                    Ok(running) => {
                        let deadline = running.scope.deadline;
                        let place = hub.intercepted.borrow_mut().insert(running);
                        self.stage = Stage::Here { core: here, place, deadline };
                    }
                    Err(status) => return Some(Poll::Ready(Err(status))),
                }
            }
            Stage::Here { core, .. } if core == here => {}
            _ => return None,
        }
        let Stage::Here { place, .. } = self.stage else {
            return None;
        };
        let polled = poll_place(hub, place, cx);
        if polled.is_ready() {
            self.stage = Stage::Over;
        }
        Some(polled)
    }

    /// Goes on as a task of the call's core, or of the background core where it has none yet.
    #[cold]
    fn go_far(&mut self) -> Result<(), Status> {
        let (core, deadline) = match &mut self.stage {
            Stage::New(call) => (registry::background_core()?, call.begin_elsewhere()),
            Stage::Here { core, deadline, .. } => (*core, *deadline),
            _ => panic!("a call was polled after it had ended"),
        };
        let (method, stage) = (self.method, std::mem::replace(&mut self.stage, Stage::Over));
        self.stage = Stage::Far(Far::start(core, Self { stage, method }, method, deadline));
        Ok(())
    }

    /// If it is with another thread.
    pub(super) fn far(&self) -> Option<&Far> {
        match &self.stage {
            Stage::Far(far) => Some(far),
            _ => None,
        }
    }
}

impl Future for Intercepted {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let this = &mut *self;
        if !matches!(this.stage, Stage::Far(_)) {
            if let Some(Some(polled)) = hub::try_with(|hub| this.poll_here(hub, cx)) {
                return polled;
            }
            this.go_far()?;
        }
        let Stage::Far(far) = &this.stage else {
            unreachable!("it has just gone there");
        };
        let outcome = ready!(far.poll(cx));
        this.stage = Stage::Over;
        Poll::Ready(outcome)
    }
}

impl Drop for Intercepted {
    /// Gives the call up, on whatever thread.
    fn drop(&mut self) {
        if let Stage::Here { core, place, .. } = self.stage {
            hub::on_core(core, move |hub| {
                let running = hub.intercepted.borrow_mut().remove(place);
                drop_contained(INTERCEPTOR, running);
            });
        }
    }
}

/// Polls what is in a place of the table, which is not borrowed meanwhile: interceptors make calls.
fn poll_place(hub: &Hub, place: Place, cx: &mut Context<'_>) -> Poll<Outcome> {
    let running = hub.intercepted.borrow_mut().take(place);
    let Some(mut running) = running else {
        return Poll::Ready(Err(Status::unavailable("the core of the call has ended")));
    };
    let polled = running.poll(cx);
    match polled {
        Poll::Pending => hub.intercepted.borrow_mut().put_back(place, running),
        Poll::Ready(_) => {
            drop_contained(INTERCEPTOR, running);
            hub.intercepted.borrow_mut().remove(place);
        }
    }
    polled.map(|outcome| outcome.and_then(IncomingReply::into_reply))
}

/// Whose destructors are code of a user.
const INTERCEPTOR: &str = "an interceptor of a client";

/// The interceptors of one call, at work.
pub(super) struct Running {
    method: &'static Method,
    future: Intercepting,
    scope: Rc<Scope>,
    /// Armed when an interceptor waits for something else than the call.
    timer: Option<Sleep>,
}

impl Running {
    /// # Errors
    /// When the client's last handle is gone.
    pub(super) fn start(hub: &Hub, inner: Inner) -> Result<Self, Status> {
        let (client, method, (_, deadline)) = match &inner {
            Inner::Unary(call) => (call.client, call.method, call.options.span(call.method)),
            Inner::Stream(call) => {
                (call.client, call.method, call.options.stream_span(call.method))
            }
        };
        let interceptors = Rc::clone(&hub.pool(client)?.interceptors);
        let scope = Rc::new(Scope { deadline, ..Scope::default() });
        let future = interceptor::start(interceptors, inner, Rc::clone(&scope));
        Ok(Self { method, future, scope, timer: None })
    }

    /// Sees a stream opened, and waits for its end.
    pub(super) async fn see_stream(mut self, opener: Opener) {
        self.scope.opener.replace(Some(opener));
        let outcome = poll_fn(|cx| match self.poll_abandoned(cx) {
            Poll::Ready(cancelled) => Poll::Ready(Err(cancelled)),
            Poll::Pending => self.poll(cx),
        })
        .await;
        if let Some(opener) = self.scope.opener.take() {
            let why = "an interceptor of the client answered a call with streams early";
            opener.complete(Err(outcome.err().unwrap_or_else(|| Status::internal(why))));
        }
    }

    /// Ready when nobody wants the stream any more that is not open.
    fn poll_abandoned(&self, cx: &mut Context<'_>) -> Poll<Status> {
        let opener = self.scope.opener.borrow();
        let Some(opener) = &*opener else {
            return Poll::Pending;
        };
        let reason = ready!(opener.poll_abandoned(cx)).unwrap_or_default();
        Poll::Ready(Status::cancelled(reason).of_call(self.method))
    }

    /// Lets the interceptors run until they wait.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<IncomingReply, Status>> {
        match catch_unwind(AssertUnwindSafe(|| self.future.as_mut().poll(cx))) {
            Ok(Poll::Ready(outcome)) => Poll::Ready(outcome.map_err(|status| self.told(status))),
            Ok(Poll::Pending) => self.poll_deadline(cx).map(Err),
            Err(panic) => Poll::Ready(Err(self.on_panic(panic))),
        }
    }

    /// What an interceptor returns may be the status of another call than this one.
    fn told(&self, status: Status) -> Status {
        match self.scope.maybe_executed.get() {
            true => status.maybe_executed(),
            false => status,
        }
    }

    /// The call itself minds its deadline while it is under way, and its interceptors are told.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        let Some(deadline) = self.scope.deadline.filter(|_| !self.scope.is_inside.get()) else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| runtime::sleep_until(deadline));
        ready!(Pin::new(timer).poll(cx));
        let why = "an interceptor of the client was not done before the deadline";
        Poll::Ready(Status::deadline_exceeded(why))
    }

    #[cold]
    fn on_panic(&self, panic: Box<dyn Any + Send>) -> Status {
        let (method, panic) = (self.method.name(), panic_message(panic));
        tracing::error!(method, panic, "an interceptor of a client panicked");
        Status::internal("an interceptor of the client failed")
    }
}

/// Names a place in the table of a core; when its call is over it names nothing.
#[derive(Clone, Copy)]
pub(super) struct Place {
    index: u32,
    generation: u32,
}

/// The calls of a core that are with interceptors, in memory that is used again.
pub(super) struct Places {
    table: Vec<Entry>,
    free: Vec<u32>,
}

struct Entry {
    generation: u32,
    /// `None` while it is being polled.
    running: Option<Running>,
}

impl Places {
    pub(super) const fn new() -> Self {
        Self { table: Vec::new(), free: Vec::new() }
    }

    fn insert(&mut self, running: Running) -> Place {
        let index = self.free.pop().unwrap_or_else(|| {
            self.table.push(Entry { generation: 0, running: None });
            self.table.len() as u32 - 1
        });
        let entry = &mut self.table[index as usize];
        entry.running = Some(running);
        Place { index, generation: entry.generation }
    }

    /// Takes it out for a while.
    fn take(&mut self, place: Place) -> Option<Running> {
        self.find(place)?.running.take()
    }

    fn put_back(&mut self, place: Place, running: Running) {
        if let Some(entry) = self.find(place) {
            entry.running = Some(running);
        }
    }

    /// Gives the place to others; what was in it is to be dropped when the table is not borrowed.
    fn remove(&mut self, place: Place) -> Option<Running> {
        let entry = self.find(place)?;
        entry.generation = entry.generation.wrapping_add(1);
        let running = entry.running.take();
        self.free.push(place.index);
        running
    }

    /// Drops all that is left, at the core's end.
    pub(super) fn end(self) {
        drop_each(INTERCEPTOR, self.table);
    }

    fn find(&mut self, place: Place) -> Option<&mut Entry> {
        let entry = self.table.get_mut(place.index as usize)?;
        (entry.generation == place.generation).then_some(entry)
    }
}
