//! The connections of one core of a server.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use super::core_number::CoreNumber;
use crate::connection::{ConnectionInner, WeakConnection};
use crate::limits;
use crate::session::ConnectionId;

/// The connections of a core, indexed by the slot in their ids. It does not own them.
pub(crate) struct Connections {
    slots: RefCell<Slots>,
}

struct Slots {
    core: CoreNumber,
    list: Vec<Slot>,
    /// Free slots; the one that has been free for longest comes first.
    free: VecDeque<u32>,
}

struct Slot {
    reuse: u32,
    inner: WeakConnection,
}

impl Connections {
    pub(crate) fn new(core: CoreNumber) -> Self {
        Self { slots: RefCell::new(Slots::new(core)) }
    }

    /// Reserves an id for a new connection; `None` when the core has reached its limit. When the
    /// connection exists, [`enter`](Self::enter) adds it.
    pub(crate) fn reserve(&self) -> Option<ConnectionId> {
        self.slots.borrow_mut().reserve()
    }

    pub(crate) fn enter(&self, inner: &Rc<ConnectionInner>) {
        self.slots.borrow_mut().list[inner.id().slot()].inner = Rc::downgrade(inner);
    }

    /// Finds an open connection.
    pub(crate) fn find(&self, id: ConnectionId) -> Option<Rc<ConnectionInner>> {
        let slots = self.slots.borrow();
        let inner = slots.list.get(id.slot())?.inner.upgrade()?;
        (inner.id() == id).then_some(inner)
    }

    /// Returns the connections that have an owner.
    pub(crate) fn owned(&self) -> Vec<Rc<ConnectionInner>> {
        self.slots.borrow().list.iter().filter_map(|slot| slot.inner.upgrade()).collect()
    }

    /// Whether no connection has an owner.
    pub(crate) fn is_deserted(&self) -> bool {
        self.slots.borrow().list.iter().all(|slot| slot.inner.strong_count() == 0)
    }

    /// Frees the slot of a connection whose owner has dropped it.
    pub(crate) fn forget(&self, id: ConnectionId) {
        let freed = self.slots.borrow_mut().free(id);
        drop(freed);
    }
}

impl Slots {
    fn new(core: CoreNumber) -> Self {
        Self { core, list: Vec::new(), free: VecDeque::new() }
    }

    fn reserve(&mut self) -> Option<ConnectionId> {
        let slot = match self.free.pop_front() {
            Some(slot) => slot,
            None if self.list.len() >= limits::SLOTS_MAX => return None,
            None => {
                self.list.push(Slot { reuse: self.core.reuse(), inner: Weak::new() });
                self.list.len() as u32 - 1
            }
        };
        Some(ConnectionId::new(self.core.get(), slot, self.list[slot as usize].reuse))
    }

    /// Frees a slot and returns the connection's memory, to be dropped outside of the borrow. A
    /// slot whose ids are used up is not reused.
    fn free(&mut self, id: ConnectionId) -> WeakConnection {
        let slot = &mut self.list[id.slot()];
        if let Some(next) = slot.reuse.checked_add(1) {
            slot.reuse = next;
            self.free.push_back(id.slot() as u32);
        }
        std::mem::take(&mut slot.inner)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let last = self.list.iter().map(|slot| slot.reuse).max();
        last.into_iter().for_each(|reuse| self.core.note(reuse));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused_in_turn_and_ids_never_repeat() {
        let called = CoreNumber::take(1).expect("a number").remove(0);
        let core = called.get();
        let mut slots = Slots::new(called);
        let first: Vec<_> = (0..3).map(|_| slots.reserve().expect("room")).collect();
        first.iter().for_each(|&id| drop(slots.free(id)));
        let again: Vec<_> = (0..3).map(|_| slots.reserve().expect("room")).collect();
        assert!(first.iter().zip(&again).all(|(a, b)| a.slot() == b.slot() && a != b));
        assert!(again.iter().all(|id| !first.contains(id)));

        slots.list[again[0].slot()].reuse = u32::MAX;
        let last = ConnectionId::new(core, again[0].slot() as u32, u32::MAX);
        drop(slots.free(last));
        let next = slots.reserve().expect("another slot");
        assert_ne!(next.slot(), last.slot(), "its ids are used up");
    }
}
