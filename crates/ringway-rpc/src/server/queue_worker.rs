//! The task that runs the queued calls of one method on one core.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::Poll;
use std::time::Duration;

use ringway_runtime::{Sleep, spawn_named};

use super::core::ServerCore;
use super::method_entry::MethodEntry;
use super::queue::Overdue;
use crate::limits;

impl ServerCore {
    /// Starts the queue's worker task unless it runs already.
    pub(super) fn work_off_queue(self: &Rc<Self>, method_index: usize) {
        if self.entry(method_index).wants_worker() {
            spawn_named("queue of calls", work_off(Rc::downgrade(self), method_index));
        }
    }
}

/// Runs queued calls as others end, and sheds those that have waited for too long. It ends when the queue
/// is empty; the next call that has to wait starts it again.
async fn work_off(core: Weak<ServerCore>, method_index: usize) {
    let mut alarm: Option<(Duration, Sleep)> = None;
    let working = Working { core, method_index };
    poll_fn(|cx| {
        let Some(core) = working.core.upgrade() else { return Poll::Ready(()) };
        let entry = core.entry(method_index);
        entry.set_worker(cx.waker());
        let now = core.now();
        let has_time = end_overdue(entry, now) && run_queued(&core, method_index, now);
        if !has_time {
            cx.waker().wake_by_ref(); // continues in the next turn
        }
        if !entry.has_queue() {
            return Poll::Ready(());
        }
        let Some(due) = entry.next_overdue(now) else { return Poll::Pending };
        if !alarm.as_ref().is_some_and(|(at, _)| *at <= due && *at > now) {
            let mut sleep = core.sleep_until(due);
            if Pin::new(&mut sleep).poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
            alarm = Some((due, sleep));
        }
        Poll::Pending
    })
    .await;
}

/// Marks the queue as having a worker until this is dropped.
struct Working {
    core: Weak<ServerCore>,
    method_index: usize,
}

impl Drop for Working {
    /// Starts another worker if this one panicked while calls wait.
    fn drop(&mut self) {
        let Some(core) = self.core.upgrade() else { return };
        let entry = core.entry(self.method_index);
        entry.dismiss_worker();
        if entry.has_queue() && std::thread::panicking() {
            core.work_off_queue(self.method_index);
        }
    }
}

/// Answers calls that have waited for too long; false if there are more of them.
fn end_overdue(entry: &MethodEntry, now: Duration) -> bool {
    for _ in 0..limits::OVERDUE_PER_TURN {
        match entry.pop_overdue(now) {
            Some(Overdue::Shed(waiter)) => waiter.shed(),
            Some(Overdue::Expired(waiter)) => waiter.expire(),
            None => return true,
        }
    }
    false
}

/// Runs as many calls as the limit allows; false if the core has no time for more in this turn. At least
/// one call runs each time, so that a busy core does not starve the queue.
fn run_queued(core: &Rc<ServerCore>, method_index: usize, now: Duration) -> bool {
    let entry = core.entry(method_index);
    let mut has_run = false;
    while entry.has_queue() {
        if has_run && core.is_spent(now) {
            return false;
        }
        if !entry.enter(true) {
            return true; // the worker is woken when a call ends
        }
        let next = entry.pop(now);
        let runs = next.is_some_and(|(waited, waiter)| waiter.run(waited));
        has_run |= runs;
        if !runs {
            entry.leave();
        }
    }
    true
}
