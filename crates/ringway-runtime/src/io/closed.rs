//! What remains of a socket after its descriptor was closed.

use std::any::Any;

use super::waiters::Waiters;
use crate::contain::drop_each;

/// The remains of a socket's state after its descriptor was closed.
pub(super) struct Closed {
    /// Whether a handle keeps the slot.
    pub(super) has_handle: bool,
    pub(super) guards: Guards,
    /// The tasks that still wait although the core has ended.
    pub(super) waiters: Waiters,
}

/// Values to drop when the descriptor is closed; nearly always one or none.
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

    /// Drops the guards. A panic of one does not keep the others from being dropped.
    pub(crate) fn retire(self) {
        let others = self.others.into_iter().flat_map(|others| others.0);
        let what = "the destructor of what was held until a stream was closed";
        drop_each(what, self.first.into_iter().chain(others));
    }
}
