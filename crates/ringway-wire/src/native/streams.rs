//! What calls need that are more than one frame each way, in reused places, and what is kept for
//! each and for all.

use std::time::Duration;

use super::ranks::Ranks;
use super::receive_side::{Assembled, Piecemeal, ReceiveSide, Unready};
use super::send_side::SendSide;
use super::window::Window;
use super::{StreamId, Violation};
use crate::limits::{NATIVE_RANKED_MIN, NATIVE_RANKED_STEP, NATIVE_STREAMS_KEPT};

/// Both halves of a call that has, or may have, more than one frame in a direction.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: StreamId,
    pub(super) send: SendSide,
    pub(super) receive: ReceiveSide,
    /// It stands in a line of the outbox.
    pub(super) is_queued: bool,
    is_released: bool,
    /// What it keeps, as it was counted last.
    kept: Kept,
    /// When the time of its call is over.
    pub(super) until: Duration,
    /// When something of it came or went last.
    pub(super) touched: Duration,
}

/// Bytes of memory.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    /// Of what is not whole: messages, requests.
    assembled: usize,
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
        self.assembled + self.untaken
    }

    fn of(&self, side: Side) -> usize {
        match side {
            Side::Unread => self.unread(),
            Side::Unsent => self.queued,
        }
    }

    fn exchange(&mut self, before: Kept, now: Kept) {
        self.assembled = self.assembled - before.assembled + now.assembled;
        self.untaken = self.untaken - before.untaken + now.untaken;
        self.queued = self.queued - before.queued + now.queued;
    }
}

/// All streams of a connection. A place given back keeps its buffers, within bounds.
///
/// What is kept of all is the sum of what is kept of each, which is counted after each change.
#[derive(Debug, Default)]
pub(super) struct Streams {
    places: Vec<Stream>,
    free: Vec<u32>,
    /// Bytes of buffers in places that are free.
    spare: usize,
    kept: Kept,
    /// Places by what they keep of either side. Those that keep less than [`NATIVE_RANKED_MIN`] may be
    /// missing, and what is to be sent may be more or less by [`NATIVE_RANKED_STEP`].
    unread: Ranks,
    unsent: Ranks,
    /// Bytes by which windows are larger than they were at first.
    grown: usize,
}

impl Streams {
    /// A place for `id`: so much may be sent, and so much is accepted, before any CREDIT.
    pub(super) fn open(&mut self, id: StreamId, credit: u32, window: u32) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Stream {
                id,
                send: SendSide::default(),
                receive: ReceiveSide::default(),
                is_queued: false,
                is_released: false,
                kept: Kept::default(),
                until: Duration::MAX,
                touched: Duration::ZERO,
            });
            (self.places.len() - 1) as u32
        });
        let stream = &mut self.places[index as usize];
        let spare = stream.send.spare() + stream.receive.spare();
        self.spare = self.spare.saturating_sub(spare); // a place that is new has none
        stream.id = id;
        stream.until = Duration::MAX;
        stream.send.reset(credit);
        stream.receive.reset(window);
        index
    }

    #[inline]
    pub(super) fn at(&mut self, index: u32) -> &mut Stream {
        &mut self.places[index as usize]
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> &Stream {
        &self.places[index as usize]
    }

    /// Counts anew what a stream keeps.
    pub(super) fn count(&mut self, index: u32) {
        let stream = &mut self.places[index as usize];
        let now = Kept {
            assembled: stream.receive.assembled(),
            untaken: stream.receive.untaken(),
            queued: stream.send.waiting(),
        };
        let before = std::mem::replace(&mut stream.kept, now);
        self.kept.exchange(before, now);
        match now.assembled {
            0 => self.unread.note(index, ranked(now.unread())),
            // However little it is: those who keep much in this way do it in many streams.
            _ => self.unread.note(index, now.unread()),
        }
        self.unsent.note(index, ranked(now.queued));
    }

    /// Counts anew what a stream has to send. Its rank is noted by steps, since small messages are many.
    #[inline]
    pub(super) fn count_queued(&mut self, index: u32) {
        let stream = &mut self.places[index as usize];
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
        fragment: Piecemeal<'i>,
    ) -> Result<Assembled<'i>, Violation> {
        let outcome = self.places[index as usize].receive.fragment(fragment);
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
        let stream = &mut self.places[index as usize];
        let is_taken = stream.receive.whole(cost);
        if is_taken {
            let before = stream.kept.unread();
            stream.kept.untaken += cost as usize;
            self.kept.untaken += cost as usize;
            let now = stream.kept.unread();
            if changes_rank(before, now) {
                self.unread.note(index, now);
            }
        }
        is_taken
    }

    /// The reader of a stream took messages.
    #[inline]
    pub(super) fn taken(&mut self, index: u32, messages: usize) {
        let stream = &mut self.places[index as usize];
        let gone = stream.receive.taken(messages) as usize;
        let before = stream.kept.unread();
        stream.kept.untaken -= gone;
        self.kept.untaken -= gone;
        let now = before - gone;
        if changes_rank(before, now) {
            self.unread.note(index, ranked(now));
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
        let window = &mut self.places[index as usize].receive.window;
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
        let kept = |index: u32| self.places[index as usize].kept.of(side);
        let largest = ranks.largest(kept).or_else(|| {
            // All keep very little, or have not been ranked. Those that do now are ranked, so that the
            // next question is answered at once.
            for (index, stream) in (0..).zip(&self.places) {
                ranks.note(index, stream.kept.of(side));
            }
            ranks.largest(kept)
        });
        largest.map(|index| self.get(index)).map(|stream| (stream.id, stream.kept.of(side)))
    }

    /// Bytes by which windows are larger than they were at first.
    pub(super) fn grown(&self) -> usize {
        self.grown
    }

    /// Gives the place back; one that stands in a line is free when the line has come to it.
    pub(super) fn release(&mut self, index: u32) {
        let stream = &mut self.places[index as usize];
        stream.send.clear();
        self.grown -= stream.receive.window.grown() as usize;
        stream.receive.reset(0);
        if stream.is_queued {
            stream.is_released = true;
        } else {
            self.vacate(index);
        }
        self.count(index);
    }

    fn vacate(&mut self, index: u32) {
        let stream = &mut self.places[index as usize];
        if self.spare + stream.send.spare() + stream.receive.spare() > NATIVE_STREAMS_KEPT {
            (stream.send, stream.receive) = Default::default();
        }
        self.spare += stream.send.spare() + stream.receive.spare();
        self.free.push(index);
    }

    /// Drops what all streams keep. The connection has failed: nothing follows.
    pub(super) fn drop_contents(&mut self) {
        for stream in &mut self.places {
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
        let stream = self.at(index);
        stream.is_queued = false;
        let was_released = std::mem::take(&mut stream.is_released);
        if was_released {
            self.vacate(index);
        }
        !was_released
    }
}

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
