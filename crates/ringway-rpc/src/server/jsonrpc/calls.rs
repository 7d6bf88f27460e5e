//! The calls of one connection that are not answered, by the slots of their streams.

use ringway_wire::jsonrpc::{Id, KeptId};
use ringway_wire::native::StreamId;

/// A call, with what its answer needs.
#[derive(Debug)]
pub(super) struct JsonCall {
    /// `None` is a notification.
    pub(super) id: Option<KeptId>,
    /// The batch that it belongs to.
    pub(super) batch: Option<u32>,
    pub(super) method: u32,
    pub(super) subscription: Subscription,
}

/// Whether a call is a subscription, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subscription {
    No,
    /// It is not answered yet.
    Asked,
    /// It was answered with this id.
    Told(u64),
}

#[derive(Debug, Default)]
pub(super) struct JsonCalls {
    slots: Vec<JsonSlot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct JsonSlot {
    /// The stream that uses it, or the next one that will.
    stream: StreamId,
    call: Option<JsonCall>,
}

impl JsonCalls {
    #[inline]
    pub(super) fn insert(&mut self, call: JsonCall) -> StreamId {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.more(),
        };
        let slot = &mut self.slots[slot as usize];
        slot.call = Some(call);
        slot.stream
    }

    #[cold]
    fn more(&mut self) -> u32 {
        let slot = self.slots.len() as u32;
        let stream = StreamId::new(slot, StreamId::GENERATION_FIRST);
        self.slots.push(JsonSlot { stream, call: None });
        slot
    }

    #[inline]
    pub(super) fn get(&mut self, stream: StreamId) -> Option<&mut JsonCall> {
        let slot = self.slots.get_mut(stream.slot() as usize)?;
        slot.call.as_mut().filter(|_| slot.stream == stream)
    }

    #[inline]
    pub(super) fn remove(&mut self, stream: StreamId) -> Option<JsonCall> {
        let slot = self.slots.get_mut(stream.slot() as usize)?;
        let call = slot.call.take_if(|_| slot.stream == stream)?;
        slot.stream = stream.next();
        self.free.push(stream.slot());
        Some(call)
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The streams of all calls.
    pub(super) fn streams(&self) -> Vec<StreamId> {
        let used = self.slots.iter().filter(|slot| slot.call.is_some());
        used.map(|slot| slot.stream).collect()
    }

    /// The call in this slot, if it is a subscription with this id.
    pub(super) fn subscribed(&self, slot: u32, id: u64) -> Option<StreamId> {
        let slot = self.slots.get(slot as usize)?;
        let call = slot.call.as_ref()?;
        (call.subscription == Subscription::Told(id)).then_some(slot.stream)
    }

    /// The streams of all subscriptions.
    pub(super) fn subscriptions(&self) -> impl Iterator<Item = StreamId> {
        let used = self.slots.iter().filter(|slot| {
            slot.call.as_ref().is_some_and(|call| call.subscription != Subscription::No)
        });
        used.map(|slot| slot.stream)
    }
}

impl JsonCall {
    /// The id to answer with, if it is to be answered.
    pub(super) fn id(&self) -> Option<Id<'_>> {
        self.id.as_ref().map(KeptId::id)
    }
}
