//! The streams of a connection: slots that are used again.

use super::StreamId;
use super::closed::Closed;
use super::index::Index;
use super::stream::Stream;

/// All streams that are open, by slot and by id.
#[derive(Debug, Default)]
pub(super) struct Streams {
    slots: Vec<Stream>,
    /// Free slots; the one that was left last is used first.
    free: Vec<u32>,
    index: Index,
    pub(super) closed: Closed,
    /// Streams that count: those that are open, and those whose slot the caller has not let go.
    live: usize,
}

impl Streams {
    #[inline]
    pub(super) fn live(&self) -> usize {
        self.live
    }

    #[inline]
    pub(super) fn open(&mut self, id: u32, window: u32, credit: i64) -> StreamId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Stream::default());
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize].open(id, window, credit);
        self.index.insert(id, slot);
        self.live += 1;
        StreamId { id, slot }
    }

    /// The slot of an id that is open.
    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<StreamId> {
        self.index.find(id).map(|slot| StreamId { id, slot })
    }

    /// The stream of a handle, unless it has ended.
    #[inline]
    pub(super) fn get(&mut self, stream: StreamId) -> Option<&mut Stream> {
        self.slots.get_mut(stream.slot as usize).filter(|s| s.id == stream.id && !s.is_gone)
    }

    #[inline]
    pub(super) fn peek(&self, stream: StreamId) -> Option<&Stream> {
        self.slots.get(stream.slot as usize).filter(|s| s.id == stream.id && !s.is_gone)
    }

    /// A slot by its number, whatever is in it.
    #[inline]
    pub(super) fn at(&mut self, slot: u32) -> &mut Stream {
        &mut self.slots[slot as usize]
    }

    /// Ends a stream that has ended on both sides, and frees its slot.
    #[inline]
    pub(super) fn close(&mut self, stream: StreamId) {
        self.closed.note_ended(stream.id);
        self.index.remove(stream.id);
        self.release(stream.slot);
    }

    /// Ends a stream that we reset, and frees its slot.
    pub(super) fn reset(&mut self, stream: StreamId) {
        self.closed.note_reset(stream.id);
        self.index.remove(stream.id);
        self.release(stream.slot);
    }

    /// Ends a stream and keeps its slot until [`let_go`](Self::let_go). `by_us`: its frames may
    /// still come.
    pub(super) fn retire(&mut self, stream: StreamId, by_us: bool) {
        match by_us {
            true => self.closed.note_reset(stream.id),
            false => self.closed.note_ended(stream.id),
        }
        self.index.remove(stream.id);
        let slot = self.at(stream.slot);
        slot.clear_queue();
        slot.is_gone = true;
    }

    /// Frees a slot that was kept.
    pub(super) fn let_go(&mut self, stream: StreamId) {
        let slot = self.slots.get(stream.slot as usize);
        if slot.is_some_and(|slot| slot.id == stream.id && slot.is_gone) {
            self.release(stream.slot);
        }
    }

    #[inline]
    fn release(&mut self, slot: u32) {
        self.slots[slot as usize].clear();
        self.free.push(slot);
        self.live -= 1;
    }

    /// All that are open.
    pub(super) fn open_streams(&self) -> impl Iterator<Item = (StreamId, &Stream)> {
        let all = self.slots.iter().enumerate();
        all.filter(|(_, s)| s.id != 0 && !s.is_gone)
            .map(|(slot, s)| (StreamId { id: s.id, slot: slot as u32 }, s))
    }

    /// The same, to be changed.
    pub(super) fn open_streams_mut(&mut self) -> impl Iterator<Item = (StreamId, &mut Stream)> {
        let all = self.slots.iter_mut().enumerate();
        all.filter(|(_, s)| s.id != 0 && !s.is_gone)
            .map(|(slot, s)| (StreamId { id: s.id, slot: slot as u32 }, s))
    }

    /// Lets go all that waits to be sent.
    pub(super) fn drop_contents(&mut self) {
        self.slots.iter_mut().for_each(Stream::clear_queue);
    }
}
