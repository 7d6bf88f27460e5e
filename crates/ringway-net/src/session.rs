//! The id of a connection, and the values that a program stores with it.

use std::any::Any;
use std::cell::{Ref, RefCell, RefMut};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use ringway_runtime::drop_each;

/// The id of a connection, unique in this process and never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(u64);

/// The id of a connection and the program's values, one of each type.
///
/// ```no_run
/// # use ringway_net::Connection;
/// struct Name(String);
///
/// # fn example(conn: &Connection) {
/// conn.session().insert(Name("anna".into()));
/// let name = conn.session().item::<Name>().map(|name| name.0.clone());
/// # }
/// ```
pub struct Session {
    id: ConnectionId,
    /// One value of each type, few, so searched linearly. Does not allocate while empty.
    items: RefCell<Vec<Box<dyn Any>>>,
}

impl ConnectionId {
    const SLOT_BITS: u32 = 20;
    const REUSE_BITS: u32 = 32;
    /// The core number of connections that belong to no server; above every real one.
    const CORE_NONE: u64 = 0xFFF;

    /// Makes the id of a server's connection. `core` is the core's number in this process, not in
    /// its server.
    ///
    /// # Panics
    /// Panics when the core or the slot does not fit into an id.
    pub(crate) fn new(core: u16, slot: u32, reuse: u32) -> Self {
        assert!(u64::from(core) < Self::CORE_NONE, "an id has no room for core {core}");
        assert!(slot < 1 << Self::SLOT_BITS, "an id has no room for slot {slot}");
        let slot_of_core = u64::from(core) << Self::SLOT_BITS | u64::from(slot);
        Self(slot_of_core << Self::REUSE_BITS | u64::from(reuse))
    }

    /// Makes an id for a connection that belongs to no server.
    pub(crate) fn next_client() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mask = (1 << (Self::SLOT_BITS + Self::REUSE_BITS)) - 1;
        let number = NEXT.fetch_add(1, Ordering::Relaxed) & mask;
        Self(Self::CORE_NONE << (Self::SLOT_BITS + Self::REUSE_BITS) | number)
    }

    /// Returns the number of its core in this process; `None` if the connection belongs to no
    /// server.
    pub(crate) fn core(self) -> Option<u16> {
        let core = self.0 >> (Self::SLOT_BITS + Self::REUSE_BITS);
        (core != Self::CORE_NONE).then_some(core as u16)
    }

    pub(crate) fn slot(self) -> usize {
        (self.0 >> Self::REUSE_BITS) as usize & ((1 << Self::SLOT_BITS) - 1)
    }

    /// Returns the id as a number.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl From<u64> for ConnectionId {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl Session {
    pub(crate) fn new(id: ConnectionId) -> Self {
        Self { id, items: RefCell::default() }
    }

    /// Returns the connection's id.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// Stores a value; returns the previous value of its type.
    ///
    /// # Panics
    /// Panics while a guard of [`item`](Self::item) or [`item_mut`](Self::item_mut) is alive.
    pub fn insert<T: 'static>(&self, item: T) -> Option<T> {
        let mut items = self.items.borrow_mut();
        if let Some(stored) = items.iter_mut().find_map(|item| item.downcast_mut::<T>()) {
            return Some(std::mem::replace(stored, item));
        }
        items.push(Box::new(item));
        None
    }

    /// Borrows the value of a type; `None` if there is none.
    ///
    /// # Panics
    /// Panics while a guard of [`item_mut`](Self::item_mut) is alive.
    pub fn item<T: 'static>(&self) -> Option<Ref<'_, T>> {
        let find = |items: &Vec<Box<dyn Any>>| items.iter().position(|item| item.is::<T>());
        let items = self.items.borrow();
        let at = find(&items)?;
        Ref::filter_map(items, |items| items[at].downcast_ref()).ok()
    }

    /// Borrows the value of a type mutably; `None` if there is none.
    ///
    /// # Panics
    /// Panics while another guard of a value is alive.
    pub fn item_mut<T: 'static>(&self) -> Option<RefMut<'_, T>> {
        let items = self.items.borrow_mut();
        RefMut::filter_map(items, |items| items.iter_mut().find_map(|item| item.downcast_mut()))
            .ok()
    }

    /// Removes and returns the value of a type.
    ///
    /// # Panics
    /// Panics while a guard of a value is alive.
    pub fn remove<T: 'static>(&self) -> Option<T> {
        let mut items = self.items.borrow_mut();
        let at = items.iter().position(|item| item.is::<T>())?;
        let item = items.swap_remove(at).downcast().expect("just found by its type");
        Some(*item)
    }
}

impl Drop for Session {
    /// Drops each value by itself: the panic of one destructor must not affect the others, and a
    /// second panic while unwinding would abort the process.
    fn drop(&mut self) {
        drop_each("the destructor of a session's item", self.items.get_mut().drain(..));
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({})", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_contain_core_and_slot() {
        let id = ConnectionId::new(3, 70_000, 5);
        assert_eq!((id.core(), id.slot()), (Some(3), 70_000));
        assert_ne!(id, ConnectionId::new(3, 70_000, 6));
        assert_eq!(ConnectionId::next_client().core(), None);
        assert_ne!(ConnectionId::next_client(), ConnectionId::next_client());
    }

    #[test]
    fn one_value_of_each_type_is_stored() {
        let session = Session::new(ConnectionId::next_client());
        assert!(session.item::<u32>().is_none());
        assert_eq!(session.insert(1u32), None);
        assert_eq!(session.insert(2u32), Some(1));
        session.insert("text");
        *session.item_mut::<u32>().expect("inserted") += 1;
        assert_eq!(session.item::<u32>().as_deref(), Some(&3));
        assert_eq!(session.remove::<u32>(), Some(3));
        assert_eq!(session.remove::<u32>(), None);
        assert_eq!(session.item::<&str>().as_deref(), Some(&"text"));
    }
}
