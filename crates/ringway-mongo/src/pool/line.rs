//! Operations that wait for a connection, in the order in which they came.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Waker};

use ringway_runtime::{contain, drop_contained};

use crate::connection::ServerConnection;
use crate::error::{Error, Result};

/// Those who wait. The longest waiter is at the front. The operations of a core bound it, and their deadlines.
#[derive(Default)]
pub(super) struct WaitLine(RefCell<VecDeque<Rc<Waiter>>>);

/// A connection that counts as one in use, with its generation.
pub(super) type Granted = Result<(ServerConnection, u64)>;

/// An operation that waits.
#[derive(Default)]
pub(super) struct Waiter {
    granted: Cell<Option<Granted>>,
    waker: RefCell<Option<Waker>>,
}

impl Waiter {
    /// What it was given, if that is so.
    pub(super) fn take(&self) -> Option<Granted> {
        self.granted.take()
    }

    /// Has it woken when it is given something.
    pub(super) fn wait(&self, cx: &Context<'_>) {
        let former = self.waker.replace(Some(cx.waker().clone()));
        drop_contained("a waker", former);
    }

    fn grant(&self, granted: Granted) {
        self.granted.set(Some(granted));
        let waker = self.waker.take();
        if let Some(waker) = waker {
            contain("a waker", || waker.wake());
        }
    }
}

impl WaitLine {
    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    pub(super) fn join(&self, waiter: &Rc<Waiter>) {
        self.0.borrow_mut().push_back(Rc::clone(waiter));
    }

    /// Has a waiter be the first again.
    pub(super) fn join_first(&self, waiter: &Rc<Waiter>) {
        self.0.borrow_mut().push_front(Rc::clone(waiter));
    }

    pub(super) fn leave(&self, waiter: &Rc<Waiter>) {
        self.0.borrow_mut().retain(|it| !Rc::ptr_eq(it, waiter));
        drop_contained("a waker", waiter.waker.take());
    }

    /// Gives the longest waiter its connection.
    pub(super) fn grant_first(&self, connection: ServerConnection, generation: u64) {
        let first = self.take_first().expect("somebody waits");
        first.0.grant(Ok((connection, generation)));
    }

    /// Takes the longest waiter out, to be told later.
    pub(super) fn take_first(&self) -> Option<FirstWaiter> {
        self.0.borrow_mut().pop_front().map(FirstWaiter)
    }

    /// Tells all that they get no connection here.
    pub(super) fn refuse_all(&self, why: impl Fn() -> Error) {
        // A separate list, so that who waits again is not told.
        let waiters = self.0.take();
        waiters.iter().for_each(|waiter| waiter.grant(Err(why())));
    }
}

/// A waiter that stands in line no longer.
pub(super) struct FirstWaiter(Rc<Waiter>);

impl FirstWaiter {
    pub(super) fn refuse(self, why: Error) {
        self.0.grant(Err(why));
    }
}
