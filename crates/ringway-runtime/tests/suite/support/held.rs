//! The resources that a process holds. Tests use them to show that nothing is left behind.

use std::path::Path;
use std::time::{Duration, Instant};

use ringway_runtime::cores_alive;

/// What this process holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) descriptors: usize,
    /// The threads of cores, watchdogs and rings. Those of the blocking pool end when they are idle.
    pub(crate) threads: usize,
    pub(crate) cores: usize,
}

impl Held {
    pub(crate) fn now() -> Self {
        Self { descriptors: open_descriptors(), threads: own_threads(), cores: cores_alive() }
    }

    /// Waits until the process holds no more than `self`. A thread that was joined is listed for a
    /// moment longer, and nothing reports when it is not. The process may hold less than `self` if a test outside of
    /// the suite held something when the first test began.
    ///
    /// # Errors
    /// Returns what the process holds instead.
    pub(crate) fn is_left(self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let now = Self::now();
            if now.descriptors <= self.descriptors
                && now.threads <= self.threads
                && now.cores <= self.cores
            {
                return Ok(());
            }
            if began.elapsed() > LEAVING_TIME_MAX {
                return Err(format!("{now:?}, before: {self:?}, open: {:?}", descriptors()));
            }
            std::thread::yield_now();
        }
    }
}

/// Far longer than a thread takes to vanish on a busy machine.
const LEAVING_TIME_MAX: Duration = Duration::from_secs(20);

/// Descriptors that this process has open.
pub(crate) fn open_descriptors() -> usize {
    let listing = std::fs::read_dir("/proc/self/fd").expect("/proc is mounted");
    listing.count() - 1 // without the listing's own
}

fn descriptors() -> Vec<String> {
    let listing = std::fs::read_dir("/proc/self/fd").expect("/proc is mounted");
    let link = |path: &Path| std::fs::read_link(path).ok();
    let targets = listing.flatten().filter_map(|entry| link(&entry.path()));
    targets.map(|target| target.display().to_string()).collect()
}

fn own_threads() -> usize {
    let listing = std::fs::read_dir("/proc/self/task").expect("/proc is mounted");
    let name = |path: &Path| std::fs::read_to_string(path.join("comm")).ok();
    let names = listing.flatten().filter_map(|entry| name(&entry.path()));
    let own = |name: &str| name.starts_with("ringway-") && !name.starts_with("ringway-block");
    names.filter(|name| own(name)).count()
}
