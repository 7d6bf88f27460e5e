//! Who waits for something to happen to a stream.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, Waker};

use crate::contain::{contain, drop_contained, drop_each, wake};
use crate::limits;

/// A handle whose state lists who waits for it.
pub(super) trait Waitable {
    type State;

    /// Looks at the state; nothing foreign may run meanwhile.
    fn with<T>(&self, f: impl FnOnce(&mut Self::State) -> T) -> T;
}

/// Asks `poll`, and puts the task on a list while the answer is not there. The waker is cloned, and
/// whoever leaves a full list is woken, while nothing is borrowed.
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
    let longest = handle.with(|state| list(state).add(waker));
    if let Some(longest) = longest {
        wake(longest);
    }
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

#[derive(Default)]
struct Others(VecDeque<Waker>);

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
            (_, Some(others)) => others.0.iter().any(|other| other.will_wake(waker)),
            _ => false,
        }
    }

    /// Adds a waker that is not on the list. Of a full list the one that has waited longest leaves,
    /// and the caller wakes it: a task that still waits comes back, and one that has given up makes
    /// room.
    #[must_use]
    pub(crate) fn add(&mut self, waker: Waker) -> Option<Waker> {
        if self.first.is_none() {
            self.first = Some(waker);
            return None;
        }
        let others = &mut self.others.get_or_insert_default().0;
        others.push_back(waker);
        if others.len() < limits::STREAM_WAITERS_MAX {
            return None;
        }
        let second = others.pop_front();
        std::mem::replace(&mut self.first, second)
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
            let others = &mut self.others.get_or_insert_default().0;
            others.extend(more.first.into_iter().chain(more.others.into_iter().flat_map(|o| o.0)));
        }
        self
    }

    /// As [`wake`](Self::wake), where something has to follow whatever the wakers do.
    pub(crate) fn wake_contained(self) {
        contain("a waker", || self.wake());
    }

    /// Drops everyone unwoken.
    pub(crate) fn retire(self) {
        let others = self.others.into_iter().flat_map(|others| others.0);
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
        let others = self.others.into_iter().flat_map(|others| others.0);
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
            assert!(waiters.add(waker.clone()).is_none());
            assert!(waiters.contains(&waker));
        }
        waiters.take().wake();
        assert!(waiters.is_empty());
        assert!(counts.iter().all(|count| count.woken() == 1));
    }

    #[test]
    fn a_full_list_gives_up_the_one_that_has_waited_longest() {
        let counts = counts(limits::STREAM_WAITERS_MAX + 2);
        let mut waiters = Waiters::default();
        let mut left = 0;
        for count in &counts {
            if let Some(longest) = waiters.add(count.clone().into()) {
                longest.wake();
                left += 1;
                assert_eq!(woken(&counts[..left]), left);
            }
        }
        assert_eq!((left, woken(&counts)), (2, 2));
        waiters.take().wake();
        assert_eq!(woken(&counts), counts.len());
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
            assert!(waiters.add(waker).is_none());
        }
        assert!(catch_unwind(AssertUnwindSafe(|| waiters.take().wake())).is_err());
        assert_eq!(woken(&counts), 2);
    }
}
