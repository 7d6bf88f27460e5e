//! The ends of requests whose connection has ended.
//!
//! An end takes as long as a beginning, and one connection may have a thousand requests, so a core ends a bounded
//! number in each turn.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use ringway_runtime::{JoinHandle, spawn_named, yield_now};

use crate::limits;

/// The tasks of a core whose connections have ended.
#[derive(Default)]
pub(super) struct Endings {
    tasks: RefCell<VecDeque<JoinHandle<()>>>,
    /// Whether a task ends those that are left.
    is_going_on: Cell<bool>,
}

impl Endings {
    /// Ends the tasks, which cancels what they have called: some at once, and the others in later turns.
    pub(super) fn end(self: &Rc<Self>, tasks: impl Iterator<Item = JoinHandle<()>>) {
        self.tasks.borrow_mut().extend(tasks);
        if self.is_going_on.get() || !self.end_some() {
            return;
        }
        self.is_going_on.set(true);
        let own = Rc::clone(self);
        spawn_named("ends of requests over HTTP/2", async move {
            yield_now().await;
            while own.end_some() {
                yield_now().await;
            }
            own.is_going_on.set(false);
        });
    }

    /// Ends as many as a turn may. Whether others are left.
    fn end_some(&self) -> bool {
        for _ in 0..limits::GUESTS_PER_TURN {
            let Some(task) = self.next() else { return false };
            task.abort();
        }
        !self.tasks.borrow().is_empty()
    }

    fn next(&self) -> Option<JoinHandle<()>> {
        self.tasks.borrow_mut().pop_front()
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[test]
    fn others_have_their_turns_between_the_ends() {
        const COUNT: usize = 10 * limits::GUESTS_PER_TURN;
        let turns = ringway_runtime::block_on(async {
            let (endings, alive) = (Rc::<Endings>::default(), Rc::new(()));
            let open = || {
                let own = Rc::clone(&alive);
                spawn_named("open", async move {
                    let _own = own;
                    pending::<()>().await;
                })
            };
            let tasks: Vec<_> = (0..COUNT).map(|_| open()).collect();
            yield_now().await;
            endings.end(tasks.into_iter());
            let mut turns = 0;
            while Rc::strong_count(&alive) > 1 {
                yield_now().await;
                turns += 1;
            }
            turns
        });
        let turns = turns.expect("a core");
        assert!((9..20).contains(&turns), "{turns} turns for ten times as many as one may end");
    }
}
