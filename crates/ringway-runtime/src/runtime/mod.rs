//! Starting cores, reaching them from elsewhere, ending them.

mod builder;
mod handle;
mod start;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

pub use builder::{Backend, Builder, block_on};
pub use handle::{CoreHandle, RemoteHandle, SpawnError};

use crate::watchdog::Watchdog;

/// Cores at work, one thread each. Dropping it stops them.
pub struct Runtime {
    cores: Arc<[CoreHandle]>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    _watchdog: Watchdog,
}

impl Runtime {
    /// Sets out to start a runtime.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The cores, in the order of their numbers.
    pub fn cores(&self) -> &[CoreHandle] {
        &self.cores
    }

    /// Stops every core: tasks are dropped, streams send what they have queued and are closed.
    ///
    /// # Errors
    /// The first error by which a core had ended on its own.
    pub fn shutdown(mut self) -> io::Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> io::Result<()> {
        for core in self.cores.iter() {
            core.stop();
        }
        let mut first = Ok(());
        for thread in self.threads.drain(..) {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a core panicked")));
            first = first.and(ended);
        }
        first
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::error!(%error, "a core ended with an error");
        }
    }
}
