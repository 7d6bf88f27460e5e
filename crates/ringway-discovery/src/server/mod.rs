//! The registry server: etcd's v3 API, as far as discovery needs it, over one [`Store`].
//!
//! Every change goes through [`Registry::change`], and is carried out completely or not at all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringway_rpc::{Server, Status};
use ringway_runtime as runtime;

use crate::etcd::api::etcdserverpb::{
    AuthServer, ClusterServer, KvServer, LeaseServer, MaintenanceServer, ResponseHeader,
    WatchServer,
};
use crate::limits;
use crate::store::Store;

mod change;
mod convert;
mod expiry;
mod failure;
mod keys;
mod leases;
mod listeners;
mod maintenance;
mod read;
#[cfg(test)]
mod tests;
mod transaction;
mod watch;
mod watcher;

use listeners::Listeners;

/// A registry that servers join and clients watch, with etcd's v3 API; cheap to clone, usable on any thread.
///
/// It holds its keys in memory. `etcdctl` and every client of etcd work on it.
///
/// ```no_run
/// use ringway_discovery::Registry;
/// use ringway_rpc::Server;
///
/// let registry = Registry::new();
/// let server = registry.serve_on(Server::bind("tcp://127.0.0.1:2379")?);
/// server.serve()?;
/// # Ok::<(), ringway_rpc::Status>(())
/// ```
#[derive(Clone)]
pub struct Registry {
    shared: Arc<Shared>,
}

/// The outcome of a change, and the header of the response to it.
type Made<T> = (T, Option<ResponseHeader>);

struct Shared {
    state: Mutex<State>,
    /// The times of leases count from here.
    origin: Instant,
    /// Tells registries apart, for clients that look at it.
    cluster_id: u64,
    member_id: u64,
}

struct State {
    store: Store,
    listeners: Listeners,
    /// Whether a task looks after leases.
    expires_leases: bool,
    /// Where clients find this registry, as it tells them.
    urls: Vec<String>,
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        let state = State {
            store: Store::new(),
            listeners: Listeners::default(),
            expires_leases: false,
            urls: Vec::new(),
        };
        let (cluster_id, member_id) = (fastrand::u64(1..), fastrand::u64(1..));
        let shared =
            Shared { state: Mutex::new(state), origin: Instant::now(), cluster_id, member_id };
        Self { shared: Arc::new(shared) }
    }

    /// Adds etcd's services to a server, beside any others. Clients that ask for the members of the cluster are told
    /// its addresses.
    pub fn serve_on(&self, server: Server) -> Server {
        let urls = server.addresses().iter().map(|address| url(&address.to_string())).collect();
        self.state().urls = urls;
        server
            .service(KvServer::new(self.clone()))
            .service(WatchServer::new(self.clone()))
            .service(LeaseServer::new(self.clone()))
            .service(MaintenanceServer::new(self.clone()))
            .service(ClusterServer::new(self.clone()))
            .service(AuthServer::new(self.clone()))
    }

    /// Changes the keys or leases, and wakes the watches that see it. Returns what `make` returns, and the header of
    /// the response to it.
    fn change<T>(
        &self,
        make: impl FnOnce(&mut Store, Duration) -> Result<T, Status>,
    ) -> Result<Made<T>, Status> {
        let now = self.now();
        let mut state = self.state();
        let from = state.store.revision().next();
        let made = make(&mut state.store, now);
        let State { store, listeners, .. } = &mut *state;
        let woken = listeners.changed(store, from);
        let header = self.header(&state);
        drop(state);
        woken.into_iter().for_each(listeners::wake);
        Ok((made?, header))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time on the clock of leases.
    fn now(&self) -> Duration {
        runtime::now().saturating_duration_since(self.shared.origin)
    }

    /// What every response begins with.
    fn header(&self, state: &State) -> Option<ResponseHeader> {
        Some(ResponseHeader {
            cluster_id: self.shared.cluster_id,
            member_id: self.shared.member_id,
            revision: state.store.revision().0,
            raft_term: limits::RAFT_TERM,
        })
    }
}

/// An address as etcd writes it.
fn url(address: &str) -> String {
    let as_http =
        |scheme, http: &str| address.strip_prefix(scheme).map(|rest| http.to_owned() + rest);
    let url = as_http("tcp://", "http://").or_else(|| as_http("tls://", "https://"));
    url.unwrap_or_else(|| address.to_owned())
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}
