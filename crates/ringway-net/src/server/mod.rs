//! Servers: addresses, cores, limits, and graceful shutdown.

mod accept;
mod arrival;
mod bind;
mod callbacks;
mod connections;
mod context;
mod control;
mod core_number;
mod datagrams;
mod drain;
mod ended;
mod failures;
mod handle;
mod handshakes;
mod hung;
mod launch;
mod log;
mod log_throttle;
mod per_address;
mod running;
mod sessions;
mod settings;
mod shared;
mod signals;
mod stats;
mod tasks;
mod unix_path;
mod until;

use std::time::Duration;

use ringway_runtime::affinity::CoreSet;
use ringway_runtime::{Backend, Builder, Runtime};

pub use ended::Ended;
pub use handle::ServerHandle;
pub use sessions::Sessions;
pub use stats::{CoreStats, ServerStats};

use self::bind::Bindings;
use self::datagrams::MakeServeDatagrams;
use self::handle::may_block;
use self::hung::HangHook;
use self::launch::Launched;
use self::settings::Settings;
use self::signals::Signals;
use crate::address::{Address, ToAddresses};
use crate::connection::Connection;
use crate::error::Result;
use crate::handler::Handler;
use crate::limits;
use crate::slow_reader::SlowReader;
use crate::tls::ServerTls;
use crate::udp::{Datagram, Responder};

/// A server on one or several addresses, with a listener on each core.
///
/// ```no_run
/// use std::time::Duration;
/// use ringway_net::{Connection, Server};
///
/// fn main() -> ringway_net::Result {
///     Server::bind("tcp://127.0.0.1:7001")?
///         .idle_timeout(Duration::from_secs(60))
///         .serve(async |mut conn: Connection| {
///             while let Some(view) = conn.recv().await? {
///                 conn.send(view);
///             }
///             Ok(())
///         })
/// }
/// ```
#[must_use = "a server listens once it is started or served"]
pub struct Server {
    bindings: Bindings,
    runtime: Builder,
    settings: Settings,
    datagrams: Option<MakeServeDatagrams>,
    ready_hooks: Vec<Ready>,
    shutdown_hooks: Vec<ShutdownHook>,
    hang_hooks: Vec<HangHook>,
}

/// Called once the server listens.
type Ready = Box<dyn FnOnce(&ServerHandle)>;

/// Called when the server is asked to stop.
type ShutdownHook = Box<dyn FnOnce() + Send>;

impl Server {
    /// Binds one address or [several](ToAddresses), so that their ports are known and reserved; the
    /// server accepts once it is started. For a name, all of its addresses that this machine has
    /// are bound. Clients may already connect to a Unix path and wait; datagrams wait too. An
    /// address in use is retried for a second, because that of a killed process becomes free only a
    /// moment later.
    ///
    /// Port 0 means the port of an earlier address where that is free, so that `tcp://…:0` and
    /// `udp://…:0` share one. An IPv6 wildcard includes IPv4, unless an IPv4 address is given for
    /// the same port.
    ///
    /// ```
    /// let server = ringway_net::Server::bind(["tcp://127.0.0.1:0", "unix://@ringway-both"])?;
    /// assert_eq!(server.addresses().len(), 2);
    /// # Ok::<(), ringway_net::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`is_address`](crate::Error::is_address) when an address cannot be parsed, is in use or does
    /// not belong to this machine; otherwise the kernel's error, such as a missing permission for
    /// the port.
    pub fn bind(addresses: impl ToAddresses) -> Result<Self> {
        let mut bindings = Bindings::default();
        addresses.to_addresses()?.into_iter().try_for_each(|address| bindings.add(address))?;
        Ok(Self {
            bindings,
            runtime: Runtime::builder(),
            settings: Settings::default(),
            datagrams: None,
            ready_hooks: Vec::new(),
            shutdown_hooks: Vec::new(),
            hang_hooks: Vec::new(),
        })
    }

    /// Returns the addresses that the server listens on, with their real ports.
    pub fn addresses(&self) -> Vec<Address> {
        self.bindings.addresses()
    }

