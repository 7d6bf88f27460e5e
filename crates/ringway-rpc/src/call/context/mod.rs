//! The context of a call that is being served.

mod drain;
mod end;
mod extensions;
mod peer;
mod reply_metadata;
mod site;

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use ringway_runtime::CoreHandle;

use self::end::ContextEnd;
use self::extensions::Extensions;
use crate::call::metadata::Metadata;
use crate::call::method::{Kind, Method};
use crate::call::status::{Code, Status};
use crate::call::trace::TraceContext;
use crate::limits;

pub(crate) use drain::Drain;
pub use drain::Draining;
pub use end::Done;
pub use peer::Peer;
pub(crate) use site::Site;

/// A call as its handler sees it: the caller, the metadata, the deadline, and whether the caller
/// still waits.
///
/// A handler takes it as its first argument or calls [`current`](Self::current). It is a handle:
/// clones refer to the same call.
///
/// ```
/// use ringway_rpc::{Context, Status};
///
/// async fn quote(context: Context, symbol: String) -> Result<u64, Status> {
///     if context.metadata().get("tenant").is_none() {
///         return Err(Status::unauthenticated("the metadata lacks a tenant"));
///     }
///     context.set_trailer("symbol", &symbol)?;
///     Ok(42)
/// }
/// ```
#[derive(Clone)]
pub struct Context(Rc<ContextState>);

struct ContextState {
    begun: Begun,
    metadata: Metadata,
    trace: Option<TraceContext>,
    initial: RefCell<Metadata>,
    /// Whether the initial metadata was taken; later changes have no effect.
    initial_taken: Cell<bool>,
    trailers: RefCell<Metadata>,
    extensions: RefCell<Extensions>,
    /// Allocated when the end is first waited for or set.
    end: OnceCell<Arc<ContextEnd>>,
}

/// The properties that every call has when it begins.
#[derive(Clone)]
pub(crate) struct Begun {
    pub(crate) method: &'static Method,
    pub(crate) site: Rc<Site>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) attempt: u8,
}

/// The properties that calls inside of a handler inherit from the call being served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inherited {
    pub(crate) deadline: Option<Instant>,
    pub(crate) attempt: u8,
    pub(crate) trace: Option<TraceContext>,
}

thread_local! {
    /// The call whose handler is being polled on this thread.
    static CURRENT: RefCell<Option<Context>> = const { RefCell::new(None) };
    /// The memory of an unused context, so that most calls allocate none.
    static SPARE: Cell<Option<Rc<ContextState>>> = const { Cell::new(None) };
    /// More unused contexts, from calls whose handlers have waited.
    static SPARES: RefCell<Vec<Rc<ContextState>>> = const { RefCell::new(Vec::new()) };
}

