//! The stall watchdog, which reports polls that hold up a core.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::contain::contain;
use crate::core::CoreShared;
use crate::counters::{CurrentPoll, Stall};
use crate::limits;

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
    /// How long the poll has to last to be reported next; it doubles with each report.
    told_at: Duration,
    is_reported: bool,
    /// Whether those who watch for hangs were told.
    hangs: bool,
}

impl Seen {
    fn new(poll: Option<CurrentPoll>, threshold: Duration) -> Self {
        Self { poll, since: Instant::now(), told_at: threshold, is_reported: false, hangs: false }
    }

    fn name(&self) -> &'static str {
        self.poll.and_then(CurrentPoll::name).unwrap_or("unknown")
    }
}

fn watch(cores: &[Arc<CoreShared>], threshold: Duration, stop: &(Mutex<bool>, Condvar)) {
    let mut seen: Vec<Seen> = cores.iter().map(|_| Seen::new(None, threshold)).collect();
    let mut looks = Looks { threshold, last: Instant::now() };
    let mut stopped = lock(&stop.0);
    while !*stopped {
        let waited = stop.1.wait_timeout(stopped, threshold / 2);
        drop(waited); // a log subscriber may end the runtime, and this watchdog with it
        let absent = looks.absence(Instant::now());
        for (core, seen) in cores.iter().zip(&mut seen) {
            seen.since += absent;
            contain("a log subscriber", || look_at(core, seen, threshold));
        }
        stopped = lock(&stop.0);
    }
}

/// When this thread has looked.
struct Looks {
    threshold: Duration,
    last: Instant,
}

impl Looks {
    /// Notes a look, and returns the time before it in which this thread did not run though it was to. The process was
    /// stopped then, or the machine had no time for it: that says nothing about the polls.
    fn absence(&mut self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(std::mem::replace(&mut self.last, now));
        since.saturating_sub(self.threshold)
    }
}

fn look_at(core: &CoreShared, seen: &mut Seen, threshold: Duration) {
    let poll = core.counters.current_poll();
    let numbers = (poll.map(CurrentPoll::number), seen.poll.map(CurrentPoll::number));
    if numbers.0 != numbers.1 || poll.is_none() {
        let over = std::mem::replace(seen, Seen::new(poll, threshold));
        return if over.is_reported {
            goes_on(core, &over)
        };
    }
    seen.poll = poll;
    let held_for = seen.since.elapsed();
    if seen.is_reported {
        core.counters.stall_lasts(held_for, false);
    }
    if held_for >= threshold.saturating_mul(limits::STALLS_OF_A_HANG)
        && !std::mem::replace(&mut seen.hangs, true)
    {
        core.hangs.tell(true);
    }
    if held_for >= seen.told_at {
        seen.told_at = held_for.saturating_mul(2);
        report(core, seen, held_for);
    }
}

fn report(core: &CoreShared, seen: &mut Seen, held_for: Duration) {
    let (id, thread, task) = (core.id(), core.thread(), seen.name());
    let held_for_ms = held_for.as_millis() as u64;
    if std::mem::replace(&mut seen.is_reported, true) {
        let text = "the task has not let its core go on yet";
        return tracing::warn!(core = id, thread, task, held_for_ms, "{text}");
    }
    let task_name = seen.poll.and_then(CurrentPoll::name);
    core.counters.stalled(Stall { task: task_name, since: seen.since, held_for, is_over: false });
    tracing::warn!(
        core = id,
        thread,
        task,
        held_for_ms,
        "a task holds up its core: move blocking or long work to `spawn_blocking`, or declare its method \
         `offload`"
    );
}

fn goes_on(core: &CoreShared, over: &Seen) {
    let held_for = over.since.elapsed();
    core.counters.stall_lasts(held_for, true);
    if over.hangs {
        core.hangs.tell(false);
    }
    tracing::warn!(
        core = core.id(),
        thread = core.thread(),
        task = over.name(),
        held_for_ms = held_for.as_millis() as u64,
        "the task lets its core go on"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_nobody_looks_counts_for_no_poll() {
        let (ms, start) = (Duration::from_millis, Instant::now());
        let mut looks = Looks { threshold: ms(100), last: start };
        for (at, absence) in [(50, 0), (150, 0), (260, 10), (310, 0), (60_310, 59_900), (60_400, 0)]
        {
            assert_eq!(looks.absence(start + ms(at)), ms(absence), "at {at} ms");
        }
    }
}
