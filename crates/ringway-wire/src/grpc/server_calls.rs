//! The unanswered calls of a server's connection.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use super::compression::CallCompression;
use super::message::{Messages, PREFIX_LEN};
use super::names::ContentType;
use crate::http2::StreamHandle;
use crate::limits::{GRPC_COST_MIN, GRPC_SPARE_COSTS, NATIVE_COSTS_KEPT};
use crate::native::{RequestHead, StreamId};

/// The calls, indexed by the slots of their streams.
#[derive(Debug)]
pub(super) struct ServedCalls {
    slots: Vec<ServedCall>,
    /// The ids that slots last had before they were freed, so that none is used again too soon. The
    /// first slot's is apart, since most connections have one.
    first_freed: Option<StreamId>,
    others_freed: Box<[StreamId]>,
    /// Length of the longest accepted message.
    message_max: u32,
    /// Memory, in bytes, that all calls hold.
    kept: usize,
    /// Calls whose requests are held back.
    held_back: u32,
}

/// One call, from its head to its answer.
#[derive(Debug)]
pub(super) struct ServedCall {
    id: StreamId,
    /// The stream; `None` if the call is answered or over.
    http: Option<StreamHandle>,
    pub(super) content_type: ContentType,
    pub(super) compression: CallCompression,
    /// Whether the head of the reply was sent.
    pub(super) has_head: bool,
    /// Whether the reader is gone, so that messages are dropped.
    pub(super) is_ignored: bool,
    pub(super) messages: Messages,
    /// The request, if it is held back because it is incomplete.
    pub(super) request: Option<Box<HeldRequest>>,
    /// The deadline of the call.
    pub(super) until: Duration,
    /// Since when nothing of a request that is held back was received, or too little, by the clock of reading.
    pub(super) touched: Duration,
    /// Messages that the reader has not taken, with their costs.
    untaken: VecDeque<Untaken>,
    untaken_cost: usize,
    /// Bytes received of the incomplete message, and those of them whose credit was returned
    /// because the reader waits for the message.
    came: usize,
    credited: usize,
}

/// A request that is held back until it is complete.
#[derive(Debug)]
pub(super) struct HeldRequest {
    pub(super) head: RequestHead,
    pub(super) meta: Bytes,
    pub(super) message: Option<Bytes>,
}

impl HeldRequest {
    fn len(&self) -> usize {
        self.meta.len() + self.message.as_ref().map_or(0, Bytes::len)
    }
}

#[derive(Debug, Clone, Copy)]
struct Untaken {
    cost: u32,
    /// Credit that returns to the client when the message is taken.
    credit: u32,
}

impl Untaken {
    /// The record of an unread message has a minimum cost, since even a short message takes memory.
    #[inline]
    fn new(len: usize, credit: usize) -> Self {
        Self { cost: (PREFIX_LEN + len).max(GRPC_COST_MIN) as u32, credit: credit as u32 }
    }
}

impl ServedCall {
    /// A free slot whose last call had this id.
    fn free(id: StreamId, message_max: u32) -> Self {
        Self {
            id,
            http: None,
            content_type: ContentType::Plain,
            compression: CallCompression::NO_CALL,
            has_head: false,
            is_ignored: false,
            messages: Messages::new(message_max),
            request: None,
            until: Duration::MAX,
            touched: Duration::ZERO,
            untaken: VecDeque::new(),
            untaken_cost: 0,
            came: 0,
            credited: 0,
        }
    }

    #[inline]
    pub(super) fn id(&self) -> StreamId {
        self.id
    }

    /// Whether the call was reported to the caller.
    #[inline]
    pub(super) fn is_known(&self) -> bool {
        self.request.is_none()
    }

    /// Memory, in bytes, that the call holds.
    pub(super) fn kept(&self) -> usize {
        self.untaken_cost + self.unready()
    }

    /// Memory, in bytes, of incomplete data.
    #[inline]
    fn unready(&self) -> usize {
        let request = self.request.as_ref().map_or(0, |request| request.len());
        request + self.messages.incomplete_len()
    }

    /// Records a part of an incomplete message, and returns how much credit to return at once: all
    /// if the reader waits for it, since a message longer than the window could never complete
    /// otherwise.
    fn note_part(&mut self, len: usize) -> usize {
        self.came += len;
        self.credit_part()
    }

