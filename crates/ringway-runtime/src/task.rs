//! The tasks of one core: a slab of boxed futures and a run queue, without atomics.

mod body;
mod join;
mod token;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

use body::TaskBody;
pub use join::{JoinError, JoinHandle};
pub(crate) use token::{Run, TaskToken};

use crate::blocking::completion::Completer;
use crate::contain::{contain, drop_contained};
use crate::limits;
use crate::names::NameId;

/// All tasks of a core.
pub(crate) struct Tasks {
    core: u16,
    run: Run,
    slots: RefCell<Vec<TaskSlot>>,
    free: RefCell<Vec<u32>>,
    queue: RefCell<VecDeque<TaskToken>>,
    /// Tasks that woke themselves while they were polled; they run in the next turn.
    yielded: RefCell<Vec<TaskToken>>,
    /// Whether the core has ended, so that spawned tasks are dropped at once.
    ended: Cell<bool>,
    /// Whether `clear` is running, which drops the tasks that destructors spawn.
    clearing: Cell<bool>,
}

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

struct TaskSlot {
    generation: u32,
    state: TaskState,
    name: NameId,
    /// The future; `None` while the slot is free and while it is being polled.
    future: Option<LocalFuture>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TaskState {
    Free,
    Idle,
    Queued,
    Polled,
    /// Woken while being polled; runs again in the next turn.
    PolledAgain,
    /// Aborted while being polled; dropped afterwards.
    Aborted,
}

impl Tasks {
    pub(crate) fn new(core: u16) -> Self {
        Self {
            core,
            run: Run::new(),
            slots: RefCell::default(),
            free: RefCell::default(),
            queue: RefCell::default(),
            yielded: RefCell::default(),
            ended: Cell::default(),
            clearing: Cell::default(),
        }
    }

    pub(crate) fn runnable(&self) -> usize {
        self.queue.borrow().len() + self.yielded.borrow().len()
    }

    /// Starts a turn: tasks that yielded in the last one queue behind those woken since.
    pub(crate) fn queue_yielded(&self) {
        self.queue.borrow_mut().extend(self.yielded.borrow_mut().drain(..));
    }

    /// Adds a task and queues it.
    pub(crate) fn spawn<F>(&self, future: F, name: &'static str) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let (outcome, join) = join::pair();
        let body = TaskBody::new(future, move |ended: Result<F::Output, String>| {
            outcome.settle(ended.map_err(|panic| JoinError::panicked(name, panic)));
        });
        let token = self.insert(Box::pin(body), NameId::of(name));
        JoinHandle::new(join, token, self.run)
    }

    /// Adds a task for whose outcome nobody waits.
    pub(crate) fn spawn_detached(
        &self,
        future: impl Future<Output = ()> + 'static,
        name: &'static str,
    ) {
        let body = TaskBody::new(future, |_: Result<(), String>| ());
        self.insert(Box::pin(body), NameId::of(name));
    }

    /// Adds a task whose outcome is awaited on another thread.
    pub(crate) fn spawn_for<F>(
        &self,
        waiter: Completer<Result<F::Output, JoinError>>,
        future: F,
        name: &'static str,
    ) where
        F: Future + 'static,
        F::Output: 'static,
    {
        let body = TaskBody::new(future, move |ended: Result<F::Output, String>| {
            waiter.complete(ended.map_err(|panic| JoinError::panicked(name, panic)));
        });
        self.insert(Box::pin(body), NameId::of(name));
    }

