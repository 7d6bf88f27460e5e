//! The calls of a connection that have not been answered yet, by the slots of their streams.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::JoinHandle;
use ringway_wire::native::{RequestHead, StreamId};

use super::backlog::Backlog;
use super::core::QueuedGuard;
use crate::call::context::Context;
use crate::call::status::Code;
use crate::limits;
use crate::stream::remote::OpenedStream;

/// The table's length is the highest slot in use, which the limit of concurrent calls bounds.
#[derive(Default)]
pub(super) struct Calls {
    by_slot: Vec<Option<ServedCall>>,
    count: usize,
    /// The queued calls, ordered by the bytes that they keep.
    #[expect(clippy::box_collection, reason = "an idle connection has none, and is to be small")]
    queued: Option<Box<BTreeSet<(usize, StreamId)>>>,
    queued_len: usize,
    /// Those of the queued calls that wait until the client has taken replies.
    pub(super) backlog: Option<Box<Backlog>>,
    /// Memory of the calls that run.
    running_len: usize,
    /// The number of the call that was queued last.
    number: u64,
}

/// A call that is queued or whose handler waits.
pub(super) struct ServedCall {
    stream: StreamId,
    state: CallState,
}

enum CallState {
    /// Queued for its method, or in the backlog. The number tells requests apart that used the same stream id.
    Queued { number: u64, request: Box<Queued> },
    /// Started, at that time; its handler waits or is deferred.
    /// `cost` is its memory, once its handler waits.
    Running { context: Context, began: Duration, cost: u32, task: Option<JoinHandle<()>> },
}

/// A request in the queue of its method, or in the backlog of its connection.
pub(super) struct Queued {
    pub(super) method_index: usize,
    pub(super) head: RequestHead,
    pub(super) meta: Bytes,
    pub(super) message: Option<Bytes>,
    pub(super) end: bool,
    pub(super) at: Duration,
    /// Its deadline.
    pub(super) until: Option<Duration>,
    /// The stream in which messages of the client collect, if the method takes a stream.
    pub(super) opened: Option<OpenedStream>,
    /// The bytes of whole requests in that stream: the client has said all.
    pub(super) opened_len: usize,
    /// The bytes of its messages that the machine counts.
    pub(super) counted_len: usize,
    pub(super) waits: QueuedGuard,
}

impl Queued {
    /// The bytes that the request keeps, except those that the machine counts.
    fn len(&self) -> usize {
        self.meta.len() + self.message_len().saturating_sub(self.counted_len)
    }

    /// The bytes of its message, and of all its messages if they have come.
    fn message_len(&self) -> usize {
        self.message.as_ref().map_or(0, Bytes::len) + self.opened_len
    }

    /// All bytes that the request keeps.
    pub(super) fn size(&self) -> usize {
        self.meta.len() + self.message_len()
    }
}

impl Calls {
    pub(super) fn insert(&mut self, call: ServedCall) {
        let slot = call.stream.slot() as usize;
        self.running_len += call.cost();
        if self.by_slot.len() <= slot {
            self.by_slot.resize_with(slot + 1, || None);
        }
        let former = self.by_slot[slot].replace(call);
        debug_assert!(former.is_none(), "the call before this one has been removed");
        self.count += usize::from(former.is_none());
    }

    /// Stores a queued request and returns its number for [`take_queued`](Self::take_queued).
    pub(super) fn enqueue(&mut self, stream: StreamId, request: Box<Queued>) -> u64 {
        self.number += 1;
        let (number, len) = (self.number, request.len());
        self.queued.get_or_insert_default().insert((len, stream));
        self.queued_len += len;
        self.insert(ServedCall { stream, state: CallState::Queued { number, request } });
        number
    }

    /// Stores a request that waits until the client has taken replies.
    pub(super) fn hold_back(&mut self, stream: StreamId, request: Box<Queued>) {
        let (size, until) = (request.size(), request.until);
        let number = self.enqueue(stream, request);
        self.backlog.get_or_insert_default().push(number, stream, size, until);
    }

    /// Removes the call that is the first of the backlog.
    pub(super) fn next_held_back(&mut self) -> Option<(StreamId, Box<Queued>)> {
        let (number, stream) = self.backlog.as_ref()?.first()?;
        Some((stream, self.take_queued(stream, number)?))
    }

