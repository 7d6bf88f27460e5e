//! The timer wheel of one core: hierarchical, hashed by deadline, with ticks of one millisecond.
//!
//! Level `n` has 64 slots of 64ⁿ ticks. A timer is in the level of the highest base-64 digit in
//! which its tick differs from the current one, so every occupied slot lies ahead, the lowest
//! occupied level holds the earliest timer, and two bit scans find its slot. When the time reaches
//! a slot above level 0, its timers move down; each timer moves at most once per level. Empty slots
//! cost nothing, however far the clock jumps.

use std::time::{Duration, Instant};

use crate::limits::WHEEL_LEVELS;

#[cfg(test)]
mod tests;

/// Timers that carry a `T` and are owned by the wheel until they fire or are cancelled.
pub(crate) struct Wheel<T> {
    /// The time of tick 0.
    origin: Instant,
    /// The tick of the latest [`expire`](Wheel::expire). No timer is before it.
    current: u64,
    /// Bit `n` says that level `n` has an occupied slot.
    levels_occupied: u16,
    levels: Vec<Level>,
    timers: Vec<TimerEntry<T>>,
    free_head: u32,
    armed: usize,
}

/// The key of a timer. The key of a timer that has fired or was cancelled is stale, even after its
/// slot is reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TimerKey {
    index: u32,
    generation: u32,
}

struct Level {
    /// Bit `n` says that slot `n` is not empty.
    occupied: u64,
    slots: [WheelSlot; SLOTS],
}

/// The timers of a slot in arrival order, linked by index.
#[derive(Clone, Copy)]
struct WheelSlot {
    head: u32,
    tail: u32,
    /// No timer of the slot is due before this tick. Exact until its earliest timer is cancelled.
    earliest: u64,
}

struct TimerEntry<T> {
    /// Counts the uses of this entry.
    generation: u32,
    prev: u32,
    /// The next timer of the slot, or the next free entry.
    next: u32,
    position: SlotPosition,
    /// Fires when the current tick reaches this one.
    tick: u64,
    /// The payload; `None` exactly while the entry is free.
    payload: Option<T>,
}

#[derive(Clone, Copy)]
struct SlotPosition {
    level: u8,
    slot: u8,
}

const SLOTS: usize = 64;
const SLOT_BITS: u32 = 6;
const TICK_NS: u128 = 1_000_000;
const NIL: u32 = u32::MAX;
const EMPTY: WheelSlot = WheelSlot { head: NIL, tail: NIL, earliest: u64::MAX };

impl<T> Wheel<T> {
    /// Creates an empty wheel whose ticks count from `now`.
    pub(crate) fn new(now: Instant) -> Wheel<T> {
        let level = || Level { occupied: 0, slots: [EMPTY; SLOTS] };
        Wheel {
            origin: now,
            current: 0,
            levels_occupied: 0,
            levels: std::iter::repeat_with(level).take(WHEEL_LEVELS).collect(),
            timers: Vec::new(),
            free_head: NIL,
            armed: 0,
        }
    }

    /// Arms a timer in O(1). One whose deadline has passed fires in the next
    /// [`expire`](Wheel::expire).
    pub(crate) fn insert(&mut self, deadline: Instant, payload: T) -> TimerKey {
        let index = self.free_entry();
        let tick = self.tick_of_deadline(deadline);
        let timer = &mut self.timers[index as usize];
        timer.payload = Some(payload);
        timer.tick = tick;
        let key = TimerKey { index, generation: timer.generation };
        self.armed += 1;
        self.link(index);
        key
    }

    /// Disarms a timer and returns its payload, in O(1); `None` if it has fired or was cancelled.
    pub(crate) fn cancel(&mut self, key: TimerKey) -> Option<T> {
        if !self.is_armed(key) {
            return None;
        }
        self.unlink(key.index);
        self.free(key.index)
    }

    /// Moves an armed timer to another deadline, in O(1); `false` if it has fired or was cancelled.
    pub(crate) fn rearm(&mut self, key: TimerKey, deadline: Instant) -> bool {
        if !self.is_armed(key) {
            return false;
        }
        self.unlink(key.index);
        self.timers[key.index as usize].tick = self.tick_of_deadline(deadline);
        self.link(key.index);
        true
    }

