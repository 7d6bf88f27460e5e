//! Bytes on their way out of a stream.

use std::collections::VecDeque;

use crate::buf::Segment;
use crate::core::SendMemory;
use crate::driver::SendBatch;
use crate::limits;

/// The queue for the next gathered sends, and the batch in flight.
///
/// Two counts are kept. The length of the queue, which is compared with water marks and limits, is
/// the number of bytes that the kernel has not accepted; a segment shorter than its entry in the
/// list counts as that. The memory held, which the core's account gets, consists of whole receive
/// buffers and chunks.
#[derive(Default)]
pub(crate) struct Outbox {
    /// Complete batches, the next to leave first.
    full: Option<Box<FullPiles>>,
    /// The batch behind them, to which segments are added. Empty, without memory, while nothing
    /// waits.
    last: Pile,
    in_flight: Option<InFlight>,
    /// Number of bytes, waiting or in flight, that were not accepted.
    bytes: usize,
    /// What short segments count beyond their bytes.
    padding: usize,
    held: usize,
}

/// Complete batches; boxed, because there are nearly never any.
#[derive(Default)]
struct FullPiles(VecDeque<Pile>);

/// The segments of one batch.
#[derive(Default)]
struct Pile {
    segments: Vec<Segment>,
    held: usize,
    padding: u32,
}

/// The counts of the batch that the driver has.
struct InFlight {
    held: usize,
    padding: u32,
    /// Whether the driver reported that the batch waits for the peer.
    waits: bool,
}

/// Where queued bytes went.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    /// Into the rest of a chunk that is already counted as a whole.
    Counted,
    /// Into memory that was not counted before.
    Memory,
}

/// The length of a segment's entry in the list.
const ENTRY_BYTES: usize = size_of::<Segment>();

impl Outbox {
    /// Number of bytes that the kernel has not accepted yet.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The length of the queue, as limits count it.
    #[inline]
    pub(crate) fn queued(&self) -> usize {
        self.bytes + self.padding
    }

