//! The wait queue of all primitives in this module.
//!
//! Waiters are in slots of a slab, linked in arrival order. A slot belongs to its future until the
//! future takes its turn or is dropped, so a grant can never reach another one. Methods return
//! wakers instead of waking or dropping them, and take only wakers that were cloned before: each of
//! these may run foreign code, which must not find the primitive borrowed.

use std::task::{Context, Poll, Waker};

use crate::contain::drop_contained;
use crate::sys::is_own;

/// The key of a waiter in a [`WaiterList`]. It is not `Clone`: the future that holds it is its only
/// owner.
#[derive(Debug)]
pub(super) struct WaiterKey(u32);

/// The state of a future when it asks for its turn.
pub(super) enum Turn {
    /// It is in no wait queue.
    New,
    /// It is waiting.
    Waiting,
    /// It was served and has left the wait queue.
    Granted,
    /// It was woken without being served (close, broadcast, cancellation) and has left the wait
    /// queue.
    Released,
}

/// The waker of a poll, which a wait queue clones.
///
/// A poll that has to wait needs that clone. If cloning runs foreign code, the poll only says so,
/// and is repeated when the clone exists.
pub(super) struct Offer<'a> {
    waker: &'a Waker,
    clone: Option<Waker>,
    wanted: bool,
    /// The waker of an earlier poll, to be dropped outside the borrow.
    stale: Option<Waker>,
}

/// Polls with `look`, which borrows the primitive while it runs.
pub(super) fn poll_by<T>(
    cx: &mut Context<'_>,
    mut look: impl FnMut(&mut Offer<'_>) -> Poll<T>,
) -> Poll<T> {
    let mut offer = Offer { waker: cx.waker(), clone: None, wanted: false, stale: None };
    let mut polled = look(&mut offer);
    if offer.wanted {
        offer.clone = Some(cx.waker().clone());
        polled = look(&mut offer);
    }
    if offer.clone.is_some() || offer.stale.is_some() {
        drop_contained("the destructor of a waker", (offer.clone, offer.stale));
    }
    polled
}

impl Offer<'_> {
    fn take(&mut self) -> Option<Waker> {
        let clone = match self.clone.take() {
            None if is_own(self.waker) => Some(self.waker.clone()),
            clone => clone,
        };
        self.wanted = clone.is_none();
        clone
    }

    /// Stores the waker in place of `stored`, unless that wakes the same task.
    fn refresh(&mut self, stored: &mut Option<Waker>) {
        if stored.as_ref().is_some_and(|old| old.will_wake(self.waker)) {
            return;
        }
        if let Some(waker) = self.take() {
            self.stale = stored.replace(waker);
        }
    }
}

/// A wait queue in arrival order. Adding, serving and leaving are O(1).
#[derive(Debug)]
pub(super) struct WaiterList {
    slots: Vec<WaiterSlot>,
    free_head: u32,
    head: u32,
    tail: u32,
    /// Number of waiters that have ever joined, which is the next one's arrival number.
    arrivals: u64,
}

#[derive(Debug)]
struct WaiterSlot {
    standing: Standing,
    units: u32,
    arrival: u64,
    prev: u32,
    /// The next waiter in the queue, or the next free slot.
    next: u32,
    /// Present exactly while `standing` is `Waiting`.
    waker: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Free,
    Waiting,
    Granted,
    Released,
}

/// No slot. The slab never reaches this index, since it would need 200 GiB of waiters.
const NIL: u32 = u32::MAX;

impl WaiterList {
    pub(super) const fn new() -> WaiterList {
        WaiterList { slots: Vec::new(), free_head: NIL, head: NIL, tail: NIL, arrivals: 0 }
    }

    /// Adds a waiter for `units` at the end of the queue; `None` if the clone of its waker does not
    /// exist yet.
    pub(super) fn join(&mut self, units: u32, offer: &mut Offer<'_>) -> Option<WaiterKey> {
        let waker = Some(offer.take()?);
        let index = self.free_slot();
        let prev = std::mem::replace(&mut self.tail, index);
        match prev {
            NIL => self.head = index,
            _ => self.slots[prev as usize].next = index,
        }
        let standing = Standing::Waiting;
        let arrival = self.arrivals;
        self.arrivals += 1;
        self.slots[index as usize] =
            WaiterSlot { standing, units, arrival, prev, next: NIL, waker };
        Some(WaiterKey(index))
    }

    /// The state of the waiter with `key`. A served or released waiter frees its slot, and `key`
    /// becomes `None`.
    pub(super) fn turn(&mut self, key: &mut Option<WaiterKey>, offer: &mut Offer<'_>) -> Turn {
        let Some(WaiterKey(index)) = *key else {
            return Turn::New;
        };
        let slot = &mut self.slots[index as usize];
        let turn = match slot.standing {
            Standing::Waiting => {
                offer.refresh(&mut slot.waker);
                return Turn::Waiting;
            }
            Standing::Granted => Turn::Granted,
            Standing::Released => Turn::Released,
            Standing::Free => unreachable!("a key is dropped together with its slot"),
        };
        *key = None;
        self.free(index);
        turn
    }

