//! RPC servers: several protocols on one port, handlers run in place where possible.
//!
//! ```text
//! connection ─► first bytes ─► driver ◄─► machine: native or gRPC ─► dispatch ─► admit ─► run
//!                                 ▲                                                │ in place, or
//!                                 └────────── answers, woken once ◄────────────────┴ a task that waits
//! ```

mod admit;
mod admitted;
mod age;
mod answer;
mod backlog;
mod budget;
mod call_times;
mod calls;
mod compression;
mod concurrency_limit;
mod connection;
mod connections;
mod console;
mod console_access;
mod console_tables;
mod core;
mod core_connection;
mod cors;
mod describe;
mod direct;
mod direct_flow;
mod direct_stream;
mod dispatch;
mod drain_alarm;
mod drain_log;
mod driver;
mod first_bytes;
mod guest_endings;
mod guest_line;
mod guests;
mod handle;
mod held_back;
mod hosts;
mod http;
mod intake;
mod intercepted;
mod interceptor;
mod json_forms;
mod json_oddities;
mod jsonrpc;
mod log;
mod machine;
mod method_entry;
mod method_ids;
mod observe;
mod pages;
mod protocols;
mod queue;
mod queue_worker;
mod queued;
mod queued_key;
mod race;
mod request_meta;
mod run;
mod settings;
mod shared;
mod shed_memory;
mod shown_connection;
mod side_doors;
mod side_settings;
mod slow_calls;
mod stats;
mod streams;
mod test_server;
mod timed_batch;
mod waiting;
mod web;

#[cfg(test)]
pub(crate) mod simulated;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ringway_net::{Address, Backend, Error, Result, ServerTls, ToAddresses};

pub use self::{console_access::Console, cors::Cors};
pub use compression::Compression;
pub use handle::ServerHandle;
pub use intercepted::Intercepted;
pub use interceptor::{Next, Reply};
pub use stats::ServerStats;
pub use test_server::TestServer;

use self::interceptor::MakeIntercept;
use self::protocols::{ALPN, serve_with};
use self::settings::Settings;
use self::shared::ServerShared;
use self::side_doors::{HttpSettings, SideDoors};
use crate::builtin::grpc_reflection::GrpcReflection;
use crate::builtin::health::{Health, HealthService};
use crate::builtin::reflection::ReflectionService;
use crate::call::context::Context;
use crate::call::status::Status;
use crate::limits;
use crate::metrics::Metrics;
use crate::service::Service;

/// A server for one or more services, on one or several addresses.
///
/// A handler runs on the core of its connection, right where its request was decoded; it becomes a task
/// only if it has to wait. The calls of a connection run concurrently and are answered as they finish.
///
/// ```no_run
/// # use ringway_rpc::Server;
/// fn main() -> ringway_net::Result {
///     Server::bind("tcp://127.0.0.1:9000")?.serve()
/// }
/// ```
#[must_use = "a server listens once it is started or served"]
pub struct Server {
    net: ringway_net::Server,
    settings: Settings,
    services: Vec<Box<dyn Service>>,
    interceptors: Vec<MakeIntercept>,
    health: Health,
    metrics: Metrics,
    http: HttpSettings,
}

impl Server {
    /// Binds one address or [several](ToAddresses), which reserves their ports. Connections are accepted
    /// once the server is started.
    ///
    /// ```
    /// let server = ringway_rpc::Server::bind(["tcp://127.0.0.1:0", "tcp://127.0.0.1:0"])?;
    /// assert_eq!(server.addresses().len(), 2);
    /// # Ok::<(), ringway_net::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails as [`ringway_net::Server::bind`] does.
    pub fn bind(addresses: impl ToAddresses) -> Result<Self> {
        let (health, settings) = (Health::default(), Settings::default());
        let (shut_down, hangs) = (health.clone(), health.clone());
        let net = ringway_net::Server::bind(addresses)?
            .low_water(limits::LOW_WATER)
            .drain_timeout(settings.drain_timeout)
            .on_shutdown(move || shut_down.shut_down())
            .on_hang(move |it_hangs| hangs.note_hang(it_hangs));
        Ok(Self {
            net,
            settings,
            services: Vec::new(),
            interceptors: Vec::new(),
            health,
            metrics: Metrics::new(),
            http: HttpSettings::default(),
        })
    }

