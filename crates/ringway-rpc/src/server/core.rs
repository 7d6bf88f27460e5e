//! The state of one core of a server: its methods, its connections, and whether it drains.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ringway_net::Connection;
use ringway_runtime::{
    Deadline, Sleep, contain, now_exact, origin, panic_message, sleep_until, spawn_named, uptime,
};
use ringway_wire::grpc::{self, RequestNames, ServerCompression};
use ringway_wire::http2::Vocabulary;
use ringway_wire::jsonrpc::BATCH_MAX_DEFAULT;
use ringway_wire::native;
use tracing::Span;

use super::budget::Budget;
use super::connections::Connections;
use super::guest_line::GuestLine;
use super::intake::TurnIntake;
use super::interceptor::{Handlers, Intercept};
use super::jsonrpc::{JsonConfig, JsonMachine, JsonMethods};
use super::log::SUBSCRIBER;
use super::method_entry::MethodEntry;
use super::settings::Settings;
use super::shared::{Entries, ServerShared};
use super::slow_calls::SlowCalls;
use super::stats::CoreShare;
use super::timed_batch::{TimedBatch, Turn};
use crate::call::context::Drain;
use crate::call::method::Method;
use crate::call::status::Status;
use crate::limits;
use crate::policy::share_of_each;
use crate::service::Handler;

thread_local! {
    /// The servers of this core. There is one, except in tests.
    static CORES: RefCell<Vec<(u64, std::rc::Weak<ServerCore>)>> = const { RefCell::new(Vec::new()) };
}

/// One core of one server. It lives as long as the task that waits for the drain, or the last connection.
pub(crate) struct ServerCore {
    shared: Arc<ServerShared>,
    share: Arc<CoreShare>,
    entries: Vec<MethodEntry>,
    method_indices: HashMap<&'static str, usize>,
    json_methods: Rc<JsonMethods>,
    /// Those of clients that have gone.
    notifications: Rc<Cell<usize>>,
    /// What the connections that speak gRPC share, made with the first of them.
    grpc: OnceCell<SharedByGrpc>,
    /// The methods whose gRPC messages may be compressed, if any.
    grpc_compression: OnceCell<Arc<ServerCompression>>,
    interceptors: Vec<Intercept>,
    connections: Connections,
    budget: Budget,
    intake: TurnIntake,
    guest_line: GuestLine,
    /// Queued calls of methods without a limit, which wait for nothing but this core's time.
    calls_behind: Cell<usize>,
    /// The instant that times are counted from.
    origin: Instant,
    /// The time at which the clock was last read.
    looked: Cell<Duration>,
    batch: TimedBatch,
    turn: Turn,
    /// The deadline of running calls, once the core drains.
    draining: Cell<Option<Duration>>,
    /// Tells handlers that the core drains.
    drain: Arc<Drain>,
    /// The number of calls that each connection is offered, once there has been pressure.
    lease: Cell<Option<u32>>,
    slow_calls: Rc<SlowCalls>,
}

/// What all connections that speak gRPC share.
struct SharedByGrpc {
    config: grpc::ServerConfig,
    /// The paths of the methods.
    names: Arc<Vocabulary>,
}

/// The permit of a call against its method's limit, held until its offloaded work has ended.
struct HeldPermit {
    core: Rc<ServerCore>,
    method_index: usize,
}

impl Drop for HeldPermit {
    fn drop(&mut self) {
        self.core.entry(self.method_index).leave();
    }
}

/// Counts a call as in flight until this is dropped.
pub(super) struct InFlight(Rc<ServerCore>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.shared.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Handlers for ServerCore {
    fn interceptor(&self, passed: usize) -> Option<&Intercept> {
        self.interceptors.get(passed)
    }

    fn handler(&self, method_index: usize) -> &dyn Handler {
        self.entry(method_index).handler()
    }

    fn method(&self, method_index: usize) -> &'static Method {
        self.entry(method_index).method()
    }
}

/// Counts a request as in flight, and as queued for its method unless it waits for its client, until this is dropped.
pub(super) struct QueuedGuard {
    in_flight: InFlight,
    method_index: Option<usize>,
}

impl QueuedGuard {
    pub(super) fn new(core: &Rc<ServerCore>, method_index: usize) -> Self {
        core.count_waiting(method_index, true);
        Self { in_flight: core.count_in_flight(), method_index: Some(method_index) }
    }

    pub(super) fn of_backlog(core: &Rc<ServerCore>) -> Self {
        Self { in_flight: core.count_in_flight(), method_index: None }
    }
}

impl Drop for QueuedGuard {
    fn drop(&mut self) {
        if let Some(method_index) = self.method_index {
            self.in_flight.0.count_waiting(method_index, false);
        }
    }
}

impl ServerCore {
    /// Returns this thread's core of the server, which is made with the thread's first connection.
    pub(crate) fn of(shared: &Arc<ServerShared>, connection: &Connection) -> Rc<Self> {
        Self::here(shared.id).unwrap_or_else(|| Self::begin(shared, connection))
    }

