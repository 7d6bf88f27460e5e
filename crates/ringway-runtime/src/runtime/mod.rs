//! Starting cores, reaching them from other threads, ending them.

mod builder;
mod fate;
mod handle;
mod start;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

pub use builder::{Backend, Builder, block_on};
pub use fate::{CoreFailure, Failed};
pub use handle::{CoreHandle, RemoteHandle, SpawnError};

use crate::watchdog::Watchdog;
use fate::Fate;

/// Running cores, one thread each. Dropping it stops them as [`shutdown`](Self::shutdown) does.
pub struct Runtime {
    cores: Arc<[CoreHandle]>,
    threads: Vec<JoinHandle<()>>,
    fate: Arc<Fate>,
    _watchdog: Watchdog,
}

impl Runtime {
    /// Starts the configuration of a runtime.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The cores, in the order of their numbers.
    pub fn cores(&self) -> &[CoreHandle] {
        &self.cores
    }

    /// Waits for the failure of a core: as a future anywhere, or by blocking a plain thread
    /// ([`Failed::wait`]). It does not borrow the runtime, and returns `None` when the runtime ends
    /// without a failure.
    ///
    /// ```
    /// use ringway_runtime::Runtime;
    ///
    /// let runtime = Runtime::builder().threads(1).start()?;
    /// let failed = runtime.failed();
    /// runtime.shutdown()?;
    /// assert!(failed.wait().is_none());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn failed(&self) -> Failed {
        Failed::of(&self.fate)
    }

    /// Stops every core and waits until they have ended: tasks are dropped, streams send their
    /// queues and are closed.
    ///
    /// # Errors
    /// Returns the first [`CoreFailure`], if a core had ended on its own. On a core of this
    /// runtime, which cannot wait for itself, it returns an error of kind `Deadlock`; the cores end
    /// anyway, this one as soon as the calling task yields.
    pub fn shutdown(mut self) -> io::Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> io::Result<()> {
        for core in self.cores.iter() {
            core.stop();
        }
        let threads = std::mem::take(&mut self.threads);
        if self.fate.is_mine() && !threads.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::Deadlock,
                "a runtime was ended on one of its own cores, which cannot wait for itself: its \
                 cores have been told to end",
            ));
        }
        for thread in threads {
            // What a core did, even a panic, is in its fate.
            let _ended = thread.join();
        }
        self.fate.failure().map_or(Ok(()), |failure| Err(io::Error::other(failure)))
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        match self.stop() {
            Err(error) if error.kind() != io::ErrorKind::Deadlock => {
                tracing::error!(%error, "a core ended with an error");
            }
            _ => {}
        }
    }
}
