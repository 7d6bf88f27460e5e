//! Who waits for something to happen to a stream.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use crate::contain::{contain, drop_contained, drop_each};
use crate::limits;

/// Wakers of tasks, each once. Nearly always empty or of one.
///
/// Nothing here wakes or drops a waker while the list is borrowed: both may run foreign code.
#[derive(Default)]
pub(crate) struct Waiters {
    first: Option<Waker>,
    others: Option<Box<Others>>,
}

/// Those behind the first.
struct Others {
    wakers: Vec<Waker>,
    /// How long the list may get before everyone is asked whether they still wait.
    room: usize,
    /// The waker that was asked last, by its address: when its task is back, everyone who waits is.
    asked_last: Option<usize>,
}

impl Default for Others {
    fn default() -> Self {
        Self { wakers: Vec::new(), room: limits::STREAM_WAITERS, asked_last: None }
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

    /// Adds a waker that is not on the list. A full list is emptied, and the caller wakes whom it gets, the
    /// newest last: tasks that still wait come back, those that have given up do not. Until the newest
    /// is back the list may get twice as long, and from then on twice as long as it is at that moment.
    #[must_use]
    #[inline]
    pub(crate) fn add(&mut self, waker: Waker) -> Waiters {
        if self.first.is_none() && self.others.is_none() {
            self.first = Some(waker);
            return Waiters::default();
        }
        self.add_behind(waker)
    }

    #[cold]
    fn add_behind(&mut self, waker: Waker) -> Waiters {
        let newest = waker.data().addr();
        let others = self.others.get_or_insert_default();
        match &self.first {
            None => self.first = Some(waker),
            Some(_) => others.wakers.push(waker),
        }
        let length = others.wakers.len() + 1;
        if others.asked_last == Some(newest) {
            others.asked_last = None;
            others.room = (2 * length).max(limits::STREAM_WAITERS);
        }
        if length < others.room {
            return Waiters::default();
        }
        let room = (2 * others.room).min(limits::STREAM_WAITERS_MAX);
        let asked = self.take();
        let others = Others { wakers: Vec::new(), room, asked_last: Some(newest) };
        self.others = Some(Box::new(others));
        asked
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
            self.others.get_or_insert_default().wakers.extend(more.into_wakers());
        }
        self
    }

    /// As [`wake`](Self::wake), where something has to follow whatever the wakers do.
    pub(crate) fn wake_contained(self) {
        contain("a waker", || self.wake());
    }

    /// Drops everyone unwoken.
    pub(crate) fn retire(self) {
        drop_each("the destructor of a waker", self.into_wakers());
    }

    fn into_wakers(self) -> impl Iterator<Item = Waker> {
        self.first.into_iter().chain(self.others.into_iter().flat_map(|others| others.wakers))
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
        let mut panicked = None;
        for waker in self.into_wakers() {
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
    use std::collections::VecDeque;
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

    /// Tasks that wait by a list, and are polled in the order in which they are woken.
    #[derive(Default)]
    struct Crowd {
        waiters: Waiters,
        woken: VecDeque<usize>,
        polls: usize,
        longest: usize,
    }

    impl Crowd {
        fn ask(&mut self, task: usize) {
            let asked = self.waiters.add(numbered(task + 1));
            self.woken.extend(asked.into_wakers().map(|waker| waker.data().addr() - 1));
            self.longest = self.longest.max(self.len());
        }

        fn len(&self) -> usize {
            let others = self.waiters.others.as_ref().map_or(0, |others| others.wakers.len());
            usize::from(!self.waiters.is_empty()) + others
        }

        /// Polls who was woken until nobody is; those who `still_wait` come back.
        fn run(&mut self, still_wait: impl Fn(usize) -> bool) {
            while let Some(task) = self.woken.pop_front() {
                self.polls += 1;
                assert!(self.polls < 1_000_000, "they wake each other for ever");
                if still_wait(task) {
                    self.ask(task);
                }
            }
        }
    }

    /// A waker that is a number, as those of tasks are.
    fn numbered(number: usize) -> Waker {
        crate::sys::waker_of(crate::task::TaskToken::from_bits(number as u64))
    }

    #[test]
    fn however_many_wait_they_come_to_rest() {
        for tasks in [1, 1_023, 1_024, 1_025, 2_049, 10_000] {
            let mut crowd = Crowd::default();
            crowd.woken.extend(0..tasks);
            crowd.run(|_| true);
            assert_eq!(crowd.len(), tasks, "everyone is on the list");
            assert!(crowd.polls < 4 * tasks, "{} polls of {tasks} tasks", crowd.polls);
        }
    }

    #[test]
    fn those_who_have_given_up_do_not_gather() {
        let living = 2_000;
        let mut crowd = Crowd::default();
        crowd.woken.extend(0..living);
        crowd.run(|_| true);
        for newest in living..100_000 {
            crowd.ask(newest);
            crowd.run(|task| task < living || task == newest);
        }
        assert!(crowd.longest <= 2 * living + 2, "{} of {living}", crowd.longest);
        assert!(crowd.polls < 400_000, "{} polls", crowd.polls);
    }

    #[test]
    fn those_who_all_give_up_at_once_gather_up_to_the_bound() {
        let mut crowd = Crowd::default();
        for task in 0..3 * limits::STREAM_WAITERS_MAX {
            crowd.ask(task);
            crowd.run(|_| false);
        }
        assert!(crowd.longest < limits::STREAM_WAITERS_MAX, "{}", crowd.longest);
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
