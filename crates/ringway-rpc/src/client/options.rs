//! Options of calls.

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

/// Deadline, metadata and other options, either of all calls of a client
/// ([`Client::with`](super::Client::with)) or of one call ([`Call`](super::Call) has the same methods).
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
    /// The deadline of the call that is being served, which also limits the calls made for it.
    limit: Option<Instant>,
    /// Whether the call being served is a retry itself. Then this call is not retried, so that attempts
    /// do not multiply from hop to hop.
    pub(super) is_nested_retry: bool,
    /// Boxed because most calls have none of these, and each call is moved a few times.
    rare: Option<Box<Rare>>,
}

/// Options that few calls have.
#[derive(Clone, Default, Debug)]
struct Rare {
    /// The hash of the call's affinity key.
    key: Option<u64>,
    /// The span that is sent to the server.
    trace: Option<TraceContext>,
    /// Provides the span if none is set.
    current_trace: Option<fn() -> Option<TraceContext>>,
    metadata: Metadata,
    /// The first invalid option.
    failure: Option<Status>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Timeout {
    /// The timeout of the method, or the default for its kind.
    #[default]
    Unsaid,
    None,
    After(Duration),
}

/// The deadline of a call.
#[derive(Clone, Copy)]
pub(super) struct CallDeadline {
    /// The clock of the call's core.
    clock: Clock,
    /// The time on that clock, or [`NEVER`].
    pub(super) at: Duration,
}

impl CallDeadline {
    /// The deadline as an `Instant`, which is valid on all threads.
    pub(super) fn instant(self) -> Option<Instant> {
        self.clock.deadline(self.at)
    }
}

impl CallOptions {
    /// Makes default options: unary calls have a timeout of 10 seconds unless the method sets another,
    /// and streaming calls have none.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time after the first poll at which the call fails with DEADLINE_EXCEEDED. Inside a
    /// handler, the deadline of the call being served applies as well.
    #[must_use]
    pub fn timeout(mut self, after: Duration) -> Self {
        self.timeout = Timeout::After(after);
        self
    }

    /// Removes the timeout. Inside a handler, the deadline of the call being served still applies.
    #[must_use]
    pub fn no_timeout(mut self) -> Self {
        self.timeout = Timeout::None;
        self
    }

    /// Adds metadata for the server. A key that ends in `-bin` takes any bytes; others take text.
    #[must_use]
    pub fn metadata(mut self, key: &str, value: impl AsRef<[u8]>) -> Self {
        let rare = self.rare.get_or_insert_default();
        if let Err(error) = rare.metadata.append(key, value) {
            rare.failure.get_or_insert_with(|| error.into());
        }
        self
    }

    /// Sets the span that makes the call, which the server finds in
    /// [`Context::trace`](crate::Context::trace). By default, a call made inside a handler is a new span
    /// in the trace of the call being served, and other calls have no trace.
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

    /// Takes the [trace](Self::trace) of each call that sets none from `current`, which is called where
    /// the call is made, on the thread and in the span of its caller. It must not block.
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

    /// Declares that executing the call twice does no harm, so that it may be retried, whatever its
    /// method says.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Hedges the call if executing it twice does no harm: it gets a second attempt on another host once
    /// it takes longer than 95 % of its method's calls did. The first good answer wins, and the other
    /// attempt is cancelled. A client of one host uses another connection, if it has one. Hedges and
    /// retries together are limited to a tenth of the calls. Only unary calls are hedged.
    #[must_use]
    pub fn hedge(mut self) -> Self {
        self.hedges = true;
        self
    }

    /// Sets whether the call waits, until its deadline, while no host can be reached. Otherwise it fails
    /// with UNAVAILABLE once connecting has failed.
    #[must_use]
    pub fn wait_for_ready(mut self, waits: bool) -> Self {
        self.waits_for_ready = waits;
        self
    }

    /// Sets the priority number: an overloaded server refuses calls with higher numbers first. The
    /// default is 0.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the key that the call belongs to, such as a user or a session. With
    /// [`Policy::ConsistentHash`](crate::Policy::ConsistentHash), calls with equal keys go to the same
    /// host.
    #[must_use]
    pub fn affinity(mut self, key: impl Hash) -> Self {
        self.rare.get_or_insert_default().key = Some(hash_of(&key));
        self
    }

    /// The options of a call that is made now. Inside a handler, they inherit from the call being served.
    #[inline]
    pub(super) fn for_call(&self) -> Self {
        match self.rare.is_none() && !context::is_inside() {
            true => Self { rare: None, ..*self },
            false => self.inheriting(),
        }
    }

    fn inheriting(&self) -> Self {
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

    /// Takes the failure of an invalid option, if there was one.
    #[inline]
    pub(super) fn take_failure(&mut self) -> Option<Status> {
        self.rare.as_mut()?.failure.take().map(Status::not_executed)
    }

    /// Takes out the metadata for the server.
    pub(super) fn take_metadata(&mut self) -> Metadata {
        self.rare.as_mut().map_or_else(Metadata::new, |rare| std::mem::take(&mut rare.metadata))
    }

    /// The span that is sent to the server.
    pub(super) fn said_trace(&self) -> Option<TraceContext> {
        self.rare.as_ref()?.trace
    }

    /// The options with this metadata, trace and deadline, and no other timeout.
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

    /// The hash of the call's affinity key.
    #[inline]
    pub(super) fn key(&self) -> Option<u64> {
        self.rare.as_ref()?.key
    }

    /// The begin and the deadline of a unary call that is made now.
    #[inline]
    pub(super) fn span(&self, method: &Method, clock: Clock) -> (Duration, CallDeadline) {
        self.span_or(clock, method, Some(limits::UNARY_TIMEOUT))
    }

    /// The begin and the deadline of a streaming call, which has no default timeout because only its user
    /// knows how long it lasts.
    pub(super) fn stream_span(&self, method: &Method, clock: Clock) -> (Duration, CallDeadline) {
        self.span_or(clock, method, None)
    }

    /// A timeout that was said starts at an exact reading of the clock, since its caller may look at the
    /// clock as well. The default one starts with the core's turn, which saves the reading.
    #[inline]
    fn span_or(
        &self,
        clock: Clock,
        method: &Method,
        default: Option<Duration>,
    ) -> (Duration, CallDeadline) {
        let said = self.time_or(method.timeout());
        let now = match said {
            Some(_) => clock.at(runtime::now_exact()),
            None => clock.now(),
        };
        let after = said.or(default.filter(|_| self.timeout == Timeout::Unsaid));
        let own = after.map_or(NEVER, |after| now.saturating_add(after));
        let at = self.limit.map_or(own, |limit| own.min(clock.at(limit)));
        (now, CallDeadline { clock, at })
    }

    /// Starts the time of a unary call on this thread, although a core makes the call later. Returns the
    /// call's deadline.
    pub(super) fn begin_elsewhere(&mut self, method: &Method) -> Option<Instant> {
        self.begin_or(method.timeout().or(Some(limits::UNARY_TIMEOUT)))
    }

    /// Starts the time of a streaming call on this thread.
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

    /// Encodes the request's metadata. Give the result back to `scratch`.
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
