//! What a test leaves behind: nothing. Each test of a suite stays in it for its time; whoever is the
//! last to leave finds no more in the process than the first has found.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringway_runtime::cores_alive;

/// One test's time in the suite.
pub(crate) struct Stay(());

impl Stay {
    pub(crate) fn begin() -> Self {
        let mut suite = suite();
        if suite.staying == 0 {
            suite.before = Held::now();
        }
        suite.staying += 1;
        Self(())
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        let mut suite = suite();
        suite.staying -= 1;
        // A test that fails has said what is wrong; what it leaves behind is no news.
        suite.failed |= std::thread::panicking();
        if suite.staying == 0 && !suite.failed {
            let left = suite.before.is_left(); // under the lock, so that no test begins meanwhile
            suite.failed = left.is_err();
            drop(suite);
            left.unwrap_or_else(|left| panic!("something was left behind: {left}"));
        }
    }
}

struct Suite {
    staying: usize,
    failed: bool,
    before: Held,
}

fn suite() -> MutexGuard<'static, Suite> {
    static SUITE: Mutex<Suite> = Mutex::new(Suite { staying: 0, failed: false, before: NOTHING });
    SUITE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What this process holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) descriptors: usize,
    /// Threads of cores, watchdogs and rings; those of the blocking pool end when they are idle.
    pub(crate) threads: usize,
    pub(crate) cores: usize,
}

const NOTHING: Held = Held { descriptors: 0, threads: 0, cores: 0 };

impl Held {
    pub(crate) fn now() -> Self {
        Self { descriptors: open_descriptors(), threads: own_threads(), cores: cores_alive() }
    }

    /// Waits until the process holds no more than this: a thread that was joined is listed for a
    /// moment longer, and nobody tells when it is not. Less may be held, where a test that does not
    /// stay in the suite had something when the first one came.
    ///
    /// # Errors
    /// What it holds instead.
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
