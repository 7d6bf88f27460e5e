//! Servers: listening addresses, cores, limits, and a life that ends gracefully.

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
mod launch;
mod log;
mod per_address;
mod running;
mod seldom;
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

/// A server on one or several addresses, with one listener a core.
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
    ready: Option<Ready>,
    shutdown_hooks: Vec<ShutdownHook>,
}

/// Is called once the server listens.
type Ready = Box<dyn FnOnce(&[Address])>;

/// Is called when the server is asked to stop.
type ShutdownHook = Box<dyn FnOnce() + Send>;

impl Server {
    /// Takes one address or [several](ToAddresses), so that their ports are known and nobody else's;
    /// connections are accepted once the server is started. Of a name, all addresses that this machine
    /// has are taken. At a Unix path clients may connect from now on, and wait; datagrams wait, too. An
    /// address in use is tried for a second, as that of a process that was killed is free only a moment
    /// later.
    ///
    /// Port 0 means the port of the earlier addresses where that is free, so that `tcp://…:0` and
    /// `udp://…:0` share one. An IPv6 wildcard takes IPv4 as well, unless an IPv4 address is named for the
    /// same port.
    ///
    /// ```
    /// let server = ringway_net::Server::bind(["tcp://127.0.0.1:0", "unix://@ringway-both"])?;
    /// assert_eq!(server.addresses().len(), 2);
    /// # Ok::<(), ringway_net::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`is_address`](crate::Error::is_address) when the address cannot be understood, is in use or does
    /// not belong to this machine; otherwise the kernel's, such as no permission for the port.
    pub fn bind(addresses: impl ToAddresses) -> Result<Self> {
        let mut bindings = Bindings::default();
        addresses.to_addresses()?.into_iter().try_for_each(|address| bindings.add(address))?;
        Ok(Self {
            bindings,
            runtime: Runtime::builder(),
            settings: Settings::default(),
            datagrams: None,
            ready: None,
            shutdown_hooks: Vec::new(),
        })
    }

    /// The addresses that the server listens on, with the ports that the kernel gave.
    pub fn addresses(&self) -> Vec<Address> {
        self.bindings.addresses()
    }

    /// Runs one thread for each of these cores, pinned to it. The default is all cores that the process
    /// may use.
    pub fn cores(mut self, cores: CoreSet) -> Self {
        self.runtime = self.runtime.cores(cores);
        self
    }

    /// Runs on this many threads, which are not pinned to cores.
    pub fn threads(mut self, count: usize) -> Self {
        self.runtime = self.runtime.threads(count);
        self
    }

    /// Sets which interface of the kernel is used.
    pub fn backend(mut self, backend: Backend) -> Self {
        self.runtime = self.runtime.backend(backend);
        self
    }

    /// Sets how long a busy core looks for the next event before it sleeps.
    pub fn spin(mut self, budget: Duration) -> Self {
        self.runtime = self.runtime.spin(budget);
        self
    }

