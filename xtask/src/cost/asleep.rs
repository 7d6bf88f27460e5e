//! Whether a process sleeps, read from `/proc`.

use std::fs;
use std::time::{Duration, Instant};

/// A process that is busy for longer is stuck: a turn takes milliseconds, under valgrind as well.
pub(super) const BUSY_MAX: Duration = Duration::from_secs(60);

/// The threads of a process.
pub(super) struct Threads {
    folder: String,
}

/// How often the threads have gone to sleep so far.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Sleeps(u64);

impl Threads {
    pub(super) fn of(process: u32) -> Self {
        Self { folder: format!("/proc/{process}/task") }
    }

    pub(super) fn sleeps(&self) -> Sleeps {
        Sleeps(self.look().1)
    }

    /// Waits until all threads sleep, and do so in two looks one after the other. With `since`, a thread
    /// must have woken after it.
    pub(super) fn wait(&self, since: Option<Sleeps>) -> Result<(), String> {
        let begun = Instant::now();
        let mut last = None;
        loop {
            let (all_sleep, count) = self.look();
            let has_woken = since.is_none_or(|since| since != Sleeps(count));
            if all_sleep && has_woken && last == Some(count) {
                return Ok(());
            }
            last = (all_sleep && has_woken).then_some(count);
            if begun.elapsed() > BUSY_MAX {
                return Err("a process does not come to rest".to_owned());
            }
            std::thread::yield_now();
        }
    }

    /// Whether all threads sleep, and how often they went to sleep.
    fn look(&self) -> (bool, u64) {
        let Ok(threads) = fs::read_dir(&self.folder) else { return (true, 0) };
        let (mut all_sleep, mut count) = (true, 0);
        for thread in threads.flatten() {
            // A thread that has ended meanwhile neither runs nor counts.
            let Ok(status) = fs::read_to_string(thread.path().join("status")) else { continue };
            let value = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap_or_default().trim()
            };
            all_sleep &= matches!(value("State:").chars().next(), Some('S' | 'I' | 'Z'));
            count += value("voluntary_ctxt_switches:").parse().unwrap_or(0);
        }
        (all_sleep, count)
    }
}
