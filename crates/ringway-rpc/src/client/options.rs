//! What a caller says about a call besides its request.

use std::hash::Hash;
use std::time::{Duration, Instant};

use ringway_runtime as runtime;
use ringway_wire::native::MetaWriter;

use super::connection_state::NEVER;
use super::scratch::Scratch;
use crate::call::context;
use crate::call::metadata::Metadata;
use crate::call::method::Method;
use crate::call::status::Status;
use crate::call::trace::TraceContext;
use crate::connection::driver::Clock;
use crate::limits;
use crate::policy::balance::hash_of;

/// Deadline, metadata and manners of calls: of all that a client makes
/// ([`Client::with`](super::Client::with)), or of one ([`Call`](super::Call) has the same methods).
///
/// ```
/// use std::time::Duration;
/// use ringway_rpc::CallOptions;
///
/// let options = CallOptions::new()
///     .timeout(Duration::from_millis(200))
///     .metadata("tenant", "blue")
///     .wait_for_ready(true);
/// # let _ = options;
/// ```
#[derive(Clone, Default, Debug)]
pub struct CallOptions {
    timeout: Timeout,
    pub(super) waits_for_ready: bool,
    idempotent: bool,
    pub(super) hedges: bool,
    pub(super) priority: u8,
    /// The deadline of the call that is being served, which calls made for it share.
    limit: Option<Instant>,
    /// The call is made for an attempt that is a repetition itself: attempts must not multiply
    /// from hop to hop.
    pub(super) is_nested_retry: bool,
    /// Boxed, because most calls have none of it, and each call is moved a few times.
    rare: Option<Box<Rare>>,
}

/// What few calls have.
#[derive(Clone, Default, Debug)]
struct Rare {
    /// A hash of what the call belongs to.
    key: Option<u64>,
    /// What the server is told of the trace.
    trace: Option<TraceContext>,
    /// Where that comes from unless it is said.
    current_trace: Option<fn() -> Option<TraceContext>>,
    metadata: Metadata,
    /// What was wrong with the options.
    failure: Option<Status>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Timeout {
    /// The method's, or the default for its kind.
    #[default]
    Unsaid,
    None,
    After(Duration),
}

/// When a call is to be over.
#[derive(Clone, Copy)]
pub(super) struct CallDeadline {
    /// Of its core.
    clock: Clock,
    /// [`NEVER`] if that is not limited.
    pub(super) at: Duration,
}

impl CallDeadline {
    /// As all threads understand it.
    pub(super) fn instant(self) -> Option<Instant> {
        self.clock.deadline(self.at)
    }
}

impl CallOptions {
    /// The defaults: a deadline after 10 seconds for unary calls unless the method names another, none
    /// for streams of requests or replies.
    pub fn new() -> Self {
        Self::default()
    }

    /// The call fails with DEADLINE_EXCEEDED so long after its first poll. Inside a handler the
    /// deadline of the call being served holds as well, and the earlier one counts.
    #[must_use]
    pub fn timeout(mut self, after: Duration) -> Self {
        self.timeout = Timeout::After(after);
        self
    }

    /// The call may take as long as it likes, unless it is made inside a handler.
    #[must_use]
    pub fn no_timeout(mut self) -> Self {
        self.timeout = Timeout::None;
        self
    }

    /// Adds metadata for the server. A key ending in `-bin` takes any bytes, others take text.
    #[must_use]
    pub fn metadata(mut self, key: &str, value: impl AsRef<[u8]>) -> Self {
        let rare = self.rare.get_or_insert_default();
        if let Err(error) = rare.metadata.append(key, value) {
            rare.failure.get_or_insert_with(|| error.into());
        }
        self
    }

    /// The span that makes the call, which the server finds in
    /// [`Context::trace`](crate::Context::trace) as it is here. Without it a call that is made inside a
    /// handler is a new span of the trace that the handler's call belongs to, and others have no trace.
    ///
    /// ```
    /// use ringway_rpc::{CallOptions, TraceContext};
    ///
    /// let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"; // of an HTTP request
    /// let span = TraceContext::parse(header).unwrap_or_else(|| TraceContext::root(true)).child();
    /// let options = CallOptions::new().trace(span);
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn trace(mut self, span: TraceContext) -> Self {
        self.rare.get_or_insert_default().trace = Some(span);
        self
    }

    /// Asks `current` for the [trace](Self::trace) of each call that names none: where the call is made,
    /// on the thread and in the span of its caller. It must not block.
    ///
    /// ```
    /// use std::cell::Cell;
    /// use ringway_rpc::{CallOptions, Client, TraceContext};
    ///
    /// thread_local! {
    ///     static SPAN: Cell<Option<TraceContext>> = const { Cell::new(None) };
    /// }
    ///
    /// let client = Client::connect("tcp://127.0.0.1:9000")?;
    /// let traced = client.with(CallOptions::new().trace_from(|| SPAN.get()));
    /// # let _ = traced;
    /// # Ok::<(), ringway_rpc::Status>(())
    /// ```
    #[must_use]
    pub fn trace_from(mut self, current: fn() -> Option<TraceContext>) -> Self {
        self.rare.get_or_insert_default().current_trace = Some(current);
        self
    }

    /// Executing the call twice is as good as once, whatever its method says: it may be retried.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Where executing the call twice does no harm, it gets a second attempt on another host once it
    /// takes longer than 95 of 100 calls of its method did; the first good answer wins, and the
    /// other attempt is cancelled. A client of one host makes it there, over another connection if it
    /// has one. Such attempts and retries are together a tenth of the calls at
    /// most. Only calls with one request and one reply are hedged.
    #[must_use]
    pub fn hedge(mut self) -> Self {
        self.hedges = true;
        self
    }

