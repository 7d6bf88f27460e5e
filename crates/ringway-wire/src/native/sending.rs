//! Sending the messages of streams: at once, or queued until they have their turn and credit
//! (sections 5 and 6).

use super::frame::{OutgoingFrame, cost};
use super::native_connection::NativeConnection;
use super::send_side::LongMessage;
use super::slots::{Found, NO_STREAM};
use super::{Body, Credit, FrameKind, StreamId, Violation};
use crate::limits::{
    NATIVE_CREDIT_MAX, NATIVE_CREDIT_WORTH, NATIVE_DIRECT_MAX, NATIVE_QUEUED_MARK,
    NATIVE_SMALL_MAX, NATIVE_WRITTEN_MARK, UNSENT_MARK,
};

/// How a message was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Written,
    Queued,
}

impl NativeConnection {
    /// Whether a body may be written at once if its stream's queue is empty: it is small enough to
    /// go whole before other streams, or little output is waiting.
    #[inline]
    pub(super) fn is_direct(&self, body: &Body<'_>) -> bool {
        let len = body.len();
        len <= NATIVE_SMALL_MAX
            || len <= NATIVE_DIRECT_MAX && self.outbox.backlog() <= NATIVE_WRITTEN_MARK
    }

    /// Sends a message of a stream, at once or when it has its turn and credit.
    #[inline]
    pub(super) fn send(&mut self, index: u32, frame: OutgoingFrame<'_>, body: Body<'_>) -> Sent {
        let is_direct = self.is_direct(&body) && frame.meta.len() <= NATIVE_SMALL_MAX;
        // A call can send many messages, so they must not pile up in the output, which nothing
        // limits.
        let has_room =
            frame.kind != FrameKind::Data || self.outbox.backlog() <= NATIVE_WRITTEN_MARK;
        let stream = self.streams.at(index);
        let cost = cost(body.len());
        if is_direct && has_room && stream.send.is_empty() && stream.send.credit >= cost {
            stream.send.credit -= cost;
            self.outbox.put_body(&frame, &body);
            if self.outbox.backlog() > NATIVE_WRITTEN_MARK {
                self.note_crowd(index);
            }
            return Sent::Written;
        }
        self.queue(index, frame, body)
    }

    #[cold]
    fn note_crowd(&mut self, index: u32) {
        let stream = self.streams.at(index);
        if !stream.send.wants_writable {
            stream.send.wants_writable = true;
            self.backpressured.push(stream.id);
        }
    }

    fn queue(&mut self, index: u32, frame: OutgoingFrame<'_>, body: Body<'_>) -> Sent {
        let stream = self.streams.at(index);
        if stream.send.is_empty() {
            stream.send.after = self.outbox.end();
        }
        let is_small = body.len() <= NATIVE_SMALL_MAX && frame.meta.len() <= NATIVE_SMALL_MAX;
        if is_small && frame.kind != FrameKind::Request {
            let frame = OutgoingFrame { payload: body.as_ref(), ..frame };
            stream.send.push_frame(&frame, self.outbox.with_crc);
        } else {
            stream.send.push_long(LongMessage::new(&frame, body.into_shared()));
        }
        self.note_queued(index);
        Sent::Queued
    }

    /// Sends a frame without a message after everything queued on its stream.
    pub(super) fn send_empty(&mut self, index: u32, frame: &OutgoingFrame<'_>) -> Sent {
        let stream = self.streams.at(index);
        if stream.send.is_empty() {
            self.outbox.put(frame);
            return Sent::Written;
        }
        stream.send.push_frame(frame, self.outbox.with_crc);
        self.note_queued(index);
        Sent::Queued
    }

    /// Enqueues the stream if it can send, and remembers to report `Writable` if much is queued.
    pub(super) fn note_queued(&mut self, index: u32) {
        self.streams.count_queued(index);
        let is_much = self.streams.queued() > NATIVE_QUEUED_MARK;
        let stream = self.streams.at(index);
        stream.send.wants_writable |= is_much || stream.send.waiting() > UNSENT_MARK;
        self.schedule(index);
    }

    pub(super) fn schedule(&mut self, index: u32) {
        let stream = self.streams.at(index);
        if stream.is_queued {
            return;
        }
        if let Some(lane) = stream.send.ready() {
            stream.is_queued = true;
            self.outbox.enqueue(index, lane);
        }
    }

    /// Adds credit that the peer granted.
    ///
    /// # Errors
    ///
    /// Fails when the sum is out of range or the peer grants small amounts too often.
    pub(super) fn credit(&mut self, index: u32, granted: u32) -> Result<(), Violation> {
        self.bear_credit(granted)?;
        let stream = self.streams.at(index);
        stream.send.credit = added_credit(stream.send.credit, granted)?;
        self.schedule(index);
        Ok(())
    }

    /// Counts a CREDIT too small to be worth its frame.
    ///
    /// # Errors
    ///
    /// Fails when there are too many of them.
    pub(super) fn bear_credit(&mut self, granted: u32) -> Result<(), Violation> {
        if granted < NATIVE_CREDIT_WORTH { self.bear(FrameKind::Credit) } else { Ok(()) }
    }

    /// Bytes of a stream that are queued.
    pub(super) fn unsent(&self, stream: StreamId) -> usize {
        match self.slots.find(stream) {
            Found::Live(index) => match self.slots.get(index).stream {
                NO_STREAM => 0,
                stream_index => self.streams.get(stream_index).send.waiting(),
            },
            Found::Ended | Found::Never => 0,
        }
    }

    /// The credit of a stream; `None` if it has none, such as that of a call with one message each way.
    pub(super) fn credit_of(&self, stream: StreamId) -> Option<Credit> {
        let Found::Live(index) = self.slots.find(stream) else { return None };
        let stream_index = self.slots.get(index).stream;
        if stream_index == NO_STREAM {
            return None;
        }
        let stream = self.streams.get(stream_index);
        let (to_send, to_receive) = (stream.send.credit, stream.receive.window.granted());
        Some(Credit { to_send, to_receive })
    }

    /// Whether the writer of a stream may send now; if not, a `Writable` event follows.
    #[inline]
    pub(super) fn has_room(&self, stream: StreamId) -> bool {
        let Some(index) = self.slots.find_open(stream) else {
            return true;
        };
        match self.slots.get(index).stream {
            NO_STREAM => true,
            stream_index => !self.streams.get(stream_index).send.wants_writable,
        }
    }
}

/// Adds granted credit to existing credit.
///
/// # Errors
///
/// Fails when the sum is out of range.
pub(super) fn added_credit(credit: u32, granted: u32) -> Result<u32, Violation> {
    let sum = u64::from(credit) + u64::from(granted);
    u32::try_from(sum)
        .ok()
        .filter(|&sum| sum <= NATIVE_CREDIT_MAX)
        .ok_or(Violation::CreditOutOfRange { credit: sum })
}
