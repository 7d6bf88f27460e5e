//! Unsent output of a connection, and the streams that hold it.

use super::connection::Connection;
use super::draining::Draining;
use super::frames::{FrameHeader, HEADER_LEN, flag, kind};
use super::role::{Role, Serving};
use super::stream::{ANY_LENGTH, OpenStream};
use super::{ErrorCode, StreamHandle};

impl<R: Role> Connection<R> {
    /// Memory of what is to be sent: written frames, and the queues of streams.
    #[inline]
    #[must_use]
    pub fn unsent_len(&self) -> usize {
        self.outbox.backlog() + self.queued
    }

    /// Memory of the queues of streams: content that waits for the peer's credit, or for its turn.
    #[inline]
    #[must_use]
    pub fn queued_len(&self) -> usize {
        self.queued
    }

    /// The stream whose queue holds the most memory, and how much. Visits all streams.
    #[must_use]
    pub fn largest_unsent(&self) -> Option<(StreamHandle, usize)> {
        let queued = self.streams.open_streams().map(|(stream, s)| (stream, s.held()));
        queued.filter(|&(_, len)| len > 0).max_by_key(|&(_, len)| len)
    }

    /// Resets all streams that have data queued.
    pub(crate) fn reset_unsent(&mut self, code: ErrorCode) {
        let waiting = self.streams.open_streams().filter(|(_, s)| s.queued() > 0);
        let waiting: Vec<_> = waiting.map(|(stream, _)| stream).collect();
        waiting.into_iter().for_each(|stream| self.reset(stream, code));
    }

    /// Takes the end of a stream off the front of `input`, if the next frame is an empty DATA frame
    /// that ends it.
    #[inline]
    pub(crate) fn take_end(&mut self, stream: StreamHandle, input: &mut &[u8]) -> bool {
        let Some((head, rest)) = input.split_first_chunk::<HEADER_LEN>() else { return false };
        let header =
            FrameHeader { len: 0, kind: kind::DATA, flags: flag::END_STREAM, stream: stream.id };
        let may_end = |s: &OpenStream| {
            !s.remote_ended && (s.content_left == ANY_LENGTH || s.content_left == 0)
        };
        let is_open = || self.streams.peek(stream).is_some_and(may_end);
        if *head != header.encode() || !is_open() || self.has_events() {
            return false;
        }
        *input = rest;
        self.budgets.note_progress();
        self.end_remote(stream);
        true
    }
}

impl Connection<Serving> {
    /// Whether the client has seen the drain, so that no stream can be in flight any more.
    #[must_use]
    pub(crate) fn is_drain_known(&self) -> bool {
        matches!(self.drain, Draining::Final(..) | Draining::Over(_))
    }
}
