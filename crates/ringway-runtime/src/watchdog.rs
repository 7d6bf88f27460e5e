//! The stall watchdog, which reports polls that hold up a core.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::contain::contain;
use crate::core::CoreShared;
use crate::counters::{CurrentPoll, Stall};

/// A thread that watches the cores of one runtime; it ends when this is dropped.
pub(crate) struct Watchdog {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches `cores` for polls longer than `threshold`.
    pub(crate) fn start(cores: Vec<Arc<CoreShared>>, threshold: Duration) -> Self {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let told = Arc::clone(&stop);
        let body = move || watch(&cores, threshold, &told);
        let thread = thread::Builder::new().name("ringway-watchdog".into()).spawn(body).ok();
        if thread.is_none() {
            tracing::warn!("no thread for the stall watchdog; stalls will not be reported");
        }
        Self { stop, thread }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *lock(&self.stop.0) = true;
        self.stop.1.notify_all();
        let own = |thread: &JoinHandle<()>| thread.thread().id() == thread::current().id();
        if let Some(thread) = self.thread.take().filter(|thread| !own(thread)) {
            let _panicked = thread.join();
        }
    }
}

/// Locks the flag. No foreign code runs under the lock, so the flag is sound even if it is
/// poisoned.
fn lock(stopped: &Mutex<bool>) -> MutexGuard<'_, bool> {
    stopped.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A poll that was seen at an earlier look.
struct Seen {
    poll: Option<CurrentPoll>,
    since: Instant,
    reported: bool,
}

fn watch(cores: &[Arc<CoreShared>], threshold: Duration, stop: &(Mutex<bool>, Condvar)) {
    let fresh = || Seen { poll: None, since: Instant::now(), reported: false };
    let mut seen: Vec<Seen> = cores.iter().map(|_| fresh()).collect();
    let mut stopped = lock(&stop.0);
    while !*stopped {
        let waited = stop.1.wait_timeout(stopped, threshold / 2);
        drop(waited); // a log subscriber may end the runtime, and this watchdog with it
        for (core, seen) in cores.iter().zip(&mut seen) {
            contain("a log subscriber", || look_at(core, seen, threshold));
        }
        stopped = lock(&stop.0);
    }
}

fn look_at(core: &CoreShared, seen: &mut Seen, threshold: Duration) {
    let poll = core.counters.current_poll();
    let numbers = (poll.map(CurrentPoll::number), seen.poll.map(CurrentPoll::number));
    if numbers.0 != numbers.1 || poll.is_none() {
        if seen.reported {
            core.counters.stall_lasts(seen.since.elapsed(), true);
            tracing::warn!(
                core = core.id(),
                task = seen.poll.and_then(CurrentPoll::name).unwrap_or("unknown"),
                held_for_ms = seen.since.elapsed().as_millis() as u64,
                "the task lets its core go on"
            );
        }
        *seen = Seen { poll, since: Instant::now(), reported: false };
        return;
    }
    seen.poll = poll;
    let held_for = seen.since.elapsed();
    if seen.reported {
        core.counters.stall_lasts(held_for, false);
    }
    if held_for >= threshold && !seen.reported {
        seen.reported = true;
        let task = poll.and_then(CurrentPoll::name);
        core.counters.stalled(Stall { task, since: seen.since, held_for, is_over: false });
        tracing::warn!(
            core = core.id(),
            task = poll.and_then(CurrentPoll::name).unwrap_or("unknown"),
            held_for_ms = held_for.as_millis() as u64,
            "a task holds up its core: move blocking or long work to `spawn_blocking`"
        );
    }
}
