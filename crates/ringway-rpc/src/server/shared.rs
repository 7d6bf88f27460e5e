//! What the cores of a server and its handles share.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::concurrency_limit::ConcurrencyLimit;
use super::interceptor::MakeIntercept;
use super::jsonrpc::{self, JsonMethods, Schemas};
use super::method_entry::{Limit, MethodEntry};
use super::settings::Settings;
use super::side_doors::SideDoors;
use super::stats::{CoreShare, ServerStats};
use ringway_runtime::CoreHandle;

use crate::builtin::reflection::ReflectionService;
use crate::call::method::{Kind, Method};
use crate::metrics::{Metrics, Side};
use crate::service::{Methods, Registered, Service, ServiceDescriptor};

/// Configuration, services and counters that all cores of one server and its handles share.
pub(crate) struct ServerShared {
    /// A number that is unique among the servers of a process.
    pub(crate) id: u64,
    pub(crate) settings: Settings,
    pub(crate) interceptors: Vec<MakeIntercept>,
    services: Vec<Box<dyn Service>>,
    reflection: ReflectionService,
    /// The schemas of all methods, found by the first core that registers them.
    schemas: OnceLock<Arc<[Schemas]>>,
    pub(crate) metrics: Metrics,
    side_doors: SideDoors,
    /// Calls on all cores that wait in a queue or for their handlers.
    pub(super) in_flight: AtomicUsize,
    /// Requests among them that have not begun, because they came in part.
    unbegun: AtomicUsize,
    limits: Mutex<HashMap<&'static str, Arc<ConcurrencyLimit>>>,
    shares: Mutex<Vec<Arc<CoreShare>>>,
    /// The cores that have had a connection.
    cores: Mutex<Vec<CoreHandle>>,
    started_at: Instant,
}

/// One core's table of methods, and how they are found by name.
pub(super) struct Entries {
    pub(super) entries: Vec<MethodEntry>,
    pub(super) method_indices: HashMap<&'static str, usize>,
    pub(super) json: Rc<JsonMethods>,
}

impl ServerShared {
    pub(crate) fn new(
        settings: Settings,
        services: Vec<Box<dyn Service>>,
        reflection: ReflectionService,
        interceptors: Vec<MakeIntercept>,
        side_doors: SideDoors,
    ) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            settings,
            interceptors,
            services,
            reflection,
            schemas: OnceLock::new(),
            metrics: Metrics::new(),
            side_doors,
            in_flight: AtomicUsize::new(0),
            unbegun: AtomicUsize::new(0),
            limits: Mutex::default(),
            shares: Mutex::default(),
            cores: Mutex::default(),
            started_at: Instant::now(),
        }
    }

    /// Builds one core's table of methods.
    pub(super) fn build_entries(&self) -> Entries {
        let mut methods = Methods::default();
        for service in &self.services {
            service.register(&mut methods);
        }
        let discovered = self.settings.describes.then(|| jsonrpc::register_discovery(&mut methods));
        let registered = methods.into_entries();
        let descriptors = self.services.iter().map(|service| service.descriptor());
        self.reflection.learn(descriptors, &registered);
        let schemas = Arc::clone(self.schemas.get_or_init(|| schemas_of(&registered)));
        let json = Rc::new(JsonMethods::new(&registered, schemas, |name| self.service(name)));
        if let Some(discovered) = discovered {
            let _first_time = discovered.set(Rc::clone(&json));
        }
        let mut method_indices = HashMap::new();
        let entries = registered.into_iter().enumerate().map(|(method_index, registered)| {
            let method = registered.method;
            method_indices.insert(method.name(), method_index);
            let counters = self.metrics.counters(Side::Server, method.name());
            let room = self.settings.queue_room;
            MethodEntry::new(registered, self.limit_of(method), room, counters)
        });
        let entries = entries.collect();
        Entries { entries, method_indices, json }
    }

    fn limit_of(&self, method: &'static Method) -> Limit {
        match method.concurrency {
            Some(limit) => {
                let mut limits = lock(&self.limits);
                let limit = limits
                    .entry(method.name)
                    .or_insert_with(|| Arc::new(ConcurrencyLimit::new(limit)));
                Limit::Fixed(Arc::clone(limit))
            }
            // The duration of a stream says nothing about how well the server copes.
            None if self.settings.adaptive && method.kind == Kind::Unary => Limit::adaptive(),
            None => Limit::None,
        }
    }

    /// The service with this name.
    pub(super) fn service(&self, name: &str) -> Option<&'static ServiceDescriptor> {
        self.services.iter().map(|service| service.descriptor()).find(|it| it.name == name)
    }

    pub(super) fn side_doors(&self) -> &SideDoors {
        &self.side_doors
    }

    /// Adds the counters of one more core, which the handles sum up.
    pub(super) fn new_share(&self) -> Arc<CoreShare> {
        let share = Arc::new(CoreShare::default());
        lock(&self.shares).push(Arc::clone(&share));
        lock(&self.cores).push(CoreHandle::current());
        share
    }

    /// The cores that have had a connection, in the order of their numbers.
    pub(super) fn cores(&self) -> Vec<CoreHandle> {
        let mut cores = lock(&self.cores).clone();
        cores.sort_by_key(CoreHandle::id);
        cores
    }

    pub(super) fn uptime(&self) -> Duration {
        self.started_at.elapsed()
    }

    pub(super) fn services(&self) -> impl Iterator<Item = &'static ServiceDescriptor> {
        self.services.iter().map(|service| service.descriptor())
    }

    /// Whether the server has as many calls in flight as `in_flight_max` allows.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) >= self.settings.in_flight_max
    }

    /// Whether more is in flight than `in_flight_max` allows.
    pub(super) fn is_overfull(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > self.settings.in_flight_max
    }

    /// Notes that a connection has as many requests as `after` that have not begun.
    #[cold]
    pub(super) fn count_unbegun(&self, before: usize, after: usize) {
        for counter in [&self.in_flight, &self.unbegun] {
            counter.fetch_add(after.wrapping_sub(before), Ordering::Relaxed); // which may be negative
        }
    }

    pub(crate) fn stats(&self) -> ServerStats {
        let unbegun = self.unbegun.load(Ordering::Relaxed);
        let in_flight = self.in_flight.load(Ordering::Relaxed).saturating_sub(unbegun);
        ServerStats::sum(in_flight, &lock(&self.shares))
    }
}

/// The schemas of the messages of methods that have a JSON form. Code of their types runs for it.
fn schemas_of(registered: &[Registered]) -> Arc<[Schemas]> {
    registered.iter().map(|entry| entry.schemas.map(|schema| schema.map(|find| find()))).collect()
}

/// No user code runs under these locks, so the content of a poisoned one is sound.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
