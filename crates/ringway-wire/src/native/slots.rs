//! The calls of one connection, in a dense table that is indexed and never hashed (section 7).

use super::StreamId;
use crate::limits::NATIVE_STREAMS_DEFAULT;

/// Stands for "no [`Stream`](super::streams::Stream)": most calls need only one frame in each
/// direction.
pub(super) const NO_STREAM: u32 = u32::MAX;

/// The phase of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Free,
    Open,
    /// On the server: the reply waits for credit. On the client: RST was sent, and RESPONSE has not
    /// arrived.
    Closing,
}

/// The state of a call that needs no stream, in 32 bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// The current call, or the last one; [`StreamId::CONNECTION`] if there was none.
    id: StreamId,
    pub(super) phase: Phase,
    /// On the server: the request has ended.
    pub(super) remote_ended: bool,
    /// The REQUEST was received, or is in the output and `number` is valid.
    pub(super) is_sent: bool,
    /// On the client: the parity of the reset timer at the time of cancellation.
    pub(super) reset_parity: bool,
    /// Reply bytes that the client accepts before it sends CREDIT.
    pub(super) reply_credit: u32,
    pub(super) stream: u32,
    /// On the client: number of requests sent before this one, or less.
    pub(super) number: u64,
    /// On the server: the timeout in the request head, in microseconds.
    pub(super) timeout_us: u32,
    /// On the server: the [moment] at which the request arrived.
    pub(super) came: u32,
}

/// The state of a stream id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Live(usize),
    /// The call is over; its late frames are dropped.
    Ended,
    Never,
}

/// All slots of one connection.
#[derive(Debug, Default)]
pub(super) struct Slots {
    table: Vec<Slot>,
    /// Free slots, on the client only: the last one freed is the first one reused, so that few
    /// slots stay in cache.
    free: Vec<u32>,
    /// Free slots that the server currently does not accept, and may accept again.
    beyond: Vec<u32>,
    live: usize,
}

impl Slots {
    pub(super) fn live(&self) -> usize {
        self.live
    }

    #[inline]
    pub(super) fn find(&self, id: StreamId) -> Found {
        let index = id.slot() as usize;
        match self.table.get(index) {
            Some(slot) if slot.id == id && slot.phase != Phase::Free => Found::Live(index),
            Some(slot) if !slot.is_later(id) && !id.is_from_acceptor() => Found::Ended,
            _ => Found::Never,
        }
    }

    /// The slot of a call that is open, so neither ended nor ending.
    #[inline]
    pub(super) fn find_open(&self, id: StreamId) -> Option<usize> {
        let index = id.slot() as usize;
        let slot = self.table.get(index)?;
        (slot.id == id && slot.phase == Phase::Open).then_some(index)
    }

    #[inline]
    pub(super) fn at(&mut self, index: usize) -> &mut Slot {
        &mut self.table[index]
    }

    pub(super) fn get(&self, index: usize) -> &Slot {
        &self.table[index]
    }

    /// The full id of the call in slot `index`.
    pub(super) fn id(&self, index: usize) -> StreamId {
        self.table[index].id
    }

    /// Ids of all calls that have not ended.
    pub(super) fn live_ids(&self) -> Vec<StreamId> {
        let live = (0..self.table.len()).filter(|&i| self.table[i].phase != Phase::Free);
        live.map(|index| self.id(index)).collect()
    }

    /// Opens the call that the peer named; `None` if the peer may not use that id.
    #[inline]
    pub(super) fn accept(&mut self, id: StreamId, reply_credit: u32) -> Option<usize> {
        let index = id.slot() as usize;
        if index >= self.table.len() {
            self.table.resize(index + 1, Slot::NEW);
        }
        let slot = &mut self.table[index];
        if slot.phase != Phase::Free || !slot.is_later(id) {
            return None;
        }
        *slot = Slot { reply_credit, is_sent: true, ..Slot::open(id) };
        self.live += 1;
        Some(index)
    }

    /// Opens a call in the slot freed last, or in a new one. `None` always means that `live_max`
    /// calls are open: fewer never use up all slots below the limit.
    #[inline]
    pub(super) fn acquire(&mut self, live_max: u32, reply_credit: u32) -> Option<StreamId> {
        if self.live >= live_max as usize {
            return None;
        }
        let index = self.take_free(slots_max(live_max))?;
        let slot = &mut self.table[index as usize];
        let is_new = slot.id == StreamId::CONNECTION;
        let first = StreamId::new(index, StreamId::GENERATION_FIRST);
        let id = if is_new { first } else { slot.id.next() };
        *slot = Slot { reply_credit, ..Slot::open(id) };
        self.live += 1;
        Some(id)
    }

    #[inline]
    fn take_free(&mut self, slots_max: u32) -> Option<u32> {
        while let Some(index) = self.free.pop() {
            if index < slots_max {
                return Some(index);
            }
            // Only a server that has lowered its limit makes slots unusable.
            self.beyond.push(index);
        }
        let index = self.table.len() as u32;
        debug_assert!(index < slots_max, "a slot below the bound is in use, free or new");
        if index >= slots_max {
            return None;
        }
        self.table.push(Slot::NEW);
        Some(index)
    }

    /// Makes free slots usable again, after the server has changed its limit.
    pub(super) fn reconsider(&mut self) {
        self.free.append(&mut self.beyond);
    }

    /// Ends the call on the server; the client may use the slot again.
    #[inline]
    pub(super) fn end(&mut self, index: usize) {
        debug_assert!(self.table[index].phase != Phase::Free, "a call ends once");
        self.table[index].phase = Phase::Free;
        self.live -= 1;
    }

