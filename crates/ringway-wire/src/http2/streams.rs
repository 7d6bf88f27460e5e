//! The streams of a connection, in slots that are reused.

use bytes::Bytes;

use super::StreamHandle;
use super::closed::Closed;
use super::index::Index;
use super::stream::OpenStream;

/// All open streams, by slot and by id.
#[derive(Debug, Default)]
pub(super) struct StreamTable {
    slots: Vec<OpenStream>,
    /// The slot freed last, which is reused first and names the one freed before it.
    free: Option<u32>,
    index: Index,
    pub(super) closed: Closed,
    /// Number of open streams, and of slots that the caller has not let go.
    live: usize,
    /// Discarded bodies, for the caller to drop.
    pub(super) discarded: Vec<Bytes>,
}

impl StreamTable {
    #[inline]
    pub(super) fn live(&self) -> usize {
        self.live
    }

    #[inline]
    pub(super) fn open(&mut self, id: u32, window: u32, credit: i64) -> StreamHandle {
        let slot = self.free.unwrap_or_else(|| self.add_slot());
        self.free = self.slots[slot as usize].open(id, window, credit);
        self.index.insert(id, slot);
        self.live += 1;
        StreamHandle { id, slot }
    }

    /// Adds a slot. The first one is alone: a vector would make room for four, and most connections
    /// that are idle have had one stream at a time.
    #[cold]
    fn add_slot(&mut self) -> u32 {
        if self.slots.is_empty() {
            self.slots.reserve_exact(1);
        }
        self.slots.push(OpenStream::default());
        self.slots.len() as u32 - 1
    }

    /// The handle of an open stream with this id.
    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<StreamHandle> {
        self.index.find(id).map(|slot| StreamHandle { id, slot })
    }

    /// The stream of a handle, unless it has ended.
    #[inline]
    pub(super) fn get(&mut self, stream: StreamHandle) -> Option<&mut OpenStream> {
        self.slots.get_mut(stream.slot as usize).filter(|s| s.id == stream.id && !s.is_gone)
    }

    #[inline]
    pub(super) fn peek(&self, stream: StreamHandle) -> Option<&OpenStream> {
        self.slots.get(stream.slot as usize).filter(|s| s.id == stream.id && !s.is_gone)
    }

    /// The slot with this number, whatever it contains.
    #[inline]
    pub(super) fn at(&mut self, slot: u32) -> &mut OpenStream {
        &mut self.slots[slot as usize]
    }

    /// Closes a stream that has ended on both sides, and frees its slot.
    #[inline]
    pub(super) fn close(&mut self, stream: StreamHandle) {
        self.closed.note_ended(stream.id);
        self.index.remove(stream.id);
        self.release(stream.slot);
    }

    /// Ends a stream that this end reset, and frees its slot.
    pub(super) fn reset(&mut self, stream: StreamHandle) {
        self.note_reset(stream);
        self.index.remove(stream.id);
        self.release(stream.slot);
    }

    /// Ends a stream and keeps its slot until [`let_go`](Self::let_go). `by_us` says that frames of
    /// the peer may still arrive.
    pub(super) fn retire(&mut self, stream: StreamHandle, by_us: bool) {
        match by_us {
            true => self.note_reset(stream),
            false => self.closed.note_ended(stream.id),
        }
        self.index.remove(stream.id);
        self.clear_queue(stream.slot);
        self.at(stream.slot).is_gone = true;
    }

    fn note_reset(&mut self, stream: StreamHandle) {
        let slot = &self.slots[stream.slot as usize];
        let late = if slot.remote_ended { 0 } else { slot.window.granted() };
        self.closed.note_reset(stream.id, late);
    }

    /// Frees a slot that was kept.
    pub(super) fn let_go(&mut self, stream: StreamHandle) {
        let slot = self.slots.get(stream.slot as usize);
        if slot.is_some_and(|slot| slot.id == stream.id && slot.is_gone) {
            self.release(stream.slot);
        }
    }

    #[inline]
    fn release(&mut self, slot: u32) {
        self.slots[slot as usize].clear(&mut self.discarded, self.free.replace(slot));
        self.live -= 1;
    }

    /// Frees all slots. Every stream must have ended.
    pub(super) fn drop_slots(&mut self) {
        debug_assert_eq!(self.live, 0, "no stream is open");
        (self.slots, self.free) = (Vec::new(), None);
        self.index = Index::default();
    }

    /// All open streams.
    pub(super) fn open_streams(&self) -> impl Iterator<Item = (StreamHandle, &OpenStream)> {
        let all = self.slots.iter().enumerate();
        all.filter(|(_, s)| s.id != 0 && !s.is_gone)
            .map(|(slot, s)| (StreamHandle { id: s.id, slot: slot as u32 }, s))
    }

    /// All open streams, mutably.
    pub(super) fn open_streams_mut(
        &mut self,
    ) -> impl Iterator<Item = (StreamHandle, &mut OpenStream)> {
        let all = self.slots.iter_mut().enumerate();
        all.filter(|(_, s)| s.id != 0 && !s.is_gone)
            .map(|(slot, s)| (StreamHandle { id: s.id, slot: slot as u32 }, s))
    }

    /// Drops the queues of all streams.
    pub(super) fn drop_contents(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.clear_queue(&mut self.discarded));
    }

    /// Drops the queue of a stream.
    pub(super) fn clear_queue(&mut self, slot: u32) {
        self.slots[slot as usize].clear_queue(&mut self.discarded);
    }
}
