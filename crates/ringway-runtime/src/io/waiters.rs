//! Who waits for something to happen to a stream.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, Waker};

use crate::contain::{contain, drop_contained, drop_each};
use crate::limits;

/// A handle whose state lists who waits for it.
pub(super) trait Waitable {
    type State;

    /// Looks at the state; nothing foreign may run meanwhile.
    fn with<T>(&self, f: impl FnOnce(&mut Self::State) -> T) -> T;
}

/// Asks `poll`, and puts the task on a list while the answer is not there. The waker is cloned, and
/// those of a full list are woken, while nothing is borrowed.
#[inline]
pub(super) fn poll_or_wait<H: Waitable, T>(
    handle: &H,
    cx: &mut Context<'_>,
    list: impl Fn(&mut H::State) -> &mut Waiters,
    mut poll: impl FnMut(&mut H::State) -> Poll<T>,
) -> Poll<T> {
    let polled = handle.with(|state| match poll(state) {
        Poll::Pending if !list(state).contains(cx.waker()) => None,
        polled => Some(polled),
    });
    if let Some(polled) = polled {
        return polled;
    }
    let waker = cx.waker().clone();
    handle.with(|state| list(state).add(waker)).wake_contained();
    Poll::Pending
}

/// Wakers of tasks, each once. Nearly always empty or of one.
///
/// Nothing here wakes or drops a waker while the list is borrowed: both may run foreign code.
#[derive(Default)]
pub(crate) struct Waiters {
    first: Option<Waker>,
    others: Option<Box<Others>>,
}

struct Others {
    wakers: Vec<Waker>,
    /// How many are a full list.
    room: usize,
}

impl Default for Others {
    fn default() -> Self {
        Self { wakers: Vec::new(), room: limits::STREAM_WAITERS }
    }
}

impl Waiters {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Whether this waker's task is waiting already.
    #[inline]
    pub(crate) fn contains(&self, waker: &Waker) -> bool {
        match (&self.first, &self.others) {
            (Some(first), _) if first.will_wake(waker) => true,
            (_, Some(others)) => others.wakers.iter().any(|other| other.will_wake(waker)),
            _ => false,
        }
    }

    /// Adds a waker that is not on the list. A full list leaves as a whole, and the caller wakes it: tasks
    /// that still wait come back and find twice the room, so all have a place before long; those of
    /// tasks that have given up are gone.
    #[must_use]
    pub(crate) fn add(&mut self, waker: Waker) -> Waiters {
        if self.first.is_none() {
            self.first = Some(waker);
            return Waiters::default();
        }
        let others = self.others.get_or_insert_default();
        if others.wakers.len() + 1 < others.room {
            others.wakers.push(waker);
            return Waiters::default();
        }
        let room = others.room.saturating_mul(2);
        let roomier = Box::new(Others { wakers: Vec::new(), room });
        std::mem::replace(self, Waiters { first: Some(waker), others: Some(roomier) })
    }

    /// Empties the list; what it held is woken or dropped when nothing is borrowed any more.
    #[inline]
    pub(crate) fn take(&mut self) -> Waiters {
        std::mem::take(self)
    }

    /// Wakes those of both lists.
    #[inline]
    pub(crate) fn wake_both(self, more: Waiters) {
        if self.is_empty() {
            return more.wake();
        }
        if more.is_empty() {
            return self.wake();
        }
        self.and(more).wake_several();
    }

    /// Those of both lists, to be woken together.
    #[cold]
    #[must_use]
    pub(crate) fn and(mut self, more: Waiters) -> Waiters {
        if self.is_empty() {
            return more;
        }
        if !more.is_empty() {
            let others = &mut self.others.get_or_insert_default().wakers;
            let later = more.others.into_iter().flat_map(|others| others.wakers);
            others.extend(more.first.into_iter().chain(later));
        }
        self
    }

