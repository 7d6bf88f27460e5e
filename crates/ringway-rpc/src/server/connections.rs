//! The connections of one core, of every protocol, as the core sees them.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;

use ringway_wire::native::Side;

/// What a core asks of a connection.
pub(super) trait CoreConnection {
    /// Where it stands in the core's list from now on.
    fn set_place(&self, place: usize);

    /// Has its task look after it.
    fn wake(&self);

    /// Announces the end: no call is accepted any more, those that run may finish.
    fn go_away(&self, drain: Duration);

    /// Has it closed at once.
    fn end(&self);

    /// Whether calls of the client are under way.
    fn is_busy(&self) -> bool;

    /// Tells the client how many calls are welcome, if that has changed.
    fn renew_lease(&self);

    /// Tells the core what is kept here, and what was refused.
    fn account(&self);

    /// Bytes that are kept, as the core has last heard.
    fn kept(&self, side: Side) -> usize;

    /// Bytes of the call that keeps most of them, be it in a queue.
    fn largest_len(&self, side: Side) -> usize;

    /// Ends that call; false if there is none.
    fn end_largest(&self, side: Side) -> bool;

    /// Gives back what streams that are over have left.
    fn drop_spare(&self);

    /// Asks the client for less, or no longer.
    fn set_tight(&self, is_tight: bool);

    /// To be made what it is.
    #[cfg(test)]
    fn into_any(self: Rc<Self>) -> Rc<dyn std::any::Any>;
}

/// Found when all of them are told something; each removes itself at its end.
#[derive(Default)]
pub(super) struct Connections {
    list: RefCell<Vec<Weak<dyn CoreConnection>>>,
}

impl Connections {
    /// Takes in a connection, which keeps the place that it is told.
    pub(super) fn insert(&self, connection: &Rc<dyn CoreConnection>) {
        let mut list = self.list.borrow_mut();
        connection.set_place(list.len());
        list.push(Rc::downgrade(connection));
    }

    /// The last one moves to the place that becomes free.
    pub(super) fn remove(&self, place: usize) {
        let mut list = self.list.borrow_mut();
        list.swap_remove(place);
        if let Some(moved) = list.get(place).and_then(Weak::upgrade) {
            moved.set_place(place);
        }
    }

    pub(super) fn all(&self) -> Vec<Rc<dyn CoreConnection>> {
        self.list.borrow().iter().filter_map(Weak::upgrade).collect()
    }
}
