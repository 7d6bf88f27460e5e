//! What one core of a server knows: its methods and services, its connections, whether it drains.

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
use ringway_wire::native;
use tracing::Span;

use super::budget::Budget;
use super::connections::Connections;
use super::interceptor::{Handlers, Intercept};
use super::log::LISTENER;
use super::method_entry::MethodEntry;
use super::row::{Row, Turn};
use super::settings::Settings;
use super::shared::ServerShared;
use super::stats::CoreShare;
use crate::call::context::Drain;
use crate::call::method::Method;
use crate::call::status::Status;
use crate::connection::driver::Clock;
use crate::limits;
use crate::service::Handler;

thread_local! {
    /// The servers of this core; one, but for tests.
    static CORES: RefCell<Vec<(u64, std::rc::Weak<ServerCore>)>> = const { RefCell::new(Vec::new()) };
}

/// One of these a server and core. It lives as long as the task that waits for the drain, or the
/// last connection.
pub(crate) struct ServerCore {
    shared: Arc<ServerShared>,
    share: Arc<CoreShare>,
    entries: Vec<MethodEntry>,
    places: HashMap<&'static str, usize>,
    /// What they are called in gRPC, once somebody speaks it.
    grpc_names: OnceCell<Arc<Vocabulary>>,
    /// Which of these may be compressed, if any.
    grpc_compression: OnceCell<Arc<ServerCompression>>,
    interceptors: Vec<Intercept>,
    connections: Connections,
    budget: Budget,
    /// Times are counted from here.
    origin: Instant,
    /// When the clock was last looked at.
    looked: Cell<Duration>,
    row: Row,
    turn: Turn,
    /// Until when calls may finish, once the core drains.
    draining: Cell<Option<Duration>>,
    /// Tells handlers the same.
    drain: Arc<Drain>,
    /// Calls that are welcome on each connection, once the core knows.
    lease: Cell<Option<u32>>,
}

/// A place that a call has taken, for as long as its work goes on.
struct HeldPlace {
    core: Rc<ServerCore>,
    place: usize,
}

impl Drop for HeldPlace {
    fn drop(&mut self) {
        self.core.entry(self.place).leave();
    }
}

/// A call that is in flight until this is dropped.
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

    fn handler(&self, place: usize) -> &dyn Handler {
        self.entry(place).handler()
    }

    fn method(&self, place: usize) -> &'static Method {
        self.entry(place).method()
    }
}

/// A request in the queue of its method, until this is dropped.
pub(super) struct Waits {
    core: Rc<ServerCore>,
    place: usize,
    _in_flight: InFlight,
}

impl Waits {
    pub(super) fn new(core: &Rc<ServerCore>, place: usize) -> Self {
        core.entry(place).count_waiting(true);
        Self { core: Rc::clone(core), place, _in_flight: core.take_off() }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.core.entry(self.place).count_waiting(false);
    }
}

impl ServerCore {
    /// The core that serves `connection`; made with the first connection of a thread.
    pub(crate) fn of(shared: &Arc<ServerShared>, connection: &Connection) -> Rc<Self> {
        let known = CORES.with_borrow(|cores| {
            let found = cores.iter().find(|(id, _)| *id == shared.id);
            found.and_then(|(_, core)| core.upgrade())
        });
        known.unwrap_or_else(|| Self::begin(shared, connection))
    }

