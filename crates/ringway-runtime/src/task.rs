//! The tasks of one core: a slab of boxed futures and a run queue, without atomics.

use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::limits;
use crate::names::NameId;
use crate::sys::waker_of;

/// Names a task in the whole process: `core:16 | generation:20 | index:28`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TaskToken(u64);

impl TaskToken {
    const GENERATION_MASK: u32 = (1 << 20) - 1;
    const INDEX_MASK: u32 = (1 << 28) - 1;

    fn new(core: u16, generation: u32, index: u32) -> Self {
        let generation = u64::from(generation & Self::GENERATION_MASK);
        Self(u64::from(core) << 48 | generation << 28 | u64::from(index & Self::INDEX_MASK))
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) fn core(self) -> u16 {
        (self.0 >> 48) as u16
    }

    fn generation(self) -> u32 {
        (self.0 >> 28) as u32 & Self::GENERATION_MASK
    }

    fn index(self) -> usize {
        (self.0 as u32 & Self::INDEX_MASK) as usize
    }
}

/// All tasks of a core.
pub(crate) struct Tasks {
    core: u16,
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
    queue: RefCell<VecDeque<TaskToken>>,
    /// Those that woke themselves while they were polled: they run in the next turn.
    yielded: RefCell<Vec<TaskToken>>,
}

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

struct Slot {
    generation: u32,
    state: State,
    name: NameId,
    /// `None` while free and while being polled.
    future: Option<LocalFuture>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Idle,
    Queued,
    Polled,
    /// Woken while being polled: runs again in the next turn.
    PolledAgain,
    /// Aborted while being polled: dropped afterwards.
    Aborted,
}

impl Tasks {
    pub(crate) fn new(core: u16) -> Self {
        Self {
            core,
            slots: RefCell::default(),
            free: RefCell::default(),
            queue: RefCell::default(),
            yielded: RefCell::default(),
        }
    }

    pub(crate) fn runnable(&self) -> usize {
        self.queue.borrow().len() + self.yielded.borrow().len()
    }

    /// A turn begins: what yielded in the last one is behind what has been woken since.
    pub(crate) fn queue_yielded(&self) {
        self.queue.borrow_mut().extend(self.yielded.borrow_mut().drain(..));
    }

    /// Takes in a task and queues it.
    pub(crate) fn spawn<F>(&self, future: F, name: &'static str) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let join = Rc::new(Join { outcome: RefCell::default(), waiter: RefCell::default() });
        let completed = Rc::clone(&join);
        let body = async move {
            let outcome = CatchPanic(pin!(Some(future))).await;
            completed.complete(outcome.map_err(|panic| JoinError::panicked(name, panic)));
        };
        let token = self.insert(Box::pin(body), NameId::of(name));
        JoinHandle { join, token }
    }

    fn insert(&self, future: LocalFuture, name: NameId) -> TaskToken {
        let mut slots = self.slots.borrow_mut();
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            slots.push(Slot { generation: 0, state: State::Free, name, future: None });
            slots.len() as u32 - 1
        });
        let slot = &mut slots[index as usize];
        slot.state = State::Queued;
        slot.name = name;
        slot.future = Some(future);
        let token = TaskToken::new(self.core, slot.generation, index);
        self.queue.borrow_mut().push_back(token);
        token
    }

    /// Queues a task unless it is queued already or has ended.
    #[inline]
    pub(crate) fn wake(&self, token: TaskToken) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(token.index()) else {
            return;
        };
        if slot.generation & TaskToken::GENERATION_MASK != token.generation() {
            return;
        }
        match slot.state {
            State::Idle => {
                slot.state = State::Queued;
                self.queue.borrow_mut().push_back(token);
            }
            State::Polled => slot.state = State::PolledAgain,
            State::Free | State::Queued | State::PolledAgain | State::Aborted => {}
        }
    }

    /// Takes the next runnable task, for `poll`.
    pub(crate) fn next(&self) -> Option<Runnable> {
        loop {
            let token = self.queue.borrow_mut().pop_front()?;
            let mut slots = self.slots.borrow_mut();
            let slot = &mut slots[token.index()];
            let current = slot.generation & TaskToken::GENERATION_MASK == token.generation();
            if current && slot.state == State::Queued {
                slot.state = State::Polled;
                let future = slot.future.take().expect("a queued task is not being polled");
                return Some(Runnable { token, future, name: slot.name });
            }
        }
    }

    /// Polls once; the task ends or goes back to its slot.
    pub(crate) fn poll(&self, mut runnable: Runnable) {
        let waker = waker_of(runnable.token);
        let mut cx = Context::from_waker(&waker);
        // The body contains panics of the task itself; this catches one of a destructor.
        let polled = catch_unwind(AssertUnwindSafe(|| runnable.future.as_mut().poll(&mut cx)));
        let ended = polled.map_or(true, |poll| poll.is_ready());
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[runnable.token.index()];
        if ended || slot.state == State::Aborted {
            self.vacate(slot, runnable.token.index() as u32);
            drop(slots);
            drop_contained(Some(runnable.future));
            return;
        }
        let again = slot.state == State::PolledAgain;
        slot.state = if again { State::Queued } else { State::Idle };
        slot.future = Some(runnable.future);
        if again {
            self.yielded.borrow_mut().push(runnable.token);
        }
    }

    /// Drops a task's future, now or after the poll that is under way.
    fn abort(&self, token: TaskToken) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(token.index()) else {
            return;
        };
        if slot.generation & TaskToken::GENERATION_MASK != token.generation() {
            return;
        }
        match slot.state {
            State::Free | State::Aborted => {}
            State::Polled | State::PolledAgain => slot.state = State::Aborted,
            State::Idle | State::Queued => {
                let future = slot.future.take();
                self.vacate(slot, token.index() as u32);
                drop(slots);
                drop_contained(future);
            }
        }
    }

    fn vacate(&self, slot: &mut Slot, index: u32) {
        slot.state = State::Free;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.borrow_mut().push(index);
    }

    /// Drops every task, also those that destructors spawn meanwhile; none may be polled at the
    /// moment.
    pub(crate) fn clear(&self) {
        for _ in 0..limits::CLEAR_ROUNDS_MAX {
            if !self.clear_once() {
                break;
            }
        }
        self.queue.borrow_mut().clear();
        self.yielded.borrow_mut().clear();
    }

    /// Whether there was any task to drop.
    fn clear_once(&self) -> bool {
        let mut found = false;
        for index in 0.. {
            let mut slots = self.slots.borrow_mut();
            let Some(slot) = slots.get_mut(index) else {
                break;
            };
            if slot.state != State::Free {
                found = true;
                let future = slot.future.take();
                self.vacate(slot, index as u32);
                drop(slots);
                drop_contained(future);
            }
        }
        found
    }
}

