//! The operations on files of a core: those that the driver has, those that wait for their turn, and who waits
//! for each.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::task::Waker;

use crate::driver::Key;
use crate::driver::files::{FileAnswer, FileOp};
use crate::limits;
use crate::slab::Slab;

/// What a core knows of its operations on files.
#[derive(Default)]
pub(crate) struct FileOps {
    waits: RefCell<Slab<WaitState>>,
    /// Operations that the driver has not got yet, in the order of their turns.
    queue: RefCell<VecDeque<Key>>,
    /// Operations that the driver has.
    under_way: Cell<usize>,
    numbers_given: Cell<u64>,
}

enum WaitState {
    /// Too many others are under way.
    Queued(FileOp, Option<Waker>),
    UnderWay(Option<Waker>),
    Ended(Result<io::Result<FileAnswer>, FileOp>),
    /// Under way, and nobody waits any more.
    Unwanted,
}

/// What is left to be done about an operation: nothing of it under a borrow.
#[derive(Default)]
pub(super) struct Ending {
    pub(super) waker: Option<Waker>,
    pub(super) answer: Option<io::Result<FileAnswer>>,
    pub(super) op: Option<FileOp>,
}

/// The answer to an operation, or the operation, where it is for the blocking pool.
pub(crate) type FileOutcome = Result<io::Result<FileAnswer>, FileOp>;

impl FileOps {
    /// A number that this core has not given before.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers_given.replace(self.numbers_given.get() + 1)
    }

    pub(super) fn has_turn(&self) -> bool {
        self.under_way.get() < limits::FILE_OPS_MAX
    }

    pub(super) fn count(&self, change: isize) {
        self.under_way.set(self.under_way.get().saturating_add_signed(change));
    }

    /// Names an operation that the driver is about to get.
    pub(super) fn insert(&self, is_wanted: bool) -> Key {
        let state = if is_wanted { WaitState::UnderWay(None) } else { WaitState::Unwanted };
        self.waits.borrow_mut().insert(state)
    }

    /// Forgets an operation that the driver has not taken.
    pub(super) fn remove(&self, name: Key) {
        self.waits.borrow_mut().remove(name);
    }

    /// Has an operation wait for its turn.
    ///
    /// # Errors
    /// `ResourceBusy` where too many do.
    pub(super) fn enqueue(&self, op: FileOp) -> Result<Key, io::Error> {
        let mut queue = self.queue.borrow_mut();
        if queue.len() >= limits::FILE_OPS_QUEUED_MAX {
            let why = "too many operations on files wait for their turn on this core";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
        }
        let name = self.waits.borrow_mut().insert(WaitState::Queued(op, None));
        queue.push_back(name);
        Ok(name)
    }

    /// The operation whose turn it is.
    pub(super) fn dequeue(&self) -> Option<(Key, FileOp)> {
        let name = self.queue.borrow_mut().pop_front()?;
        let mut waits = self.waits.borrow_mut();
        let state = waits.at(name)?;
        let WaitState::Queued(_, waker) = state else { return None };
        let waker = waker.take();
        match std::mem::replace(state, WaitState::UnderWay(waker)) {
            WaitState::Queued(op, _) => Some((name, op)),
            _ => None,
        }
    }

    /// The outcome, once; `None` while it is to come. `waker` is told then, and the one before comes back.
    pub(super) fn take_outcome(&self, name: Key, waker: &mut Option<Waker>) -> Option<FileOutcome> {
        let mut waits = self.waits.borrow_mut();
        match waits.at(name) {
            Some(WaitState::UnderWay(present) | WaitState::Queued(_, present)) => {
                std::mem::swap(present, waker);
                None
            }
            _ => match waits.remove(name) {
                Some(WaitState::Ended(outcome)) => Some(outcome),
                _ => Some(Ok(Err(core_gone()))),
            },
        }
    }

    /// Nobody waits any more. Tells whether the operation is under way, and what is left to be dropped.
    pub(super) fn give_up(&self, name: Key) -> (bool, Ending) {
        let mut waits = self.waits.borrow_mut();
        if let Some(WaitState::UnderWay(waker)) = waits.at(name) {
            let waker = waker.take();
            if let Some(state) = waits.at(name) {
                *state = WaitState::Unwanted;
            }
            return (true, Ending { waker, ..Ending::default() });
        }
        let ending = match waits.remove(name) {
            Some(WaitState::Queued(op, waker)) => {
                self.queue.borrow_mut().retain(|&queued| queued != name);
                Ending { waker, op: Some(op), answer: None }
            }
            Some(WaitState::Ended(Ok(answer))) => {
                Ending { answer: Some(answer), ..Ending::default() }
            }
            Some(WaitState::Ended(Err(op))) => Ending { op: Some(op), ..Ending::default() },
            _ => Ending::default(),
        };
        (false, ending)
    }

    /// An operation has ended, or is not one for the driver.
    pub(super) fn end(&self, name: Key, outcome: FileOutcome) -> Ending {
        let mut waits = self.waits.borrow_mut();
        match waits.at(name) {
            Some(state @ WaitState::UnderWay(_)) => {
                match std::mem::replace(state, WaitState::Ended(outcome)) {
                    WaitState::UnderWay(waker) => Ending { waker, ..Ending::default() },
                    _ => Ending::default(),
                }
            }
            _ => {
                waits.remove(name);
                match outcome {
                    Ok(answer) => Ending { answer: Some(answer), ..Ending::default() },
                    Err(op) => Ending { op: Some(op), ..Ending::default() },
                }
            }
        }
    }

    /// The operations that have not ended.
    pub(super) fn names(&self) -> Vec<Key> {
        self.waits.borrow().keys_of(|state| !matches!(state, WaitState::Ended(_)))
    }
}

/// The error of an operation whose core has ended.
pub(super) fn core_gone() -> io::Error {
    io::Error::other("the core ended before its operation on a file did")
}