    /// Closes a connection after this time without a byte in either direction.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.settings.stream.idle_timeout = Some(timeout);
        self
    }

    /// Closes a connection when it reaches this age, whatever it does.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.stream.lifetime = Some(lifetime);
        self
    }

    /// Closes a connection whose peer has taken no byte of what is queued for so long; `None`
    /// waits for ever. The default is 30 seconds.
    pub fn write_stall_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.settings.stream.write_stall_timeout = timeout;
        self
    }

    /// Lets the kernel ask the peer of a TCP connection whether it is still there when nothing has
    /// come from it for so long (1 second to 9 hours, in whole seconds), and five times more, each
    /// after a fifth of that or a second. A peer that has vanished without closing, which nothing
    /// else tells, is found after up to twice `quiet`, at least `quiet` and 5 seconds; the
    /// connection then fails with [`is_timeout`](crate::Error::is_timeout). Off if not set.
    pub fn keepalive(mut self, quiet: Duration) -> Self {
        self.settings.keepalive = Some(quiet);
        self
    }

    /// Connections open at once; one more is closed as soon as it is accepted. A connection counts
    /// from then until its descriptor is closed: during its TLS handshake too, and while something
    /// is left to be sent when its handler has ended.
    pub fn connections_max(mut self, count: usize) -> Self {
        self.settings.connections_max = count;
        self
    }

    /// Connections open at once from one IP address; from one network of IPv6
    /// ([`ipv6_prefix_len`](Self::ipv6_prefix_len)). No bound of its own if not set.
    pub fn connections_per_address_max(mut self, count: usize) -> Self {
        self.settings.connections_per_address_max = Some(count);
        self
    }

    /// How many bits of an IPv6 address are taken for one address by
    /// [`connections_per_address_max`](Self::connections_per_address_max). The default is 64, what
    /// a single customer is given.
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

    /// Sets what happens to a connection whose peer does not read.
    pub fn slow_reader(mut self, policy: SlowReader) -> Self {
        self.settings.slow_reader = policy;
        self
    }

    /// Queued bytes of a connection at which its senders are to wait and its peer is not read from
    /// any more; at least 1 KiB. The default is 1 MiB.
    pub fn high_water(mut self, bytes: usize) -> Self {
        self.settings.stream.send_high_water = bytes.max(limits::HIGH_WATER_MIN);
        self
    }

    /// Queued bytes below which that ends. The default is 256 KiB.
    pub fn low_water(mut self, bytes: usize) -> Self {
        self.settings.stream.send_low_water = bytes;
        self
    }

    /// Queued bytes above which a connection is closed, at least the high-water mark. The default
    /// is 16 MiB.
    pub fn send_queue_max(mut self, bytes: usize) -> Self {
        self.settings.stream.send_queue_max = bytes;
        self
    }

    /// Sets certificate and key of the `tls://` addresses.
    pub fn tls(mut self, tls: ServerTls) -> Self {
        self.settings.tls = Some(tls);
        self
    }

    /// Goes on as before for so long after a shutdown was asked for, and only then drains: time for
    /// those who send connections here to hear of it. Nothing by default.
    pub fn drain_delay(mut self, delay: Duration) -> Self {
        self.settings.drain_delay = delay;
        self
    }

    /// Calls `hook` once when a shutdown is asked for, on a thread of its own: the moment to tell
    /// others. The drain begins when it has returned, or after a second at most; the server's end
    /// waits for it no longer than for connections, and an abort not at all. Not called when the
    /// server is aborted before. Several are called one after another, in the order of declaration.
    pub fn on_shutdown(mut self, hook: impl FnOnce() + Send + 'static) -> Self {
        self.shutdown_hooks.push(Box::new(hook));
        self
    }

    /// Sets how long connections may take to end once the server drains; then they are cut off.
    /// `Duration::MAX` means for ever. The default is 10 seconds.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.settings.drain_timeout = timeout;
        self
    }

    /// The time that [`drain_timeout`](Self::drain_timeout) has set.
    pub fn drains_within(&self) -> Duration {
        self.settings.drain_timeout
    }

    /// Calls `ready` once all cores listen, on the thread that starts the server: the moment to
    /// tell others the addresses.
    pub fn on_ready(mut self, ready: impl FnOnce(&[Address]) + 'static) -> Self {
        self.ready = Some(Box::new(ready));
        self
    }

    /// Handles the datagrams of the `udp://` addresses, on each core one after another: spawn a
    /// task for what takes long. Name each address of a machine that has several: what comes to a wildcard
    /// is answered from an address of the kernel's choice, and a client that has connected its socket
    /// to another one does not get it.
    pub fn on_datagram<F>(mut self, handler: F) -> Self
    where
        F: AsyncFn(Datagram, Responder) -> Result + Clone + Send + 'static,
    {
        self.datagrams = Some(datagrams::one_by_one(handler));
        self
    }

    /// Serves every connection by a task of its own, until SIGINT, SIGTERM or
    /// [`ServerHandle::shutdown`]; returns when the connections have ended or the drain's timeout
    /// has passed. A second signal cuts them off at once, and a third ends the process.
    ///
    /// The signals are caught from when the server listens until this returns; then they do again
    /// what they did before. (They end the process if nobody handled them, also where something else
    /// came to handle them meanwhile: such a program had better use [`start`](Self::start).)
    ///
    /// How the connection ends that was given to a handler is the handler's to say. `Ok` ends it in
    /// order: what is queued is sent, then the end. After an error, which is logged at debug level,
    /// it is dropped. A panic, logged as an error, resets it as [`Peer::abort`](crate::Peer::abort) does, and
    /// nothing else is affected.
    ///
    /// # Errors
    /// When the cores cannot be started or cannot listen, or a core fails; and
    /// [`is_timeout`](crate::Error::is_timeout) when a handler does not give its core back after the
    /// connections were cut off.
    pub fn serve<F>(self, handler: F) -> Result
    where
        F: AsyncFn(Connection) -> Result + Clone + Send + 'static,
    {
        serve_until_signal(self.launch_tasks(handler)?)
    }

    /// Serves as [`serve`](Self::serve) does until `stop` is ready, then drains, and waits for the
    /// server's end in a task of any runtime. It leaves signals alone.
    ///
    /// Dropping this future asks the server to end gracefully.
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
    /// As [`serve`](Self::serve).
    pub async fn serve_until<F>(self, stop: impl Future<Output = ()>, handler: F) -> Result
    where
        F: AsyncFn(Connection) -> Result + Clone + Send + 'static,
    {
        self.start(handler)?.shutdown_when(stop).await
    }

    /// Starts the server as [`serve`](Self::serve) does, but returns at once and leaves signals alone.
    /// The handle tells what the server does, and can [wait for a signal](ServerHandle::wait_for_signal).
    ///
    /// # Errors
    /// When the cores cannot be started or cannot listen.
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

    /// Serves every connection by a [`Handler`] instead of a task; otherwise the same as
    /// [`serve`](Self::serve).
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub fn serve_with<M, H>(self, make: M) -> Result
    where
        M: Fn() -> H + Clone + Send + 'static,
        H: Handler,
    {
        serve_until_signal(self.launch_handlers(make)?)
    }

    /// Starts the server as [`serve_with`](Self::serve_with) does, but returns at once and leaves signals
    /// alone.
    ///
    /// # Errors
    /// When the cores cannot be started or cannot listen.
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

/// Catches signals before anybody is told that the server listens, so that whoever is told may send
/// them.
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