    fn begin(shared: &Arc<ServerShared>, connection: &Connection) -> Rc<Self> {
        let Entries { entries, method_indices, json } = shared.build_entries();
        let core = Rc::new(Self {
            share: shared.new_share(),
            shared: Arc::clone(shared),
            entries,
            method_indices,
            json_methods: json,
            notifications: Rc::default(),
            grpc: OnceCell::new(),
            grpc_compression: OnceCell::new(),
            interceptors: shared.interceptors.iter().map(|make| make()).collect(),
            connections: Connections::default(),
            budget: Budget::new(shared.settings.unread_bytes_max),
            intake: TurnIntake::default(),
            guest_line: GuestLine::default(),
            calls_behind: Cell::new(0),
            origin: origin(),
            looked: Cell::default(),
            batch: TimedBatch::default(),
            turn: Turn::default(),
            draining: Cell::new(None),
            drain: Arc::default(),
            lease: Cell::new(None),
            slow_calls: Rc::default(),
        });
        CORES.with_borrow_mut(|cores| {
            cores.retain(|(_, core)| core.strong_count() > 0);
            cores.push((shared.id, Rc::downgrade(&core)));
        });
        if let Some(drain) = connection.drain_token() {
            let core = Rc::clone(&core);
            spawn_named("drain of calls", async move {
                drain.cancelled().await;
                core.drain();
                let waits = Rc::downgrade(&core);
                drop(core);
                Self::tell_what_drains(waits).await;
            });
        }
        core
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    pub(crate) fn shared(&self) -> &ServerShared {
        &self.shared
    }

    pub(crate) fn share(&self) -> &CoreShare {
        &self.share
    }

    /// Makes the machine of a connection that speaks the native protocol.
    pub(super) fn native_machine(&self) -> native::Server {
        native::Server::new(self.shared.settings.native.clone(), self.now())
    }

    /// Makes the machine of a connection that speaks gRPC. It numbers methods by their index plus one.
    pub(super) fn grpc_machine(&self) -> grpc::GrpcServer {
        let SharedByGrpc { config, names } = self.grpc.get_or_init(|| {
            let path = |(name, method_index): (&&str, &usize)| {
                (format!("/{name}"), *method_index as u32 + 1)
            };
            let paths: Vec<(String, u32)> = self.method_indices.iter().map(path).collect();
            let paths = paths.iter().map(|(path, number)| (&path[..], *number));
            let names = Arc::new(Vocabulary::new(RequestNames::new(paths)));
            SharedByGrpc { config: self.shared.settings.grpc(), names }
        });
        let mut machine = grpc::GrpcServer::new(config.clone(), Arc::clone(names), self.now());
        if let Some(compression) = self.compression() {
            machine.set_compression(Arc::clone(compression));
        }
        machine
    }

    /// Which methods may have compressed messages, if any. The methods have the numbers of gRPC.
    pub(super) fn compression(&self) -> Option<&Arc<ServerCompression>> {
        let compression = self.shared.settings.compression.as_ref()?;
        let of_methods = || compression.of_methods(&self.method_indices);
        Some(self.grpc_compression.get_or_init(of_methods))
    }

    /// Makes the machine of a connection that speaks JSON-RPC, with a text on each line.
    pub(super) fn json_machine(&self) -> JsonMachine {
        JsonMachine::of_lines(Rc::clone(&self.json_methods), self.json_config(), self.now())
    }

    fn json_config(&self) -> JsonConfig {
        let native = &self.shared.settings.native;
        JsonConfig {
            text_max: native.settings.max_message as usize,
            calls_max: self.shared.settings.in_flight_per_connection_max,
            batch_max: BATCH_MAX_DEFAULT,
            stall_timeout: limits::JSONRPC_STALL_TIMEOUT,
        }
    }

    #[inline]
    pub(super) fn entry(&self, method_index: usize) -> &MethodEntry {
        &self.entries[method_index]
    }

    pub(super) fn method_index(&self, name: &str) -> Option<usize> {
        self.method_indices.get(name).copied()
    }

    /// The number of notifications whose clients have gone.
    pub(super) fn notifications(&self) -> &Rc<Cell<usize>> {
        &self.notifications
    }

    pub(super) fn has_interceptors(&self) -> bool {
        !self.interceptors.is_empty()
    }

    pub(super) fn connections(&self) -> &Connections {
        &self.connections
    }

    #[inline]
    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    #[inline]
    pub(super) fn intake(&self) -> &TurnIntake {
        &self.intake
    }

    /// The requests over HTTP/2 that wait to be begun.
    pub(super) fn guest_line(&self) -> &GuestLine {
        &self.guest_line
    }

    /// The number of queued calls of methods without a limit.
    pub(super) fn calls_behind(&self) -> usize {
        self.calls_behind.get()
    }

    /// Counts a request that enters the queue of its method, or one that leaves it.
    fn count_waiting(&self, method_index: usize, waits: bool) {
        let entry = self.entry(method_index);
        entry.count_waiting(waits);
        if !entry.is_limited() {
            let before = self.calls_behind.get();
            self.calls_behind.set(if waits { before + 1 } else { before - 1 });
        }
    }

    /// The time at which this turn of the core began.
    #[inline]
    pub(super) fn now(&self) -> Duration {
        uptime()
    }

    /// Reads the clock.
    #[inline]
    pub(super) fn look_at_clock(&self) -> Duration {
        let now = now_exact().saturating_duration_since(self.origin);
        self.looked.set(now);
        now
    }

    /// The time at which the clock was last read.
    #[inline]
    pub(super) fn last_look(&self) -> Duration {
        self.looked.get()
    }

    #[inline]
    pub(super) fn batch(&self) -> &TimedBatch {
        &self.batch
    }

    #[inline]
    pub(super) fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Holds the permit of a call of this method until the returned value is dropped.
    pub(super) fn hold(self: &Rc<Self>, method_index: usize) -> Box<dyn Any> {
        Box::new(HeldPermit { core: Rc::clone(self), method_index })
    }

    /// Counts one more call as in flight.
    pub(super) fn count_in_flight(self: &Rc<Self>) -> InFlight {
        self.shared.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Rc::clone(self))
    }

