//! The calls of a client's connection, indexed by the slots of their streams.

use std::collections::VecDeque;

use bytes::Bytes;

use super::message::Messages;
use super::names::Compression;
use crate::http2::StreamHandle;
use crate::limits::NATIVE_COSTS_KEPT;
use crate::native::StreamId;

/// An open call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) stream: StreamHandle,
    pub(super) messages: Messages,
    /// The compression of replies that are marked as compressed.
    pub(super) compression: Compression,
    /// Whether the head of a reply has arrived, so that the server has begun to execute the call.
    pub(super) has_head: bool,
    /// The failure that the head of the reply contained.
    pub(super) early_end: Option<Box<EarlyEnd>>,
    /// The window cost of each message that the reader has not taken.
    costs: VecDeque<Cost>,
    /// The window cost of the message that is arriving, while others are unread. Without unread
    /// ones the reader waits for it, so its credit is returned at once.
    held: u32,
}

impl Call {
    /// Records a part of an incomplete message, and returns how much credit to return.
    pub(super) fn note_part(&mut self, len: usize) -> usize {
        if self.costs.is_empty() {
            return len;
        }
        self.held += len as u32;
        0
    }

    /// Records a complete message for the reader, whose last part has `len` bytes.
    pub(super) fn note_message(&mut self, len: usize) {
        let held = std::mem::take(&mut self.held);
        self.costs.push_back(Cost { window: held + len as u32, inflated: 0 });
        self.early_end = None; // what has content is no head alone
    }

    /// Records that the reader has taken messages, and returns how much credit to return, and the
    /// bytes of them that were decompressed.
    fn take(&mut self, messages: usize) -> (usize, usize) {
        let (mut window, mut inflated) = (0, 0);
        for cost in self.costs.drain(..messages.min(self.costs.len())) {
            window += cost.window as usize;
            inflated += cost.inflated as usize;
        }
        let held = if self.costs.is_empty() { std::mem::take(&mut self.held) } else { 0 };
        (window + held as usize, inflated)
    }
}

/// What an unread message takes up.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// Bytes of the window.
    window: u32,
    /// Bytes of memory, if it was decompressed.
    inflated: u32,
}

/// A failure that came before the end of the stream.
#[derive(Debug)]
pub(super) struct EarlyEnd {
    pub(super) status: u8,
    pub(super) meta: Bytes,
}

/// A slot, whose buffers are reused.
#[derive(Debug)]
struct CallSlot {
    call: Call,
    is_open: bool,
    generation: u16,
}

/// Calls by slot, each with the id that the caller uses.
#[derive(Debug, Default)]
pub(super) struct Calls {
    slots: Vec<CallSlot>,
    /// Bytes of unread messages that were decompressed.
    inflated: usize,
}

impl Calls {
    /// Adds a call on a new stream.
    pub(super) fn begin(&mut self, stream: StreamHandle, message_max: u32) -> StreamId {
        let index = stream.slot();
        while self.slots.len() <= index {
            let call = Call {
                stream,
                messages: Messages::new(message_max),
                compression: Compression::Identity,
                has_head: false,
                early_end: None,
                costs: VecDeque::new(),
                held: 0,
            };
            self.slots.push(CallSlot { call, is_open: false, generation: 0 });
        }
        let slot = &mut self.slots[index];
        slot.is_open = true;
        slot.generation = slot.generation % StreamId::GENERATION_MASK as u16 + 1;
        slot.call.stream = stream;
        slot.call.compression = Compression::Identity;
        slot.call.has_head = false;
        StreamId::new(index as u32, slot.generation)
    }

    /// The call with this id, unless it has ended.
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

    /// The id of a stream's call, unless it has ended.
    #[inline]
    pub(super) fn of(&self, stream: StreamHandle) -> Option<StreamId> {
        let slot = self.slots.get(stream.slot())?;
        let is_open = slot.is_open && slot.call.stream == stream;
        is_open.then(|| StreamId::new(stream.slot() as u32, slot.generation))
    }

    /// The call of a stream with its id, unless it has ended.
    #[inline]
    pub(super) fn open(&mut self, stream: StreamHandle) -> Option<(StreamId, &mut Call)> {
        let slot = self.slots.get_mut(stream.slot())?;
        let is_open = slot.is_open && slot.call.stream == stream;
        let id = StreamId::new(stream.slot() as u32, slot.generation);
        is_open.then_some((id, &mut slot.call))
    }

    /// Bytes of unread messages that were decompressed.
    pub(super) fn inflated(&self) -> usize {
        self.inflated
    }

    /// Records that the latest message was decompressed to so many bytes.
    pub(super) fn note_inflated(&mut self, id: StreamId, len: usize) {
        if let Some(cost) = self.get(id).and_then(|call| call.costs.back_mut()) {
            cost.inflated = len as u32;
            self.inflated += len;
        }
    }

    /// Records that the reader has taken messages, and returns the stream and how much credit to
    /// return on it.
    pub(super) fn take(&mut self, id: StreamId, messages: usize) -> Option<(StreamHandle, usize)> {
        let call = self.get(id)?;
        let (stream, (window, inflated)) = (call.stream, call.take(messages));
        self.inflated -= inflated;
        Some((stream, window))
    }

    /// Ends a call, and returns its stream.
    pub(super) fn end(&mut self, id: StreamId) -> Option<StreamHandle> {
        let (stream, _) = self.take(id, usize::MAX)?;
        let slot = &mut self.slots[id.slot() as usize];
        slot.is_open = false;
        slot.call.messages.clear();
        slot.call.costs.clear();
        slot.call.costs.shrink_to(NATIVE_COSTS_KEPT);
        (slot.call.held, slot.call.early_end) = (0, None);
        Some(stream)
    }
}