    /// Ends the call on the client and frees its slot.
    #[inline]
    pub(super) fn release(&mut self, index: usize) {
        self.end(index);
        self.free.push(index as u32);
    }

    /// Ends a call that the server has not heard of. The next call in the slot gets the same id,
    /// since the server rejects generations too far ahead of the last one it saw.
    pub(super) fn release_unsent(&mut self, index: usize) {
        let slot = &mut self.table[index];
        slot.id = slot.id.previous();
        self.release(index);
    }
}

impl Slot {
    const NEW: Slot = Slot { phase: Phase::Free, ..Slot::open(StreamId::CONNECTION) };

    const fn open(id: StreamId) -> Self {
        Slot {
            id,
            phase: Phase::Open,
            remote_ended: false,
            is_sent: false,
            reset_parity: false,
            reply_credit: 0,
            stream: NO_STREAM,
            number: 0,
            timeout_us: 0,
            came: 0,
        }
    }

    /// Whether `id` comes after the slot's last call: generations wrap around, skipping 0, and half
    /// of them count as ahead.
    #[inline]
    fn is_later(&self, id: StreamId) -> bool {
        if id.is_from_acceptor() || !id.is_valid() {
            return false;
        }
        if id == self.id.next() || self.id == StreamId::CONNECTION {
            return true;
        }
        let ahead = (id.generation() + GENERATIONS - self.id.generation()) % GENERATIONS;
        ahead != 0 && ahead <= GENERATIONS / 2
    }
}

/// Number of slots for `streams_max` streams. It never falls below the default that holds before
/// SETTINGS, because those slots may be in use already.
fn slots_max(streams_max: u32) -> u32 {
    streams_max.clamp(NATIVE_STREAMS_DEFAULT, StreamId::SLOTS)
}

/// Number of generations of a slot.
const GENERATIONS: u16 = 4_095;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_rise_and_skip_zero() {
        let mut slots = Slots::default();
        let mut seen = Vec::new();
        for _ in 0..=GENERATIONS {
            let id = slots.acquire(1, 0).expect("one slot");
            assert_eq!(slots.acquire(1, 0), None);
            seen.push(id.generation());
            slots.release(0);
        }
        assert_eq!((seen[0], seen[1]), (1, 2));
        assert_eq!(seen.last(), Some(&1));
        assert!(!seen.contains(&0));
    }

    #[test]
    fn ids_are_live_ended_or_never_used() {
        let mut slots = Slots::default();
        assert_eq!(slots.find(StreamId::new(0, 1)), Found::Never);
        assert!(slots.accept(StreamId::from_raw(1 << 31 | 1), 0).is_none(), "ours to open");
        assert_eq!(slots.accept(StreamId::new(0, 4_095), 0), Some(0));
        assert_eq!(slots.find(StreamId::new(0, 4_095)), Found::Live(0));
        assert_eq!(slots.find(StreamId::new(0, 1)), Found::Never);
        assert!(slots.accept(StreamId::new(0, 1), 0).is_none(), "still in use");
        slots.end(0);
        assert_eq!(slots.find(StreamId::new(0, 4_095)), Found::Ended);
        assert!(slots.accept(StreamId::new(0, 4_095), 0).is_none(), "same generation again");
        assert_eq!(slots.accept(StreamId::new(0, 1), 0), Some(0));
        assert_eq!(slots.find(StreamId::new(0, 4_095)), Found::Ended);
    }

    #[test]
    fn the_slot_freed_last_is_taken_first() {
        let mut slots = Slots::default();
        for _ in 0..3 {
            slots.acquire(8, 0).expect("room");
        }
        slots.release(2);
        slots.release(0);
        assert_eq!(slots.acquire(8, 0), Some(StreamId::new(0, 2)));
        assert_eq!(slots.acquire(8, 0), Some(StreamId::new(2, 2)));
        assert_eq!(slots.acquire(8, 0), Some(StreamId::new(3, 1)));
        assert_eq!(slots.live(), 4);
    }

    #[test]
    fn slots_beyond_a_lower_limit_come_back_with_a_higher_one() {
        let mut slots = Slots::default();
        for _ in 0..300 {
            slots.acquire(300, 0).expect("room");
        }
        (0..300).rev().for_each(|index| slots.release(index));
        for live_max in [1, 200, 5, 128, 300, 0, 300] {
            slots.reconsider();
            let opened: Vec<_> = std::iter::from_fn(|| slots.acquire(live_max, 0)).collect();
            assert_eq!(opened.len(), live_max as usize);
            let highest = opened.iter().map(|id| id.slot()).max();
            assert!(highest.is_none_or(|slot| slot < slots_max(live_max)));
            opened.iter().rev().for_each(|id| slots.release(id.slot() as usize));
        }
    }

    #[test]
    fn an_unsent_call_leaves_its_id_to_the_next_in_its_slot() {
        let mut slots = Slots::default();
        for _ in 0..=GENERATIONS {
            let unsent = slots.acquire(1, 0).expect("one slot");
            slots.release_unsent(0);
            assert_eq!(slots.acquire(1, 0), Some(unsent));
            slots.release(0);
        }
    }

    #[test]
    fn a_generation_up_to_half_the_range_ahead_is_new() {
        for last in [1, 2_000, 4_095] {
            for ahead in [1, 2_046, 2_047, 2_048, 4_094] {
                let mut slots = Slots::default();
                assert_eq!(slots.accept(StreamId::new(0, last), 0), Some(0));
                slots.end(0);
                let generation = (last + ahead - 1) % GENERATIONS + 1;
                let accepted = slots.accept(StreamId::new(0, generation), 0);
                assert_eq!(accepted.is_some(), ahead <= 2_047, "{generation} after {last}");
            }
        }
    }
}