impl Context {
    /// Returns the call that is being served; `None` outside of handlers and in tasks that they
    /// spawned.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|current| current.borrow().clone()).ok()?
    }

    /// Makes a context for the test of a handler: a call with this metadata, without a deadline or
    /// a peer.
    ///
    /// ```
    /// use ringway_rpc::{Context, Metadata};
    ///
    /// let context = Context::for_test(Metadata::new());
    /// assert!(context.deadline().is_none() && context.peer().address().is_none());
    /// ```
    pub fn for_test(metadata: Metadata) -> Self {
        static TEST: Method = Method::new("test.Test/Test", Kind::Unary);
        let site = Rc::new(Site::unknown());
        let mut context = Self::begin(Begun { method: &TEST, site, deadline: None, attempt: 0 });
        context.set_said(metadata, None);
        context
    }

    /// Returns the method that was called.
    pub fn method(&self) -> &'static Method {
        self.0.begun.method
    }

    /// Returns the caller.
    pub fn peer(&self) -> &Peer {
        self.0.begun.site.peer()
    }

    /// Returns the number of the core that serves the call's connection, an index into
    /// [`ServerHandle::cores`](crate::ServerHandle::cores).
    pub fn core(&self) -> usize {
        self.0.begun.site.core
    }

    /// Returns the metadata that the caller sent with the request.
    pub fn metadata(&self) -> &Metadata {
        &self.0.metadata
    }

    /// Returns when the caller stops waiting. Calls that the handler makes end by then as well.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.begun.deadline
    }

    /// Returns the time left until the call's deadline: zero if it has passed, `None` without a
    /// deadline.
    pub fn remaining(&self) -> Option<Duration> {
        Some(self.deadline()?.saturating_duration_since(now()))
    }

    /// Returns 0 for the first attempt of a call, and more for a retry or hedge.
    pub fn attempt(&self) -> u8 {
        self.0.begun.attempt
    }

    /// Returns the trace context that the caller sent, if any. Calls that the handler makes belong
    /// to the same trace.
    pub fn trace(&self) -> Option<TraceContext> {
        self.0.trace
    }

    /// Whether the caller has cancelled, the deadline has passed or the connection is lost.
    ///
    /// A handler that waits is dropped then, so this is for work that blocks or computes, and for
    /// tasks that outlive their handler. A handler that computes on its core keeps the core from
    /// receiving, so it sees only its deadline pass; a handler declared `offload` sees every cause.
    pub fn is_cancelled(&self) -> bool {
        self.look_at_deadline();
        self.0.end.get().is_some_and(|end| end.is_cancelled())
    }

    /// Checks the deadline here, because a handler that blocks its core also blocks the deadline's
    /// timer.
    fn look_at_deadline(&self) {
        if self.deadline().is_some_and(|deadline| deadline <= now()) {
            self.cancel(Code::DeadlineExceeded, "the deadline passed while the handler ran");
        }
    }

    /// Waits until the call is over: `None` when it was answered, the reason when it was cancelled.
    /// It suits tasks that outlive the handler.
    ///
    /// ```
    /// use ringway_rpc::{Context, Status};
    ///
    /// async fn subscribe(context: Context, topic: String) -> Result<(), Status> {
    ///     let done = context.done();
    ///     ringway_runtime::spawn(async move {
    ///         match done.await {
    ///             Some(reason) => println!("{topic}: cancelled, {reason}"),
    ///             None => println!("{topic}: done"),
    ///         }
    ///     });
    ///     Ok(())
    /// }
    /// ```
    pub fn done(&self) -> Done {
        Done::new(Arc::clone(self.end()))
    }

    /// Waits until the server stops serving new calls: then the handler of an endless stream should
    /// end it. Calls that have not ended within [`drain_timeout`](crate::Server::drain_timeout) are
    /// answered with UNAVAILABLE.
    ///
    /// ```
    /// use ringway_rpc::{Context, Sink, Status};
    ///
    /// async fn hold(context: Context, name: String, mut lease: Sink<String>) -> Result<(), Status> {
    ///     lease.send(format!("{name} is yours")).await?;
    ///     context.draining().await;
    ///     lease.send(format!("give {name} back")).await // and the stream ends in order
    /// }
    /// ```
    pub fn draining(&self) -> Draining {
        Draining::new(Arc::clone(&self.0.begun.site.drain))
    }

    /// Waits for `work`; drops it and returns `None` when the server stops serving new calls.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ringway_rpc::{Context, Sink, Status};
    ///
    /// async fn watch(context: Context, topic: String, mut news: Sink<String>) -> Result<(), Status> {
    ///     let next = || ringway_runtime::sleep(Duration::from_secs(1)); // stands for a wait for news
    ///     while context.until_draining(next()).await.is_some() {
    ///         news.send(topic.clone()).await?;
    ///     }
    ///     Ok(()) // the stream ends in order, and its reader may call another server
    /// }
    /// ```
    pub async fn until_draining<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut draining = self.draining();
        let mut work = pin!(work);
        poll_fn(|cx| match Pin::new(&mut draining).poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => work.as_mut().poll(cx).map(Some),
        })
        .await
    }

    /// Whether the server has stopped serving new calls: it was asked to stop, and its
    /// [`drain_delay`](crate::Server::drain_delay) is over.
    pub fn is_draining(&self) -> bool {
        self.0.begun.site.drain.has_begun()
    }

    /// Returns why the call was cancelled, with the caller's reason if it gave one; `None` if it
    /// was not.
    pub fn cancel_reason(&self) -> Option<Status> {
        self.look_at_deadline();
        self.0.end.get()?.reason()
    }

    /// Attaches a value for later interceptors and the handler, one per type.
    pub fn insert<T: 'static>(&self, value: T) {
        let former = self.0.extensions.borrow_mut().insert(value);
        drop(former); // its destructor may look at the context
    }

    /// Returns the value of this type that was [inserted](Self::insert).
    pub fn extension<T: 'static>(&self) -> Option<Rc<T>> {
        self.0.extensions.borrow().get()
    }

    /// Makes the context of a new call. It does not allocate if an earlier one was
    /// [recycled](Self::recycle).
    #[inline(always)]
    pub(crate) fn begin(begun: Begun) -> Self {
        if let Some(mut spare) = SPARE.take().or_else(|| SPARES.with_borrow_mut(Vec::pop))
            && let Some(state) = Rc::get_mut(&mut spare)
        {
            state.begun = begun;
            return Self(spare);
        }
        Self(Rc::new(ContextState {
            begun,
            metadata: Metadata::new(),
            trace: None,
            initial: RefCell::default(),
            initial_taken: Cell::new(false),
            trailers: RefCell::default(),
            extensions: RefCell::default(),
            end: OnceCell::new(),
        }))
    }

    /// Sets the caller's metadata and trace, while nobody else holds the context.
    pub(crate) fn set_said(&mut self, metadata: Metadata, trace: Option<TraceContext>) {
        let state = Rc::get_mut(&mut self.0).expect("the call has only begun");
        (state.metadata, state.trace) = (metadata, trace);
    }

    /// Ends the call as answered. Notifies futures that wait for the end, and keeps the memory for
    /// a later call if nobody else holds the context.
    #[inline]
    pub(crate) fn recycle(mut self) {
        let Some(state) = Rc::get_mut(&mut self.0) else {
            return self.end().answer();
        };
        state.clear();
        if let Some(spare) = SPARE.replace(Some(self.0)) {
            SPARES.with_borrow_mut(|spares| {
                if spares.len() < limits::SPARE_CONTEXTS_MAX {
                    spares.push(spare);
                }
            });
        }
    }

    /// Calls `f` with this as the [current](Self::current) call, around each poll of its handler.
    #[inline]
    pub(crate) fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        let _restore = Restore(CURRENT.replace(Some(self.clone())));
        f()
    }

    /// Cancels the call and notifies waiting futures. Only the first reason counts.
    pub(crate) fn cancel(&self, code: Code, reason: &str) {
        self.end().cancel(code, reason);
    }

    /// Whether there is initial metadata that was not sent.
    #[inline]
    pub(crate) fn has_initial(&self) -> bool {
        !self.0.initial.borrow().is_empty() && !self.0.initial_taken.get()
    }

    /// Takes the initial metadata, which is sent before the first message.
    pub(crate) fn take_initial(&self) -> Metadata {
        self.0.initial_taken.set(true);
        self.0.initial.take()
    }

    pub(crate) fn take_trailers(&self) -> Metadata {
        self.0.trailers.take()
    }

    /// Takes over the reply metadata of the same call's context on another thread.
    pub(crate) fn set_reply_metadata(&self, initial: Metadata, trailers: Metadata) {
        self.0.initial.replace(initial);
        self.0.trailers.replace(trailers);
    }

    /// Makes a value that becomes a context of the same call on another thread and shares its end.
    pub(crate) fn to_sendable(&self) -> Sendable {
        let begun = &self.0.begun;
        Sendable {
            method: begun.method,
            site: Site::clone(&begun.site),
            deadline: begun.deadline,
            attempt: begun.attempt,
            trace: self.0.trace,
            metadata: self.0.metadata.clone(),
            end: Arc::clone(self.end()),
        }
    }

    fn end(&self) -> &Arc<ContextEnd> {
        self.0.end.get_or_init(Arc::default)
    }
}

