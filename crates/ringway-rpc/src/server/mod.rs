//! Servers: calls of several protocols on one port, in place where they can.
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
mod budget;
mod call_times;
mod calls;
mod compression;
mod concurrency_limit;
mod connect;
mod connection;
mod connections;
mod core;
mod direct;
mod dispatch;
mod driver;
mod first_bytes;
mod handle;
mod http;
mod intercepted;
mod interceptor;
mod json_forms;
mod log;
mod machine;
mod method_entry;
mod method_ids;
mod observe;
mod protocols;
mod queue;
mod queue_worker;
mod queued;
mod queued_key;
mod race;
mod relief;
mod request_meta;
mod row;
mod run;
mod settings;
mod shared;
mod side_doors;
mod stats;
mod streams;
mod test_server;
mod upkeep;
mod waiting;

#[cfg(test)]
pub(crate) mod simulated;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ringway_http::Router;
use ringway_net::{Address, Backend, Error, Result, ServerTls, ToAddresses};

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
use self::side_doors::SideDoors;
use crate::builtin::grpc_reflection::GrpcReflection;
use crate::builtin::health::{Health, HealthService};
use crate::builtin::reflection::ReflectionService;
use crate::call::context::Context;
use crate::call::status::Status;
use crate::limits;
use crate::metrics::Metrics;
use crate::service::Service;

/// A server of services, on one or several addresses.
///
/// Handlers run on the core of their connection, in place of the bytes that ask for them; only one
/// that has to wait becomes a task. Calls of a connection run at the same time and are answered in
/// the order in which they are done.
///
/// ```no_run
/// # use bytes::Bytes;
/// # use ringway_rpc::{Server, Status};
/// # mod echo { }
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
    /// What is answered over HTTP beside calls.
    routes: Option<Router>,
}

impl Server {
    /// Takes one address or [several](ToAddresses), so that their ports are known and nobody else's;
    /// connections are accepted once the server is started.
    ///
    /// ```
    /// let server = ringway_rpc::Server::bind(["tcp://127.0.0.1:0", "tcp://127.0.0.1:0"])?;
    /// assert_eq!(server.addresses().len(), 2);
    /// # Ok::<(), ringway_net::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`ringway_net::Server::bind`].
    pub fn bind(addresses: impl ToAddresses) -> Result<Self> {
        let (health, settings) = (Health::default(), Settings::default());
        let shut_down = health.clone();
        let net = ringway_net::Server::bind(addresses)?
            .low_water(limits::LOW_WATER)
            .drain_timeout(settings.drain_timeout)
            .on_shutdown(move || shut_down.shut_down());
        Ok(Self {
            net,
            settings,
            services: Vec::new(),
            interceptors: Vec::new(),
            health,
            metrics: Metrics::new(),
            routes: None,
        })
    }

    /// The addresses that the server listens on, with the ports that the kernel gave.
    pub fn addresses(&self) -> Vec<Address> {
        self.net.addresses()
    }

    /// Serves the methods of a service. Two of one name are an error when the server is started, and so
    /// is one with the name of a service that each server has.
    pub fn service(mut self, service: impl Service) -> Self {
        self.services.push(Box::new(service));
        self
    }

    /// Runs `interceptor` around every call, inside those that were given before.
    ///
    /// It sees the call's [`Context`], may add to it, answer early, or run the rest of the call and
    /// look at the outcome. Each core has a clone of its own.
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

    /// So many threads, not pinned.
    pub fn threads(self, count: usize) -> Self {
        self.net(|net| net.threads(count))
    }

    /// Sets the kernel's interface that the cores use.
    pub fn backend(self, backend: Backend) -> Self {
        self.net(|net| net.backend(backend))
    }

    /// Certificate and key of the `tls://` addresses. Where it names no protocols to agree on by ALPN,
    /// these are `h2` for gRPC and `ringway/1` for the native protocol.
    pub fn tls(self, tls: ServerTls) -> Self {
        let tls = if tls.has_alpn() { tls } else { tls.alpn(ALPN) };
        self.net(|net| net.tls(tls))
    }

    /// Calls `ready` once all cores listen, on the thread that starts the server: the moment to
    /// tell others the addresses.
    pub fn on_ready(self, ready: impl FnOnce(&[Address]) + 'static) -> Self {
        self.net(|net| net.on_ready(ready))
    }

    /// Everything else about cores, connections and sockets. What [`on_shutdown`] is given here is called
    /// when the health of all services is NOT_SERVING already.
    ///
    /// [`on_shutdown`]: ringway_net::Server::on_shutdown
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

    /// Bytes of the longest message that is accepted, below 2 GiB. The default is 4 MiB.
    pub fn message_bytes_max(mut self, bytes: u32) -> Self {
        self.settings.native.settings.max_message = bytes;
        self
    }

    /// Calls that one connection may have unfinished at once, 1 to 524,288; what is more is refused as
    /// not executed. The default is 1,024.
    pub fn in_flight_per_connection_max(mut self, calls: u32) -> Self {
        self.settings.native.settings.max_streams = calls;
        self.settings.in_flight_per_connection_max = calls as usize;
        self
    }

    /// Calls that may wait at once on all connections together, in the queue of their method or with
    /// their handlers, at least one; what is more is refused as not executed. The default is 100,000.
    pub fn in_flight_max(mut self, calls: usize) -> Self {
        self.settings.in_flight_max = calls;
        self
    }

