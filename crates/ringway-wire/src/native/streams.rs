//! What calls need that are more than one frame each way, in reused places, and what is kept for
//! each and for all.

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

/// Both halves of a call that has, or may have, more than one frame in a direction.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: StreamId,
    pub(super) send: SendSide,
    pub(super) receive: ReceiveSide,
    /// It stands in a line of the outbox.
    pub(super) is_queued: bool,
    /// What it keeps, as it was counted last.
    kept: Kept,
    /// When the time of its call is over.
    pub(super) until: Duration,
    /// When something of it came or went last.
    pub(super) touched: Duration,
}

/// Bytes of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Kept {
    /// Of what is not whole: messages, requests.
    assembled: usize,
    /// Of streams themselves, where something is not whole: whoever has many of these has sent little
    /// of each.
    unready: usize,
    /// Of messages that readers have not taken.
    untaken: usize,
    /// Of what is to be sent.
    queued: usize,
}

/// The two directions of what a connection keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What has come and is not whole, or was not taken by its reader.
    Unread,
    /// What is to be sent.
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

    /// Bytes of it and of its buffers when it is over.
    fn spare(&self) -> usize {
        size_of::<Self>() + self.send.spare() + self.receive.spare()
    }
}

/// All streams of a connection. A stream that is over is used again with its buffers, within bounds.
///
/// What is kept of all is the sum of what is kept of each, which is counted after each change.
#[derive(Debug, Default)]
pub(super) struct Streams {
    places: Vec<Option<Box<Stream>>>,
    /// Places of streams that are over, and places without one. A place whose stream was given up in a
    /// line is empty, and free when the line has come to it.
    free: Vec<u32>,
    /// Bytes of the streams that are over.
    spare: usize,
    kept: Kept,
    /// Places by what they keep of either side. Those that keep less than [`NATIVE_RANKED_MIN`] may be
    /// missing, and what is to be sent may be more or less by [`NATIVE_RANKED_STEP`].
    unread: Ranks,
    unsent: Ranks,
    /// Bytes by which windows are larger than they were at first.
    grown: usize,
    /// Bodies that were given up, for the caller to drop.
    pub(super) discarded: Vec<Bytes>,
}

