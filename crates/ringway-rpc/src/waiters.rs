//! Wakers that wait in a state which is locked or borrowed. They are woken and dropped outside of it.
//!
//! A waker may be any executor's: to wake it, or to drop it, may run any code, which may come back to
//! the same state, or panic. So a state hands out what is to be woken or dropped, as an errand, and
//! whoever has borrowed it runs the errands when it is free again. [`Borrowed`] sees to that by itself.

use std::cell::{RefCell, RefMut};
use std::ops::{Deref, DerefMut};
use std::task::{Context, Waker};

use ringway_runtime::{contain, drop_contained};

/// Wakes a task. A panic of its executor is contained.
#[inline]
pub(crate) fn wake(waker: Waker) {
    contain("a waker", || waker.wake());
}

/// Wakes all of them, each whatever the others do.
pub(crate) fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(wake);
}

/// Drops what was there before. A panic of its executor is contained.
#[inline]
pub(crate) fn discard(waker: Option<Waker>) {
    if let Some(waker) = waker {
        drop_contained("a waker", waker);
    }
}

/// Keeps the waker of whoever waits; the answer is what it takes the place of, to be
/// [discarded](discard) outside of the state.
#[inline]
#[must_use = "it is dropped outside of the state"]
pub(crate) fn renew(place: &mut Option<Waker>, latest: &Waker) -> Option<Waker> {
    match place {
        Some(waker) if waker.will_wake(latest) => None,
        place => place.replace(latest.clone()),
    }
}

/// What is to be done when a state is not borrowed any more.
#[derive(Default)]
pub(crate) struct Errands {
    /// Mostly there is one, which needs no memory.
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

    /// Has whoever waits woken, once until it waits again.
    #[inline]
    pub(crate) fn wake(&mut self, waiter: &mut Option<Waker>) {
        if let Some(waker) = waiter.take() {
            self.add(Errand::Wake(waker));
        }
    }

    /// Keeps the waker of whoever waits now.
    #[inline]
    pub(crate) fn renew(&mut self, waiter: &mut Option<Waker>, cx: &Context<'_>) {
        let former = renew(waiter, cx.waker());
        self.discard(former);
    }

    #[inline]
    pub(crate) fn discard(&mut self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.add(Errand::Drop(waker));
        }
    }

    /// Anything else that wakes somebody.
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

    /// Runs them; what is left is the memory.
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

/// A state that has errands.
pub(crate) trait HasErrands {
    fn errands(&mut self) -> &mut Errands;
}

/// A borrowed state. When it is given back, its errands are run.
pub(crate) struct Borrowed<'a, T: HasErrands> {
    /// Present until it is given back.
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

/// Why a borrowed state is there.
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

/// All who wait for the same thing, each in a place of its own.
#[derive(Default, Debug)]
pub(crate) struct Waiters {
    /// As many as ever waited at once.
    places: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Waiters {
    /// Waits in `place`, in a new one where there is none; the answer is to be
    /// [discarded](discard).
    #[must_use = "it is dropped outside of the state"]
    pub(crate) fn wait(&mut self, place: &mut Option<usize>, waker: &Waker) -> Option<Waker> {
        let place = *place.get_or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.places.push(None);
                self.places.len() - 1
            })
        });
        renew(&mut self.places[place], waker)
    }

    /// Gives a place up, if there is one; the answer is to be [discarded](discard).
    #[must_use = "it is dropped outside of the state"]
    pub(crate) fn leave(&mut self, place: &mut Option<usize>) -> Option<Waker> {
        let place = place.take()?;
        self.free.push(place);
        self.places[place].take()
    }

    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }

    /// All who wait, to be [woken](wake_all). They keep their places.
    pub(crate) fn take_all(&mut self) -> Vec<Waker> {
        self.places.iter_mut().filter_map(Option::take).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

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

    /// It panics when it is woken, and when it is dropped.
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
    fn each_waiter_has_a_place_which_others_use_after_it() {
        let mut waiters = Waiters::default();
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let [mut first, mut second] = [None; 2];
        for _ in 0..3 {
            assert!(waiters.wait(&mut first, &waker).is_none());
            assert!(waiters.wait(&mut second, &waker).is_none());
        }
        assert_eq!(waiters.places(), 2);
        assert!(waiters.leave(&mut first).is_some() && waiters.leave(&mut first).is_none());
        for _ in 0..1_000 {
            let mut passing = None;
            assert!(waiters.wait(&mut passing, &waker).is_none());
            assert!(waiters.leave(&mut passing).is_some());
        }
        assert_eq!(waiters.places(), 2, "nobody leaves anything behind");
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

    /// Comes back to the state when it is woken and when it is dropped.
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
            let state = &mut *Borrowed::of(&state);
            for _ in 0..3 {
                state.errands.renew(&mut state.waiter, &Context::from_waker(&waker()));
            }
            state.errands.wake(&mut state.waiter);
            assert_eq!(CAME_BACK.get(), 0);
        }
        assert_eq!(CAME_BACK.get(), 4, "two were replaced, one was woken and dropped");
        assert!(state.borrow().errands.more.capacity() > 0, "the memory is kept");
    }
}
