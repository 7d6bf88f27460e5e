//! Calls of a pool that wait in the queue for room, or for a timer.

use std::cell::{Cell, RefCell};
use std::task::Waker;
use std::time::{Duration, Instant};

use ringway_runtime as runtime;

use super::load_balancer::EndpointId;
use super::task_waker::TaskWaker;
use super::timers::Timers;
use super::wait_queue::{WaitArgs, WaitQueue, WaiterKey};
use crate::slab::SlabKey;
use crate::waiters;

pub(super) struct WaitingCalls {
    queue: RefCell<WaitQueue>,
    /// A copy of the queue's counters, which is read without borrowing the queue.
    counts: Cell<QueueCounts>,
    timers: RefCell<Timers>,
    /// The pool's task, which wakes calls in time.
    pool_task: TaskWaker,
}

#[derive(Clone, Copy, Default)]
struct QueueCounts {
    waiting: usize,
    /// Calls that were told to be sent and have not been.
    called: usize,
}

impl WaitingCalls {
    pub(super) fn new() -> Self {
        Self {
            queue: RefCell::default(),
            counts: Cell::default(),
            timers: RefCell::default(),
            pool_task: TaskWaker::new(),
        }
    }

    pub(super) fn pool_task(&self) -> &TaskWaker {
        &self.pool_task
    }

    /// Whether calls wait for room.
    #[inline]
    pub(super) fn has_queued(&self) -> bool {
        self.counts.get().waiting > 0
    }

    /// The number of calls that wait for room, those included that were told to be sent.
    pub(super) fn queued(&self) -> usize {
        let QueueCounts { waiting, called } = self.counts.get();
        waiting + called
    }

    /// A lower bound of the deadlines of calls that wait.
    pub(super) fn earliest_deadline(&self) -> Option<Instant> {
        self.queue.borrow().earliest()
    }

    /// Whether the pool's task is needed.
    pub(super) fn needs_pool_task(&self) -> bool {
        self.has_queued() || self.timers.borrow().earliest().is_some()
    }

    /// Whether a call may be sent now. Calls that wait come first.
    #[inline]
    pub(super) fn may_send(
        &self,
        waiter: Option<WaiterKey>,
        capacity: impl FnOnce() -> usize,
    ) -> bool {
        let QueueCounts { waiting, called } = self.counts.get();
        match waiter {
            _ if waiting == 0 && called == 0 => true,
            Some(waiter) => waiting == 0 || self.queue.borrow().may_go(waiter),
            None => waiting == 0 && capacity() > called,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.queue.borrow().is_full()
    }

    /// Adds a call to the queue, or updates one that waits again.
    pub(super) fn wait(
        &self,
        waiter: Option<WaiterKey>,
        wait: WaitArgs,
        now: Instant,
    ) -> WaiterKey {
        let (waiter, former) = self.with_queue(|queue| queue.wait(waiter, wait, now));
        waiters::discard(former);
        self.pool_task.wake();
        waiter
    }

    /// Removes a call that was sent.
    pub(super) fn serve(&self, waiter: WaiterKey) {
        let now = runtime::now();
        let left = self.with_queue(|queue| queue.serve(waiter, now));
        waiters::discard(left);
    }

    /// How long a call has waited that is to fail, because its servers are overloaded.
    pub(super) fn has_shed(&self, waiter: WaiterKey) -> Option<Duration> {
        self.queue.borrow().has_shed(waiter, runtime::now())
    }

    /// Removes a call that was not sent.
    pub(super) fn give_up(&self, waiter: WaiterKey) {
        let left = self.with_queue(|queue| queue.give_up(waiter));
        waiters::discard(left);
    }

    /// Tells as many calls to be sent as there is room for. `are_leased` tells whether the servers have said that they
    /// take no more.
    pub(super) fn offer_room(&self, capacity: usize, are_leased: bool) {
        let mut room = capacity.saturating_sub(self.counts.get().called);
        if room > 0 && self.queue.borrow().overdue().is_none() {
            self.pool_task.wake(); // it checks that they are sent
        }
        let now = runtime::now();
        self.with_queue(|queue| queue.look_at_load(are_leased, now));
        while room > 0 {
            let Some(waker) = self.with_queue(|queue| queue.call_next(now)) else {
                return;
            };
            waiters::wake(waker);
            room -= 1;
        }
    }

    /// Wakes the calls that wait for this endpoint, or for any with `None`.
    pub(super) fn wake_owned(&self, endpoint: Option<EndpointId>) {
        let mut woken = Vec::new();
        self.queue.borrow_mut().wake_owned(endpoint, &mut woken);
        waiters::wake_all(woken);
    }

    /// Wakes all impatient calls that wait for room, because no server can be reached.
    pub(super) fn dismiss(&self) {
        let mut woken = Vec::new();
        self.with_queue(|queue| queue.dismiss(&mut woken));
        waiters::wake_all(woken);
    }

    /// Wakes calls whose time has come, and passes over those that do not react.
    pub(super) fn expire(&self, now: Instant) {
        let mut woken = Vec::new();
        self.timers.borrow_mut().expire(now, &mut woken);
        self.with_queue(|queue| {
            queue.expire(now, &mut woken);
            queue.pass_over(now);
            queue.shed(now, &mut woken);
        });
        waiters::wake_all(woken);
    }

    /// The time at which [`expire`](Self::expire) has to run next.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let (queue, timers) = (self.queue.borrow(), self.timers.borrow());
        let queued = queue
            .earliest()
            .into_iter()
            .chain(queue.overdue())
            .chain(queue.shed_at(runtime::now()));
        queued.chain(timers.earliest()).min()
    }

    /// Wakes `waker` at `until`, reusing the timer if there is one.
    pub(super) fn set_timer(
        &self,
        timer: Option<SlabKey>,
        waker: &Waker,
        until: Instant,
    ) -> SlabKey {
        let waker = waker.clone(); // code of a user, perhaps
        let (timer, former) = self.timers.borrow_mut().set(timer, waker, until);
        waiters::discard(former);
        self.pool_task.wake();
        timer
    }

    pub(super) fn clear_timer(&self, timer: SlabKey) {
        let left = self.timers.borrow_mut().clear(timer);
        waiters::discard(left);
    }

    /// Wakes and removes all waiting calls because the pool is closed.
    pub(super) fn end_all(&self) {
        let mut woken = Vec::new();
        self.timers.borrow_mut().end_all(&mut woken);
        self.with_queue(|queue| queue.dissolve(&mut woken));
        waiters::wake_all(woken);
        self.pool_task.wake();
    }

    fn with_queue<R>(&self, f: impl FnOnce(&mut WaitQueue) -> R) -> R {
        let mut queue = self.queue.borrow_mut();
        let result = f(&mut queue);
        self.counts.set(QueueCounts { waiting: queue.waiting(), called: queue.called() });
        result
    }

    /// Whether no call waits.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.queue.borrow().is_empty() && self.timers.borrow().is_empty()
    }
}
