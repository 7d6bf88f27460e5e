//! A registry inside one process, shared by all its threads.
//!
//! Each service has a lock of its own, so services do not wait for each other. A look-up takes no lock, but for the
//! first two after a change, which make the new list and publish it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use crate::endpoint::Endpoint;
use crate::limits;

mod registration;
mod registry;
mod shared;
mod state;
mod watch;

pub use registration::LocalRegistration;
pub use shared::Endpoints;
use shared::{SharedService, lock};
pub use watch::LocalWatch;

/// A registry inside one process; cheap to clone, usable on any thread.
///
/// ```
/// use ringway_discovery::{Endpoint, Local};
///
/// let registry = Local::new();
/// let market = registry.service("market");
/// let registration = market.register(Endpoint::new("tcp://10.0.0.1:9000"));
/// assert_eq!(market.endpoints()[0].address(), "tcp://10.0.0.1:9000");
/// drop(registration);
/// assert!(market.endpoints().is_empty());
/// ```
#[derive(Clone, Default)]
pub struct Local {
    services: Arc<Mutex<Services>>,
}

/// The services that somebody has asked for.
#[derive(Default)]
struct Services {
    by_name: HashMap<String, Arc<SharedService>>,
    /// How many there are when those are looked for that nobody uses any more.
    cleaned_at: usize,
    /// The highest revision of a service that was forgotten: one of the same name goes on behind it.
    forgotten: u64,
}

/// A service of a [`Local`] registry; cheap to clone, usable on any thread.
#[derive(Clone)]
pub struct LocalService {
    shared: Arc<SharedService>,
}

impl Local {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// The registry of this process, which `local://` means.
    pub fn of_process() -> Self {
        static OF_PROCESS: LazyLock<Local> = LazyLock::new(Local::new);
        OF_PROCESS.clone()
    }

    /// The service with this name. It need not have endpoints yet.
    pub fn service(&self, name: &str) -> LocalService {
        let mut services = lock(&self.services);
        if let Some(shared) = services.by_name.get(name) {
            return LocalService { shared: Arc::clone(shared) };
        }
        if services.by_name.len() >= services.cleaned_at.max(limits::LOCAL_SERVICES_UNUSED_MAX) {
            services.clean();
        }
        let shared = Arc::new(SharedService::new(services.forgotten));
        services.by_name.insert(name.to_owned(), Arc::clone(&shared));
        LocalService { shared }
    }

    /// The names of all services, in their order. One that has no endpoints and that nobody watches is forgotten some day.
    pub fn services(&self) -> Vec<String> {
        let mut names: Vec<_> = lock(&self.services).by_name.keys().cloned().collect();
        names.sort_unstable();
        names
    }
}

impl Services {
    /// Forgets the services that nobody holds: each endpoint has a registration, which does. It is done again when there
    /// are twice as many as are left, so that it costs each new service little.
    fn clean(&mut self) {
        let Self { by_name, cleaned_at, forgotten } = self;
        by_name.retain(|_, shared| {
            let is_held = Arc::strong_count(shared) > 1;
            if !is_held {
                *forgotten = (*forgotten).max(lock(&shared.state).revision);
            }
            is_held
        });
        *cleaned_at = 2 * by_name.len();
    }
}

impl LocalService {
    /// Registers an endpoint until the registration is dropped. It replaces one of the same address, whose
    /// registration has no effect any more.
    pub fn register(&self, endpoint: impl Into<Arc<Endpoint>>) -> LocalRegistration {
        LocalRegistration::new(Arc::clone(&self.shared), endpoint.into())
    }

    /// The endpoints that are registered now, in the order of their addresses.
    #[inline]
    pub fn endpoints(&self) -> Endpoints {
        self.shared.endpoints()
    }

    /// Watches the service from now on.
    pub fn watch(&self) -> LocalWatch {
        LocalWatch::new(Arc::clone(&self.shared))
    }
}

#[cfg(test)]
mod tests;
