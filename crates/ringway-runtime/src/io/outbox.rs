//! Bytes on their way out of a stream.

use crate::buf::Segment;
use crate::core::Core;
use crate::driver::SendBatch;
use crate::limits;

/// What waits for the next gathered send, and how much is on its way.
#[derive(Default)]
pub(crate) struct Outbox {
    /// Empty, without memory, while nothing waits.
    waiting: Vec<Segment>,
    /// Bytes waiting and in flight.
    bytes: usize,
    in_flight: bool,
}

impl Outbox {
    /// Bytes that the kernel has not accepted yet.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Queues a segment without a copy.
    pub(crate) fn push(&mut self, core: &Core, segment: Segment) {
        let len = segment.as_slice().len();
        if len == 0 {
            return;
        }
        self.bytes += len;
        if self.waiting.capacity() == 0 {
            self.waiting = core.take_list();
        }
        self.waiting.push(segment);
    }

    /// Queues a copy of `bytes`, gathered with what was copied before it.
    pub(crate) fn copy(&mut self, core: &Core, mut bytes: &[u8]) {
        self.bytes += bytes.len();
        if let Some(chunk) = self.waiting.last_mut().and_then(Segment::as_open_chunk) {
            bytes = &bytes[chunk.append(bytes)..];
        }
        while !bytes.is_empty() {
            let mut chunk = core.chunks.take();
            bytes = &bytes[chunk.append(bytes)..];
            if self.waiting.capacity() == 0 {
                self.waiting = core.take_list();
            }
            self.waiting.push(Segment::from_chunk(chunk));
        }
    }

    /// The next batch, unless one is in flight or nothing waits. It is urgent if the caller says so
    /// or if more is waiting behind it.
    pub(crate) fn take_batch(&mut self, core: &Core, urgent: bool) -> Option<SendBatch> {
        if self.in_flight || self.waiting.is_empty() {
            return None;
        }
        self.in_flight = true;
        if self.waiting.len() <= limits::GATHER_SEGMENTS_MAX {
            let segments = std::mem::take(&mut self.waiting);
            return Some(SendBatch { segments, to: None, urgent });
        }
        let mut segments = core.take_list();
        segments.extend(self.waiting.drain(..limits::GATHER_SEGMENTS_MAX));
        Some(SendBatch { segments, to: None, urgent: true })
    }

    /// A part of the batch in flight was accepted.
    pub(crate) fn progressed(&mut self, bytes: usize) {
        debug_assert!(self.in_flight && bytes <= self.bytes);
        self.bytes -= bytes;
    }

    /// The batch in flight has ended; this much of it was accepted last.
    pub(crate) fn sent(&mut self, bytes: usize) {
        debug_assert!(self.in_flight && bytes <= self.bytes);
        self.in_flight = false;
        self.bytes -= bytes;
    }

    /// Nothing waits and nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        !self.in_flight && self.waiting.is_empty()
    }

    /// Whether a turn's end has something to hand over.
    pub(crate) fn is_ready(&self) -> bool {
        !self.in_flight && !self.waiting.is_empty()
    }

    /// Drops what waits; what is in flight belongs to the driver.
    pub(crate) fn clear(&mut self) {
        self.waiting = Vec::new();
    }
}