    /// The addresses that the server listens on, with the ports that the kernel chose.
    pub fn addresses(&self) -> Vec<Address> {
        self.net.addresses()
    }

    /// Adds a service. Starting the server fails if two services have the same name, built-in ones
    /// included.
    pub fn service(mut self, service: impl Service) -> Self {
        self.services.push(Box::new(service));
        self
    }

    /// Runs `interceptor` around every call, inside the interceptors added before.
    ///
    /// It sees the call's [`Context`], may change it, answer early, or run the rest of the call and
    /// inspect the outcome. Each core has its own clone.
    ///
    /// ```no_run
    /// use ringway_rpc::{Context, Next, Server, Status};
    ///
    /// # fn main() -> ringway_net::Result {
    /// Server::bind("tcp://127.0.0.1:9000")?
    ///     .intercept(async |context: Context, next: Next| {
    ///         match context.metadata().get("authorization") {
    ///             Some("Bearer open sesame") => next.run(context).await,
    ///             _ => Err(Status::unauthenticated("a token is needed")),
    ///         }
    ///     })
    ///     .serve()
    /// # }
    /// ```
    pub fn intercept<F>(mut self, interceptor: F) -> Self
    where
        F: AsyncFn(Context, Next) -> std::result::Result<Reply, Status>,
        F: Clone + Send + Sync + 'static,
    {
        self.interceptors.push(interceptor::make(interceptor));
        self
    }

    /// Serves on `count` threads, which are not pinned to CPUs.
    pub fn threads(self, count: usize) -> Self {
        self.net(|net| net.threads(count))
    }

    /// Sets the kernel interface that the cores use.
    pub fn backend(self, backend: Backend) -> Self {
        self.net(|net| net.backend(backend))
    }

    /// Sets certificate and key of the `tls://` addresses. If `tls` names no ALPN protocols, the server
    /// offers `h2`, `ringway/1` for the native protocol and `http/1.1`.
    pub fn tls(self, tls: ServerTls) -> Self {
        self.net(|net| net.tls(tls))
    }

    /// Calls `ready` with the addresses once all cores listen, on the thread that starts the server.
    pub fn on_ready(self, ready: impl FnOnce(&[Address]) + 'static) -> Self {
        self.net(|net| net.on_ready(ready))
    }

    /// Changes the other settings of cores, connections and sockets. TLS that is set here offers the same
    /// protocols as [with `tls`](Self::tls). A hook that is set here with
    /// [`on_shutdown`](ringway_net::Server::on_shutdown) runs after the health of all services has become
    /// NOT_SERVING.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn main() -> ringway_net::Result {
    /// ringway_rpc::Server::bind("tcp://127.0.0.1:9000")?
    ///     .net(|net| net.idle_timeout(Duration::from_secs(60)).connections_max(1_000))
    ///     .serve()
    /// # }
    /// ```
    pub fn net(mut self, set: impl FnOnce(ringway_net::Server) -> ringway_net::Server) -> Self {
        self.net = set(self.net);
        self
    }

    /// Sets the length of the longest message that is accepted, in bytes, below 2 GiB. The default is 4
    /// MiB. More than [`unread_bytes_max`](Self::unread_bytes_max) is refused when the server starts.
    pub fn message_bytes_max(mut self, bytes: u32) -> Self {
        self.settings.native.settings.max_message = bytes;
        self
    }

    /// Sets how many unfinished calls one connection may have, 1 to 524,288. Further calls are refused as
    /// not executed. The default is 1,024.
    pub fn in_flight_per_connection_max(mut self, calls: u32) -> Self {
        self.settings.native.settings.max_streams = calls;
        self.settings.in_flight_per_connection_max = calls as usize;
        self
    }

    /// Sets how many calls may wait at once on all connections together, in the queue of their method or
    /// for their handlers; at least 1. Further calls are refused as not executed. The default is 100,000.
    pub fn in_flight_max(mut self, calls: usize) -> Self {
        self.settings.in_flight_max = calls;
        self
    }