    /// As [`wake`](Self::wake), where something has to follow whatever the wakers do.
    #[inline]
    pub(crate) fn wake_contained(self) {
        if self.is_empty() {
            return;
        }
        contain("a waker", || self.wake());
    }

    /// Drops everyone unwoken.
    pub(crate) fn retire(self) {
        let others = self.others.into_iter().flat_map(|others| others.wakers);
        drop_each("the destructor of a waker", self.first.into_iter().chain(others));
    }

    /// Wakes everyone. A panic of one waker keeps no other from being woken.
    #[inline]
    pub(crate) fn wake(self) {
        if self.others.is_some() {
            return self.wake_several();
        }
        self.first.into_iter().for_each(Waker::wake);
    }

    #[cold]
    fn wake_several(self) {
        let others = self.others.into_iter().flat_map(|others| others.wakers);
        let mut panicked = None;
        for waker in self.first.into_iter().chain(others) {
            let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) else { continue };
            drop_contained("the payload of a panic", panicked.replace(panic));
        }
        if let Some(panic) = panicked {
            std::panic::resume_unwind(panic);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;
    use crate::sync::testing::Count;

    fn counts(count: usize) -> Vec<Arc<Count>> {
        (0..count).map(|_| Arc::default()).collect()
    }

    fn woken(counts: &[Arc<Count>]) -> usize {
        counts.iter().map(|count| count.woken()).sum()
    }

    #[test]
    fn everyone_is_woken_once() {
        let counts = counts(3);
        let mut waiters = Waiters::default();
        for count in &counts {
            let waker = Waker::from(count.clone());
            assert!(!waiters.contains(&waker));
            assert!(waiters.add(waker.clone()).is_empty());
            assert!(waiters.contains(&waker));
        }
        waiters.take().wake();
        assert!(waiters.is_empty());
        assert!(counts.iter().all(|count| count.woken() == 1));
    }

    #[test]
    fn a_full_list_is_woken_as_a_whole_and_has_twice_the_room_afterwards() {
        let room = limits::STREAM_WAITERS;
        let counts = counts(3 * room + 1);
        let mut waiters = Waiters::default();
        for (added, count) in counts.iter().enumerate() {
            let full = waiters.add(count.clone().into());
            assert_eq!(!full.is_empty(), added == room || added == 3 * room, "after {added}");
            full.wake();
            assert_eq!(
                woken(&counts),
                if added < room {
                    0
                } else if added < 3 * room {
                    room
                } else {
                    3 * room
                }
            );
        }
        waiters.take().wake();
        assert!(counts.iter().all(|count| count.woken() == 1));
    }

    #[test]
    fn tasks_that_still_wait_come_to_rest_however_many_they_are() {
        let counts = counts(5 * limits::STREAM_WAITERS / 2);
        let mut waiters = Waiters::default();
        let mut awake: Vec<_> = counts.iter().collect();
        let mut polls = 0;
        while let Some(count) = awake.pop() {
            polls += 1;
            let before = woken(&counts);
            waiters.add(count.clone().into()).wake();
            if woken(&counts) > before {
                awake = counts
                    .iter()
                    .filter(|other| !waiters.contains(&Waker::from((*other).clone())))
                    .collect();
            }
            assert!(polls < 4 * counts.len(), "they keep the core awake");
        }
        assert!(counts.iter().all(|count| waiters.contains(&count.clone().into())));
    }

    #[test]
    fn a_waker_that_panics_keeps_nobody_else_waiting() {
        struct Panics;
        impl Wake for Panics {
            fn wake(self: Arc<Self>) {
                panic!("on purpose");
            }
        }
        let counts = counts(2);
        let mut waiters = Waiters::default();
        for waker in [counts[0].clone().into(), Arc::new(Panics).into(), counts[1].clone().into()] {
            assert!(waiters.add(waker).is_empty());
        }
        assert!(catch_unwind(AssertUnwindSafe(|| waiters.take().wake())).is_err());
        assert_eq!(woken(&counts), 2);
    }
}
