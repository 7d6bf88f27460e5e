//! The core that makes calls for threads that are no cores.

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ringway_runtime::Runtime;

use super::local_clients;
use crate::call::status::Status;

struct Background {
    core: u32,
    /// A fork has a copy of this, and not the thread.
    process: u32,
    _runtime: Runtime,
}

static BACKGROUND: Mutex<Option<Background>> = Mutex::new(None);

/// The number of the background core, which is started at first use and lives as long as the
/// process.
///
/// # Errors
/// When it cannot be started: out of threads, descriptors or memory. The next use tries again.
pub(super) fn core() -> Result<u32, Status> {
    let mut background = lock();
    let process = std::process::id();
    if let Some(background) = background.as_ref().filter(|known| known.process == process) {
        return Ok(background.core);
    }
    // To end it would be to wait for a thread that is not here.
    std::mem::forget(background.take());
    let runtime = Runtime::builder().threads(1).start().map_err(|error| failed(&error))?;
    let opened = runtime.cores()[0].spawn(async || local_clients::with(|local| local.core()));
    let core = opened.map_err(|error| failed(&error))?.wait().map_err(|error| failed(&error))?;
    let core = core.ok_or_else(|| failed(&"it has ended"))?;
    *background = Some(Background { core, process, _runtime: runtime });
    Ok(core)
}

fn failed(why: &dyn Display) -> Status {
    let why = format!("cannot start a core for calls of this thread: {why}");
    Status::unavailable(why).not_executed()
}

/// No foreign code runs under the lock, so a poisoned one guards sound content.
fn lock() -> MutexGuard<'static, Option<Background>> {
    BACKGROUND.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_has_a_core_of_its_own() {
        let own = core().expect("a core");
        assert_eq!(core().expect("the same"), own);
        lock().as_mut().expect("it has been started").process += 1;
        let other = core().expect("another core");
        assert_ne!(other, own, "the former is that of another process");
        assert_eq!(core().expect("the same"), other);
    }
}
