//! The handle of a running server.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;

use ringway_runtime::CoreHandle;

use super::control::{Control, Phase};
use super::ended::Ended;
use super::sessions::Sessions;
use super::shared::ServerShared;
use super::signals::Signals;
use super::stats::ServerStats;
use crate::address::Address;
use crate::blocking::blocking_refused;
use crate::error::{Error, Kind, Result};

/// A handle of a running server; cheap to clone. When the last handle is dropped, the server shuts
/// down.
#[derive(Clone)]
pub struct ServerHandle {
    inner: Arc<LastHandle>,
}

struct LastHandle {
    shared: Arc<ServerShared>,
}

impl ServerHandle {
    pub(crate) fn new(shared: Arc<ServerShared>) -> Self {
        Self { inner: Arc::new(LastHandle { shared }) }
    }

    /// Returns the addresses that the server listens on, with their real ports.
    pub fn addresses(&self) -> &[Address] {
        &self.inner.shared.addresses
    }

    /// Requests a graceful shutdown and returns at once: the server accepts no new connections and
    /// answers what has arrived; connections that have not ended at the drain timeout are aborted.
    pub fn shutdown(&self) {
        self.inner.shared.control.advance(Phase::Asked);
    }

    /// Requests an immediate end: connections are reset.
    pub fn abort(&self) {
        self.inner.shared.control.advance(Phase::Aborting);
    }

    /// Blocks until the server has ended. It does not request the end.
    ///
    /// # Errors
    /// Returns the error of a core that failed, and [`is_timeout`](crate::Error::is_timeout) when a
    /// core does not end after its connections were aborted, usually because a handler blocks its
    /// thread. Only the first waiter gets the error. Fails on a
    /// Ringway core and in a task of tokio, which must not block: await [`ended`](Self::ended) there.
    pub fn wait(&self) -> Result {
        may_block()?;
        self.inner.shared.control.wait_ended()
    }

    /// Waits until the server has ended, in a task of any runtime. It does not request the end.
    ///
    /// ```
    /// use ringway_net::{Connection, Server};
    ///
    /// let server = Server::bind("tcp://127.0.0.1:0")?.start(async |_: Connection| Ok(()))?;
    /// server.shutdown();
    /// ringway_runtime::block_on(async move { server.ended().await })??;
    /// # Ok::<(), ringway_net::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails like [`wait`](Self::wait).
    pub fn ended(&self) -> Ended {
        Ended::new(self.clone())
    }

    /// Requests a shutdown when `stop` is ready, and waits until the server has ended for any
    /// reason.
    ///
    /// # Errors
    /// Fails like [`wait`](Self::wait).
    pub async fn shutdown_when(&self, stop: impl Future<Output = ()>) -> Result {
        let mut ended = self.ended();
        let mut stop = pin!(stop);
        let mut is_asked = false;
        poll_fn(|cx| {
            if !is_asked && stop.as_mut().poll(cx).is_ready() {
                is_asked = true;
                self.shutdown();
            }
            Pin::new(&mut ended).poll(cx)
        })
        .await
    }

    /// Blocks until the server has ended, and lets SIGINT and SIGTERM end it: the first signal
    /// drains it, the second aborts its connections, a third ends the process. Use it in programs
    /// that start several servers, or that need the handle of a server which signals end.
    ///
    /// Signals are caught until this returns; then their previous action applies again.
    ///
    /// ```no_run
    /// use ringway_net::{Connection, Server};
    ///
    /// let server = Server::bind("tcp://127.0.0.1:7001")?.start(async |_: Connection| Ok(()))?;
    /// let stats = server.clone();
    /// std::thread::spawn(move || println!("{} connections", stats.stats().open));
    /// server.wait_for_signal()?;
    /// # Ok::<(), ringway_net::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails like [`wait`](Self::wait), and when signals cannot be caught.
    pub fn wait_for_signal(&self) -> Result {
        may_block()?;
        let caught = Signals::catch(self)?;
        let ended = self.wait();
        drop(caught);
        ended
    }

    /// Returns the cores of the server in the order of their numbers: [`CoreHandle::spawn`] runs a
    /// future on one.
    ///
    /// ```
    /// use ringway_net::{Connection, Server};
    ///
    /// let server = Server::bind("tcp://127.0.0.1:0")?.threads(2);
    /// let server = server.start(async |_: Connection| Ok(()))?;
    /// let second = server.cores()[1].spawn(async || std::thread::current().id())?.wait()?;
    /// assert_ne!(second, std::thread::current().id());
    /// # Ok::<(), ringway_net::Error>(())
    /// ```
    pub fn cores(&self) -> &[CoreHandle] {
        self.inner.shared.handles()
    }

    /// Whether the server has been asked to end, be it that its
    /// [`drain_delay`](crate::Server::drain_delay) keeps it serving. Connections are told [when that is
    /// over](crate::Peer::is_draining).
    pub fn is_draining(&self) -> bool {
        self.inner.shared.control.phase() > Phase::Running
    }

    /// Returns the server's connections, to be reached by their ids.
    pub fn sessions(&self) -> Sessions {
        Sessions::new(Arc::clone(&self.inner.shared))
    }

    /// Returns the counters of the server and its cores.
    pub fn stats(&self) -> ServerStats {
        ServerStats::of(&self.inner.shared)
    }
}

impl ServerHandle {
    pub(crate) fn control(&self) -> &Control {
        &self.inner.shared.control
    }
}

impl Drop for LastHandle {
    fn drop(&mut self) {
        self.shared.control.advance(Phase::Asked);
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerHandle").field(&self.addresses()).finish()
    }
}

/// # Errors
/// On a thread that must not block.
pub(super) fn may_block() -> Result {
    match blocking_refused() {
        Some(why) => Err(Error::new(Kind::Misuse, format!("cannot wait for the server: {why}"))),
        None => Ok(()),
    }
}