    /// The time of the next call of [`expire`](Wheel::expire): the tick at which the earliest timer
    /// fires, or an earlier one if an earlier timer of its slot was cancelled. `None` without
    /// timers. O(1).
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let SlotPosition { level, slot } = self.first_occupied()?;
        let tick = self.levels[level as usize].slots[slot as usize].earliest;
        self.origin.checked_add(Duration::from_millis(tick))
    }

    /// Fires every timer that is due at `now`: never early, and at most one tick after its deadline
    /// if called on time. Ticks fire in order; within a tick, timers fire in the order in which
    /// they were armed. `now` must not go backwards.
    pub(crate) fn expire(&mut self, now: Instant, fire: &mut impl FnMut(TimerKey, T)) {
        let now_tick = self.ticks_passed(now);
        while let Some(position) = self.first_occupied() {
            let start = self.slot_start(position);
            if start > now_tick {
                break;
            }
            self.current = start;
            match position.level {
                0 => self.fire_slot(position, fire),
                _ => self.move_down(position),
            }
        }
        self.current = self.current.max(now_tick);
    }

    /// The payloads of the armed timers.
    pub(crate) fn into_payloads(self) -> impl Iterator<Item = T> {
        self.timers.into_iter().filter_map(|timer| timer.payload)
    }

    /// Number of armed timers.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.armed
    }

    fn fire_slot(&mut self, position: SlotPosition, fire: &mut impl FnMut(TimerKey, T)) {
        loop {
            let index = self.slot(position).head;
            if index == NIL {
                return;
            }
            let key = TimerKey { index, generation: self.timers[index as usize].generation };
            self.unlink(index);
            if let Some(payload) = self.free(index) {
                fire(key, payload);
            }
        }
    }

    /// Moves the timers of a slot that the time has reached to the levels below, keeping their
    /// order.
    fn move_down(&mut self, position: SlotPosition) {
        let mut index = std::mem::replace(self.slot(position), EMPTY).head;
        self.mark_empty(position);
        while index != NIL {
            let next = self.timers[index as usize].next;
            self.link(index);
            index = next;
        }
    }

    /// Appends the timer to the slot of its tick.
    fn link(&mut self, index: u32) {
        let tick = self.timers[index as usize].tick;
        let position = self.position_of(tick);
        let slot = self.slot(position);
        slot.earliest = slot.earliest.min(tick);
        let prev = std::mem::replace(&mut slot.tail, index);
        match prev {
            NIL => slot.head = index,
            _ => self.timers[prev as usize].next = index,
        }
        let timer = &mut self.timers[index as usize];
        (timer.prev, timer.next, timer.position) = (prev, NIL, position);
        self.levels[position.level as usize].occupied |= 1 << position.slot;
        self.levels_occupied |= 1 << position.level;
    }

    fn unlink(&mut self, index: u32) {
        let TimerEntry { prev, next, position, .. } = self.timers[index as usize];
        match prev {
            NIL => self.slot(position).head = next,
            _ => self.timers[prev as usize].next = next,
        }
        match next {
            NIL => self.slot(position).tail = prev,
            _ => self.timers[next as usize].prev = prev,
        }
        if (prev, next) == (NIL, NIL) {
            *self.slot(position) = EMPTY;
            self.mark_empty(position);
        }
    }

    fn mark_empty(&mut self, position: SlotPosition) {
        let level = &mut self.levels[position.level as usize];
        level.occupied &= !(1 << position.slot);
        if level.occupied == 0 {
            self.levels_occupied &= !(1 << position.level);
        }
    }

    fn slot(&mut self, position: SlotPosition) -> &mut WheelSlot {
        &mut self.levels[position.level as usize].slots[position.slot as usize]
    }

    fn first_occupied(&self) -> Option<SlotPosition> {
        if self.levels_occupied == 0 {
            return None;
        }
        let level = self.levels_occupied.trailing_zeros() as u8;
        let slot = self.levels[level as usize].occupied.trailing_zeros() as u8;
        Some(SlotPosition { level, slot })
    }

    fn position_of(&self, tick: u64) -> SlotPosition {
        let differing = self.current ^ tick;
        let level = (differing | 1).ilog2() / SLOT_BITS;
        let slot = (tick >> (level * SLOT_BITS)) & (SLOTS as u64 - 1);
        SlotPosition { level: level as u8, slot: slot as u8 }
    }

    /// The first tick of a slot: the current digits above its level, its own, and zeros below.
    fn slot_start(&self, position: SlotPosition) -> u64 {
        let shift = u32::from(position.level) * SLOT_BITS;
        let above = u64::MAX.checked_shl(shift + SLOT_BITS).unwrap_or(0);
        (self.current & above) | (u64::from(position.slot) << shift)
    }

    /// The first tick at or after `deadline`, so that nothing fires early.
    fn tick_of_deadline(&self, deadline: Instant) -> u64 {
        let ns = deadline.saturating_duration_since(self.origin).as_nanos();
        u64::try_from(ns.div_ceil(TICK_NS)).unwrap_or(u64::MAX).max(self.current)
    }

    fn ticks_passed(&self, now: Instant) -> u64 {
        let ns = now.saturating_duration_since(self.origin).as_nanos();
        u64::try_from(ns / TICK_NS).unwrap_or(u64::MAX)
    }

    fn is_armed(&self, key: TimerKey) -> bool {
        let timer = self.timers.get(key.index as usize);
        timer.is_some_and(|t| t.generation == key.generation && t.payload.is_some())
    }

    /// An entry that is in no list; the caller fills it.
    fn free_entry(&mut self) -> u32 {
        if self.free_head != NIL {
            let index = self.free_head;
            self.free_head = self.timers[index as usize].next;
            return index;
        }
        let index = self.timers.len() as u32;
        assert!(index < NIL, "2^32 timers do not fit into memory");
        let position = SlotPosition { level: 0, slot: 0 };
        self.timers.push(TimerEntry {
            generation: 0,
            prev: NIL,
            next: NIL,
            position,
            tick: 0,
            payload: None,
        });
        index
    }

    /// Empties an entry. It is reused under the next generation, or never again after the last one.
    fn free(&mut self, index: u32) -> Option<T> {
        self.armed -= 1;
        let timer = &mut self.timers[index as usize];
        if let Some(generation) = timer.generation.checked_add(1) {
            timer.generation = generation;
            timer.next = std::mem::replace(&mut self.free_head, index);
        }
        timer.payload.take()
    }
}