    /// The instant of a time, or `None` if an `Instant` cannot express it.
    #[inline]
    pub(super) fn instant(&self, time: Duration) -> Option<Instant> {
        self.origin.checked_add(time)
    }

    /// The time of an instant.
    pub(super) fn time_of(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.origin)
    }

    pub(super) fn sleep_until(&self, time: Duration) -> Sleep {
        sleep_until(Deadline::after(self.origin, time))
    }

    /// The time that calls may still take, if the core drains.
    pub(super) fn draining(&self) -> Option<Duration> {
        self.draining.get().map(|until| until.saturating_sub(self.now()))
    }

    /// Refuses new calls and lets running ones finish. The machines end those that are still running at
    /// the deadline.
    pub(super) fn drain(&self) {
        let deadline = self.settings().drain_timeout;
        self.draining.set(Some(self.now().saturating_add(deadline)));
        for connection in self.connections.all() {
            connection.go_away(deadline);
        }
        self.drain.begin();
    }

    /// The drain signal that handlers' contexts share.
    pub(super) fn drain_of_calls(&self) -> &Arc<Drain> {
        &self.drain
    }

    /// The slowest calls of the last minute, while somebody looks.
    #[inline]
    pub(super) fn slow_calls(&self) -> &Rc<SlowCalls> {
        &self.slow_calls
    }

    pub(super) fn entries(&self) -> &[MethodEntry] {
        &self.entries
    }

    /// This thread's core of the server with this number.
    pub(super) fn here(server_id: u64) -> Option<Rc<Self>> {
        CORES.with_borrow(|cores| {
            let found = cores.iter().find(|(id, _)| *id == server_id);
            found.and_then(|(_, core)| core.upgrade())
        })
    }

    pub(super) fn lease(&self) -> Option<u32> {
        self.lease.get()
    }

    /// Tells the clients how many calls are welcome, if that has changed. While more calls are made than
    /// may run, the busy connections share the number that may.
    #[cold]
    pub(super) fn publish_lease(&self, now: Duration) {
        let pressed = self.entries.iter().filter_map(|entry| entry.pressed_limit(now));
        let connections = self.connections.all();
        let busy = connections.iter().filter(|connection| connection.is_busy()).count();
        let share = match (share_of_each(pressed, busy), self.lease.get()) {
            (None, None) => return, // there has never been any pressure
            (None, Some(_)) => self.settings().in_flight_per_connection_max as u32,
            (Some(share), _) => share,
        };
        if self.lease.replace(Some(share)) != Some(share) {
            connections.iter().for_each(|connection| connection.renew_lease());
        }
    }

    /// Counts and logs a handler's panic in the call's span, and returns the status to answer, which does
    /// not contain the panic's message.
    #[cold]
    pub(super) fn on_panic(
        &self,
        entry: &MethodEntry,
        span: &Span,
        panic: Box<dyn Any + Send>,
    ) -> Status {
        self.share.count_panicked();
        let (method, panic) = (entry.method().name, panic_message(panic));
        let lacks_tokio = panic.contains(TOKIO_IS_MISSING);
        contain(SUBSCRIBER, || {
            span.in_scope(|| match lacks_tokio {
                true => tracing::error!(method, panic, hint = TOKIO_HINT, "a handler panicked"),
                false => tracing::error!(method, panic, "a handler panicked"),
            });
        });
        match lacks_tokio {
            true => Status::internal(format!("the handler failed: {TOKIO_HINT}")),
            false => Status::internal("the handler failed"),
        }
    }
}

/// What tokio 1 says whose functions are called elsewhere.
const TOKIO_IS_MISSING: &str = "context of a Tokio 1.x runtime";
const TOKIO_HINT: &str = "it calls functions of tokio on a core, where there is no tokio: declare its method \
     `#[method(tokio)]`, or await them in `ringway::tokio::run`";

/// Runs user code and returns its panic, if any. Give the panic to [`ServerCore::on_panic`], because
/// dropping its payload runs user code too.
#[inline]
pub(super) fn attempt<T>(f: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(f))
}
