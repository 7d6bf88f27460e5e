//! Tasks that wait for a socket.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use crate::contain::{contain, drop_contained, drop_each};
use crate::limits;

/// Wakers of tasks, each once. Nearly always empty or of one.
///
/// No method wakes or drops a waker while the list is borrowed, because both may run foreign code.
#[derive(Default)]
pub(crate) struct Waiters {
    first: Option<Waker>,
    others: Option<Box<Others>>,
}

/// The wakers behind the first.
struct Others {
    wakers: Vec<Waker>,
    /// The length at which all tasks are woken to see whether they still wait.
    room: usize,
    /// The address of the last waker that was woken for that: when its task is back, all waiting
    /// tasks are.
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

    /// Whether this waker's task is on the list.
    #[inline]
    pub(crate) fn contains(&self, waker: &Waker) -> bool {
        match (&self.first, &self.others) {
            (Some(first), _) if first.will_wake(waker) => true,
            (_, Some(others)) => others.wakers.iter().any(|other| other.will_wake(waker)),
            _ => false,
        }
    }

    /// Adds a waker that is not on the list. A full list is emptied into the result, which the
    /// caller wakes, the newest last: tasks that still wait come back, others do not. Until the
    /// newest is back the list may grow to twice its length, and from then on to twice its length
    /// at that moment.
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

    /// Empties the list; the caller wakes or drops its content outside the borrow.
    #[inline]
    pub(crate) fn take(&mut self) -> Waiters {
        std::mem::take(self)
    }

    /// Wakes the tasks of both lists.
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

    /// Joins both lists, to be woken together.
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

    /// As [`wake`](Self::wake), but contains a panic, so that the caller can continue.
    pub(crate) fn wake_contained(self) {
        contain("a waker", || self.wake());
    }

    /// Drops all wakers without waking them.
    pub(crate) fn retire(self) {
        drop_each("the destructor of a waker", self.into_wakers());
    }

    fn into_wakers(self) -> impl Iterator<Item = Waker> {
        self.first.into_iter().chain(self.others.into_iter().flat_map(|others| others.wakers))
    }

    /// Wakes all tasks. A panic of one waker does not keep others from being woken.
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

    /// Tasks that wait on a list and are polled in the order in which they are woken.
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

        /// Polls woken tasks until none is left; those for which `still_wait` holds wait again.
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

    /// A waker that is a number, as the wakers of tasks are.
    fn numbered(number: usize) -> Waker {
        crate::sys::waker_of(crate::task::TaskToken::from_bits(number as u64))
    }

    #[test]
    fn any_number_of_waiting_tasks_settles() {
        for tasks in [1, 1_023, 1_024, 1_025, 2_049, 10_000] {
            let mut crowd = Crowd::default();
            crowd.woken.extend(0..tasks);
            crowd.run(|_| true);
            assert_eq!(crowd.len(), tasks, "everyone is on the list");
            assert!(crowd.polls < 4 * tasks, "{} polls of {tasks} tasks", crowd.polls);
        }
    }

    #[test]
    fn wakers_of_tasks_that_gave_up_do_not_gather() {
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
    fn wakers_of_tasks_that_all_gave_up_gather_up_to_the_limit() {
        let mut crowd = Crowd::default();
        for task in 0..3 * limits::STREAM_WAITERS_MAX {
            crowd.ask(task);
            crowd.run(|_| false);
        }
        assert!(crowd.longest < limits::STREAM_WAITERS_MAX, "{}", crowd.longest);
    }

    #[test]
    fn a_panic_of_a_waker_does_not_keep_others_waiting() {
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
