//! What there is to do when a descriptor has been closed.

use std::any::Any;

use super::waiters::Waiters;
use crate::contain::drop_each;

/// What the state of a socket leaves behind when its descriptor has been closed.
pub(super) struct Closed {
    /// A handle keeps the slot.
    pub(super) has_handle: bool,
    pub(super) guards: Guards,
    /// Whoever waits although the core has ended.
    pub(super) waiters: Waiters,
}

/// What is to be dropped when the descriptor has been closed. Nearly always one thing or none.
#[derive(Default)]
pub(crate) struct Guards {
    first: Option<Box<dyn Any>>,
    others: Option<Box<MoreGuards>>,
}

#[derive(Default)]
struct MoreGuards(Vec<Box<dyn Any>>);

impl Guards {
    pub(crate) fn extend(&mut self, guard: Option<Box<dyn Any>>) {
        match (&self.first, guard) {
            (None, guard) => self.first = guard,
            (Some(_), guard) => self.others.get_or_insert_default().0.extend(guard),
        }
    }

    /// Drops them. A panic of one keeps no other from being dropped.
    pub(crate) fn retire(self) {
        let others = self.others.into_iter().flat_map(|others| others.0);
        let what = "the destructor of what was held until a stream was closed";
        drop_each(what, self.first.into_iter().chain(others));
    }
}