    /// Leaves the queue. The result says whether the waiter had been served, in which case the
    /// caller passes the grant on; the caller drops the waker.
    pub(super) fn leave(&mut self, key: WaiterKey) -> (bool, Option<Waker>) {
        let standing = self.slots[key.0 as usize].standing;
        if standing == Standing::Waiting {
            self.unlink(key.0);
        }
        let waker = self.slots[key.0 as usize].waker.take();
        self.free(key.0);
        (standing == Standing::Granted, waker)
    }

    /// The units that the first waiter wants; `None` if nobody waits.
    pub(super) fn front_units(&self) -> Option<u32> {
        self.slots.get(self.head as usize).map(|slot| slot.units)
    }

    /// Serves the first waiter; the caller wakes it.
    pub(super) fn grant_front(&mut self) -> Option<Waker> {
        self.take_front(Standing::Granted)
    }

    /// Releases the first waiter unserved if it arrived before `arrival`; the caller wakes it.
    pub(super) fn release_front(&mut self, arrival: u64) -> Option<Waker> {
        let front = self.slots.get(self.head as usize)?;
        if front.arrival >= arrival {
            return None;
        }
        self.take_front(Standing::Released)
    }

    /// The arrival number of the next waiter; all current waiters have lower ones.
    pub(super) fn next_arrival(&self) -> u64 {
        self.arrivals
    }

    fn take_front(&mut self, standing: Standing) -> Option<Waker> {
        let index = self.head;
        if index == NIL {
            return None;
        }
        self.unlink(index);
        let slot = &mut self.slots[index as usize];
        slot.standing = standing;
        slot.waker.take()
    }

    fn unlink(&mut self, index: u32) {
        let WaiterSlot { prev, next, .. } = self.slots[index as usize];
        match prev {
            NIL => self.head = next,
            _ => self.slots[prev as usize].next = next,
        }
        match next {
            NIL => self.tail = prev,
            _ => self.slots[next as usize].prev = prev,
        }
    }

    /// A slot that is in no list; the caller fills it.
    fn free_slot(&mut self) -> u32 {
        if self.free_head != NIL {
            let index = self.free_head;
            self.free_head = self.slots[index as usize].next;
            return index;
        }
        let index = self.slots.len() as u32;
        assert!(index < NIL, "fewer than 2^32 tasks wait on one primitive");
        self.slots.push(WaiterSlot::free(NIL));
        index
    }

    fn free(&mut self, index: u32) {
        self.slots[index as usize] = WaiterSlot::free(self.free_head);
        self.free_head = index;
    }
}

impl WaiterSlot {
    fn free(next: u32) -> WaiterSlot {
        WaiterSlot { standing: Standing::Free, units: 0, arrival: 0, prev: NIL, next, waker: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(list: &mut WaiterList, units: u32) -> Option<WaiterKey> {
        let mut key = None;
        let mut cx = Context::from_waker(Waker::noop());
        let _waits = poll_by(&mut cx, |offer| {
            key = list.join(units, offer);
            Poll::<()>::Pending
        });
        key
    }

    fn turn(list: &mut WaiterList, key: &mut Option<WaiterKey>) -> Turn {
        let mut cx = Context::from_waker(Waker::noop());
        match poll_by(&mut cx, |offer| Poll::Ready(list.turn(key, offer))) {
            Poll::Ready(turn) => turn,
            Poll::Pending => unreachable!("it always answers"),
        }
    }

    #[test]
    fn serves_in_arrival_order_past_those_who_left() {
        let mut list = WaiterList::new();
        let mut first = join(&mut list, 1);
        let second = join(&mut list, 2).expect("a slot");
        let mut third = join(&mut list, 3);
        assert!(!list.leave(second).0);
        assert_eq!(list.front_units(), Some(1));
        assert!(list.grant_front().is_some());
        assert_eq!(list.front_units(), Some(3));
        assert!(matches!(turn(&mut list, &mut first), Turn::Granted));
        assert!(first.is_none());
        assert!(matches!(turn(&mut list, &mut third), Turn::Waiting));
        assert!(list.grant_front().is_some());
        assert!(list.grant_front().is_none());
        assert!(
            list.leave(third.expect("still held")).0,
            "the grant is reported to whoever leaves"
        );
    }

    #[test]
    fn release_stops_at_those_who_arrived_later() {
        let mut list = WaiterList::new();
        let mut early = join(&mut list, 0);
        let limit = list.next_arrival();
        let mut late = join(&mut list, 0);
        assert!(list.release_front(limit).is_some());
        assert!(list.release_front(limit).is_none());
        assert!(matches!(turn(&mut list, &mut early), Turn::Released));
        assert!(matches!(turn(&mut list, &mut late), Turn::Waiting));
    }

    #[test]
    fn slots_are_reused() {
        let mut list = WaiterList::new();
        for _ in 0..1_000 {
            let mut served = join(&mut list, 1);
            let left = join(&mut list, 1).expect("a slot");
            list.grant_front();
            turn(&mut list, &mut served);
            list.leave(left);
        }
        assert_eq!(list.slots.len(), 2);
        assert_eq!(list.front_units(), None);
    }
}
