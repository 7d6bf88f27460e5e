//! The connections of one core, whatever their protocol.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use ringway_wire::native::Side;

use super::shown_connection::ShownConnection;

/// What a core does with a connection.
pub(super) trait CoreConnection {
    /// Sets the connection's index in the core's list.
    fn set_list_index(&self, list_index: usize);

    /// Wakes the connection's task.
    fn wake(&self);

    /// Announces the end: no more calls are accepted, and running ones may finish.
    fn go_away(&self, drain: Duration);

    /// Lets the connection take in requests again, if it waits for its turn; false if it does not.
    fn go_on_receiving(&self) -> bool;

    /// Closes the connection at once.
    fn end(&self);

    /// Whether the client has calls in flight.
    fn is_busy(&self) -> bool;

    /// Tells the client how many calls are welcome, if that has changed.
    fn renew_lease(&self);

    /// Reports the bytes kept here and the refused calls to the core.
    fn update_usage(&self);

    /// The bytes kept on one side, as last reported.
    fn kept(&self, side: Side) -> usize;

    /// The bytes kept by the call or queued request that keeps the most.
    fn largest_len(&self, side: Side) -> usize;

    /// Ends the call that keeps the most bytes; false if there is none.
    fn end_largest(&self, side: Side) -> bool;

    /// Frees the buffers that ended streams have left.
    fn drop_spare(&self);

    /// Asks the client to send less, or as usual again.
    fn set_over_soft_limit(&self, is_over_soft_limit: bool);

    /// Whether it is a part of another one of the list, which carries its calls.
    fn is_part(&self) -> bool;

    /// A number that the parts of a connection share with it.
    fn site_id(&self) -> u64;

    /// How much the connection has under way, to show the busiest.
    fn business(&self) -> usize;

    /// Names the method of each call that is queued or runs.
    fn name_calls(&self, tell: &mut dyn FnMut(&'static str));

    /// What people who look at the server want to know of the connection.
    fn describe(&self) -> ShownConnection;

    /// Gives tests access to the concrete connection.
    #[cfg(test)]
    fn into_any(self: Rc<Self>) -> Rc<dyn std::any::Any>;
}

/// A core's list of its connections. Each removes itself at its end.
#[derive(Default)]
pub(super) struct Connections {
    list: RefCell<Vec<Weak<dyn CoreConnection>>>,
    /// Those that are parts of others.
    parts: Cell<usize>,
}

impl Connections {
    /// Adds a connection and tells it its index.
    pub(super) fn insert(&self, connection: &Rc<dyn CoreConnection>) {
        let mut list = self.list.borrow_mut();
        connection.set_list_index(list.len());
        self.parts.set(self.parts.get() + usize::from(connection.is_part()));
        list.push(Rc::downgrade(connection));
    }

    /// Removes a connection; the last one takes over its index.
    pub(super) fn remove(&self, list_index: usize, is_part: bool) {
        self.parts.set(self.parts.get() - usize::from(is_part));
        let mut list = self.list.borrow_mut();
        list.swap_remove(list_index);
        if let Some(moved) = list.get(list_index).and_then(Weak::upgrade) {
            moved.set_list_index(list_index);
        }
    }

    /// The connection with this index.
    pub(super) fn weak(&self, list_index: usize) -> Option<Weak<dyn CoreConnection>> {
        self.list.borrow().get(list_index).cloned()
    }

    /// How many clients are connected.
    pub(super) fn client_count(&self) -> usize {
        self.list.borrow().len() - self.parts.get()
    }

    /// Up to `max` of the connections.
    pub(super) fn some(&self, max: usize) -> Vec<Rc<dyn CoreConnection>> {
        self.list.borrow().iter().take(max).filter_map(Weak::upgrade).collect()
    }

    pub(super) fn all(&self) -> Vec<Rc<dyn CoreConnection>> {
        self.list.borrow().iter().filter_map(Weak::upgrade).collect()
    }
}
