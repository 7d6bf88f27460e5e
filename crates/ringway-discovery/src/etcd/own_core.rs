//! The core that keeps leases alive and follows watches, for all registries of a process.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ringway_runtime::{CoreHandle, RemoteHandle, Runtime, SpawnError};

use crate::endpoint::Error;

struct OwnCore {
    handle: CoreHandle,
    /// The process that started it: after a fork, the child has a copy of this but not the thread.
    process: u32,
    _runtime: Runtime,
}

static OWN_CORE: Mutex<Option<OwnCore>> = Mutex::new(None);

/// Runs a future on the core. It is started at first use and lives as long as the process; if it fails, the next use
/// starts another one.
///
/// # Errors
/// Fails when the core cannot be started, for lack of threads, descriptors or memory, or when it has too much to do.
pub(super) fn spawn<F, T>(start: F) -> Result<RemoteHandle<T>, Error>
where
    F: AsyncFnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let handle = handle()?;
    handle.spawn(start).map_err(|error| Error::new(format!("the core of the registries: {error}")))
}

fn handle() -> Result<CoreHandle, Error> {
    let mut known = OWN_CORE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(core) = known.as_ref().filter(|core| core.is_usable()) {
        return Ok(core.handle.clone());
    }
    // Dropping it would wait for a thread that does not exist here, or for an ending core.
    std::mem::forget(known.take());
    let started = Runtime::builder().threads(1).spin(Duration::ZERO).start();
    let runtime =
        started.map_err(|error| Error::new(format!("no core for registries: {error}")))?;
    let handle = runtime.cores()[0].clone();
    *known =
        Some(OwnCore { handle: handle.clone(), process: std::process::id(), _runtime: runtime });
    Ok(handle)
}

impl OwnCore {
    fn is_usable(&self) -> bool {
        self.process == std::process::id()
            && !matches!(self.handle.spawn(async || ()), Err(SpawnError::Ended))
    }
}
