//! The handle of a running server.

use std::fmt;
use std::sync::Arc;

use ringway_net::{Address, Ended, Result};
use ringway_runtime::CoreHandle;

use super::shared::ServerShared;
use super::stats::ServerStats;
use crate::builtin::health::Health;
use crate::metrics::Snapshot;

/// A handle to a running server, cheap to clone. When the last handle is dropped, the server shuts down.
#[derive(Clone)]
pub struct ServerHandle {
    net: ringway_net::ServerHandle,
    shared: Arc<ServerShared>,
    health: Health,
}

impl ServerHandle {
    pub(super) fn new(
        net: ringway_net::ServerHandle,
        shared: Arc<ServerShared>,
        health: Health,
    ) -> Self {
        Self { net, shared, health }
    }

    /// The addresses that the server listens on, with the ports that the kernel chose.
    pub fn addresses(&self) -> &[Address] {
        self.net.addresses()
    }

    /// The URL of the [console](crate::Console) for a browser on this machine, with its token: whoever has the link sees all
    /// that the console shows. `None` if the console is off or something else is at `/`, and if the server listens neither on
    /// loopback nor on all addresses.
    pub fn console_link(&self) -> Option<String> {
        let side_doors = self.shared.side_doors();
        match side_doors.has_page("/") {
            true => None,
            false => side_doors.console.link(self.addresses()),
        }
    }

    /// Starts a graceful shutdown and returns at once. Health becomes NOT_SERVING; after the drain delay,
    /// new calls are refused as not executed, and running calls may finish until the drain timeout.
    pub fn shutdown(&self) {
        self.net.shutdown();
    }

    /// Ends the server at once and resets its connections.
    pub fn abort(&self) {
        self.net.abort();
    }

    /// Blocks until the server has ended. It does not ask the server to end.
    ///
    /// # Errors
    /// The error of a core that failed; it is returned once. Fails on a core of Ringway and in a task of
    /// tokio, which must not block: await [`ended`](Self::ended) there.
    pub fn wait(&self) -> Result {
        self.net.wait()
    }

    /// Waits until the server has ended; works in a task of any runtime. It does not ask the server to
    /// end.
    ///
    /// ```
    /// let server = ringway_rpc::Server::bind("tcp://127.0.0.1:0")?.start()?;
    /// server.shutdown();
    /// ringway_runtime::block_on(async move { server.ended().await })??;
    /// # Ok::<(), ringway_net::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails as [`wait`](Self::wait) does.
    pub fn ended(&self) -> Ended {
        self.net.ended()
    }

    /// Shuts the server down when `stop` is ready, and waits until it has ended. Returns earlier if the
    /// server ends before.
    ///
    /// # Errors
    /// Fails as [`wait`](Self::wait) does.
    pub async fn shutdown_when(&self, stop: impl Future<Output = ()>) -> Result {
        self.net.shutdown_when(stop).await
    }

    /// Blocks until the server has ended, and lets SIGINT and SIGTERM end it: the first signal drains it,
    /// the second cuts off its calls, and a third ends the process. Unlike
    /// [`Server::serve`](crate::Server::serve), the program keeps a handle, for example for
    /// [`metrics`](Self::metrics).
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// let server = ringway_rpc::Server::bind("tcp://127.0.0.1:9000")?.start()?;
    /// let watched = server.clone();
    /// std::thread::spawn(move || loop {
    ///     println!("{}", watched.metrics().prometheus());
    ///     std::thread::sleep(Duration::from_secs(15));
    /// });
    /// server.wait_for_signal()?;
    /// # Ok::<(), ringway_net::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails as [`wait`](Self::wait) does, and when signals cannot be caught.
    pub fn wait_for_signal(&self) -> Result {
        self.net.wait_for_signal()
    }

    /// The server's cores, in the order of their numbers: [`CoreHandle::spawn`] runs a future on one, and
    /// [`Context::core`](crate::Context::core) is the number of the core that serves a call.
    ///
    /// ```
    /// let server = ringway_rpc::Server::bind("tcp://127.0.0.1:0")?.threads(2).start()?;
    /// let sum = server.cores()[1].spawn(async || 1 + 1)?.wait()?; // on the second core
    /// assert_eq!(sum, 2);
    /// # Ok::<(), ringway_net::Error>(())
    /// ```
    pub fn cores(&self) -> &[CoreHandle] {
        self.net.cores()
    }

    /// Whether the server has been asked to end, even while its
    /// [`drain_delay`](crate::Server::drain_delay) keeps it serving. Handlers are told [when that is
    /// over](crate::Context::is_draining).
    pub fn is_draining(&self) -> bool {
        self.net.is_draining()
    }

    /// The server's health, which may be changed at any time.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// The server's counters, added up over its cores.
    pub fn stats(&self) -> ServerStats {
        self.shared.stats()
    }

    /// Call counts and latencies of the methods.
    pub fn metrics(&self) -> Snapshot {
        self.shared.metrics.snapshot()
    }

    /// The handle of the underlying network server: connections, sockets and cores.
    pub fn net(&self) -> &ringway_net::ServerHandle {
        &self.net
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerHandle").field(&self.addresses()).finish()
    }
}