/// A task taken out of its slot to be polled.
pub(crate) struct Runnable {
    token: TaskToken,
    future: LocalFuture,
    pub(crate) name: NameId,
}

/// Waits for a task of the same core; dropping it lets the task go on.
pub struct JoinHandle<T> {
    join: Rc<Join<T>>,
    token: TaskToken,
}

struct Join<T> {
    outcome: RefCell<Option<Result<T, JoinError>>>,
    waiter: RefCell<Option<Waker>>,
}

impl<T> Join<T> {
    fn complete(&self, outcome: Result<T, JoinError>) {
        *self.outcome.borrow_mut() = Some(outcome);
        if let Some(waiter) = self.waiter.take() {
            waiter.wake();
        }
    }
}

impl<T> JoinHandle<T> {
    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.join.outcome.borrow().is_some()
    }

    /// Drops the task's future; a waiter gets a [`JoinError`] that [`is_aborted`].
    ///
    /// [`is_aborted`]: JoinError::is_aborted
    pub fn abort(&self) {
        if !self.is_finished() {
            crate::core::with_current(|core| core.tasks.abort(self.token));
            self.join.complete(Err(JoinError { cause: Cause::Aborted }));
        }
    }

    pub(crate) fn take_outcome(&self) -> Option<Result<T, JoinError>> {
        self.join.outcome.take()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.take_outcome() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                *self.join.waiter.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("finished", &self.is_finished()).finish_non_exhaustive()
    }
}

/// Why a task has no result.
#[derive(Debug)]
pub struct JoinError {
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Panicked { task: &'static str, message: String },
    Aborted,
    CoreGone,
}

impl JoinError {
    pub(crate) fn panicked(task: &'static str, panic: Box<dyn Any + Send>) -> Self {
        Self { cause: Cause::Panicked { task, message: panic_message(&*panic) } }
    }

    pub(crate) fn core_gone() -> Self {
        Self { cause: Cause::CoreGone }
    }

    /// Whether the task panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.cause, Cause::Panicked { .. })
    }

    /// Whether the task was aborted.
    pub fn is_aborted(&self) -> bool {
        matches!(self.cause, Cause::Aborted)
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Panicked { task, message } => write!(f, "task {task} panicked: {message}"),
            Cause::Aborted => write!(f, "the task was aborted"),
            Cause::CoreGone => write!(f, "the core of the task has ended"),
        }
    }
}

impl std::error::Error for JoinError {}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "(the payload is not text)".to_owned()
    }
}

/// Drops a task that had not ended; a panic of its destructors stays with it.
fn drop_contained(future: Option<LocalFuture>) {
    if catch_unwind(AssertUnwindSafe(|| drop(future))).is_err() {
        tracing::error!("a destructor panicked while its task was dropped");
    }
}

/// Contains a panic of the future that it polls, and of the future's destructors when it has ended.
struct CatchPanic<'a, F>(Pin<&'a mut Option<F>>);

impl<F: Future> Future for CatchPanic<'_, F> {
    type Output = Result<F::Output, Box<dyn Any + Send>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let future = self.0.as_mut().as_pin_mut();
            future.expect("not polled after its end").poll(cx)
        }));
        let outcome = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(panic) => Err(panic),
        };
        let dropped = catch_unwind(AssertUnwindSafe(|| self.0.set(None)));
        Poll::Ready(outcome.and_then(|output| dropped.map(|()| output)))
    }
}
