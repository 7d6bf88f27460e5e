//! The background core, which makes calls for threads that are not cores.

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ringway_net::remote::background_core;

use super::local_clients;
use crate::call::status::Status;
use crate::remote::mailbox;

struct Background {
    core: u32,
    /// The process that started the core: after a fork, the child has a copy of this but not the thread.
    process: u32,
}

static BACKGROUND: Mutex<Option<Background>> = Mutex::new(None);

/// The number of the process's background core, by which its mailbox is found. If the core fails, the next use
/// starts another one.
///
/// # Errors
/// Fails when the core cannot be started for lack of threads, descriptors or memory. The next use tries
/// again.
pub(super) fn core() -> Result<u32, Status> {
    let mut background = lock();
    if let Some(background) = background.as_ref().filter(|known| known.is_usable()) {
        return Ok(background.core);
    }
    Ok(background.insert(Background::start()?).core)
}

impl Background {
    fn start() -> Result<Self, Status> {
        let core = background_core().map_err(|error| failed(&error))?;
        let opened = core.spawn(async || local_clients::with(|local| local.core()));
        let core = opened.map_err(|error| failed(&error))?.wait();
        let core = core.map_err(|error| failed(&error))?.ok_or_else(|| failed(&"it has ended"))?;
        Ok(Self { core, process: std::process::id() })
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
    use ringway_runtime::Runtime;

    use super::*;

    #[test]
    fn the_core_is_kept_until_it_or_the_process_is_another_one() {
        let own = core().expect("a core");
        assert_eq!(core().expect("the same"), own);
        let runtime = Runtime::builder().threads(1).start().expect("a core");
        let opened = runtime.cores()[0].spawn(async || local_clients::with(|local| local.core()));
        let core = opened.expect("it runs").wait().expect("no panic").expect("it is a core");
        let mut other = Background { core, process: std::process::id() };
        assert!(other.is_usable());
        other.process += 1;
        assert!(!other.is_usable(), "it is that of another process");
        other.process -= 1;
        runtime.shutdown().expect("an end in order");
        assert!(!other.is_usable(), "it has ended");
    }
}
