//! A running server, as other threads see it.

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
use crate::error::Result;

/// A running server; cheap to clone. When the last handle is dropped, the server shuts down.
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

    /// The addresses that the server listens on, with the ports that the kernel gave.
    pub fn addresses(&self) -> &[Address] {
        &self.inner.shared.addresses
    }

    /// Asks the server to end gracefully and returns at once: no new connections, what has arrived
    /// is answered, and what has not ended at the drain's timeout is cut off.
    pub fn shutdown(&self) {
        self.inner.shared.control.advance(Phase::Asked);
    }

    /// Asks the server to end now: connections are reset.
    pub fn abort(&self) {
        self.inner.shared.control.advance(Phase::Aborting);
    }

    /// Blocks until the server has ended. It does not ask it to.
    ///
    /// # Errors
    /// The error of a core that failed, and [`is_timeout`](crate::Error::is_timeout) when a core does not end
    /// after the connections were cut off, mostly since a handler keeps its thread; told once.
    pub fn wait(&self) -> Result {
        self.inner.shared.control.wait_ended()
    }

    /// Waits until the server has ended, in a task of any runtime. It does not ask the server to end.
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
    /// As [`wait`](Self::wait).
    pub fn ended(&self) -> Ended {
        Ended::new(self.clone())
    }

    /// Asks the server to end when `stop` is ready, and waits until it has ended, be it before that.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
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

    /// Blocks until the server has ended, and lets SIGINT and SIGTERM end it: the first drains it, the
    /// second cuts its connections off, and a third ends the process. For programs that start several
    /// servers, or want the handle of one that signals end.
    ///
    /// The signals are caught from now until this returns; then they do again what they did before.
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
    /// As [`wait`](Self::wait), and when signals cannot be caught.
    pub fn wait_for_signal(&self) -> Result {
        let caught = Signals::catch(self)?;
        let ended = self.wait();
        drop(caught);
        ended
    }

    /// The cores that serve, in the order of their numbers: [`CoreHandle::spawn`] runs a future on one.
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

    /// Whether the server has been asked to end.
    pub fn is_draining(&self) -> bool {
        self.inner.shared.control.phase() > Phase::Running
    }

    /// The connections, to be reached by their ids.
    pub fn sessions(&self) -> Sessions {
        Sessions::new(Arc::clone(&self.inner.shared))
    }

    /// The counters of the server and its cores.
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
