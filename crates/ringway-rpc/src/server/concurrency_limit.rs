//! How many calls of one method run at once, on all cores together.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

use crate::waiters::{self, Waiters};

/// A limit that the cores of a server share. Cores whose calls wait leave a waker, and all of them
/// are woken when a call ends: each then tries for itself.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimit {
    limit: u32,
    running: AtomicU32,
    /// Whether `line` may hold anybody; spares the lock while nobody waits.
    awaited: AtomicBool,
    /// One for each core at most.
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

    /// Counts one more call, if it may run. Give it back with [`leave`](Self::leave).
    pub(crate) fn enter(&self) -> bool {
        let below = |running: u32| (running < self.limit).then_some(running + 1);
        self.running.fetch_update(Ordering::SeqCst, Ordering::SeqCst, below).is_ok()
    }

    /// A call has ended.
    pub(crate) fn leave(&self) {
        let before = self.running.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "a call leaves once");
        if self.awaited.swap(false, Ordering::SeqCst) {
            let line = self.line().take_all();
            waiters::wake_all(line);
        }
    }

    /// Wakes `waker` when a call has ended; try again after this, one may have ended meanwhile. A core
    /// keeps its `place`, and whoever waits for it there later takes that over.
    pub(crate) fn wait(&self, place: &mut Option<usize>, waker: &Waker) {
        let mut line = self.line();
        let former = line.wait(place, waker);
        drop(line);
        waiters::discard(former);
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
    fn only_so_many_enter_and_those_who_wait_are_woken_once() {
        let limit = ConcurrencyLimit::new(2);
        assert!(limit.enter() && limit.enter());
        assert!(!limit.enter());
        let (count, waker) = Count::waker();
        let mut place = None;
        limit.wait(&mut place, &waker);
        limit.wait(&mut place, &waker);
        limit.leave();
        limit.leave();
        assert_eq!(count.woken(), 1);
        assert!(limit.enter() && limit.enter() && !limit.enter());
    }

    #[test]
    fn a_core_has_one_place_however_often_it_has_waited() {
        let limit = ConcurrencyLimit::new(1);
        assert!(limit.enter());
        let mut place = None;
        for _ in 0..100 {
            limit.wait(&mut place, &Count::waker().1);
        }
        assert_eq!(limit.line().places(), 1);
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
