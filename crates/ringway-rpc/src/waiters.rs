//! Wakers that are stored in a state which is locked or borrowed, and cloned, woken and dropped outside of it.
//!
//! A waker may belong to any executor: cloning, waking or dropping it may run any code, which may come back
//! to the same state or panic. So the state collects what is to be woken or dropped as errands, and its
//! borrower runs them once the state is free again. [`Borrowed`] does that by itself. Clones are made by
//! [`poll_with`].

use std::cell::{RefCell, RefMut};
use std::ops::{Deref, DerefMut};
use std::task::Waker;

use ringway_runtime::{contain, drop_contained, is_own_waker};

/// Wakes a task. A panic of its executor is contained.
#[inline]
pub(crate) fn wake(waker: Waker) {
    contain("a waker", || waker.wake());
}

/// Wakes all tasks, even if one of them panics.
pub(crate) fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(wake);
}

/// Drops a waker that was replaced. A panic of its executor is contained.
#[inline]
pub(crate) fn discard(waker: Option<Waker>) {
    if let Some(waker) = waker {
        drop_contained("a waker", waker);
    }
}

/// The waker of whoever polls a state; made by [`poll_with`].
pub(crate) struct LatestWaker<'a> {
    latest: &'a Waker,
    clone: Option<Waker>,
    /// It was to be stored, and there was no clone of it.
    is_wanted: bool,
}

impl LatestWaker<'_> {
    /// Stores it. Returns the waker it replaces, to be [discarded](discard) outside of the state.
    #[inline]
    #[must_use = "it is dropped outside of the state"]
    pub(crate) fn renew(&mut self, slot: &mut Option<Waker>) -> Option<Waker> {
        match slot {
            Some(waker) if waker.will_wake(self.latest) => None,
            slot => self.put(slot),
        }
    }

    #[inline]
    fn put(&mut self, slot: &mut Option<Waker>) -> Option<Waker> {
        match self.clone.take() {
            Some(clone) => slot.replace(clone),
            None if is_own_waker(self.latest) => slot.replace(self.latest.clone()),
            None => {
                self.is_wanted = true;
                None
            }
        }
    }
}

/// Polls a state, which `poll` borrows and gives back. When it wants to store a waker of another executor,
/// that is cloned outside of the borrow and the state polled again, to see what the clone has brought about.
#[inline]
pub(crate) fn poll_with<R>(waker: &Waker, mut poll: impl FnMut(&mut LatestWaker<'_>) -> R) -> R {
    let mut latest = LatestWaker { latest: waker, clone: None, is_wanted: false };
    let polled = poll(&mut latest);
    if !latest.is_wanted {
        return polled;
    }
    latest.clone = Some(waker.clone());
    let polled = poll(&mut latest);
    discard(latest.clone);
    polled
}

/// What to do once a state is not borrowed any more.
#[derive(Default)]
pub(crate) struct Errands {
    /// The first errand; mostly there is only one, which needs no allocation.
    first: Option<Errand>,
    more: Vec<Errand>,
}

enum Errand {
    Wake(Waker),
    Drop(Waker),
    Run(Box<dyn FnOnce()>),
}

impl Errands {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Adds waking the waiter, whose waker is taken out.
    #[inline]
    pub(crate) fn wake(&mut self, waiter: &mut Option<Waker>) {
        if let Some(waker) = waiter.take() {
            self.add(Errand::Wake(waker));
        }
    }

    /// Stores the waiter's latest waker, and adds dropping the one it replaces.
    #[inline]
    pub(crate) fn renew(&mut self, waiter: &mut Option<Waker>, latest: &mut LatestWaker<'_>) {
        let former = latest.renew(waiter);
        self.discard(former);
    }

    #[inline]
    pub(crate) fn discard(&mut self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.add(Errand::Drop(waker));
        }
    }

    /// Adds any other code that wakes somebody.
    pub(crate) fn later(&mut self, run: impl FnOnce() + 'static) {
        self.add(Errand::Run(Box::new(run)));
    }

    #[inline]
    fn add(&mut self, errand: Errand) {
        match self.first {
            None => self.first = Some(errand),
            Some(_) => self.more.push(errand),
        }
    }

    /// Runs the errands and returns their memory for reuse.
    pub(crate) fn run(mut self) -> Self {
        for errand in self.first.take().into_iter().chain(self.more.drain(..)) {
            match errand {
                Errand::Wake(waker) => wake(waker),
                Errand::Drop(waker) => discard(Some(waker)),
                Errand::Run(run) => _ = contain("a waker", run),
            }
        }
        self
    }
}