    /// Bytes that each core may have received and keep for handlers that do not read them yet, with
    /// those of calls that are not whole, about half a KiB for each of these calls, and requests in the
    /// queue of their method. Above half of it clients are asked to send less; above it, streams with
    /// most of these bytes fail with RESOURCE_EXHAUSTED, and queued requests with as many are refused as
    /// not executed, until an eighth is free. The default is 256 MiB.
    ///
    /// Memory of streams that are over, of which a connection keeps up to 1 MiB for those to come, may
    /// use what is left of it, and an eighth at least.
    ///
    /// Four times as many may be answers that clients have not taken. Above that, the streams with most
    /// of those fail in the same way. What no stream is to blame for ends the connection that keeps most.
    ///
    /// It should be several times the longest message.
    pub fn unread_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.unread_bytes_max = bytes;
        self
    }

    /// Lets methods without a limit of their own find one, from the latency that they show. Clients
    /// are told how many calls are welcome.
    pub fn adaptive_concurrency(mut self) -> Self {
        self.settings.adaptive = true;
        self
    }

    /// Places in the queue of each method with a limit, on each core. 0 refuses at once what may
    /// not run at once. The default is 256.
    pub fn queue_room(mut self, calls: usize) -> Self {
        self.settings.queue_room = calls;
        self
    }

    /// Asks the client of a connection on which nothing has arrived for `interval` whether it is still
    /// there, and closes the connection when nothing comes within `timeout`. The defaults are 30 and 10
    /// seconds.
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

    /// Takes compressed messages in calls of gRPC, and compresses replies for clients that take it. Without
    /// it, compressed requests are UNIMPLEMENTED. It needs the feature `compression`.
    ///
    /// It costs the time of the core: between machines that are near each other it makes calls slower. And
    /// few bytes may ask for much work, up to [`message_bytes_max`](Self::message_bytes_max) with each message,
    /// which is a reason to keep that small where clients are not to be trusted.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.settings.compression = Some(compression);
        self
    }

    /// Sets how old a connection becomes, give or take a tenth, before it takes no new calls: those that run
    /// go on, and its client makes another connection, which may lead to a server that was started since.
    /// No call of one message each way fails for it; over the native protocol a stream that crosses the
    /// announcement is refused as not executed. Without it, connections grow as old as their clients like.
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

    /// Sets how long calls may still take on a connection that has reached its
    /// [age](Self::max_connection_age); then they are answered UNAVAILABLE. By default they may take as long
    /// as they like.
    pub fn max_connection_age_grace(mut self, grace: Duration) -> Self {
        self.settings.connection_age_grace = grace;
        self
    }

    /// How long a server that was asked to stop still serves as before, while its health says
    /// NOT_SERVING. Nothing by default; whoever is found through a registry needs a few seconds.
    pub fn drain_delay(self, delay: Duration) -> Self {
        self.net(|net| net.drain_delay(delay))
    }

    /// Sets how long calls may take to end once the server drains; then they are answered UNAVAILABLE.
    /// `Duration::MAX` means for ever. The default is 25 seconds: Kubernetes kills a process 30 seconds
    /// after it has asked it to end.
    pub fn drain_timeout(self, timeout: Duration) -> Self {
        self.net(|net| net.drain_timeout(timeout))
    }

    /// The server's health, which any thread may change at any time.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Counts and latencies of its methods, for a service that tells them; handles of a server that is
    /// started [have them too](ServerHandle::metrics).
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

    /// Answers by `routes` what comes over HTTP/1.1 on the server's port and is no call: a page, a webhook.
    /// Without it there are `/metrics`, `/healthz`, `/readyz` and the calls, which `routes` cannot replace.
    pub fn http_routes(mut self, routes: Router) -> Self {
        self.routes = Some(routes);
        self
    }

    /// Serves until SIGINT or SIGTERM and until the calls that run then have ended, or the drain's
    /// timeout has passed. A second signal cuts them off at once.
    ///
    /// # Errors
    /// When a setting is out of its range or two services have one name, when the cores cannot be
    /// started or cannot listen, or a core fails.
    pub fn serve(self) -> Result {
        let (net, shared) = self.prepare()?;
        net.serve(serve_with(shared))
    }

    /// Serves until `stop` is ready, then drains as [`serve`](Self::serve) does, and waits for the
    /// server's end in a task of any runtime. It leaves signals alone.
    ///
    /// Dropping this future asks the server to end gracefully.
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
    /// As [`serve`](Self::serve).
    pub async fn serve_until(self, stop: impl Future<Output = ()>) -> Result {
        self.start()?.shutdown_when(stop).await
    }

    /// Starts the server as [`serve`](Self::serve) does, but returns at once and leaves signals alone. The
    /// handle tells what the server does, and can [wait for a signal](ServerHandle::wait_for_signal).
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
        let Self { net, mut settings, mut services, interceptors, health, metrics, routes } = self;
        settings.check().map_err(Error::other)?;
        let reflection = ReflectionService::default();
        services.push(Box::new(HealthService::new(&health)));
        services.push(Box::new(reflection.clone()));
        for service in GrpcReflection::of(&reflection) {
            services.push(Box::new(service));
        }
        let mut names = HashSet::new();
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
        settings.drain_timeout = net.drains_within();
        // The machines end what has not ended in time; the sockets only have to bring the news.
        let net = net.drain_timeout(settings.drain_timeout.saturating_add(limits::DRAIN_GRACE));
        let side_doors = SideDoors { health, routes };
        let mut shared =
            ServerShared::new(settings, services, reflection, interceptors, side_doors);
        shared.metrics = metrics;
        Ok((net, Arc::new(shared)))
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Server").field(&self.addresses()).finish()
    }
}
