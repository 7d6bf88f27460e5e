//! Notifications without a value.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::waiters::{Offer, Turn, WaiterKey, WaiterList, poll_by};
use crate::contain::{drop_waker, wake};

/// Wakes tasks that wait for something to have changed.
///
/// [`notify_one`](Notify::notify_one) serves the longest waiter, or stores one permit for the next,
/// so a notification before the wait is not lost. [`notify_waiters`](Notify::notify_waiters) wakes
/// every future made so far and stores nothing.
///
/// ```
/// use std::pin::pin;
/// use std::task::{Context, Waker};
/// use ringway_runtime::sync::Notify;
///
/// let notify = Notify::new();
/// notify.notify_one();
/// let mut context = Context::from_waker(Waker::noop());
/// assert!(pin!(notify.notified()).poll(&mut context).is_ready());
/// assert!(pin!(notify.notified()).poll(&mut context).is_pending());
/// ```
pub struct Notify {
    state: RefCell<NotifyState>,
}

/// A future of a notification, made by [`Notify::notified`].
#[must_use = "a future does nothing until it is awaited"]
pub struct Notified<'a> {
    notify: &'a Notify,
    /// The broadcast count when this future was made; another count means that it was notified
    /// since.
    broadcasts_seen: u64,
    key: Option<WaiterKey>,
}

struct NotifyState {
    permit: bool,
    broadcasts: u64,
    line: WaiterList,
}

impl Notify {
    /// Creates a `Notify` without a permit.
    pub const fn new() -> Notify {
        let state = NotifyState { permit: false, broadcasts: 0, line: WaiterList::new() };
        Notify { state: RefCell::new(state) }
    }

    /// Waits for the next notification. Broadcasts count from this call on, not from the first
    /// poll.
    pub fn notified(&self) -> Notified<'_> {
        Notified { notify: self, broadcasts_seen: self.state.borrow().broadcasts, key: None }
    }

    /// Wakes the task that has waited longest; if there is none, stores one permit for the next to
    /// wait.
    pub fn notify_one(&self) {
        let mut state = self.state.borrow_mut();
        let first = state.line.grant_front();
        state.permit |= first.is_none();
        drop(state);
        if let Some(waker) = first {
            wake(waker);
        }
    }

    /// Ends the wait of every [`Notified`] made before this call.
    pub fn notify_waiters(&self) {
        let mut state = self.state.borrow_mut();
        state.broadcasts += 1;
        let limit = state.line.next_arrival();
        drop(state);
        while let Some(waker) = self.release_front(limit) {
            wake(waker);
        }
    }

    /// Separate from the loop above, so that the borrow ends before the wake.
    fn release_front(&self, limit: u64) -> Option<Waker> {
        self.state.borrow_mut().line.release_front(limit)
    }
}

impl NotifyState {
    fn poll(
        &mut self,
        key: &mut Option<WaiterKey>,
        broadcasts_seen: u64,
        offer: &mut Offer<'_>,
    ) -> Poll<()> {
        match self.line.turn(key, offer) {
            Turn::Waiting => return Poll::Pending,
            Turn::Granted | Turn::Released => return Poll::Ready(()),
            Turn::New => {}
        }
        if broadcasts_seen != self.broadcasts || std::mem::take(&mut self.permit) {
            return Poll::Ready(());
        }
        *key = self.line.join(1, offer);
        Poll::Pending
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        poll_by(cx, |offer| {
            this.notify.state.borrow_mut().poll(&mut this.key, this.broadcasts_seen, offer)
        })
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let (granted, stale) = self.notify.state.borrow_mut().line.leave(key);
        drop_waker(stale);
        if granted {
            self.notify.notify_one();
        }
    }
}

impl Default for Notify {
    fn default() -> Notify {
        Notify::new()
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notify").field("permit", &self.state.borrow().permit).finish()
    }
}

impl fmt::Debug for Notified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notified").field("waiting", &self.key.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Probe;
    use super::*;

    #[test]
    fn permits_do_not_add_up() {
        let (notify, probe) = (Notify::new(), Probe::new());
        notify.notify_one();
        notify.notify_one();
        assert!(probe.poll(&mut notify.notified()).is_ready());
        assert!(probe.poll(&mut notify.notified()).is_pending());
    }

    #[test]
    fn one_notification_serves_the_longest_waiter() {
        let notify = Notify::new();
        let (first, second) = (Probe::new(), Probe::new());
        let (mut a, mut b) = (notify.notified(), notify.notified());
        assert!(first.poll(&mut a).is_pending());
        assert!(second.poll(&mut b).is_pending());
        notify.notify_one();
        assert_eq!((first.wakes(), second.wakes()), (1, 0));
        assert!(second.poll(&mut b).is_pending());
        assert!(first.poll(&mut a).is_ready());
    }

    #[test]
    fn a_dropped_grant_goes_to_the_next_or_becomes_a_permit() {
        let notify = Notify::new();
        let (first, second) = (Probe::new(), Probe::new());
        let (mut a, mut b) = (notify.notified(), notify.notified());
        assert!(first.poll(&mut a).is_pending());
        assert!(second.poll(&mut b).is_pending());
        notify.notify_one();
        drop(a);
        assert_eq!(second.wakes(), 1);
        drop(b);
        assert!(first.poll(&mut notify.notified()).is_ready(), "the permit was stored");
    }

    #[test]
    fn a_broadcast_ends_every_future_made_before_it_and_stores_nothing() {
        let (notify, probe) = (Notify::new(), Probe::new());
        let (mut polled, mut unpolled) = (notify.notified(), notify.notified());
        assert!(probe.poll(&mut polled).is_pending());
        notify.notify_waiters();
        assert_eq!(probe.wakes(), 1);
        assert!(probe.poll(&mut polled).is_ready());
        assert!(probe.poll(&mut unpolled).is_ready());
        assert!(probe.poll(&mut notify.notified()).is_pending());
    }

    #[test]
    fn a_dropped_broadcast_is_not_passed_on() {
        let (notify, probe) = (Notify::new(), Probe::new());
        let mut waiting = notify.notified();
        assert!(probe.poll(&mut waiting).is_pending());
        notify.notify_waiters();
        drop(waiting);
        assert!(probe.poll(&mut notify.notified()).is_pending());
    }
}