    /// Limits the received bytes that each core keeps for handlers. The default is 256 MiB; it should be
    /// several times the longest message.
    ///
    /// The bytes include incomplete requests, with about half a KiB for each such call, requests in the
    /// queue of their method, the metadata of calls whose handlers wait if it takes 2 KiB, and requests over
    /// HTTP/2 that are no gRPC calls, with 20 KiB. Above half of the limit, clients are asked to send less.
    /// Above the limit, the client that keeps the most frees memory until an eighth is free: its streams
    /// that keep the most bytes fail with RESOURCE_EXHAUSTED, and its queued requests that keep as much are
    /// refused as not executed.
    ///
    /// Buffers of ended streams, of which a connection keeps up to 1 MiB for new ones, may use what is
    /// left of the limit, and always an eighth of it.
    ///
    /// Replies that clients have not taken may use four times the limit. Above that, the streams that
    /// keep the most of them fail in the same way. If the bytes belong to no stream, the connection that
    /// keeps the most is closed.
    pub fn unread_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.unread_bytes_max = bytes;
        self
    }

    /// Gives methods without a limit of their own an adaptive one, derived from their latency. Clients
    /// are told how many calls are welcome.
    pub fn adaptive_concurrency(mut self) -> Self {
        self.settings.adaptive = true;
        self
    }

    /// Sets the capacity of the queue of each method with a limit, on each core. With 0, a call that
    /// its limit does not allow at once is refused. Calls that wait for the core alone take no room. The
    /// default is 256.
    pub fn queue_room(mut self, calls: usize) -> Self {
        self.settings.queue_room = calls;
        self
    }

    /// Pings a client from which nothing has arrived for `interval`, and closes the connection if nothing
    /// arrives within `timeout`. The defaults are 30 and 10 seconds.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let server = ringway_rpc::Server::bind("tcp://127.0.0.1:0")?
    ///     .keep_alive(Duration::from_secs(15), Duration::from_secs(5));
    /// # Ok::<(), ringway_net::Error>(())
    /// ```
    pub fn keep_alive(mut self, interval: Duration, timeout: Duration) -> Self {
        self.settings.native.ping_after = interval;
        self.settings.native.ping_timeout = timeout;
        self
    }

    /// Accepts compressed messages in gRPC calls, and compresses replies for clients that accept it.
    /// Without this setting, compressed requests are answered UNIMPLEMENTED. It needs the feature
    /// `compression`.
    ///
    /// Compression takes CPU time of the core: between nearby machines it makes calls slower. A few
    /// compressed bytes can expand to [`message_bytes_max`](Self::message_bytes_max), so keep that small
    /// if clients are not trusted.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.settings.compression = Some(compression);
        self
    }

    /// Sets the age, give or take a tenth, at which a connection stops accepting calls. Its running calls
    /// go on, and its client makes a new connection, which may lead to a server that was started since.
    /// No unary call fails because of it; over the native protocol, a stream that crosses the
    /// announcement is refused as not executed. By default, connections have no maximum age.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let server = ringway_rpc::Server::bind("tcp://127.0.0.1:0")?
    ///     .max_connection_age(Duration::from_secs(600))
    ///     .max_connection_age_grace(Duration::from_secs(60));
    /// # Ok::<(), ringway_net::Error>(())
    /// ```
    pub fn max_connection_age(mut self, age: Duration) -> Self {
        self.settings.connection_age_max = Some(age);
        self
    }

    /// Sets how long calls may still take on a connection that has reached its [maximum
    /// age](Self::max_connection_age); calls that take longer are answered UNAVAILABLE. By default there
    /// is no limit.
    pub fn max_connection_age_grace(mut self, grace: Duration) -> Self {
        self.settings.connection_age_grace = grace;
        self
    }

    /// Sets how long the server goes on serving after it was asked to stop, while its health is
    /// NOT_SERVING. The default is 0; servers that clients find through a registry need a few seconds.
    pub fn drain_delay(self, delay: Duration) -> Self {
        self.net(|net| net.drain_delay(delay))
    }

    /// Sets how long calls may take to end once the server drains; calls that take longer are answered
    /// UNAVAILABLE. `Duration::MAX` means no limit. The default is 25 seconds, because Kubernetes kills a
    /// process 30 seconds after it has asked it to end.
    pub fn drain_timeout(self, timeout: Duration) -> Self {
        self.net(|net| net.drain_timeout(timeout))
    }

    /// The server's health, which any thread may change at any time.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// The counts and latencies of the server's methods, for a service that exports them. A running
    /// server's handle [has them too](ServerHandle::metrics).
    ///
    /// ```no_run
    /// use bytes::Bytes;
    /// use ringway_rpc::{Metrics, Server, Status, service};
    ///
    /// #[service(crate = "ringway_rpc")]
    /// trait Ops {
    ///     async fn metrics(&self) -> Result<Bytes, Status>;
    /// }
    ///
    /// impl Ops for Metrics {
    ///     async fn metrics(&self) -> Result<Bytes, Status> {
    ///         Ok(self.snapshot().prometheus().into())
    ///     }
    /// }
    ///
    /// # fn main() -> ringway_net::Result {
    /// let server = Server::bind("tcp://127.0.0.1:9000")?;
    /// let metrics = server.metrics();
    /// server.service(OpsServer::new(metrics)).serve()
    /// # }
    /// ```
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Serves until SIGINT or SIGTERM, then drains: running calls may end within the drain timeout. A second
    /// signal cuts them off at once.
    ///
    /// # Errors
    /// When a setting is out of range, two services have the same name, the cores cannot be started or
    /// cannot listen, or a core fails.
    pub fn serve(self) -> Result {
        let (net, shared) = self.prepare()?;
        net.serve(serve_with(shared))
    }

    /// Serves until `stop` is ready, then drains as [`serve`](Self::serve) does. The future resolves when
    /// the server has ended, in a task of any runtime. It leaves signals alone.
    ///
    /// Dropping this future shuts the server down gracefully.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # fn main() -> ringway_net::Result {
    /// let stop = ringway_runtime::sleep(Duration::from_millis(10)); // or the end of something else
    /// ringway_runtime::block_on(async move {
    ///     ringway_rpc::Server::bind("tcp://127.0.0.1:0")?.serve_until(stop).await
    /// })?
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails as [`serve`](Self::serve) does.
    pub async fn serve_until(self, stop: impl Future<Output = ()>) -> Result {
        self.start()?.shutdown_when(stop).await
    }

    /// Starts the server as [`serve`](Self::serve) does, but returns at once and leaves signals alone.
    /// The handle gives access to counters and health, and can [wait for a
    /// signal](ServerHandle::wait_for_signal).
    ///
    /// # Errors
    /// When a setting is out of its range or two services have one name, and when the cores cannot be
    /// started or cannot listen.
    pub fn start(self) -> Result<ServerHandle> {
        let health = self.health.clone();
        let (net, shared) = self.prepare()?;
        let handle = net.start(serve_with(Arc::clone(&shared)))?;
        Ok(ServerHandle::new(handle, shared, health))
    }

    fn prepare(self) -> Result<(ringway_net::Server, Arc<ServerShared>)> {
        let Self { net, mut settings, mut services, interceptors, health, metrics, http } = self;
        settings.check().map_err(Error::other)?;
        let reflection = ReflectionService::default();
        services.push(Box::new(HealthService::new(&health)));
        if settings.describes {
            services.push(Box::new(reflection.clone()));
            for service in GrpcReflection::of(&reflection) {
                services.push(Box::new(service));
            }
        }
        let mut names = HashSet::from([jsonrpc::OWN_SERVICE]);
        for service in &services {
            let name = service.descriptor().name;
            if !names.insert(name) {
                return Err(Error::other(format!("two services are called {name}")));
            }
            health.add(name);
        }
        if let Some(compression) = &settings.compression {
            compression.check(|name| names.contains(name)).map_err(Error::other)?;
        }
        let net = offer_protocols(net);
        settings.drain_timeout = net.drains_within();
        // The machines end calls at the drain timeout; the sockets need a little longer to send that.
        let net = net.drain_timeout(settings.drain_timeout.saturating_add(limits::DRAIN_GRACE));
        let side_doors = SideDoors::new(health, http).map_err(Error::other)?;
        let mut shared =
            ServerShared::new(settings, services, reflection, interceptors, side_doors);
        shared.metrics = metrics;
        Ok((net, Arc::new(shared)))
    }
}

/// Names the protocols served here to TLS clients, unless the program has named some.
fn offer_protocols(net: ringway_net::Server) -> ringway_net::Server {
    match net.tls_settings().filter(|tls| !tls.has_alpn()).cloned() {
        Some(tls) => net.tls(tls.alpn(ALPN)),
        None => net,
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Server").field(&self.addresses()).finish()
    }
}
