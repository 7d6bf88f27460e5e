//! The task that looks after the calls that wait for one method on one core.

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
    /// Makes sure that somebody looks after a queue that has begun to fill.
    pub(super) fn work_off_queue(self: &Rc<Self>, place: usize) {
        if self.entry(place).wants_worker() {
            spawn_named("queue of calls", keep(Rc::downgrade(self), place));
        }
    }
}

/// Runs queued calls as others end, and sheds those that have waited for too long. Ends when the
/// queue is empty; the next call that has to wait begins it again.
async fn keep(core: Weak<ServerCore>, place: usize) {
    let mut alarm: Option<(Duration, Sleep)> = None;
    let keeping = Working { core, place };
    poll_fn(|cx| {
        let Some(core) = keeping.core.upgrade() else { return Poll::Ready(()) };
        let entry = core.entry(place);
        entry.set_worker(cx.waker());
        let now = core.now();
        let has_time = end_overdue(entry, now) && run_queued(&core, place, now);
        if !has_time {
            cx.waker().wake_by_ref(); // it goes on in the next turn
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

/// The queue is looked after until this is dropped.
struct Working {
    core: Weak<ServerCore>,
    place: usize,
}

impl Drop for Working {
    /// A panic leaves those who wait to another task.
    fn drop(&mut self) {
        let Some(core) = self.core.upgrade() else { return };
        let entry = core.entry(self.place);
        entry.dismiss_worker();
        if entry.has_queue() && std::thread::panicking() {
            core.work_off_queue(self.place);
        }
    }
}

/// Answers those for whom it is too late; false if there are more of them.
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

/// Runs as many as may run; false if the core has no time for more of them in this turn. One has
/// its turn in any case, whatever the others of the core do.
fn run_queued(core: &Rc<ServerCore>, place: usize, now: Duration) -> bool {
    let entry = core.entry(place);
    let mut has_run = false;
    while entry.has_queue() {
        if has_run && core.is_spent(now) {
            return false;
        }
        if !entry.enter(true) {
            return true; // and is woken when a call ends
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