    fn insert(&self, future: LocalFuture, name: NameId) -> TaskToken {
        let mut slots = self.slots.borrow_mut();
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            slots.push(TaskSlot { generation: 0, state: TaskState::Free, name, future: None });
            slots.len() as u32 - 1
        });
        let slot = &mut slots[index as usize];
        slot.state = TaskState::Queued;
        slot.name = name;
        slot.future = Some(future);
        let token = TaskToken::new(self.core, slot.generation, index);
        self.queue.borrow_mut().push_back(token);
        drop(slots);
        if self.ended.get() {
            self.clear();
        }
        token
    }

    /// Queues a task, unless it is already queued or has ended.
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
            TaskState::Idle => {
                slot.state = TaskState::Queued;
                self.queue.borrow_mut().push_back(token);
            }
            TaskState::Polled => slot.state = TaskState::PolledAgain,
            TaskState::Free | TaskState::Queued | TaskState::PolledAgain | TaskState::Aborted => {}
        }
    }

    /// Takes the next runnable task, for [`poll`](Self::poll).
    pub(crate) fn next(&self) -> Option<Runnable> {
        loop {
            let token = self.queue.borrow_mut().pop_front()?;
            let mut slots = self.slots.borrow_mut();
            let slot = &mut slots[token.index()];
            let current = slot.generation & TaskToken::GENERATION_MASK == token.generation();
            if current && slot.state == TaskState::Queued {
                slot.state = TaskState::Polled;
                let future = slot.future.take().expect("a queued task is not being polled");
                return Some(Runnable { token, future, name: slot.name });
            }
        }
    }

    /// Polls a task once, with its waker; the task ends or returns to its slot.
    pub(crate) fn poll(&self, mut runnable: Runnable, waker: &Waker) {
        let mut cx = Context::from_waker(waker);
        // The future contains panics of the task itself; this contains those of wakers told of
        // its end.
        let polled = contain("a waker", || runnable.future.as_mut().poll(&mut cx));
        let ended = polled.is_none_or(|poll| poll.is_ready());
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[runnable.token.index()];
        if ended || slot.state == TaskState::Aborted {
            self.vacate(slot, runnable.token.index() as u32);
            drop(slots);
            drop_contained(DROPPED, runnable.future);
            return;
        }
        let again = slot.state == TaskState::PolledAgain;
        slot.state = if again { TaskState::Queued } else { TaskState::Idle };
        slot.future = Some(runnable.future);
        if again {
            self.yielded.borrow_mut().push(runnable.token);
        }
    }

    /// Drops a task's future, now or after the current poll; does nothing if the task belongs to
    /// another run.
    pub(crate) fn abort(&self, token: TaskToken, run: Run) {
        if run != self.run {
            return;
        }
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(token.index()) else {
            return;
        };
        if slot.generation & TaskToken::GENERATION_MASK != token.generation() {
            return;
        }
        match slot.state {
            TaskState::Free | TaskState::Aborted => {}
            TaskState::Polled | TaskState::PolledAgain => slot.state = TaskState::Aborted,
            TaskState::Idle | TaskState::Queued => {
                let future = slot.future.take();
                self.vacate(slot, token.index() as u32);
                drop(slots);
                drop_contained(DROPPED, future);
            }
        }
    }

    fn vacate(&self, slot: &mut TaskSlot, index: u32) {
        slot.state = TaskState::Free;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.borrow_mut().push(index);
    }

    /// Ends every task, including those spawned from now on: they are dropped, and those who wait
    /// for them are told. None may be being polled.
    pub(crate) fn end(&self) {
        self.ended.set(true);
        self.clear();
    }

    /// Drops every task, including those that destructors spawn meanwhile.
    fn clear(&self) {
        if self.clearing.replace(true) {
            return;
        }
        let rounds = (0..limits::CLEAR_ROUNDS_MAX).take_while(|_| self.clear_once(drop_task));
        if rounds.count() == limits::CLEAR_ROUNDS_MAX && self.clear_once(std::mem::forget) {
            contain("a log subscriber", || {
                tracing::error!(
                    "destructors of tasks spawn tasks without end; the last are leaked"
                );
            });
        }
        self.queue.borrow_mut().clear();
        self.yielded.borrow_mut().clear();
        self.clearing.set(false);
    }

    /// Drops the present tasks; whether there were any.
    fn clear_once(&self, end: fn(LocalFuture)) -> bool {
        let mut found = false;
        for index in 0.. {
            let mut slots = self.slots.borrow_mut();
            let Some(slot) = slots.get_mut(index) else {
                break;
            };
            if slot.state != TaskState::Free {
                found = true;
                let future = slot.future.take();
                self.vacate(slot, index as u32);
                drop(slots);
                future.into_iter().for_each(end);
            }
        }
        found
    }
}

/// A task taken out of its slot to be polled.
pub(crate) struct Runnable {
    pub(crate) token: TaskToken,
    future: LocalFuture,
    pub(crate) name: NameId,
}

/// Drops a task that has not ended.
fn drop_task(future: LocalFuture) {
    drop_contained(DROPPED, future);
}

/// The name under which panics of dropped tasks are logged.
const DROPPED: &str = "a destructor of a task";
