//! A limit on the calls of one method that run at once on all cores together.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

use crate::waiters::{self, Waiters};

/// A limit that the cores of a server share. Cores with queued calls leave a waker; all are woken when a
/// call ends, and each tries again.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimit {
    limit: u32,
    running: AtomicU32,
    /// Whether `line` may hold a waker; while it does not, ending a call takes no lock.
    awaited: AtomicBool,
    /// The wakers of cores with queued calls, at most one each.
    line: Mutex<Waiters>,
}

impl ConcurrencyLimit {
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            limit,
            running: AtomicU32::new(0),
            awaited: AtomicBool::new(false),
            line: Mutex::default(),
        }
    }

    /// Counts one more call if the limit allows it. [`leave`](Self::leave) ends the count.
    pub(crate) fn enter(&self) -> bool {
        let below = |running: u32| (running < self.limit).then_some(running + 1);
        self.running.fetch_update(Ordering::SeqCst, Ordering::SeqCst, below).is_ok()
    }

    /// How many more calls it would allow now.
    pub(crate) fn free(&self) -> u32 {
        self.limit.saturating_sub(self.running.load(Ordering::SeqCst))
    }

    /// Counts a call as ended and wakes the cores that wait.
    pub(crate) fn leave(&self) {
        let before = self.running.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "a call leaves once");
        if self.awaited.swap(false, Ordering::SeqCst) {
            let line = self.line().take_all();
            waiters::wake_all(line);
        }
    }

    /// Registers `waker` to be woken when a call ends. Try again afterwards, because one may have ended
    /// meanwhile. A core keeps its `slot` and replaces the waker in it.
    pub(crate) fn wait(&self, slot: &mut Option<usize>, waker: &Waker) {
        waiters::poll_with(waker, |waker| {
            let mut line = self.line();
            let former = line.wait(slot, waker);
            drop(line);
            waiters::discard(former);
        });
        self.awaited.store(true, Ordering::SeqCst);
    }

    fn line(&self) -> std::sync::MutexGuard<'_, Waiters> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::waiters::tests::Count;

    #[test]
    fn the_limit_holds_and_waiters_are_woken_once() {
        let limit = ConcurrencyLimit::new(2);
        assert!(limit.enter() && limit.enter());
        assert!(!limit.enter());
        let (count, waker) = Count::waker();
        let mut slot = None;
        limit.wait(&mut slot, &waker);
        limit.wait(&mut slot, &waker);
        limit.leave();
        limit.leave();
        assert_eq!(count.woken(), 1);
        assert!(limit.enter() && limit.enter() && !limit.enter());
    }

    #[test]
    fn a_core_has_one_slot_however_often_it_waits() {
        let limit = ConcurrencyLimit::new(1);
        assert!(limit.enter());
        let mut slot = None;
        for _ in 0..100 {
            limit.wait(&mut slot, &Count::waker().1);
        }
        assert_eq!(limit.line().slots(), 1);
    }

    #[test]
    fn threads_never_exceed_the_limit() {
        let limit = Arc::new(ConcurrencyLimit::new(3));
        let inside = Arc::new(AtomicU32::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (limit, inside) = (Arc::clone(&limit), Arc::clone(&inside));
                std::thread::spawn(move || {
                    for _ in 0..10_000 {
                        if limit.enter() {
                            assert!(inside.fetch_add(1, Ordering::SeqCst) < 3);
                            inside.fetch_sub(1, Ordering::SeqCst);
                            limit.leave();
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
        assert_eq!(limit.running.load(Ordering::SeqCst), 0);
    }
}
