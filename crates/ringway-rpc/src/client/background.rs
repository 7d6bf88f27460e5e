//! The background core, which makes calls for threads that are not cores.

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ringway_runtime::Runtime;

use super::local_clients;
use crate::call::status::Status;
use crate::remote::mailbox;

struct Background {
    core: u32,
    /// The process that started the core: after a fork, the child has a copy of this but not the thread.
    process: u32,
    _runtime: Runtime,
}

static BACKGROUND: Mutex<Option<Background>> = Mutex::new(None);

/// The number of the background core. It is started at first use and lives as long as the process; if it
/// fails, the next use starts another one.
///
/// # Errors
/// Fails when the core cannot be started for lack of threads, descriptors or memory. The next use tries
/// again.
pub(super) fn core() -> Result<u32, Status> {
    let mut background = lock();
    if let Some(background) = background.as_ref().filter(|known| known.is_usable()) {
        return Ok(background.core);
    }
    // Dropping it would wait for a thread that does not exist here, or for the destructors of an ending
    // core.
    std::mem::forget(background.take());
    Ok(background.insert(Background::start()?).core)
}

impl Background {
    fn start() -> Result<Self, Status> {
        let runtime = Runtime::builder().threads(1).start().map_err(|error| failed(&error))?;
        let opened = runtime.cores()[0].spawn(async || local_clients::with(|local| local.core()));
        let core = opened.map_err(|error| failed(&error))?.wait();
        let core = core.map_err(|error| failed(&error))?.ok_or_else(|| failed(&"it has ended"))?;
        Ok(Self { core, process: std::process::id(), _runtime: runtime })
    }

    /// Whether the core belongs to this process and accepts jobs.
    fn is_usable(&self) -> bool {
        self.process == std::process::id() && mailbox::takes_jobs(self.core)
    }
}

fn failed(why: &dyn Display) -> Status {
    let why = format!("cannot start a core for calls of this thread: {why}");
    Status::unavailable(why).not_executed()
}

/// No user code runs under the lock, so the content of a poisoned one is sound.
fn lock() -> MutexGuard<'static, Option<Background>> {
    BACKGROUND.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_has_ended_is_not_used() {
        let background = Background::start().expect("a core");
        assert!(background.is_usable());
        let Background { core, process, _runtime: runtime } = background;
        runtime.shutdown().expect("an end in order");
        let other = Runtime::builder().threads(1).start().expect("a core");
        assert!(!Background { core, process, _runtime: other }.is_usable());
    }

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
