//! The connections by which people look at the console, which are not what they look for.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ringway_runtime::now;

use crate::limits;

/// The connections that have asked for the console's data lately.
#[derive(Default)]
pub(crate) struct Viewers(Mutex<Vec<Viewer>>);

struct Viewer {
    site_id: u64,
    asked: Instant,
}

impl Viewers {
    pub(super) fn note(&self, site_id: u64) {
        let asked = now();
        let mut viewers = self.locked();
        viewers.retain(|viewer| viewer.site_id != site_id && viewer.is_recent(asked));
        if viewers.len() < limits::CONSOLE_VIEWERS_MAX {
            viewers.push(Viewer { site_id, asked });
        }
    }

    pub(super) fn has(&self, site_id: u64) -> bool {
        self.locked().iter().any(|viewer| viewer.site_id == site_id)
    }

    /// The list is sound even after a panic.
    fn locked(&self) -> MutexGuard<'_, Vec<Viewer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Viewer {
    fn is_recent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.asked) < limits::CONSOLE_VIEWER_AGE
    }
}
