//! The registry server: etcd's v3 API, as far as discovery needs it, over one [`Store`].
//!
//! Every change goes through [`Registry::change`], and is carried out completely or not at all.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use prost::Message;
use ringway_rpc::{Context, Server, Status};
use ringway_runtime as runtime;

use crate::etcd::api::etcdserverpb::{
    AuthServer, ClusterServer, LeaseServer, MaintenanceServer, ResponseHeader, WatchServer,
};
use crate::limits;
use crate::log::Ids;
use crate::store::{Revision, Store};

mod builder;
mod change;
mod console;
mod convert;
mod durable;
mod expiry;
mod failure;
mod gateway;
mod keys;
mod leases;
mod listeners;
mod maintenance;
mod member_urls;
mod pace;
mod pages;
mod read;
mod room;
mod served_kv;
mod snapshots;
#[cfg(test)]
mod tests;
mod transaction;
mod trouble;
mod watch;
mod watched;
mod watcher;

pub use builder::RegistryBuilder;
use durable::LogState;
use listeners::Listeners;
use trouble::Effect;

/// A registry that servers join and clients watch, with etcd's v3 API; cheap to clone, usable on any thread.
///
/// It holds its keys in memory, and with [`RegistryBuilder::data`] also on the disk. `etcdctl` and other clients of etcd
/// work on it; what it does not have of etcd's API is answered UNIMPLEMENTED: users and rights, snapshots, other members,
/// and the services Lock and Election. Most of it can be called by JSON, at etcd's paths below `/v3/`.
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

/// What whoever operates a registry is told by.
type Notice = Arc<dyn Fn(&str) + Send + Sync>;

struct Shared {
    state: Mutex<State>,
    /// The times of leases count from here.
    origin: Instant,
    /// What they were here.
    clock: Duration,
    /// What every header begins with: the fields that never change, encoded.
    header_begin: Vec<u8>,
    /// Tells registries apart, for clients that look at it.
    ids: Ids,
    notice: Option<Notice>,
    /// Who hears that the log has failed for good.
    on_failure: Option<Notice>,
}

struct State {
    store: Store,
    listeners: Listeners,
    /// Whether a task looks after leases.
    expires_leases: bool,
    /// Where clients find this registry, as it tells them.
    urls: Vec<String>,
    /// Whether that is what whoever operates it has said, and not where it listens.
    is_advertised: bool,
    /// `None` if the keys are in memory only.
    log: Option<LogState>,
}

impl State {
    /// The revision that may be seen.
    fn visible(&self) -> Revision {
        self.log.as_ref().map_or(self.store.revision(), LogState::visible)
    }
}

impl Registry {
    /// An empty registry in memory, whose [first revision](RegistryBuilder::first_revision) is that of the time.
    pub fn new() -> Self {
        Self::make_at(builder::revision_of_now(), None, None)
    }

    /// Configures a registry.
    ///
    /// ```
    /// use ringway_discovery::Registry;
    ///
    /// # let data = std::env::temp_dir().join(format!("ringway-registry-{}", std::process::id()));
    /// # let folder = data.clone();
    /// ringway_runtime::block_on(async move {
    ///     let opening = Registry::builder().data(&data).on_notice(|text| eprintln!("{text}"));
    ///     let registry = opening.open().await?;
    ///     // And `registry.serve_on(server)`.
    ///     Ok::<(), ringway_discovery::Error>(())
    /// })??;
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    fn make(notice: Option<Notice>, on_failure: Option<Notice>) -> Self {
        Self::make_with(notice, on_failure, Ids::random(), Duration::ZERO, Instant::now())
    }

    /// A registry in memory that begins with this revision.
    fn make_at(first: Revision, notice: Option<Notice>, on_failure: Option<Notice>) -> Self {
        let registry = Self::make(notice, on_failure);
        registry.state().store = Store::beginning_at(first);
        registry
    }

    /// A registry whose leases have this time on their clock at `origin`.
    fn make_with(
        notice: Option<Notice>,
        on_failure: Option<Notice>,
        ids: Ids,
        clock: Duration,
        origin: Instant,
    ) -> Self {
        let state = State {
            store: Store::new(),
            listeners: Listeners::default(),
            expires_leases: false,
            urls: Vec::new(),
            is_advertised: false,
            log: None,
        };
        let header = ResponseHeader {
            cluster_id: ids.cluster,
            member_id: ids.member,
            ..ResponseHeader::default()
        };
        let (state, header_begin) = (Mutex::new(state), header.encode_to_vec());
        let shared = Shared { state, origin, clock, header_begin, ids, notice, on_failure };
        Self { shared: Arc::new(shared) }
    }

