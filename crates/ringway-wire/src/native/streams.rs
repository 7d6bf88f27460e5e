//! The streams of a connection: state of calls with more than one frame in a direction, in a table
//! whose entries are reused, with the memory held by each and by all.

use std::time::Duration;

use bytes::Bytes;

use super::ranks::Ranks;
use super::receive_side::{Assembled, IncomingFragment, ReceiveSide, Unready};
use super::send_side::SendSide;
use super::window::Window;
use super::{StreamId, Violation};
use crate::limits::{
    NATIVE_RANKED_MIN, NATIVE_RANKED_STEP, NATIVE_STREAM_TABLES, NATIVE_STREAMS_KEPT,
};

/// Both sides of a call that has, or may have, more than one frame in a direction.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: StreamId,
    pub(super) send: SendSide,
    pub(super) receive: ReceiveSide,
    /// Whether the stream is in a queue of the outbox.
    pub(super) is_queued: bool,
    /// The memory it holds, as counted last.
    kept: Kept,
    /// The deadline of its call.
    pub(super) until: Duration,
    /// Since when nothing was received, or too little, by the clock of reading; or sent, once its call is answered, and
    /// [`AT_NEXT_LOOK`](crate::stamp::AT_NEXT_LOOK) until then.
    pub(super) touched: Duration,
}

/// Held memory in bytes, by purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Kept {
    /// Incomplete messages and requests.
    assembled: usize,
    /// Streams with incomplete data, which count themselves because a peer may send a little on
    /// each of many.
    unready: usize,
    /// Messages that readers have not taken.
    untaken: usize,
    /// Output that waits to be sent.
    queued: usize,
    /// Requests that are held back: one or none of a stream.
    held_back: usize,
}

/// The two directions in which a connection holds memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Input that is incomplete or that its reader has not taken.
    Unread,
    /// Output that waits to be sent.
    Unsent,
}

impl Kept {
    #[inline]
    fn unread(&self) -> usize {
        self.assembled + self.unready + self.untaken
    }

    fn of(&self, side: Side) -> usize {
        match side {
            Side::Unread => self.unread(),
            Side::Unsent => self.queued,
        }
    }

    fn exchange(&mut self, before: Kept, now: Kept) {
        self.assembled = self.assembled - before.assembled + now.assembled;
        self.unready = self.unready - before.unready + now.unready;
        self.untaken = self.untaken - before.untaken + now.untaken;
        self.queued = self.queued - before.queued + now.queued;
        self.held_back = self.held_back - before.held_back + now.held_back;
    }
}

impl Stream {
    fn new(id: StreamId) -> Self {
        Self {
            id,
            send: SendSide::default(),
            receive: ReceiveSide::default(),
            is_queued: false,
            kept: Kept::default(),
            until: Duration::MAX,
            touched: Duration::ZERO,
        }
    }

    /// Memory, in bytes, of the stream and its buffers when it is over.
    fn spare(&self) -> usize {
        size_of::<Self>() + self.send.spare() + self.receive.spare()
    }
}

/// All streams of a connection. Finished streams are reused with their buffers, within limits.
///
/// The memory held by all is the sum of that held by each, which is counted after each change.
#[derive(Debug, Default)]
pub(super) struct Streams {
    entries: Vec<Option<Box<Stream>>>,
    /// Indices of finished streams and of empty entries. An entry whose stream was dropped while it
    /// stood in a queue is empty, and becomes free when the queue reaches it.
    free: Vec<u32>,
    /// Memory, in bytes, of the finished streams.
    spare: usize,
    kept: Kept,
    /// Streams ranked by the memory they hold in either direction. Those below
    /// [`NATIVE_RANKED_MIN`] may be missing, and output is accurate to [`NATIVE_RANKED_STEP`].
    unread: Ranks,
    unsent: Ranks,
    /// Bytes by which windows have grown beyond their initial sizes.
    grown: usize,
    /// Discarded bodies, for the caller to drop.
    pub(super) discarded: Vec<Bytes>,
}