impl ContextState {
    #[inline(always)]
    fn clear(&mut self) {
        if !self.metadata.is_empty() {
            self.metadata = Metadata::new();
        }
        self.trace = None;
        if !self.initial.get_mut().is_empty() {
            self.initial.take();
        }
        self.initial_taken.set(false);
        if !self.trailers.get_mut().is_empty() {
            self.trailers.take();
        }
        self.extensions.get_mut().clear();
        if let Some(end) = self.end.take() {
            end.answer();
        }
    }
}

/// Restores the thread's former call, also when a handler panics.
struct Restore(Option<Context>);

impl Drop for Restore {
    fn drop(&mut self) {
        drop(CURRENT.replace(self.0.take()));
    }
}

/// A context on its way to another thread.
pub(crate) struct Sendable {
    method: &'static Method,
    site: Site,
    deadline: Option<Instant>,
    attempt: u8,
    trace: Option<TraceContext>,
    metadata: Metadata,
    end: Arc<ContextEnd>,
}

impl Sendable {
    pub(crate) fn into_context(self) -> Context {
        let begun = Begun {
            method: self.method,
            site: Rc::new(self.site),
            deadline: self.deadline,
            attempt: self.attempt,
        };
        let mut context = Context::begin(begun);
        context.set_said(self.metadata, self.trace);
        _ = context.0.end.set(self.end); // a new context has none
        context
    }
}

