//! The calls of a client's connection, by the slots of their streams.

use std::collections::VecDeque;

use super::message::Messages;
use super::names::Compression;
use crate::http2::StreamHandle;
use crate::limits::NATIVE_COSTS_KEPT;
use crate::native::StreamId;

/// One call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) stream: StreamHandle,
    pub(super) messages: Messages,
    /// How the replies are compressed that say so.
    pub(super) compression: Compression,
    /// What each message that the reader has not taken has cost of the window.
    costs: VecDeque<u32>,
    /// What the front of the next message has cost of it, while others wait before that. The reader
    /// waits for one that is the first, so what comes of it is given back at once.
    held: u32,
}

impl Call {
    /// A part of a message has come that is not whole: how much of the window is to be given back.
    pub(super) fn note_part(&mut self, len: usize) -> usize {
        if self.costs.is_empty() {
            return len;
        }
        self.held += len as u32;
        0
    }

    /// The last `len` bytes of a message have come, which goes to the reader.
    pub(super) fn note_message(&mut self, len: usize) {
        let held = std::mem::take(&mut self.held);
        self.costs.push_back(held + len as u32);
    }

    /// The reader has taken so many messages: how much of the window is to be given back.
    pub(super) fn take(&mut self, messages: usize) -> usize {
        let taken = self.costs.drain(..messages.min(self.costs.len()));
        let sum: usize = taken.map(|cost| cost as usize).sum();
        let held = if self.costs.is_empty() { std::mem::take(&mut self.held) } else { 0 };
        sum + held as usize
    }
}

/// A slot. Its buffers are used again.
#[derive(Debug)]
struct CallSlot {
    call: Call,
    is_open: bool,
    generation: u16,
}

/// Calls by slots, each with the number that it has for the caller.
#[derive(Debug, Default)]
pub(super) struct Calls {
    slots: Vec<CallSlot>,
}

impl Calls {
    /// Begins a call on a stream that was opened.
    pub(super) fn begin(&mut self, stream: StreamHandle, message_max: u32) -> StreamId {
        let place = stream.slot();
        while self.slots.len() <= place {
            let call = Call {
                stream,
                messages: Messages::new(message_max),
                compression: Compression::Identity,
                costs: VecDeque::new(),
                held: 0,
            };
            self.slots.push(CallSlot { call, is_open: false, generation: 0 });
        }
        let slot = &mut self.slots[place];
        slot.is_open = true;
        slot.generation = slot.generation % StreamId::GENERATION_MASK as u16 + 1;
        slot.call.stream = stream;
        slot.call.compression = Compression::Identity;
        StreamId::new(place as u32, slot.generation)
    }

    /// A call that has not ended.
    #[inline]
    pub(super) fn get(&mut self, id: StreamId) -> Option<&mut Call> {
        let slot = self.slots.get_mut(id.slot() as usize)?;
        (slot.is_open && slot.generation == id.generation()).then_some(&mut slot.call)
    }

    /// The stream of a call that has not ended.
    #[inline]
    pub(super) fn stream(&self, id: StreamId) -> Option<StreamHandle> {
        let slot = self.slots.get(id.slot() as usize)?;
        (slot.is_open && slot.generation == id.generation()).then_some(slot.call.stream)
    }

    /// The call of a stream, if it has not ended.
    #[inline]
    pub(super) fn of(&self, stream: StreamHandle) -> Option<StreamId> {
        let slot = self.slots.get(stream.slot())?;
        let is_open = slot.is_open && slot.call.stream == stream;
        is_open.then(|| StreamId::new(stream.slot() as u32, slot.generation))
    }

    /// Ends a call: its stream.
    pub(super) fn end(&mut self, id: StreamId) -> Option<StreamHandle> {
        let stream = self.stream(id)?;
        let slot = &mut self.slots[id.slot() as usize];
        slot.is_open = false;
        slot.call.messages.clear();
        slot.call.costs.clear();
        slot.call.costs.shrink_to(NATIVE_COSTS_KEPT);
        slot.call.held = 0;
        Some(stream)
    }
}
