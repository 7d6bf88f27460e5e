//! Bytes on their way out of a stream.

use std::collections::VecDeque;

use crate::buf::Segment;
use crate::core::SendMemory;
use crate::driver::SendBatch;
use crate::limits;

/// What waits for the next gathered sends, and how much is on its way.
///
/// Two counts are kept. The queue's length is what marks and bounds are compared with: the bytes that
/// the kernel has not accepted, a segment of fewer bytes than its place in the list counted as that.
/// The memory held is what the core's account gets: whole receive buffers and chunks.
#[derive(Default)]
pub(crate) struct Outbox {
    /// Batches that are complete, the first the next to leave.
    full: Option<Box<FullPiles>>,
    /// What is put behind them. Empty, without memory, while nothing waits.
    last: Pile,
    in_flight: Option<InFlight>,
    /// Bytes waiting and in flight that were not accepted.
    bytes: usize,
    /// What short segments count beyond their bytes.
    padding: usize,
    held: usize,
}

/// Nearly always there are none, so that a stream has room for a pointer only.
#[derive(Default)]
struct FullPiles(VecDeque<Pile>);

/// Segments of one batch.
#[derive(Default)]
struct Pile {
    segments: Vec<Segment>,
    held: usize,
    padding: u32,
}

/// What a batch counts while the driver has it.
struct InFlight {
    held: usize,
    padding: u32,
    /// The driver has said that it waits for the peer.
    waits: bool,
}

/// What queued bytes have filled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    /// What was left of a chunk that counts whole already.
    Place,
    /// Memory that was not counted before.
    Memory,
}

/// What the place of a segment costs.
const PLACE_BYTES: usize = size_of::<Segment>();

impl Outbox {
    /// Bytes that the kernel has not accepted yet.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The length of the queue, by which it is bounded.
    #[inline]
    pub(crate) fn queued(&self) -> usize {
        self.bytes + self.padding
    }

    /// Bytes of memory kept in use.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        self.held
    }

    /// Queues a segment, which is not empty. It is not copied, unless it is a view that others had better
    /// not wait for: of buffers that are running out, or of few bytes and not to leave with this turn.
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

    /// Queues a copy of `bytes`, gathered with what was copied before it.
    #[inline]
    pub(crate) fn copy(&mut self, memory: &SendMemory, mut bytes: &[u8]) -> Filled {
        self.bytes += bytes.len();
        if let Some(chunk) = self.last.segments.last_mut().and_then(Segment::as_open_chunk) {
            bytes = &bytes[chunk.append(bytes)..];
        }
        if bytes.is_empty() {
            return Filled::Place;
        }
        self.copy_rest(memory, bytes);
        Filled::Memory
    }

    fn copy_rest(&mut self, memory: &SendMemory, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let mut chunk = memory.take_chunk();
            let taken = chunk.append(bytes);
            bytes = &bytes[taken..];
            // It may be filled up later, so it counts whole; how short it is, is known when it is sealed.
            let segment = Segment::from_chunk(chunk);
            self.append(memory, segment, PLACE_BYTES, limits::SEND_CHUNK_BYTES);
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
        self.last.held += held + PLACE_BYTES;
        self.held += held + PLACE_BYTES;
        self.pad(bytes);
    }

    /// A segment of so many bytes counts as no shorter than its place.
    #[inline]
    fn pad(&mut self, bytes: usize) {
        let padding = PLACE_BYTES.saturating_sub(bytes);
        self.last.padding += padding as u32;
        self.padding += padding;
    }

    /// Whether what is queued now has to wait for the peer, or for a batch that leaves before it.
    /// Then it has to cost memory by its bytes, and not by its pieces.
    #[inline]
    fn is_crowded(&self) -> bool {
        self.in_flight.as_ref().is_some_and(|batch| batch.waits) || self.full.is_some()
    }

    /// Nothing more is copied behind the last segment. A chunk with few bytes in it is exchanged for
    /// memory of their size, where many such could come to wait.
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

    /// The next batch, unless one is in flight or nothing waits. It is urgent if the caller says so
    /// or if more is waiting behind it.
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

    /// The batch in flight waits for the peer, which has taken this much of it meanwhile.
    pub(crate) fn progressed(&mut self, bytes: usize) {
        debug_assert!(self.in_flight.is_some() && bytes <= self.bytes);
        self.bytes -= bytes;
        if let Some(batch) = &mut self.in_flight {
            batch.waits = true;
        }
    }

    /// The batch in flight has ended; this much of it was accepted last. Whether it had to wait, so
    /// that it was accepted just now.
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

    /// Nothing waits and nothing is in flight.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_none() && self.last.segments.is_empty()
    }

    /// Whether a turn's end has something to hand over.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.in_flight.is_none() && !self.last.segments.is_empty()
    }

    /// Gives up what waits, to be dropped where nothing is borrowed; what is in flight belongs to the
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
