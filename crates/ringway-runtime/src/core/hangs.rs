//! Who is told when a core hangs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::contain::contain;

type Tell = dyn Fn(bool) + Send + Sync;

/// Those who are told, on the watchdog's thread, that a core hangs and that it goes on.
#[derive(Default)]
pub(crate) struct Hangs(Mutex<Vec<Arc<Tell>>>);

impl Hangs {
    pub(crate) fn watch(&self, tell: impl Fn(bool) + Send + Sync + 'static) {
        self.lock().push(Arc::new(tell));
    }

    /// Tells all of them. A panic of one does not keep the others from hearing it.
    pub(crate) fn tell(&self, hangs: bool) {
        let watching = self.lock().clone();
        for tell in watching {
            contain("who watches for a core that hangs", || tell(hangs));
        }
    }

    /// Locks the list. No foreign code runs under the lock, so its content is sound even if it is
    /// poisoned.
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Tell>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
