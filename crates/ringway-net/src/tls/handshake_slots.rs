//! The bound on TLS handshakes under way on one core.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use ringway_runtime::sync::CancellationToken;

use super::steps::{Line, Steps};
use crate::limits;

/// The handshakes under way, bounded. A new handshake beyond the bound ends the oldest one for
/// which nothing was computed yet, since that costs least. A part of the slots is reserved for such
/// newcomers, so that stalled handshakes cannot fill all: if there are no more newcomers than that,
/// the oldest of the others ends.
pub(crate) struct Handshakes {
    max: usize,
    newcomers_kept: usize,
    begun: Cell<u64>,
    slots: RefCell<SlotTable>,
    steps: Rc<Steps>,
}

/// Handshakes by the order in which they began. Cancelling the token ends the handshake.
#[derive(Default)]
struct SlotTable {
    newcomers: BTreeMap<u64, CancellationToken>,
    computed: BTreeMap<u64, CancellationToken>,
}

/// The slot of one handshake, until it is dropped.
pub(crate) struct HandshakeSlot<'a> {
    handshakes: &'a Handshakes,
    number: u64,
    needed: CancellationToken,
    heard: Cell<bool>,
    steps_taken: Cell<u32>,
}

impl Handshakes {
    pub(crate) fn new(max: usize) -> Self {
        let max = max.max(1);
        Self {
            max,
            newcomers_kept: (max / limits::HANDSHAKES_NEW_FRACTION).max(1),
            begun: Cell::new(0),
            slots: RefCell::default(),
            steps: Rc::default(),
        }
    }

    pub(crate) fn begin(&self) -> HandshakeSlot<'_> {
        let number = self.begun.replace(self.begun.get() + 1);
        let needed = CancellationToken::new();
        let ended = self.slots.borrow_mut().add(number, &needed, self);
        if let Some(ended) = ended {
            ended.cancel();
        }
        let (heard, steps_taken) = (Cell::new(false), Cell::new(0));
        HandshakeSlot { handshakes: self, number, needed, heard, steps_taken }
    }
}

impl SlotTable {
    /// Adds a handshake; returns the token of the one that must end for it.
    fn add(
        &mut self,
        number: u64,
        needed: &CancellationToken,
        bounds: &Handshakes,
    ) -> Option<CancellationToken> {
        self.newcomers.insert(number, needed.clone());
        if self.newcomers.len() + self.computed.len() <= bounds.max {
            return None;
        }
        let from = match self.newcomers.len() > bounds.newcomers_kept {
            true => &mut self.newcomers,
            false => &mut self.computed,
        };
        from.pop_first().map(|(_, ended)| ended)
    }
}

impl HandshakeSlot<'_> {
    /// Waits until another handshake needs the slot.
    pub(crate) async fn needed(&self) {
        self.needed.cancelled().await;
    }

    /// Whether the client has sent anything.
    pub(crate) fn is_heard(&self) -> bool {
        self.heard.get()
    }

    pub(super) fn hear(&self) {
        self.heard.set(true);
    }

    /// Waits until the server may compute with the client's message.
    pub(super) async fn step(&self) {
        let line = match self.steps_taken.get() {
            1..=limits::HANDSHAKE_STEPS_PREFERRED => Line::Later,
            _ => Line::First,
        };
        self.handshakes.steps.take(line).await;
        self.steps_taken.set(self.steps_taken.get().saturating_add(1));
        let mut slots = self.handshakes.slots.borrow_mut();
        if let Some(needed) = slots.newcomers.remove(&self.number) {
            slots.computed.insert(self.number, needed);
        }
    }
}

impl Drop for HandshakeSlot<'_> {
    fn drop(&mut self) {
        let mut slots = self.handshakes.slots.borrow_mut();
        let newcomer = slots.newcomers.remove(&self.number);
        let slot = newcomer.or_else(|| slots.computed.remove(&self.number));
        drop(slots);
        drop(slot);
    }
}

#[cfg(test)]
mod tests {
    use ringway_runtime::block_on;

    use super::*;

    fn ended(slots: &[HandshakeSlot<'_>]) -> Vec<bool> {
        slots.iter().map(|slot| slot.needed.is_cancelled()).collect()
    }

    #[test]
    fn handshake_beyond_the_bound_ends_the_oldest() {
        let handshakes = Handshakes::new(2);
        let mut slots: Vec<_> = (0..3).map(|_| handshakes.begin()).collect();
        assert_eq!(ended(&slots), [true, false, false]);
        slots.drain(..2);
        let fourth = handshakes.begin();
        assert_eq!(ended(&slots), [false], "a slot was free");
        drop((slots, fourth));
        let slots = handshakes.slots.borrow();
        assert!(slots.newcomers.is_empty() && slots.computed.is_empty());
    }

    #[test]
    fn handshakes_without_computation_end_first() {
        let done = block_on(async {
            let handshakes = Handshakes::new(8);
            let mut slots: Vec<_> = (0..8).map(|_| handshakes.begin()).collect();
            slots[0].step().await;
            slots.extend((0..100).map(|_| handshakes.begin()));
            let lives = ended(&slots).iter().filter(|ended| !**ended).count();
            assert!(!ended(&slots)[0] && lives == 8, "{lives} live");
        });
        done.expect("a core");
    }

    #[test]
    fn stalled_handshakes_leave_slots_to_newcomers() {
        let ends = block_on(async {
            let handshakes = Handshakes::new(8);
            let mut slots: Vec<_> = (0..8).map(|_| handshakes.begin()).collect();
            for slot in &slots {
                slot.step().await;
            }
            slots.extend((0..3).map(|_| handshakes.begin()));
            ended(&slots)
        });
        let ends = ends.expect("a core");
        assert_eq!(ends[..3], [true, true, false], "the two oldest end");
        assert_eq!(ends[8..], [true, false, false], "then the oldest newcomer ends");
    }
}