/// A state that collects errands.
pub(crate) trait HasErrands {
    fn errands(&mut self) -> &mut Errands;
}

/// A borrowed state. Its errands are run when the borrow ends.
pub(crate) struct Borrowed<'a, T: HasErrands> {
    /// The borrow, until this is dropped.
    state: Option<RefMut<'a, T>>,
    cell: &'a RefCell<T>,
}

impl<'a, T: HasErrands> Borrowed<'a, T> {
    #[inline]
    pub(crate) fn of(cell: &'a RefCell<T>) -> Self {
        Self { state: Some(cell.borrow_mut()), cell }
    }
}

impl<T: HasErrands> Deref for Borrowed<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.state.as_ref().expect(BORROWED)
    }
}

impl<T: HasErrands> DerefMut for Borrowed<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.state.as_mut().expect(BORROWED)
    }
}

impl<T: HasErrands> Drop for Borrowed<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(mut state) = self.state.take()
            && !state.errands().is_empty()
        {
            run(self.cell, state);
        }
    }
}

/// The reason why `state` is present.
const BORROWED: &str = "it is given back when this is dropped";

#[inline(never)]
fn run<T: HasErrands>(cell: &RefCell<T>, mut state: RefMut<'_, T>) {
    let errands = std::mem::take(state.errands());
    drop(state);
    let memory = errands.run();
    if let Ok(mut state) = cell.try_borrow_mut()
        && state.errands().is_empty()
    {
        *state.errands() = memory;
    }
}

