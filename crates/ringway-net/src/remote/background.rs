//! The background core, which works for threads that are not cores.

use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ringway_runtime::{CoreHandle, Runtime};

struct Background {
    core: CoreHandle,
    /// A task of the core holds it.
    alive: Weak<()>,
    /// The process that started the core: after a fork, the child has a copy of this but not the thread.
    process: u32,
    _runtime: Runtime,
}

static BACKGROUND: Mutex<Option<Background>> = Mutex::new(None);

/// The background core of the process. It is started at first use and lives as long as the process; if it
/// fails, the next use starts another one.
///
/// # Errors
/// Fails when the core cannot be started for lack of threads, descriptors or memory. The next use tries
/// again.
pub fn background_core() -> io::Result<CoreHandle> {
    let mut background = lock();
    if let Some(background) = background.as_ref().filter(|known| known.is_usable()) {
        return Ok(background.core.clone());
    }
    // Dropping it would wait for a thread that does not exist here, or for the destructors of an ending
    // core.
    std::mem::forget(background.take());
    Ok(background.insert(Background::start()?).core.clone())
}

impl Background {
    fn start() -> io::Result<Self> {
        let runtime = Runtime::builder().threads(1).start()?;
        let core = runtime.cores()[0].clone();
        let life = Arc::new(());
        let alive = Arc::downgrade(&life);
        let stays = core.spawn(async move || {
            let _life = life;
            pending::<()>().await;
        });
        drop(stays.map_err(io::Error::other)?);
        Ok(Self { core, alive, process: std::process::id(), _runtime: runtime })
    }

    /// Whether the core belongs to this process and has not ended.
    fn is_usable(&self) -> bool {
        self.process == std::process::id() && self.alive.strong_count() > 0
    }
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
        let Background { core, alive, process, _runtime: runtime } = background;
        runtime.shutdown().expect("an end in order");
        let other = Runtime::builder().threads(1).start().expect("a core");
        assert!(!Background { core, alive, process, _runtime: other }.is_usable());
    }

    #[test]
    fn a_fork_has_a_core_of_its_own() {
        let own = Background::start().expect("a core");
        let copy = Background { process: own.process + 1, ..own };
        assert!(!copy.is_usable(), "it is that of another process");
    }
}