    /// Memory, in bytes, that the queue holds.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        self.held
    }

    /// Queues a non-empty segment. It is not copied, unless it is a view that should not wait
    /// because buffers are running out, or because it holds few bytes and cannot leave with this
    /// turn.
    #[inline]
    pub(crate) fn push(&mut self, memory: &SendMemory, segment: Segment) -> Filled {
        if let Some(view) = segment.as_view()
            && (view.is_scarce() || self.is_crowded() && view.is_wasteful())
        {
            return self.copy(memory, view);
        }
        let bytes = segment.as_slice().len();
        self.bytes += bytes;
        self.seal();
        let last = self.last.segments.last().and_then(Segment::as_view);
        let held = match (segment.as_view(), last) {
            (Some(view), Some(last)) if view.shares_buffer(last) => 0,
            (Some(view), _) => view.held_bytes(),
            (None, _) => bytes,
        };
        self.append(memory, segment, bytes, held);
        Filled::Memory
    }

    /// Queues a copy of `bytes`, joined with earlier copies.
    #[inline]
    pub(crate) fn copy(&mut self, memory: &SendMemory, mut bytes: &[u8]) -> Filled {
        self.bytes += bytes.len();
        if let Some(chunk) = self.last.segments.last_mut().and_then(Segment::as_open_chunk) {
            bytes = &bytes[chunk.append(bytes)..];
        }
        if bytes.is_empty() {
            return Filled::Counted;
        }
        self.copy_rest(memory, bytes);
        Filled::Memory
    }

    fn copy_rest(&mut self, memory: &SendMemory, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let mut chunk = memory.take_chunk();
            let taken = chunk.append(bytes);
            bytes = &bytes[taken..];
            // The chunk may be filled up later, so it counts as a whole; the padding is added
            // when it is sealed.
            let segment = Segment::from_chunk(chunk);
            self.append(memory, segment, ENTRY_BYTES, limits::SEND_CHUNK_BYTES);
        }
    }

    #[inline]
    fn append(&mut self, memory: &SendMemory, segment: Segment, bytes: usize, held: usize) {
        if self.last.segments.len() == limits::GATHER_SEGMENTS_MAX {
            self.full.get_or_insert_default().0.push_back(std::mem::take(&mut self.last));
        }
        if self.last.segments.capacity() == 0 {
            self.last.segments = memory.take_list();
        }
        self.last.segments.push(segment);
        self.last.held += held + ENTRY_BYTES;
        self.held += held + ENTRY_BYTES;
        self.pad(bytes);
    }

    /// Adds padding so that a short segment counts as much as its entry in the list.
    #[inline]
    fn pad(&mut self, bytes: usize) {
        let padding = ENTRY_BYTES.saturating_sub(bytes);
        self.last.padding += padding as u32;
        self.padding += padding;
    }

    /// Whether bytes queued now must wait for the peer, or for a batch before them. Then they
    /// should cost memory by their bytes, not by their number of pieces.
    #[inline]
    fn is_crowded(&self) -> bool {
        self.in_flight.as_ref().is_some_and(|batch| batch.waits) || self.full.is_some()
    }

    /// Ends copying into the last segment. If many such chunks could come to wait, a mostly empty
    /// one is replaced by memory of the right size.
    #[inline]
    fn seal(&mut self) {
        let crowded = self.is_crowded();
        let Some(last) = self.last.segments.last_mut() else { return };
        let Some(chunk) = last.as_open_chunk() else { return };
        let bytes = chunk.as_slice().len();
        if crowded && let Some(exact) = chunk.exact_copy() {
            *last = exact.into();
            let saved = limits::SEND_CHUNK_BYTES - bytes;
            self.last.held -= saved;
            self.held -= saved;
        }
        self.pad(bytes);
    }

    /// Takes the next batch, unless one is in flight or nothing waits. It is urgent if the caller
    /// says so or more is waiting behind it.
    #[inline]
    pub(crate) fn take_batch(&mut self, urgent: bool) -> Option<SendBatch> {
        if !self.is_ready() {
            return None;
        }
        let pile = self.next_pile();
        let more = !self.last.segments.is_empty();
        self.in_flight = Some(InFlight { held: pile.held, padding: pile.padding, waits: false });
        Some(SendBatch { segments: pile.segments, to: None, urgent: urgent || more })
    }

    #[inline]
    fn next_pile(&mut self) -> Pile {
        let Some(full) = &mut self.full else {
            return std::mem::take(&mut self.last);
        };
        let first = full.0.pop_front();
        if full.0.is_empty() {
            self.full = None;
        }
        first.unwrap_or_else(|| std::mem::take(&mut self.last))
    }

    /// Records that the batch in flight waits for the peer, which has accepted `bytes` of it
    /// meanwhile.
    pub(crate) fn progressed(&mut self, bytes: usize) {
        debug_assert!(self.in_flight.is_some() && bytes <= self.bytes);
        self.bytes -= bytes;
        if let Some(batch) = &mut self.in_flight {
            batch.waits = true;
        }
    }

    /// Records the end of the batch in flight, whose last `bytes` were accepted. Returns whether it
    /// had waited, so that they were accepted just now.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize) -> bool {
        debug_assert!(self.in_flight.is_some() && bytes <= self.bytes);
        self.bytes -= bytes;
        let Some(batch) = self.in_flight.take() else {
            return false;
        };
        self.padding -= batch.padding as usize;
        self.held -= batch.held;
        batch.waits
    }

    #[inline]
    pub(crate) fn is_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Whether nothing waits and nothing is in flight.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_none() && self.last.segments.is_empty()
    }

    /// Whether there is something to hand over at the end of the turn.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.in_flight.is_none() && !self.last.segments.is_empty()
    }

    /// Takes what waits, to be dropped outside every borrow; what is in flight belongs to the
    /// driver.
    pub(crate) fn take_waiting(&mut self) -> Vec<Segment> {
        let mut waiting = Vec::new();
        while !self.last.segments.is_empty() {
            let pile = self.next_pile();
            let bytes = pile.segments.iter().map(|segment| segment.as_slice().len());
            self.bytes -= bytes.sum::<usize>();
            self.padding -= pile.padding as usize;
            self.held -= pile.held;
            waiting.extend(pile.segments);
        }
        waiting
    }
}