impl Streams {
    /// A place for `id`: so much may be sent, and so much is accepted, before any CREDIT.
    pub(super) fn open(&mut self, id: StreamId, credit: u32, window: u32) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        self.spare -= place.as_ref().map_or(0, |stream| stream.spare());
        let stream = place.get_or_insert_with(|| Box::new(Stream::new(id)));
        stream.id = id;
        stream.until = Duration::MAX;
        stream.send.reset(credit);
        stream.receive.reset(window);
        index
    }

    #[inline]
    pub(super) fn at(&mut self, index: u32) -> &mut Stream {
        self.places[index as usize].as_mut().expect(HAS_STREAM)
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> &Stream {
        self.places[index as usize].as_ref().expect(HAS_STREAM)
    }

    /// Whether all that a stream has written before it came into a line ends before this position of
    /// the output, or it was given up since.
    pub(super) fn is_in_order(&self, index: u32, here: u64) -> bool {
        self.places[index as usize].as_ref().is_none_or(|stream| stream.send.after <= here)
    }

    /// Counts anew what a stream keeps.
    pub(super) fn count(&mut self, index: u32) {
        let stream = self.places[index as usize].as_mut().expect(HAS_STREAM);
        let unready = if stream.receive.is_unready() { UNREADY } else { 0 };
        let now = Kept {
            assembled: stream.receive.assembled(),
            unready,
            untaken: stream.receive.untaken(),
            queued: stream.send.waiting(),
        };
        // Most streams keep nothing, whatever happens to them.
        if now != stream.kept {
            let before = std::mem::replace(&mut stream.kept, now);
            self.exchange(index, before, now);
        }
    }

    fn exchange(&mut self, index: u32, before: Kept, now: Kept) {
        self.kept.exchange(before, now);
        match now.unready {
            0 => self.unread.note(index, ranked(now.unread())),
            // However little it is: those who keep much in this way do it in many streams.
            _ => self.unread.note(index, now.unread()),
        }
        self.unsent.note(index, ranked(now.queued));
    }

    /// Counts anew what a stream has to send. Its rank is noted by steps, since small messages are many.
    #[inline]
    pub(super) fn count_queued(&mut self, index: u32) {
        let stream = self.places[index as usize].as_mut().expect(HAS_STREAM);
        let now = stream.send.waiting();
        let before = std::mem::replace(&mut stream.kept.queued, now);
        self.kept.queued = self.kept.queued - before + now;
        if before / NATIVE_RANKED_STEP != now / NATIVE_RANKED_STEP {
            self.unsent.note(index, ranked(now));
        }
    }

    /// Takes one fragment of a message. To be [counted](Self::count) when that is all there is to it.
    ///
    /// # Errors
    ///
    /// When the peer must not send it so.
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

    /// Keeps a request until nothing of it is missing.
    pub(super) fn await_rest(&mut self, index: u32, request: Unready) {
        self.at(index).receive.request = Some(request);
        self.count(index);
    }

    /// Takes a message of one frame, if that is all there is to it.
    #[inline]
    pub(super) fn whole(&mut self, index: u32, cost: u32) -> bool {
        let stream = self.places[index as usize].as_mut().expect(HAS_STREAM);
        let is_taken = stream.receive.whole(cost);
        if is_taken {
            // Nothing else of it is kept, or it would not have been taken so.
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

    /// The reader of a stream took messages.
    #[inline]
    pub(super) fn taken(&mut self, index: u32, messages: usize) {
        let stream = self.places[index as usize].as_mut().expect(HAS_STREAM);
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

    /// Nobody will tell that the messages of a stream were taken.
    pub(super) fn hand_over(&mut self, index: u32) {
        self.at(index).receive.hand_over();
        self.count(index);
    }

    /// Delivers nothing more of a stream that nobody reads.
    pub(super) fn ignore(&mut self, index: u32) {
        self.at(index).receive.ignore();
        self.count(index);
    }

    /// Delivers nothing more of a stream, and drops what was assembled.
    pub(super) fn abandon(&mut self, index: u32) {
        self.at(index).receive.abandon();
        self.count(index);
    }

    /// Changes the window of a stream.
    pub(super) fn with_window<R>(
        &mut self,
        index: u32,
        change: impl FnOnce(&mut Window) -> R,
    ) -> R {
        let window = &mut self.places[index as usize].as_mut().expect(HAS_STREAM).receive.window;
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

    /// Bytes of memory for all that is not whole.
    #[inline]
    pub(super) fn assembled(&self) -> usize {
        self.kept.assembled
    }

    /// Bytes of the streams of which something is not whole, besides that.
    #[inline]
    pub(super) fn unready(&self) -> usize {
        self.kept.unready
    }

    /// Bytes of streams that are over and kept for those to come.
    #[inline]
    pub(super) fn spare(&self) -> usize {
        self.spare
    }

    /// Gives them back.
    pub(super) fn drop_spare(&mut self) {
        for &index in &self.free {
            self.places[index as usize] = None;
        }
        self.spare = 0;
    }

    /// Bytes of all that is to be sent when its turn and its credit come.
    #[inline]
    pub(super) fn queued(&self) -> usize {
        self.kept.queued
    }

    /// A stream for which most bytes are kept, up to a quarter and a step, and how many; `None` if none
    /// are.
    pub(super) fn largest(&mut self, side: Side) -> Option<(StreamId, usize)> {
        if self.kept.of(side) == 0 {
            return None;
        }
        let ranks = match side {
            Side::Unread => &mut self.unread,
            Side::Unsent => &mut self.unsent,
        };
        let places = &self.places;
        let kept =
            |index: u32| places[index as usize].as_ref().map_or(0, |stream| stream.kept.of(side));
        let largest = ranks.largest(kept).or_else(|| {
            // All keep very little, or have not been ranked. Those that do now are ranked, so that the
            // next question is answered at once.
            for index in 0..places.len() as u32 {
                ranks.note(index, kept(index));
            }
            ranks.largest(kept)
        });
        largest.map(|index| self.get(index)).map(|stream| (stream.id, stream.kept.of(side)))
    }

    /// Bytes by which windows are larger than they were at first.
    pub(super) fn grown(&self) -> usize {
        self.grown
    }

    /// Gives the place back. A line may hold any number of places that were given up before it has come
    /// to them, so nothing is kept for these.
    pub(super) fn release(&mut self, index: u32) {
        let stream = self.places[index as usize].as_mut().expect(HAS_STREAM);
        stream.send.clear(&mut self.discarded);
        self.grown -= stream.receive.window.grown() as usize;
        stream.receive.reset(0);
        let (is_queued, spare) = (stream.is_queued, stream.spare());
        self.count(index);
        if is_queued || self.spare + spare > NATIVE_STREAMS_KEPT {
            self.places[index as usize] = None;
        } else {
            self.spare += spare;
        }
        if !is_queued {
            self.free.push(index);
        }
    }

    /// Gives up what all streams keep. The connection has ended: nothing follows.
    pub(super) fn drop_contents(&mut self) {
        self.drop_spare();
        for stream in self.places.iter_mut().flatten() {
            stream.send.clear(&mut self.discarded);
            stream.send = SendSide::default();
            stream.receive.abandon();
            stream.kept = Kept::default();
        }
        self.kept = Kept::default();
        self.unread.clear();
        self.unsent.clear();
    }

    /// Takes a stream off the front of its line, and tells whether it is still there to be served.
    pub(super) fn dequeue(&mut self, index: u32) -> bool {
        match &mut self.places[index as usize] {
            Some(stream) => stream.is_queued = false,
            None => {
                self.free.push(index);
                return false;
            }
        }
        true
    }
}

/// Why a place is not empty: calls and lines name places of streams that are not over.
const HAS_STREAM: &str = "a stream that is open has its place";

/// What a stream takes up of which something is not whole, besides that.
const UNREADY: usize = size_of::<Stream>() + NATIVE_STREAM_TABLES;

/// Whether a stream that keeps `now` instead of `before` is ranked anew: by steps, since messages of a
/// reader that keeps up are many, and each is counted in and out.
#[inline]
fn changes_rank(before: usize, now: usize) -> bool {
    before / NATIVE_RANKED_MIN != now / NATIVE_RANKED_MIN
}

/// What counts for a rank: of little, nothing.
#[inline]
fn ranked(kept: usize) -> usize {
    if kept >= NATIVE_RANKED_MIN { kept } else { 0 }
}
