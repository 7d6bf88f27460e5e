//! The outcome of a task, on its way to a waiter on the same core.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::token::{Run, TaskToken};
use crate::contain::{drop_contained, drop_waker, wake};

/// Makes the two ends of a task's outcome.
pub(super) fn pair<T>() -> (Outcome<T>, Rc<Join<T>>) {
    let join = Rc::new(Join { state: RefCell::new(JoinState::Open), waiter: RefCell::default() });
    (Outcome(Rc::clone(&join)), join)
}

/// The task's end. However the task goes away, its waiter is told.
pub(super) struct Outcome<T>(Rc<Join<T>>);

impl<T> Outcome<T> {
    pub(super) fn settle(self, outcome: Result<T, JoinError>) {
        self.0.settle(outcome);
        // Dropping `self` wakes.
    }
}

impl<T> Drop for Outcome<T> {
    fn drop(&mut self) {
        if !self.0.is_settled() {
            self.0.settle(Err(JoinError::core_gone()));
        }
        self.0.wake();
    }
}

pub(super) struct Join<T> {
    state: RefCell<JoinState<T>>,
    waiter: RefCell<Option<Waker>>,
}

enum JoinState<T> {
    /// The task is running or waiting to run.
    Open,
    Settled(Result<T, JoinError>),
    /// The waiter has taken the outcome.
    Taken,
}

impl<T> Join<T> {
    fn is_settled(&self) -> bool {
        !matches!(*self.state.borrow(), JoinState::Open)
    }

    /// Sets the outcome, unless there is one already; whether it was set.
    fn settle(&self, outcome: Result<T, JoinError>) -> bool {
        let mut state = self.state.borrow_mut();
        if let JoinState::Open = *state {
            *state = JoinState::Settled(outcome);
            return true;
        }
        drop(state);
        drop_contained("the destructor of a task's result", outcome);
        false
    }

    fn take(&self) -> Option<Result<T, JoinError>> {
        let mut state = self.state.borrow_mut();
        if let JoinState::Open = *state {
            return None;
        }
        match std::mem::replace(&mut *state, JoinState::Taken) {
            JoinState::Settled(outcome) => Some(outcome),
            JoinState::Open | JoinState::Taken => None,
        }
    }

    /// Stores the waker of the waiter. Foreign wakers are cloned and dropped outside the borrow.
    fn await_by(&self, waker: &Waker) {
        if self.waiter.borrow().as_ref().is_some_and(|known| known.will_wake(waker)) {
            return;
        }
        let stale = self.waiter.replace(Some(waker.clone()));
        drop_waker(stale);
    }

    fn wake(&self) {
        if let Some(waiter) = self.waiter.take() {
            wake(waiter);
        }
    }
}

/// Waits for a task of the same core; dropping it detaches the task.
///
/// If the core ends and drops the task unfinished, the outcome is a [`JoinError`], even for a
/// handle that outlives the core.
pub struct JoinHandle<T> {
    join: Rc<Join<T>>,
    token: TaskToken,
    run: Run,
}

impl<T> JoinHandle<T> {
    pub(super) fn new(join: Rc<Join<T>>, token: TaskToken, run: Run) -> Self {
        Self { join, token, run }
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.join.is_settled()
    }

    /// Marks the task as aborted, unless it has ended; `drop_task` must then drop it.
    pub(crate) fn settle_aborted(&self, drop_task: impl FnOnce(TaskToken, Run)) {
        if self.join.settle(Err(JoinError { cause: Cause::Aborted })) {
            drop_task(self.token, self.run);
            self.join.wake();
        }
    }

    pub(crate) fn take_outcome(&self) -> Option<Result<T, JoinError>> {
        self.join.take()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.join.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                self.join.await_by(cx.waker());
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

/// The reason why a task has no result.
#[derive(Debug)]
pub struct JoinError {
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Panicked { task: &'static str, message: String },
    Aborted,
    CoreGone,
    OwnCore,
}

impl JoinError {
    pub(crate) fn panicked(task: &'static str, message: String) -> Self {
        Self { cause: Cause::Panicked { task, message } }
    }

    pub(crate) fn core_gone() -> Self {
        Self { cause: Cause::CoreGone }
    }

    /// For a core that was to block until its own task has ended.
    pub(crate) fn own_core() -> Self {
        Self { cause: Cause::OwnCore }
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
            Cause::OwnCore => {
                write!(f, "a core must not block until its own task has ended: await the handle")
            }
        }
    }
}

impl std::error::Error for JoinError {}
