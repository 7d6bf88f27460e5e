//! The native connections of one core.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use super::connection::NativeConnection;

/// Found when all of them are told something; each removes itself at its end.
#[derive(Default)]
pub(super) struct Connections {
    list: RefCell<Vec<Weak<NativeConnection>>>,
}

impl Connections {
    /// Takes in a connection, which keeps the place that is returned.
    pub(super) fn insert(&self, connection: &Rc<NativeConnection>) {
        let mut list = self.list.borrow_mut();
        connection.set_place(list.len());
        list.push(Rc::downgrade(connection));
    }

    /// The last one moves to the place that becomes free.
    pub(super) fn remove(&self, connection: &NativeConnection) {
        let mut list = self.list.borrow_mut();
        let place = connection.place();
        list.swap_remove(place);
        if let Some(moved) = list.get(place).and_then(Weak::upgrade) {
            moved.set_place(place);
        }
    }

    pub(super) fn all(&self) -> Vec<Rc<NativeConnection>> {
        self.list.borrow().iter().filter_map(Weak::upgrade).collect()
    }
}