/// Returns whether calls made now inherit from a call being served.
#[inline]
pub(crate) fn is_inside() -> bool {
    CURRENT.try_with(|current| current.borrow().is_some()).unwrap_or(false)
}

/// Returns what calls made now inherit from the call being served, if there is one.
#[inline]
pub(crate) fn inherited() -> Option<Inherited> {
    let of = |context: &Context| {
        let Begun { deadline, attempt, .. } = context.0.begun;
        Inherited { deadline, attempt, trace: context.0.trace }
    };
    CURRENT.try_with(|current| current.borrow().as_ref().map(of)).ok()?
}

/// Returns the current time: by the core's clock, which may be virtual, or by the system's
/// elsewhere.
fn now() -> Instant {
    if CoreHandle::is_here() { ringway_runtime::now_exact() } else { Instant::now() }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("method", &self.method().name())
            .field("peer", self.peer())
            .field("remaining", &self.remaining())
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::task::{self, Waker};

    use super::*;

    static QUOTE: Method = Method::new("market.Market/Quote", Kind::Unary);

    /// Makes a plain call.
    pub(crate) fn sample() -> Context {
        begun(None)
    }

    fn begun(deadline: Option<Instant>) -> Context {
        let trace = Some(TraceContext::root(true));
        let site = Rc::new(Site::unknown());
        let mut context = Context::begin(Begun { method: &QUOTE, site, deadline, attempt: 2 });
        context.set_said(Metadata::new(), trace);
        context
    }

    #[test]
    fn current_call_is_the_innermost_one_being_polled() {
        assert!(Context::current().is_none() && inherited().is_none());
        let (outer, inner) = (sample(), sample());
        let is_current = |context: &Context| {
            Context::current().is_some_and(|current| Rc::ptr_eq(&current.0, &context.0))
        };
        outer.enter(|| {
            assert!(is_current(&outer));
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                inner.enter(|| {
                    assert!(is_current(&inner));
                    panic!("as handlers may");
                })
            }));
            assert!(panicked.is_err() && is_current(&outer));
            let inherited = inherited().expect("a call is served");
            assert_eq!((inherited.attempt, inherited.trace), (2, outer.trace()));
        });
        assert!(Context::current().is_none());
    }

    #[test]
    fn memory_is_reused_clean_unless_a_clone_exists() {
        let first = sample();
        first.insert(7_u32);
        first.set_trailer("a", "1").expect("a good entry");
        first.cancel(Code::Cancelled, "changed my mind");
        let memory = Rc::as_ptr(&first.0);
        first.recycle();
        let second = sample();
        assert_eq!(Rc::as_ptr(&second.0), memory);
        assert!(second.extension::<u32>().is_none() && second.take_trailers().is_empty());
        assert!(!second.is_cancelled());
        let held = second.clone();
        second.recycle();
        assert_ne!(Rc::as_ptr(&sample().0), memory, "a clone exists");
        drop(held);
    }

    #[test]
    fn cancelling_wakes_waiting_futures_and_the_first_reason_counts() {
        let context = sample();
        let mut cx = task::Context::from_waker(Waker::noop());
        let mut done = pin!(context.done());
        assert!(done.as_mut().poll(&mut cx).is_pending() && !context.is_cancelled());
        context.cancel(Code::DeadlineExceeded, "too late");
        context.cancel(Code::Cancelled, "and again");
        let Poll::Ready(Some(told)) = done.as_mut().poll(&mut cx) else {
            panic!("it was cancelled");
        };
        let reason = context.cancel_reason().expect("cancelled");
        assert_eq!(reason.to_string(), "DEADLINE_EXCEEDED: too late");
        assert_eq!(told.to_string(), reason.to_string());
    }

    #[test]
    fn end_of_a_call_is_reported_whether_or_not_its_context_is_held() {
        let mut cx = task::Context::from_waker(Waker::noop());
        let mut is_answered = |done: &mut Done| match Pin::new(done).poll(&mut cx) {
            Poll::Ready(None) => true,
            Poll::Ready(Some(reason)) => panic!("it was not cancelled: {reason}"),
            Poll::Pending => false,
        };
        let context = sample();
        let mut done = context.done();
        assert!(!is_answered(&mut done));
        context.recycle();
        assert!(is_answered(&mut done));

        let context = sample();
        let held = context.clone();
        context.recycle();
        assert!(is_answered(&mut held.done()), "also for a later future");
        held.cancel(Code::Cancelled, "too late");
        assert!(!held.is_cancelled() && held.cancel_reason().is_none());
    }

    #[test]
    fn cancellation_is_seen_on_another_thread() {
        let context = begun(Some(Instant::now() + Duration::from_secs(60)));
        let sendable = context.to_sendable();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let far = sendable.into_context();
            assert!(far.remaining().is_some_and(|rest| rest > Duration::from_secs(30)));
            ready.send(()).expect("the test waits");
            while !far.is_cancelled() {
                std::thread::yield_now();
            }
            far.cancel_reason().map(|status| status.message().to_owned())
        });
        is_ready.recv_timeout(Duration::from_secs(60)).expect("the thread has started");
        context.cancel(Code::Cancelled, "enough");
        assert_eq!(thread.join().expect("no panic").as_deref(), Some("enough"));
    }

    #[test]
    fn a_value_of_metadata_may_look_at_its_call() {
        struct Looks(Context);
        impl AsRef<[u8]> for Looks {
            fn as_ref(&self) -> &[u8] {
                self.0.set_trailer("looked", "1").expect("a good entry");
                self.0.set_initial_metadata("looked", "1").expect("a good entry");
                b"2"
            }
        }
        let context = sample();
        context.set_trailer("key", Looks(context.clone())).expect("a good entry");
        context.set_initial_metadata("key", Looks(context.clone())).expect("a good entry");
        let read =
            |metadata: Metadata| ["key", "looked"].map(|key| metadata.get(key).map(str::to_owned));
        let expected = [Some("2".to_owned()), Some("1".to_owned())];
        assert_eq!(
            [read(context.take_trailers()), read(context.take_initial())],
            [expected.clone(), expected]
        );
    }

    #[test]
    fn one_extension_per_type() {
        let context = sample();
        context.insert("a".to_owned());
        context.insert(1_u8);
        context.insert("b".to_owned());
        assert_eq!(context.extension::<String>().as_deref().map(String::as_str), Some("b"));
        assert_eq!(context.extension::<u8>().as_deref(), Some(&1));
        assert!(context.extension::<u16>().is_none());
    }
}