impl Streams {
    /// Opens a stream with `credit` to send and `window` to receive before any CREDIT, and returns
    /// its index.
    pub(super) fn open(&mut self, id: StreamId, credit: u32, window: u32) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[index as usize];
        self.spare -= entry.as_ref().map_or(0, |stream| stream.spare());
        let stream = entry.get_or_insert_with(|| Box::new(Stream::new(id)));
        stream.id = id;
        stream.until = Duration::MAX;
        stream.send.reset(credit);
        stream.receive.reset(window);
        index
    }

    #[inline]
    pub(super) fn at(&mut self, index: u32) -> &mut Stream {
        self.entries[index as usize].as_mut().expect(HAS_STREAM)
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> &Stream {
        self.entries[index as usize].as_ref().expect(HAS_STREAM)
    }

    /// Whether everything the stream wrote before it was queued ends before the position `here` of
    /// the output. Also true if the stream was dropped since.
    pub(super) fn is_in_order(&self, index: u32, here: u64) -> bool {
        self.entries[index as usize].as_ref().is_none_or(|stream| stream.send.after <= here)
    }

    /// Updates the count of the memory that a stream holds.
    pub(super) fn count(&mut self, index: u32) {
        let stream = self.entries[index as usize].as_mut().expect(HAS_STREAM);
        let unready = if stream.receive.is_unready() { UNREADY } else { 0 };
        let now = Kept {
            assembled: stream.receive.assembled(),
            unready,
            untaken: stream.receive.untaken(),
            queued: stream.send.waiting(),
            held_back: usize::from(stream.receive.request.is_some()),
        };
        // The count of most streams stays at zero.
        if now != stream.kept {
            let before = std::mem::replace(&mut stream.kept, now);
            self.exchange(index, before, now);
        }
    }

    fn exchange(&mut self, index: u32, before: Kept, now: Kept) {
        self.kept.exchange(before, now);
        match now.unready {
            0 => self.unread.note(index, ranked(now.unread())),
            // However small, because an attacker spreads such memory over many streams.
            _ => self.unread.note(index, now.unread()),
        }
        self.unsent.note(index, ranked(now.queued));
    }

    /// Updates the count of a stream's queued output. Its rank changes in steps, since small
    /// messages are frequent.
    #[inline]
    pub(super) fn count_queued(&mut self, index: u32) {
        let stream = self.entries[index as usize].as_mut().expect(HAS_STREAM);
        let now = stream.send.waiting();
        let before = std::mem::replace(&mut stream.kept.queued, now);
        self.kept.queued = self.kept.queued - before + now;
        if before / NATIVE_RANKED_STEP != now / NATIVE_RANKED_STEP {
            self.unsent.note(index, ranked(now));
        }
    }

    /// Receives one fragment of a message. Call [`count`](Self::count) after all changes.
    ///
    /// # Errors
    ///
    /// Fails when the peer must not send this fragment.
    #[inline]
    pub(super) fn fragment<'i>(
        &mut self,
        index: u32,
        fragment: IncomingFragment<'i>,
    ) -> Result<Assembled<'i>, Violation> {
        let outcome = self.at(index).receive.fragment(fragment);
        self.count(index);
        outcome
    }

    /// Holds a request back until it is complete.
    pub(super) fn await_rest(&mut self, index: u32, request: Unready) {
        self.at(index).receive.request = Some(request);
        self.count(index);
    }

    /// Receives a single-frame message, if the fast path covers it.
    #[inline]
    pub(super) fn whole(&mut self, index: u32, cost: u32) -> bool {
        let stream = self.entries[index as usize].as_mut().expect(HAS_STREAM);
        let is_taken = stream.receive.whole(cost);
        if is_taken {
            // Nothing else of the stream's count has changed on this path.
            let before = stream.kept.untaken;
            let now = before + cost as usize;
            stream.kept.untaken = now;
            self.kept.untaken += cost as usize;
            if changes_rank(before, now) {
                self.unread.note(index, now);
            }
        }
        is_taken
    }

    /// Records that the reader of a stream took messages.
    #[inline]
    pub(super) fn taken(&mut self, index: u32, messages: usize) {
        let stream = self.entries[index as usize].as_mut().expect(HAS_STREAM);
        let gone = stream.receive.taken(messages) as usize;
        let before = stream.kept.untaken;
        let now = before - gone;
        stream.kept.untaken = now;
        self.kept.untaken -= gone;
        if changes_rank(before, now) {
            let unread = stream.kept.unread();
            self.unread.note(index, ranked(unread));
        }
    }

    /// Forgets the delivered messages of a stream, because the reader will not report them as
    /// taken.
    pub(super) fn hand_over(&mut self, index: u32) {
        self.at(index).receive.hand_over();
        self.count(index);
    }

    /// Drops all further input of a stream that nobody reads.
    pub(super) fn ignore(&mut self, index: u32) {
        self.at(index).receive.ignore();
        self.count(index);
    }

    /// Delivers nothing more of a stream, and drops incomplete data.
    pub(super) fn abandon(&mut self, index: u32) {
        self.at(index).receive.abandon();
        self.count(index);
    }

    /// Changes the window of a stream, and updates the sum of grown windows.
    pub(super) fn with_window<R>(
        &mut self,
        index: u32,
        change: impl FnOnce(&mut Window) -> R,
    ) -> R {
        let window = &mut self.entries[index as usize].as_mut().expect(HAS_STREAM).receive.window;
        let before = window.grown() as usize;
        let outcome = change(window);
        self.grown = self.grown - before + window.grown() as usize;
        outcome
    }

    /// Bytes of all messages that readers have not taken.
    #[inline]
    pub(super) fn untaken(&self) -> usize {
        self.kept.untaken
    }

    /// Memory, in bytes, of all incomplete messages and requests.
    #[inline]
    pub(super) fn assembled(&self) -> usize {
        self.kept.assembled
    }

    /// Memory, in bytes, of streams with incomplete data, without that data.
    #[inline]
    pub(super) fn unready(&self) -> usize {
        self.kept.unready
    }

    /// Requests that are held back because they are incomplete.
    #[inline]
    pub(super) fn held_back(&self) -> usize {
        self.kept.held_back
    }

    /// Memory, in bytes, of finished streams kept for reuse.
    #[inline]
    pub(super) fn spare(&self) -> usize {
        self.spare
    }

    /// Frees the finished streams.
    pub(super) fn drop_spare(&mut self) {
        for &index in &self.free {
            self.entries[index as usize] = None;
        }
        self.spare = 0;
    }

    /// Bytes of all output that is queued by streams.
    #[inline]
    pub(super) fn queued(&self) -> usize {
        self.kept.queued
    }

    /// The stream that holds the most bytes, to within a quarter and a step, and how many; `None`
    /// if none holds any.
    pub(super) fn largest(&mut self, side: Side) -> Option<(StreamId, usize)> {
        if self.kept.of(side) == 0 {
            return None;
        }
        let ranks = match side {
            Side::Unread => &mut self.unread,
            Side::Unsent => &mut self.unsent,
        };
        let entries = &self.entries;
        let kept =
            |index: u32| entries[index as usize].as_ref().map_or(0, |stream| stream.kept.of(side));
        let largest = ranks.largest(kept).or_else(|| {
            // All hold very little, or are not ranked yet. Ranking them now makes the next
            // search fast.
            for index in 0..entries.len() as u32 {
                ranks.note(index, kept(index));
            }
            ranks.largest(kept)
        });
        largest.map(|index| self.get(index)).map(|stream| (stream.id, stream.kept.of(side)))
    }

    /// Bytes by which windows have grown beyond their initial sizes.
    pub(super) fn grown(&self) -> usize {
        self.grown
    }

    /// Releases a finished stream. If it stands in a queue, its memory is freed at once, since a
    /// queue may hold any number of such entries.
    pub(super) fn release(&mut self, index: u32) {
        let stream = self.entries[index as usize].as_mut().expect(HAS_STREAM);
        stream.send.clear(&mut self.discarded);
        self.grown -= stream.receive.window.grown() as usize;
        stream.receive.reset(0);
        let (is_queued, spare) = (stream.is_queued, stream.spare());
        self.count(index);
        if is_queued || self.spare + spare > NATIVE_STREAMS_KEPT {
            self.entries[index as usize] = None;
        } else {
            self.spare += spare;
        }
        if !is_queued {
            self.free.push(index);
        }
    }

    /// Drops the contents of all streams, because the connection has ended.
    pub(super) fn drop_contents(&mut self) {
        self.drop_spare();
        for stream in self.entries.iter_mut().flatten() {
            stream.send.clear(&mut self.discarded);
            stream.send = SendSide::default();
            stream.receive.abandon();
            stream.kept = Kept::default();
        }
        self.kept = Kept::default();
        self.unread.clear();
        self.unsent.clear();
    }

    /// Marks a stream as no longer queued; `false` if it was dropped meanwhile.
    pub(super) fn dequeue(&mut self, index: u32) -> bool {
        match &mut self.entries[index as usize] {
            Some(stream) => stream.is_queued = false,
            None => {
                self.free.push(index);
                return false;
            }
        }
        true
    }
}

const HAS_STREAM: &str = "an open stream is in the table";

/// Memory, in bytes, of a stream with incomplete data, without that data.
const UNREADY: usize = size_of::<Stream>() + NATIVE_STREAM_TABLES;

/// Whether a stream must be ranked anew when its count changes from `before` to `now`. Ranks change
/// in steps, because each message is counted in and out.
#[inline]
fn changes_rank(before: usize, now: usize) -> bool {
    before / NATIVE_RANKED_MIN != now / NATIVE_RANKED_MIN
}

/// The size used for ranking: 0 if it is small.
#[inline]
fn ranked(kept: usize) -> usize {
    if kept >= NATIVE_RANKED_MIN { kept } else { 0 }
}