    /// Runs one thread on each of these cores, pinned to it. By default these are all cores that
    /// the process may use.
    pub fn cores(mut self, cores: CoreSet) -> Self {
        self.runtime = self.runtime.cores(cores);
        self
    }

    /// Runs on this many threads, which are not pinned to cores.
    pub fn threads(mut self, count: usize) -> Self {
        self.runtime = self.runtime.threads(count);
        self
    }

    /// Sets the kernel interface.
    pub fn backend(mut self, backend: Backend) -> Self {
        self.runtime = self.runtime.backend(backend);
        self
    }

    /// Sets how long a busy core polls for the next event before it sleeps.
    pub fn spin(mut self, budget: Duration) -> Self {
        self.runtime = self.runtime.spin(budget);
        self
    }

    /// Closes a connection after this time without a byte in either direction; never by default.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.settings.stream.idle_timeout = Some(timeout);
        self
    }

    /// Closes a connection when it reaches this age, whether it is idle or not; never by default.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.stream.lifetime = Some(lifetime);
        self
    }

    /// Closes a connection whose peer has not taken any queued byte for this long, or is behind 100 bytes a second by
    /// as long; `None`: never. The default is 30 seconds.
    pub fn write_stall_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.settings.stream.write_stall_timeout = timeout;
        self
    }

    /// Lets the kernel probe the peer of a TCP connection that has been silent for `quiet` (1
    /// second to 9 hours, in whole seconds). It probes five more times at intervals of a fifth of
    /// `quiet`, at least a second. A peer that vanished without closing is so found after at most
    /// twice `quiet`, or `quiet` and 5 seconds if that is longer; the connection then fails with
    /// [`is_timeout`](crate::Error::is_timeout). Off by default.
    pub fn keepalive(mut self, quiet: Duration) -> Self {
        self.settings.keepalive = Some(quiet);
        self
    }

    /// Sets how many connections may be open at once; a further one is closed as soon as it is
    /// accepted. A connection counts from its accept until its descriptor is closed, so also during
    /// its TLS handshake, and while bytes are still sent after its handler has ended. The default
    /// is 1,000,000.
    pub fn connections_max(mut self, count: usize) -> Self {
        self.settings.connections_max = count;
        self
    }

    /// Sets how many connections from one IP address may be open at once; for IPv6, from one
    /// network ([`ipv6_prefix_len`](Self::ipv6_prefix_len)). Not limited by default.
    pub fn connections_per_address_max(mut self, count: usize) -> Self {
        self.settings.connections_per_address_max = Some(count);
        self
    }

    /// Sets how many leading bits of an IPv6 address
    /// [`connections_per_address_max`](Self::connections_per_address_max) compares. The default is
    /// 64, the network of a single customer.
    pub fn ipv6_prefix_len(mut self, bits: u8) -> Self {
        self.settings.ipv6_prefix_len = bits.min(128);
        self
    }

    /// TLS handshakes that may be under way at once on each core; the default is 512. One more ends the
    /// oldest of those whose first message the server has not answered. When these are a quarter of all or
    /// fewer, it ends the oldest of the others.
    pub fn handshakes_max(mut self, count: usize) -> Self {
        self.settings.handshakes_max = count;
        self
    }

    /// Sets the policy for peers that do not read.
    pub fn slow_reader(mut self, policy: SlowReader) -> Self {
        self.settings.slow_reader = policy;
        self
    }

    /// Sets the number of queued bytes of a connection at which senders should wait and the server
    /// stops reading from the peer; at least 1 KiB. The default is 1 MiB.
    pub fn high_water(mut self, bytes: usize) -> Self {
        self.settings.stream.send_high_water = bytes.max(limits::HIGH_WATER_MIN);
        self
    }

    /// Sets the number of queued bytes below which that backpressure ends. The default is 256 KiB.
    pub fn low_water(mut self, bytes: usize) -> Self {
        self.settings.stream.send_low_water = bytes;
        self
    }

    /// Sets the number of queued bytes above which a connection is closed, at least the high-water
    /// mark. The default is 16 MiB.
    pub fn send_queue_max(mut self, bytes: usize) -> Self {
        self.settings.stream.send_queue_max = bytes;
        self
    }

    /// Sets the certificate and the key of the `tls://` addresses.
    pub fn tls(mut self, tls: ServerTls) -> Self {
        self.settings.tls = Some(tls);
        self
    }

    /// The value that [`tls`](Self::tls) has set.
    pub fn tls_settings(&self) -> Option<&ServerTls> {
        self.settings.tls.as_ref()
    }

    /// Sets how long the server goes on as before after a shutdown request, before it drains: time
    /// for load balancers and clients to hear of it. Zero by default.
    pub fn drain_delay(mut self, delay: Duration) -> Self {
        self.settings.drain_delay = delay;
        self
    }

    /// Calls `hook` once when a shutdown is requested, on a thread of its own: the moment to
    /// deregister the server. The drain begins when it has returned, after a second at the latest;
    /// the end of the server waits for it until the drain timeout, and an abort does not wait. If
    /// the server is aborted first, the hook is not called. Several hooks run one after another in
    /// the order of their declaration.
    pub fn on_shutdown(mut self, hook: impl FnOnce() + Send + 'static) -> Self {
        self.shutdown_hooks.push(Box::new(hook));
        self
    }

    /// Calls `hook` with `true` when a core hangs, and with `false` when none does any more, on the thread of the
    /// watchdog. A core hangs when one task has held it up for 50 times the
    /// [stall threshold](Self::stall_threshold). While it does, new TCP connections go to the other cores, if
    /// there are any; those that it has already stay with it.
    pub fn on_hang(mut self, hook: impl Fn(bool) + Send + Sync + 'static) -> Self {
        self.hang_hooks.push(Box::new(hook));
        self
    }

    /// Sets how long one poll of a task may hold up its core before the log names the task, at least 2
    /// milliseconds. The default is 100 milliseconds.
    pub fn stall_threshold(mut self, threshold: Duration) -> Self {
        self.runtime = self.runtime.stall_threshold(threshold);
        self
    }

    /// Sets how long connections may take to end once the server drains; then they are aborted.
    /// `Duration::MAX` means for ever. The default is 10 seconds.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.settings.drain_timeout = timeout;
        self
    }

    /// Returns the time set by [`drain_timeout`](Self::drain_timeout).
    pub fn drains_within(&self) -> Duration {
        self.settings.drain_timeout
    }

    /// Calls `ready` with the addresses once all cores listen, on the thread that starts the
    /// server: the moment to announce the server.
    pub fn on_ready(self, ready: impl FnOnce(&[Address]) + 'static) -> Self {
        self.on_started(|handle| ready(handle.addresses()))
    }

    /// Calls `started` with the server's handle, when [`on_ready`](Self::on_ready) callbacks are called and in one
    /// order with them: the moment to begin what the server's [cores](ServerHandle::cores) do without being asked.
    pub fn on_started(mut self, started: impl FnOnce(&ServerHandle) + 'static) -> Self {
        self.ready_hooks.push(Box::new(started));
        self
    }

    /// Handles the datagrams of the `udp://` addresses, one after another on each core: spawn a
    /// task for work that takes long. On a machine with several addresses bind each of them:
    /// replies to datagrams at a wildcard come from an address that the kernel chooses, and a
    /// client that has connected its socket to another one does not get them.
    pub fn on_datagram<F>(mut self, handler: F) -> Self
    where
        F: AsyncFn(Datagram, Responder) -> Result + Clone + Send + 'static,
    {
        self.datagrams = Some(datagrams::one_by_one(handler));
        self
    }

    /// Serves every connection in a task of its own, until SIGINT, SIGTERM or
    /// [`ServerHandle::shutdown`]. It returns when all connections have ended or the drain timeout
    /// has passed. A second signal aborts the connections, and a third ends the process.
    ///
    /// Signals are caught from when the server listens until this returns; then their previous
    /// action applies again. (If no handler was installed before, they end the process, even if
    /// another handler was installed meanwhile: such a program should use [`start`](Self::start).)
    ///
    /// The outcome of a handler decides how its connection ends. After `Ok` the queued bytes are
    /// sent, then the end of the stream. After an error, which is logged at debug level, the
    /// connection is dropped. A panic, logged as an error, resets it like
    /// [`Peer::abort`](crate::Peer::abort) and affects nothing else.
    ///
    /// # Errors
    /// Fails when the cores cannot be started or cannot listen, or a core fails; with
    /// [`is_timeout`](crate::Error::is_timeout) when a handler still blocks its core after the
    /// connections were aborted.
    pub fn serve<F>(self, handler: F) -> Result
    where
        F: AsyncFn(Connection) -> Result + Clone + Send + 'static,
    {
        may_block()?;
        serve_until_signal(self.launch_tasks(handler)?)
    }

    /// Serves like [`serve`](Self::serve) until `stop` is ready, then drains, and waits for the end
    /// of the server in a task of any runtime. It does not catch signals.
    ///
    /// Dropping this future requests a graceful shutdown.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ringway_net::{Connection, Server};
    ///
    /// # fn main() -> ringway_net::Result {
    /// let stop = ringway_runtime::sleep(Duration::from_millis(10)); // or the end of something else
    /// ringway_runtime::block_on(async move {
    ///     Server::bind("tcp://127.0.0.1:0")?.serve_until(stop, async |_: Connection| Ok(())).await
    /// })?
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails like [`serve`](Self::serve).
    pub async fn serve_until<F>(self, stop: impl Future<Output = ()>, handler: F) -> Result
    where
        F: AsyncFn(Connection) -> Result + Clone + Send + 'static,
    {
        self.start(handler)?.shutdown_when(stop).await
    }

    /// Starts the server like [`serve`](Self::serve), but returns at once and does not catch
    /// signals. The handle observes and controls the server, and can [wait for a
    /// signal](ServerHandle::wait_for_signal).
    ///
    /// # Errors
    /// Fails when the cores cannot be started or cannot listen.
    pub fn start<F>(self, handler: F) -> Result<ServerHandle>
    where
        F: AsyncFn(Connection) -> Result + Clone + Send + 'static,
    {
        Ok(self.launch_tasks(handler)?.announce())
    }

    fn launch_tasks<F>(self, handler: F) -> Result<Launched>
    where
        F: AsyncFn(Connection) -> Result + Clone + Send + 'static,
    {
        launch::launch(self, move || tasks::one_each(handler.clone()))
    }

    /// Serves every connection with a [`Handler`] instead of a task; otherwise like
    /// [`serve`](Self::serve).
    ///
    /// # Errors
    /// Fails like [`serve`](Self::serve).
    pub fn serve_with<M, H>(self, make: M) -> Result
    where
        M: Fn() -> H + Clone + Send + 'static,
        H: Handler,
    {
        may_block()?;
        serve_until_signal(self.launch_handlers(make)?)
    }

    /// Starts the server like [`serve_with`](Self::serve_with), but returns at once and does not
    /// catch signals.
    ///
    /// # Errors
    /// Fails when the cores cannot be started or cannot listen.
    pub fn start_with<M, H>(self, make: M) -> Result<ServerHandle>
    where
        M: Fn() -> H + Clone + Send + 'static,
        H: Handler,
    {
        Ok(self.launch_handlers(make)?.announce())
    }

    fn launch_handlers<M, H>(self, make: M) -> Result<Launched>
    where
        M: Fn() -> H + Clone + Send + 'static,
        H: Handler,
    {
        launch::launch(self, move || callbacks::one_each(make.clone()))
    }
}

/// Catches signals before the server is announced, so that a program may send them as soon as it
/// knows of the server.
fn serve_until_signal(launched: Launched) -> Result {
    let caught = Signals::catch(&launched.handle);
    let caught = match caught {
        Ok(caught) => caught,
        Err(error) => {
            launched.handle.abort();
            launched.handle.wait()?;
            return Err(error);
        }
    };
    let ended = launched.announce().wait();
    drop(caught);
    ended
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Server").field(&self.addresses()).finish()
    }
}
