//! The task that looks after the calls that wait for one method on one core.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::Poll;
use std::time::Duration;

use ringway_runtime::Sleep;

use super::core::ServerCore;

/// Runs queued calls as others end, and sheds those that have waited for too long. Ends when the
/// queue is empty; the next call that has to wait begins it again.
pub(super) async fn keep(core: Weak<ServerCore>, place: usize) {
    let mut alarm: Option<(Duration, Sleep)> = None;
    poll_fn(|cx| {
        let Some(core) = core.upgrade() else { return Poll::Ready(()) };
        let entry = core.entry(place);
        entry.set_keeper(cx.waker());
        run_queued(&core, place);
        let now = core.now();
        while let Some(shed) = entry.pop_expired(now) {
            shed.shed(entry);
        }
        let Some(due) = entry.next_expiry(now) else {
            entry.dismiss_keeper();
            return Poll::Ready(());
        };
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

/// Runs as many as may run.
fn run_queued(core: &Rc<ServerCore>, place: usize) {
    let entry = core.entry(place);
    while entry.has_queue() {
        if !entry.enter() {
            return;
        }
        let now = core.now();
        let next = entry.pop(now);
        let runs = next.is_some_and(|(waited, queued)| queued.run(place, waited));
        if !runs {
            entry.leave();
        }
    }
}