    /// Adds etcd's services to a server, beside any others. Clients that ask for the members of the cluster are told
    /// [what was advertised](RegistryBuilder::advertise_client_urls), or the server's addresses; and the server's
    /// [console](Server::console) shows who is registered.
    pub fn serve_on(&self, server: Server) -> Server {
        let urls = server.addresses().iter().map(|address| url(&address.to_string())).collect();
        let mut state = self.state();
        if !state.is_advertised {
            state.urls = urls;
        }
        drop(state);
        let registry = self.clone();
        let server = server.net(|net| net.on_started(move |handle| registry.begin_on(handle)));
        gateway::gateway_on(self.pages_on(self.show_on(server)))
            .service(self.served_kv())
            .service(WatchServer::new(self.clone()))
            .service(LeaseServer::new(self.clone()))
            .service(MaintenanceServer::new(self.clone()))
            .service(ClusterServer::new(self.clone()))
            .service(AuthServer::new(self.clone()))
    }

    /// Changes the keys or leases, and wakes the watches that see it, when it is logged. Returns what `make` returns,
    /// and the header of the response to it.
    async fn change<T>(
        &self,
        effect: Effect,
        make: impl FnOnce(&mut Store, Duration) -> Result<T, Status>,
    ) -> Result<Made<T>, Status> {
        self.change_and(effect, make, |made| made).await
    }

    /// The same, with an answer that `finish` makes when the registry is not locked any more. Only the answer is kept while
    /// the log is written.
    async fn change_and<T, R>(
        &self,
        effect: Effect,
        make: impl FnOnce(&mut Store, Duration) -> Result<T, Status>,
        finish: impl FnOnce(T) -> R,
    ) -> Result<Made<R>, Status> {
        self.admitted(effect).await?;
        let (made, header, unlogged) = self.change_now(effect, make)?;
        let made = made.map(finish);
        if let Some(batch) = unlogged {
            self.logged(batch).await?;
        }
        Ok((made?, header))
    }

    /// Makes a change. Returns also the batch of the log to wait for.
    #[allow(clippy::type_complexity)] // one use
    fn change_now<T>(
        &self,
        effect: Effect,
        make: impl FnOnce(&mut Store, Duration) -> Result<T, Status>,
    ) -> Result<(Result<T, Status>, Option<ResponseHeader>, Option<u64>), Status> {
        let now = self.now();
        let mut state = self.state();
        state.can_change(effect)?;
        let from = state.store.revision().next();
        let made = make(&mut state.store, now);
        let State { store, listeners, log, .. } = &mut *state;
        let woken = if log.is_none() { listeners.changed(store, from) } else { Vec::new() };
        let header = self.header_at(state.store.revision());
        let unlogged = state.unlogged();
        // Whoever has granted a lease may be gone before it is logged.
        let begins = state.takes_duty();
        drop(state);
        woken.into_iter().for_each(listeners::wake);
        if begins {
            self.begin_duty();
        }
        Ok((made, header, unlogged))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time on the clock of leases at which this turn of the core has begun.
    fn now(&self) -> Duration {
        self.on_clock(runtime::now())
    }

    /// The exact time on the clock of leases.
    fn now_exact(&self) -> Duration {
        self.on_clock(runtime::now_exact())
    }

    fn on_clock(&self, at: Instant) -> Duration {
        self.shared.clock + at.saturating_duration_since(self.shared.origin)
    }

    /// What a response about what can be seen begins with.
    fn header(&self, state: &State) -> Option<ResponseHeader> {
        self.header_at(state.visible())
    }

    fn header_at(&self, revision: Revision) -> Option<ResponseHeader> {
        Some(ResponseHeader {
            cluster_id: self.shared.ids.cluster,
            member_id: self.shared.ids.member,
            revision: revision.0,
            raft_term: limits::RAFT_TERM,
        })
    }
}

/// Serves a stream until the server of this call stops, even while the stream waits for its reader. A call without a
/// server never stops.
async fn until_stopped(serving: impl Future<Output = Result<(), Status>>) -> Result<(), Status> {
    let stopping = async {
        match Context::current() {
            Some(context) => context.draining().await,
            None => pending().await,
        }
    };
    let (mut stopping, mut serving) = (pin!(stopping), pin!(serving));
    poll_fn(|cx| match stopping.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(Err(failure::stopped())),
        Poll::Pending => serving.as_mut().poll(cx),
    })
    .await
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