/// The wakers of all that wait for the same event, each in a slot of its own.
#[derive(Default, Debug)]
pub(crate) struct Waiters {
    /// The slots; as many as ever waited at once.
    slots: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Waiters {
    /// Stores a waiter's waker in its `slot`, or in a new one. The returned waker is to be
    /// [discarded](discard).
    #[must_use = "it is dropped outside of the state"]
    pub(crate) fn wait(
        &mut self,
        slot: &mut Option<usize>,
        waker: &mut LatestWaker<'_>,
    ) -> Option<Waker> {
        let slot = *slot.get_or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.slots.push(None);
                self.slots.len() - 1
            })
        });
        waker.renew(&mut self.slots[slot])
    }

    /// Frees a waiter's slot, if it has one. The returned waker is to be [discarded](discard).
    #[must_use = "it is dropped outside of the state"]
    pub(crate) fn leave(&mut self, slot: &mut Option<usize>) -> Option<Waker> {
        let slot = slot.take()?;
        self.free.push(slot);
        self.slots[slot].take()
    }

    #[cfg(test)]
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Takes the wakers of all that wait, to be [woken](wake_all). The waiters keep their slots.
    pub(crate) fn take_all(&mut self) -> Vec<Waker> {
        self.slots.iter_mut().filter_map(Option::take).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Poll, Wake};

    use ringway_runtime::block_on;

    use super::*;

    /// A waker that counts how often it was woken.
    #[derive(Default)]
    pub(crate) struct Count(AtomicUsize);

    impl Count {
        pub(crate) fn waker() -> (Arc<Self>, Waker) {
            let count = Arc::new(Self::default());
            (Arc::clone(&count), Waker::from(count))
        }

        pub(crate) fn woken(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A waker that panics when it is woken and when it is dropped.
    struct Angry;

    impl Wake for Angry {
        fn wake(self: Arc<Self>) {
            std::mem::forget(self);
            panic!("woken");
        }
    }

    impl Drop for Angry {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    fn angry() -> Waker {
        Waker::from(Arc::new(Angry))
    }

    #[test]
    fn each_waiter_has_a_slot_that_is_reused() {
        let mut waiters = Waiters::default();
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let wait = |waiters: &mut Waiters, place: &mut Option<usize>| {
            poll_with(&waker, |waker| waiters.wait(place, waker))
        };
        let [mut first, mut second] = [None; 2];
        for _ in 0..3 {
            assert!(wait(&mut waiters, &mut first).is_none());
            assert!(wait(&mut waiters, &mut second).is_none());
        }
        assert_eq!(waiters.slots(), 2);
        assert!(waiters.leave(&mut first).is_some() && waiters.leave(&mut first).is_none());
        for _ in 0..1_000 {
            let mut passing = None;
            assert!(wait(&mut waiters, &mut passing).is_none());
            assert!(waiters.leave(&mut passing).is_some());
        }
        assert_eq!(waiters.slots(), 2, "every slot was freed");
        wake_all(waiters.take_all());
        assert_eq!(count.woken(), 1);
    }

    #[test]
    fn panics_of_executors_are_contained() {
        let count = Arc::new(Count::default());
        wake_all([angry(), Waker::from(Arc::clone(&count)), angry()]);
        assert_eq!(count.woken(), 1);
        discard(Some(angry()));
    }

    struct State {
        waiter: Option<Waker>,
        errands: Errands,
    }

    impl HasErrands for State {
        fn errands(&mut self) -> &mut Errands {
            &mut self.errands
        }
    }

    /// A waker that borrows the state when it is woken and when it is dropped.
    struct ComesBack(std::thread::ThreadId);

    thread_local! {
        static STATE: Rc<RefCell<State>> =
            Rc::new(RefCell::new(State { waiter: None, errands: Errands::default() }));
        static CAME_BACK: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }

    impl ComesBack {
        fn come_back(&self) {
            assert_eq!(self.0, std::thread::current().id());
            STATE.with(|state| drop(Borrowed::of(state)));
            CAME_BACK.set(CAME_BACK.get() + 1);
        }
    }

    impl Wake for ComesBack {
        fn wake(self: Arc<Self>) {
            self.come_back();
        }
    }

    impl Drop for ComesBack {
        fn drop(&mut self) {
            self.come_back();
        }
    }

    #[test]
    fn errands_are_run_when_the_state_is_free() {
        let waker = || Waker::from(Arc::new(ComesBack(std::thread::current().id())));
        let state = STATE.with(Rc::clone);
        {
            for _ in 0..3 {
                poll_with(&waker(), |waker| {
                    let state = &mut *Borrowed::of(&state);
                    state.errands.renew(&mut state.waiter, waker);
                });
            }
            assert_eq!(CAME_BACK.replace(0), 2, "two were replaced");
            let state = &mut *Borrowed::of(&state);
            state.errands.wake(&mut state.waiter);
            assert_eq!(CAME_BACK.get(), 0);
        }
        assert_eq!(CAME_BACK.get(), 2, "one was woken and dropped");
    }

    #[test]
    fn a_waker_of_another_executor_is_cloned_between_two_polls() {
        let (count, waker) = Count::waker();
        let clones = || Arc::strong_count(&count);
        let (place, mut seen) = (RefCell::new(None), Vec::new());
        let mut poll = |waker: &Waker| {
            poll_with(waker, |waker| {
                let mut place = place.borrow_mut();
                let before = clones();
                assert!(waker.renew(&mut place).is_none());
                seen.push((before, clones()));
            });
        };
        poll(&waker);
        poll(&waker);
        // Nothing is cloned under the borrow; the waker that is there already is not cloned at all.
        assert_eq!(seen, [(2, 2), (3, 3), (3, 3)]);
    }

    #[test]
    fn what_happened_before_the_second_poll_is_seen_by_it() {
        let (count, waker) = Count::waker();
        let (mut place, mut polls) = (None, 0);
        let polled = poll_with(&waker, |waker| {
            polls += 1;
            match polls {
                1 => {
                    assert!(waker.renew(&mut place).is_none());
                    Poll::Pending
                }
                _ => Poll::Ready("it came while the waker was cloned"),
            }
        });
        assert!(polled.is_ready() && place.is_none());
        assert_eq!(Arc::strong_count(&count), 2, "the clone is dropped");
    }

    #[test]
    fn a_waker_of_this_core_is_kept_at_once() {
        let kept = block_on(poll_fn(|cx| {
            let (mut place, mut polls) = (None, 0);
            poll_with(cx.waker(), |waker| {
                polls += 1;
                assert!(waker.renew(&mut place).is_none());
            });
            Poll::Ready((polls, place.is_some_and(|waker| waker.will_wake(cx.waker()))))
        }));
        assert_eq!(kept.expect("a core"), (1, true));
    }
}