    fn credit_part(&mut self) -> usize {
        if !self.untaken.is_empty() || self.is_ignored {
            return 0;
        }
        self.came - std::mem::replace(&mut self.credited, self.came)
    }

    /// Records a complete message, and returns the credit due when the message is taken.
    fn note_message(&mut self, len: usize) -> usize {
        self.came = 0;
        let credited = std::mem::take(&mut self.credited);
        debug_assert!(credited <= PREFIX_LEN + len, "no byte is given back twice");
        (PREFIX_LEN + len).saturating_sub(credited)
    }

    /// Frees the memory of a list that was long.
    #[inline]
    fn shrink_untaken(&mut self, entries: usize) {
        if self.untaken.is_empty() && self.untaken.capacity() > entries {
            self.untaken = VecDeque::new();
        }
    }
}

impl ServedCalls {
    /// Creates a table for messages of up to `message_max` bytes.
    pub(super) fn new(message_max: u32) -> Self {
        let (slots, first_freed, others_freed) = Default::default();
        Self { slots, first_freed, others_freed, message_max, kept: 0, held_back: 0 }
    }

    /// Frees all slots. No call may be unanswered.
    pub(super) fn drop_spare(&mut self) {
        debug_assert!(self.slots.iter().all(|call| call.http.is_none()), "no call is under way");
        let Some((first, others)) = self.slots.split_first() else { return };
        self.first_freed = Some(first.id);
        let older = self.others_freed.iter().skip(others.len()).copied();
        self.others_freed = others.iter().map(ServedCall::id).chain(older).collect();
        self.slots = Vec::new();
    }

    /// The id of the last call of a slot that is made again. The first call of a slot gets the first
    /// generation.
    fn last_id(&self, slot: usize) -> StreamId {
        let freed = match slot.checked_sub(1) {
            None => self.first_freed,
            Some(other) => self.others_freed.get(other).copied(),
        };
        freed.unwrap_or(StreamId::new(slot as u32, StreamId::GENERATION_MASK as u16))
    }

    /// Length of the longest accepted message.
    pub(super) fn message_max(&self) -> usize {
        self.message_max as usize
    }

    /// Memory, in bytes, that all calls hold.
    #[inline]
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Calls whose requests are held back because they are incomplete.
    #[inline]
    pub(super) fn held_back(&self) -> usize {
        self.held_back as usize
    }

    /// The call of a stream, until it is answered.
    #[inline]
    pub(super) fn of(&mut self, stream: StreamHandle) -> Option<&mut ServedCall> {
        self.slots.get_mut(stream.slot()).filter(|call| call.http == Some(stream))
    }

    /// As [`of`](Self::of), to look at.
    pub(super) fn get(&self, stream: StreamHandle) -> Option<&ServedCall> {
        self.slots.get(stream.slot()).filter(|call| call.http == Some(stream))
    }

    /// The id that the caller uses for a stream's call.
    pub(super) fn name(&mut self, stream: StreamHandle) -> Option<StreamId> {
        self.of(stream).map(|call| call.id)
    }

    /// The stream of an unanswered call.
    #[inline]
    pub(super) fn find(&self, id: StreamId) -> Option<StreamHandle> {
        let call = self.slots.get(id.slot() as usize)?;
        if call.id == id { call.http } else { None }
    }

    /// An unanswered call and its stream.
    #[inline]
    pub(super) fn open(&mut self, id: StreamId) -> Option<(StreamHandle, &mut ServedCall)> {
        let call = self.slots.get_mut(id.slot() as usize).filter(|call| call.id == id)?;
        Some((call.http?, call))
    }

    /// The streams of all unanswered calls.
    pub(super) fn live(&self) -> Vec<StreamHandle> {
        self.slots.iter().filter_map(|call| call.http).collect()
    }

    /// Adds the call of a new stream.
    #[inline]
    pub(super) fn begin(&mut self, stream: StreamHandle) -> &mut ServedCall {
        let slot = stream.slot();
        if self.slots.is_empty() {
            self.slots.reserve_exact(1); // alone, as the stream is
        }
        while self.slots.len() <= slot {
            let last = self.last_id(self.slots.len());
            self.slots.push(ServedCall::free(last, self.message_max));
        }
        let call = &mut self.slots[slot];
        debug_assert!(call.http.is_none(), "a stream that is over has no call");
        call.id = call.id.next();
        call.http = Some(stream);
        (call.has_head, call.is_ignored) = (false, false);
        call
    }