    /// Whether the call waits while no host can be reached, until its deadline; otherwise it fails
    /// with UNAVAILABLE once connecting has failed.
    #[must_use]
    pub fn wait_for_ready(mut self, waits: bool) -> Self {
        self.waits_for_ready = waits;
        self
    }

    /// A server under overload refuses calls of a higher priority number first; 0 if not set.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// What the call belongs to, such as a user or a session: under
    /// [`Policy::ConsistentHash`](crate::Policy::ConsistentHash) equal keys meet the same host.
    #[must_use]
    pub fn affinity(mut self, key: impl Hash) -> Self {
        self.rare.get_or_insert_default().key = Some(hash_of(&key));
        self
    }

    /// Those of a call that is made now: inside a handler, as part of the call being served.
    #[inline]
    pub(super) fn for_call(&self) -> Self {
        let mut options = self.clone();
        if let Some(rare) = &mut options.rare {
            rare.trace = rare.trace.or_else(|| rare.current_trace?());
        }
        if let Some(inherited) = context::inherited() {
            options.limit = inherited.deadline;
            if let Some(trace) = inherited.trace {
                let rare = options.rare.get_or_insert_default();
                rare.trace.get_or_insert_with(|| trace.child());
            }
            options.is_nested_retry = inherited.attempt > 0;
        }
        options
    }

    /// Whether the call may be executed more than once.
    pub(super) fn is_idempotent(&self, method: &Method) -> bool {
        self.idempotent || method.is_idempotent()
    }

    /// What makes the call impossible, if anything.
    #[inline]
    pub(super) fn take_failure(&mut self) -> Option<Status> {
        self.rare.as_mut()?.failure.take().map(Status::not_executed)
    }

    /// Takes out what the server is to be told.
    pub(super) fn take_metadata(&mut self) -> Metadata {
        self.rare.as_mut().map_or_else(Metadata::new, |rare| std::mem::take(&mut rare.metadata))
    }

    /// What the server is told of the trace.
    pub(super) fn said_trace(&self) -> Option<TraceContext> {
        self.rare.as_ref()?.trace
    }

    /// The same with this metadata and trace, and just this deadline.
    pub(super) fn settled(
        mut self,
        metadata: Metadata,
        trace: Option<TraceContext>,
        deadline: Option<Instant>,
    ) -> Self {
        if self.rare.is_some() || trace.is_some() || !metadata.is_empty() {
            let rare = self.rare.get_or_insert_default();
            (rare.metadata, rare.trace) = (metadata, trace);
        }
        (self.timeout, self.limit) = (Timeout::None, deadline);
        self
    }

    /// A hash of what the call belongs to.
    #[inline]
    pub(super) fn key(&self) -> Option<u64> {
        self.rare.as_ref()?.key
    }

    /// When a unary call begins that is made now, and when it is to be over.
    #[inline]
    pub(super) fn span(&self, method: &Method, clock: Clock) -> (Duration, CallDeadline) {
        self.span_or(clock, method.timeout().or(Some(limits::UNARY_TIMEOUT)))
    }

    /// The same of a call with streams: only its user knows how long those go on.
    pub(super) fn stream_span(&self, method: &Method, clock: Clock) -> (Duration, CallDeadline) {
        self.span_or(clock, method.timeout())
    }

    #[inline]
    fn span_or(&self, clock: Clock, unsaid: Option<Duration>) -> (Duration, CallDeadline) {
        let after = self.time_or(unsaid);
        let now = match after.is_some_and(|after| after < limits::TIMEOUT_EXACT_BELOW) {
            true => clock.at(runtime::now_exact()),
            false => clock.now(),
        };
        let own = after.map_or(NEVER, |after| now.saturating_add(after));
        let at = self.limit.map_or(own, |limit| own.min(clock.at(limit)));
        (now, CallDeadline { clock, at })
    }

    /// Begins the time of a unary call here, though a core makes it that may come to it
    /// later. When it is to be over.
    pub(super) fn begin_elsewhere(&mut self, method: &Method) -> Option<Instant> {
        self.begin_or(method.timeout().or(Some(limits::UNARY_TIMEOUT)))
    }

    /// The same for a call with streams.
    pub(super) fn begin_stream_elsewhere(&mut self, method: &Method) {
        self.begin_or(method.timeout());
    }

    fn begin_or(&mut self, unsaid: Option<Duration>) -> Option<Instant> {
        let after = self.time_or(unsaid);
        let own = after.and_then(|after| Instant::now().checked_add(after));
        self.limit = own.into_iter().chain(self.limit).min();
        self.limit
    }

    #[inline]
    fn time_or(&self, unsaid: Option<Duration>) -> Option<Duration> {
        match self.timeout {
            Timeout::Unsaid => unsaid,
            Timeout::None => None,
            Timeout::After(after) => Some(after),
        }
    }

    /// What a request says beside its message, encoded; to be given back to `scratch`.
    #[inline]
    pub(super) fn encode_meta(&self, scratch: &Scratch) -> Vec<u8> {
        let Some(rare) = &self.rare else {
            return Vec::new();
        };
        let mut meta = scratch.take();
        let mut writer = MetaWriter::new(&mut meta);
        if let Some(trace) = rare.trace {
            writer.traceparent(&trace.to_bytes());
        }
        rare.metadata.write(&mut writer);
        meta
    }
}