    fn begin(shared: &Arc<ServerShared>, connection: &Connection) -> Rc<Self> {
        let (entries, places) = shared.build_entries();
        let core = Rc::new(Self {
            share: shared.new_share(),
            shared: Arc::clone(shared),
            entries,
            places,
            grpc_names: OnceCell::new(),
            grpc_compression: OnceCell::new(),
            interceptors: shared.interceptors.iter().map(|make| make()).collect(),
            connections: Connections::default(),
            budget: Budget::new(shared.settings.unread_bytes_max),
            origin: origin(),
            looked: Cell::default(),
            row: Row::default(),
            turn: Turn::default(),
            draining: Cell::new(None),
            drain: Arc::default(),
            lease: Cell::new(None),
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

    /// The machine of a connection that speaks the native protocol.
    pub(super) fn native_machine(&self) -> native::Server {
        native::Server::new(self.shared.settings.native.clone(), self.now())
    }

    /// The machine of a connection that speaks gRPC: it knows methods by their places.
    pub(super) fn grpc_machine(&self) -> grpc::GrpcServer {
        let names = self.grpc_names.get_or_init(|| {
            let path = |(name, place): (&&str, &usize)| (format!("/{name}"), *place as u32 + 1);
            let paths: Vec<(String, u32)> = self.places.iter().map(path).collect();
            let paths = paths.iter().map(|(path, number)| (&path[..], *number));
            Arc::new(Vocabulary::new(RequestNames::new(paths)))
        });
        let settings = &self.shared.settings;
        let mut machine = grpc::GrpcServer::new(settings.grpc(), Arc::clone(names), self.now());
        if let Some(compression) = &settings.compression {
            let of_methods = || compression.of_methods(&self.places);
            let compression = self.grpc_compression.get_or_init(of_methods);
            machine.set_compression(Arc::clone(compression));
        }
        machine
    }

    #[inline]
    pub(super) fn entry(&self, place: usize) -> &MethodEntry {
        &self.entries[place]
    }

    pub(super) fn place_of(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
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

    /// The time at which this turn's events were found.
    #[inline]
    pub(super) fn clock(&self) -> Clock {
        Clock::of_core()
    }

    /// When this turn of the core began.
    #[inline]
    pub(super) fn now(&self) -> Duration {
        uptime()
    }

    /// The time right now.
    #[inline]
    pub(super) fn look_at_clock(&self) -> Duration {
        let now = now_exact().saturating_duration_since(self.origin);
        self.looked.set(now);
        now
    }

    /// The time at which the clock was last looked at.
    #[inline]
    pub(super) fn last_look(&self) -> Duration {
        self.looked.get()
    }

    #[inline]
    pub(super) fn row(&self) -> &Row {
        &self.row
    }

    #[inline]
    pub(super) fn turn(&self) -> &Turn {
        &self.turn
    }

    /// The place of a call of this method, to be given back when what it returns is dropped.
    pub(super) fn hold(self: &Rc<Self>, place: usize) -> Box<dyn Any> {
        Box::new(HeldPlace { core: Rc::clone(self), place })
    }

    /// Counts one more call in flight.
    pub(super) fn take_off(self: &Rc<Self>) -> InFlight {
        self.shared.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Rc::clone(self))
    }

    /// `None` of a time that is beyond all clocks.
    #[inline]
    pub(super) fn instant(&self, time: Duration) -> Option<Instant> {
        self.origin.checked_add(time)
    }

    pub(super) fn sleep_until(&self, time: Duration) -> Sleep {
        sleep_until(Deadline::after(self.origin, time))
    }

    /// How long calls may still take, if the core drains.
    pub(super) fn draining(&self) -> Option<Duration> {
        self.draining.get().map(|until| until.saturating_sub(self.now()))
    }

    /// Refuses new calls and lets those that run finish. The machines end those that have not
    /// finished at the deadline.
    pub(super) fn drain(&self) {
        let deadline = self.settings().drain_timeout;
        self.draining.set(Some(self.now().saturating_add(deadline)));
        for connection in self.connections.all() {
            connection.go_away(deadline);
        }
        self.drain.begin();
    }

    /// What tells handlers that the core drains.
    pub(super) fn drain_of_calls(&self) -> &Arc<Drain> {
        &self.drain
    }

    pub(super) fn lease(&self) -> Option<u32> {
        self.lease.get()
    }

    /// Tells the clients how many calls are welcome, if that has changed: while more are made than
    /// may run, what may run is divided among the connections that are busy.
    #[cold]
    pub(super) fn publish_lease(&self, now: Duration) {
        let pressed = self.entries.iter().filter_map(|entry| entry.pressed_limit(now));
        let limit: u32 = pressed.sum();
        let connections = self.connections.all();
        let share = match (limit, self.lease.get()) {
            (0, None) => return, // never was there any pressure
            (0, Some(_)) => self.settings().in_flight_per_connection_max as u32,
            (limit, _) => {
                let busy = connections.iter().filter(|connection| connection.is_busy()).count();
                let welcome = (limit * limits::LEASE_PERCENT).div_ceil(100);
                welcome.div_ceil(busy.max(1) as u32).max(limits::ADAPTIVE_MIN)
            }
        };
        if self.lease.replace(Some(share)) != Some(share) {
            connections.iter().for_each(|connection| connection.renew_lease());
        }
    }

    /// Counts and logs the panic of a handler, whose span this is; the answer tells nothing of it.
    #[cold]
    pub(super) fn on_panic(
        &self,
        entry: &MethodEntry,
        span: &Span,
        panic: Box<dyn Any + Send>,
    ) -> Status {
        self.share.count_panicked();
        let (method, panic) = (entry.method().name, panic_message(panic));
        contain(LISTENER, || {
            span.in_scope(|| tracing::error!(method, panic, "a handler panicked"));
        });
        Status::internal("the handler failed")
    }
}

/// Runs code of a user, so that its panic is an outcome: to be given to
/// [`ServerCore::on_panic`], since its payload is the user's as well.
#[inline]
pub(super) fn attempt<T>(f: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(f))
}