    /// Removes a call that is over or answered, and frees its memory.
    #[inline]
    pub(super) fn end(&mut self, stream: StreamHandle) {
        let Some(call) = self.slots.get_mut(stream.slot()) else { return };
        call.http = None;
        let is_cut = call.messages.finish().is_err();
        if is_cut || call.request.is_some() || !call.untaken.is_empty() {
            self.kept -= call.kept();
            self.held_back -= u32::from(call.request.is_some());
            let call = &mut self.slots[stream.slot()];
            call.request = None;
            call.untaken.clear();
            call.untaken_cost = 0;
            call.messages = Messages::new(self.message_max);
        }
        // A failed message leaves its counts behind.
        let call = &mut self.slots[stream.slot()];
        (call.came, call.credited) = (0, 0);
        call.shrink_untaken(GRPC_SPARE_COSTS);
    }

    /// Changes a call's incomplete data, and updates the sum of held memory.
    #[inline]
    pub(super) fn change<T>(
        &mut self,
        stream: StreamHandle,
        change: impl FnOnce(&mut ServedCall) -> T,
    ) -> Option<T> {
        let call = self.slots.get_mut(stream.slot()).filter(|call| call.http == Some(stream))?;
        let (before, held_back) = (call.unready(), call.request.is_some());
        let done = change(call);
        self.kept = self.kept - before + call.unready();
        self.held_back = self.held_back + u32::from(call.request.is_some()) - u32::from(held_back);
        Some(done)
    }

    /// Records a part of a message, and returns how much credit to return at once.
    pub(super) fn note_part(&mut self, stream: StreamHandle, len: usize) -> usize {
        self.of(stream).map_or(0, |call| call.note_part(len))
    }

    /// Records a complete message for the reader, with its length on the wire.
    #[inline]
    pub(super) fn note_message(&mut self, stream: StreamHandle, len: usize, wire_len: usize) {
        let Some(call) = self.slots.get_mut(stream.slot()) else { return };
        let credit = call.note_message(wire_len);
        if !call.is_ignored {
            let untaken = Untaken::new(len, credit);
            call.untaken.push_back(untaken);
            call.untaken_cost += untaken.cost as usize;
            self.kept += untaken.cost as usize;
        }
    }

    /// Records the first message of `content` for the reader, and returns it, if it is complete and
    /// not compressed and the call has a reader.
    #[inline]
    pub(super) fn plain_message<'i>(
        &mut self,
        stream: StreamHandle,
        content: &'i [u8],
    ) -> Option<(StreamId, &'i [u8])> {
        let call = self.of(stream).filter(|call| call.is_known() && !call.is_ignored)?;
        let (id, message) = (call.id, call.messages.plain(content)?);
        self.note_message(stream, message.len(), message.len());
        Some((id, message))
    }

    /// Records a complete message that no reader takes, by its length on the wire, and returns the
    /// credit that its client has not got back.
    pub(super) fn forget_message(&mut self, stream: StreamHandle, wire_len: usize) -> usize {
        self.of(stream).map_or(0, |call| call.note_message(wire_len))
    }

    /// Records that the reader has taken messages, and returns how much credit to return.
    pub(super) fn taken(&mut self, stream: StreamHandle, messages: usize) -> usize {
        let Some(call) = self.slots.get_mut(stream.slot()) else { return 0 };
        let (mut cost, mut credit) = (0, 0);
        let count = messages.min(call.untaken.len());
        for message in call.untaken.drain(..count) {
            cost += message.cost as usize;
            credit += message.credit as usize;
        }
        call.shrink_untaken(NATIVE_COSTS_KEPT);
        call.untaken_cost -= cost;
        self.kept -= cost;
        credit + call.credit_part()
    }

    /// The call that holds the most memory, and how much.
    pub(super) fn largest(&self) -> Option<(StreamHandle, usize)> {
        let kept = self.slots.iter().filter_map(|call| Some((call.http?, call.kept())));
        kept.filter(|&(_, len)| len > 0).max_by_key(|&(_, len)| len)
    }
}