    /// Removes a call of the backlog whose deadline has passed.
    pub(super) fn next_late(&mut self, now: Duration) -> Option<(StreamId, Box<Queued>)> {
        let (number, stream) = self.backlog.as_ref()?.first_late(now)?;
        Some((stream, self.take_queued(stream, number)?))
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The calls under way, with the context of those that run and the method of those that are queued, and
    /// since when.
    pub(super) fn under_way(
        &self,
    ) -> impl Iterator<Item = (StreamId, Result<&Context, usize>, Duration)> {
        self.by_slot.iter().flatten().map(|call| match &call.state {
            CallState::Running { context, began, .. } => (call.stream, Ok(context), *began),
            CallState::Queued { request, .. } => {
                (call.stream, Err(request.method_index), request.at)
            }
        })
    }

    /// The bytes that queued requests keep, and the memory of calls that run.
    #[inline]
    pub(super) fn kept_len(&self) -> usize {
        self.queued_len + self.running_len
    }

    /// The queued request that keeps the most bytes, and how many.
    pub(super) fn largest_queued(&self) -> Option<(usize, StreamId)> {
        self.queued.as_ref()?.last().copied()
    }

    fn find(&mut self, stream: StreamId) -> Option<&mut ServedCall> {
        self.by_slot.get_mut(stream.slot() as usize)?.as_mut().filter(|call| call.stream == stream)
    }

    pub(super) fn remove(&mut self, stream: StreamId) -> Option<ServedCall> {
        self.find(stream)?;
        self.count -= 1;
        let call = self.by_slot[stream.slot() as usize].take()?;
        self.running_len -= call.cost();
        if let CallState::Queued { number, request } = &call.state {
            self.queued.iter_mut().for_each(|queued| _ = queued.remove(&(request.len(), stream)));
            self.queued_len -= request.len();
            if let Some(backlog) = &mut self.backlog {
                backlog.remove(*number, request.size(), request.until);
            }
            self.backlog.take_if(|backlog| backlog.is_empty());
        }
        Some(call)
    }

    /// Whether the call is queued.
    pub(super) fn is_waiting(&mut self, stream: StreamId) -> bool {
        self.find(stream).is_some_and(|call| !call.is_running())
    }

    /// Whether the request with this number is still queued.
    pub(super) fn is_queued(&self, stream: StreamId, number: u64) -> bool {
        let call = self.by_slot.get(stream.slot() as usize).and_then(Option::as_ref);
        call.filter(|call| call.stream == stream).is_some_and(|call| match call.state {
            CallState::Queued { number: found, .. } => found == number,
            CallState::Running { .. } => false,
        })
    }

    /// Removes the request with this number, unless it has ended meanwhile.
    pub(super) fn take_queued(&mut self, stream: StreamId, number: u64) -> Option<Box<Queued>> {
        if !self.is_queued(stream, number) {
            return None;
        }
        match self.remove(stream)?.state {
            CallState::Queued { request, .. } => Some(request),
            CallState::Running { .. } => None,
        }
    }

    /// Removes all queued requests.
    pub(super) fn take_queued_all(&mut self) -> Vec<ServedCall> {
        let queued = self.queued.iter().flat_map(|queued| queued.iter());
        let streams: Vec<_> = queued.map(|&(_, stream)| stream).collect();
        streams.into_iter().filter_map(|stream| self.remove(stream)).collect()
    }

    /// Stores the task of a running call, which is known only after the call was stored.
    pub(super) fn set_task(&mut self, stream: StreamId, handle: JoinHandle<()>) {
        if let Some(ServedCall { state: CallState::Running { task, .. }, .. }) = self.find(stream) {
            *task = Some(handle);
        }
    }

    /// The context of a call that runs.
    pub(super) fn context(&mut self, stream: StreamId) -> Option<Context> {
        match &self.find(stream)?.state {
            CallState::Running { context, .. } => Some(context.clone()),
            CallState::Queued { .. } => None,
        }
    }

    /// Frees the memory that is kept for more calls.
    pub(super) fn drop_spare(&mut self) {
        if self.count == 0 {
            self.by_slot = Vec::new();
            self.queued = None;
        }
    }

    pub(super) fn take_all(&mut self) -> Vec<ServedCall> {
        self.count = 0;
        self.queued = None;
        self.backlog = None;
        (self.queued_len, self.running_len) = (0, 0);
        self.by_slot.iter_mut().filter_map(Option::take).collect()
    }
}

impl ServedCall {
    pub(super) fn running(stream: StreamId, context: Context, began: Duration) -> Self {
        Self { stream, state: CallState::Running { context, began, cost: 0, task: None } }
    }

    /// A call whose handler waits: its metadata counts if that is much.
    pub(super) fn waiting(stream: StreamId, context: Context, began: Duration) -> Self {
        let memory = context.metadata().memory();
        let cost = if memory >= limits::METADATA_COUNTED_MIN { memory as u32 } else { 0 };
        Self { stream, state: CallState::Running { context, began, cost, task: None } }
    }

    fn cost(&self) -> usize {
        match self.state {
            CallState::Running { cost, .. } => cost as usize,
            CallState::Queued { .. } => 0,
        }
    }

    pub(super) fn stream(&self) -> StreamId {
        self.stream
    }

    /// The request, if it is queued.
    pub(super) fn into_queued(self) -> Option<Box<Queued>> {
        match self.state {
            CallState::Queued { request, .. } => Some(request),
            CallState::Running { .. } => None,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, CallState::Running { .. })
    }

    /// Cancels the call's context, then drops its handler if it waits. Nothing of the connection may be
    /// borrowed, because the handler's destructors are user code.
    pub(super) fn cancel(self, code: Code, reason: &str) {
        if let CallState::Running { context, task, .. } = self.state {
            context.cancel(code, reason);
            if let Some(task) = task {
                task.abort();
            }
        }
    }
}
