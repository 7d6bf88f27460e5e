//! The client side of a connection, which sends requests.

use std::fmt;

use super::connection::Connection;
use super::frames::MAX_31;
use super::hpack::ShortBlock;
use super::put::{put_go_away, put_short_headers};
use super::role::Calling;
use super::{ErrorCode, Event, Line, StreamHandle};
use crate::limits::HTTP2_REASON_MAX;
use crate::native::{Body, Piece};

/// The client side of one connection, as a state machine without I/O;
/// [`Http2Server`](super::Http2Server) shows how to drive it.
///
/// Each request that [`open`](Connection::open) starts ends in an event with `end` set, in
/// [`Trailers`](super::Event::Trailers), [`Reset`](super::Event::Reset) or
/// [`Failed`](super::Event::Failed), or by [`reset`](Connection::reset) without an event. If the
/// response ends before the request, call `reset` to free the stream.
pub type Http2Client = Connection<Calling>;

/// A request to send.
#[derive(Debug, Clone, Default)]
pub struct NewRequest<'a> {
    /// The header fields, pseudo-fields first.
    pub head: &'a [Line<'a>],
    /// Bytes that precede the body.
    pub prefix: &'a [u8],
    /// The first part of the content, if it is known already.
    pub body: Option<Body<'a>>,
    /// Whether this is the whole request.
    pub end: bool,
}

/// The reason why a request was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoStream {
    /// The server's limit of open streams is reached; [`Capacity`](super::Event::Capacity) tells
    /// when a stream can be opened again.
    Full,
    /// The connection takes no more streams: the server sent GOAWAY, stream ids are used up, or the
    /// connection has failed.
    Leaving,
}

impl fmt::Display for NoStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the server's limit of concurrent streams is reached",
            Self::Leaving => "the connection takes no more streams; open another one",
        })
    }
}

impl std::error::Error for NoStream {}

impl Connection<Calling> {
    /// Opens a stream and sends the head of a request, with its content as far as it is given.
    ///
    /// # Errors
    ///
    /// Returns an error when no stream can be opened; nothing is sent.
    pub fn open(&mut self, request: NewRequest<'_>) -> Result<StreamHandle, NoStream> {
        let head = request.head;
        self.open_with(request, |this, stream, end| this.write_headers(stream, head, end))
    }

    /// As [`open`](Self::open), with a head that is [encoded](Self::short_head) already;
    /// `request.head` is not looked at.
    ///
    /// # Errors
    ///
    /// Returns an error when no stream can be opened; nothing is sent.
    pub(crate) fn open_encoded(
        &mut self,
        head: &ShortBlock,
        request: NewRequest<'_>,
    ) -> Result<StreamHandle, NoStream> {
        debug_assert!(self.is_current(head), "the server has other fields under these indices");
        self.open_with(request, |this, stream, end| {
            put_short_headers(stream.id, end, head, &mut this.outbox.written);
        })
    }

    /// The block of these fields, if each takes one byte.
    pub(crate) fn short_head(&self, head: &[Line<'_>]) -> Option<ShortBlock> {
        self.encoder.short_block(head)
    }

    /// Whether a block can still be sent: no field was added to the server's table since, and the
    /// server has not changed the size of its table.
    #[inline]
    pub(crate) fn is_current(&self, head: &ShortBlock) -> bool {
        self.encoder.is_current(head)
    }

    #[inline]
    fn open_with(
        &mut self,
        request: NewRequest<'_>,
        write_head: impl FnOnce(&mut Self, StreamHandle, bool),
    ) -> Result<StreamHandle, NoStream> {
        if self.room() == 0 {
            let is_full = self.room_later();
            self.is_starved |= is_full;
            return Err(if is_full { NoStream::Full } else { NoStream::Leaving });
        }
        let id = self.next_own;
        self.next_own += 2;
        if self.next_own > MAX_31 {
            self.note_last_id();
        }
        let opened_at = self.outbox.end();
        let credit = i64::from(self.peer.initial_window);
        let stream = self.streams.open(id, self.start.counted, credit);
        self.streams.at(stream.slot).opened_at = opened_at;
        let is_empty = request.body.is_none() && request.prefix.is_empty();
        write_head(self, stream, request.end && is_empty);
        if is_empty {
            self.note_local_end(stream, request.end);
        } else {
            let body = request.body.unwrap_or(Body::Copy(&[]));
            // It was opened just now, so this cannot fail.
            let _ = self.send(stream, request.prefix, body, request.end);
        }
        Ok(stream)
    }

    /// Tells the caller that no further streams can be opened (section 5.1.1).
    #[cold]
    fn note_last_id(&mut self) {
        let reason = Piece::Borrowed(b"its stream ids are used up");
        self.pending.push_back(Event::Leaving { code: ErrorCode::NO_ERROR, last: MAX_31, reason });
    }

    /// How many streams can be opened now.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.room()
    }

    /// Whether streams can be opened again once others have ended.
    fn room_later(&self) -> bool {
        !self.is_leaving && self.failed.is_none() && self.next_own <= MAX_31
    }

    /// Whether any byte of an open request was handed out, so that it may have been executed when
    /// the connection dies.
    #[must_use]
    pub fn was_sent(&self, stream: StreamHandle) -> bool {
        self.streams.peek(stream).is_some_and(|s| s.opened_at < self.outbox.left())
    }

    /// Sends GOAWAY: this client opens no more streams. Call it before closing. `false` if it was sent
    /// before, or the server has sent one.
    pub fn go_away(&mut self, code: ErrorCode, reason: &str) -> bool {
        if self.failed.is_some() || self.is_leaving {
            return false;
        }
        self.is_leaving = true;
        let reason = &reason.as_bytes()[..reason.len().min(HTTP2_REASON_MAX)];
        put_go_away(0, code, reason, &mut self.outbox.written);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::fuzz_machines::Paths;
    use super::super::{Http2Config, Vocabulary};
    use super::*;

    #[test]
    fn a_connection_whose_stream_ids_are_used_up_says_so() {
        let vocabulary = Arc::new(Vocabulary::new(Paths));
        let mut client = Http2Client::new(Http2Config::client(), vocabulary, Duration::ZERO);
        client.next_own = MAX_31;
        let request = NewRequest { head: &[Line::Static(3)], end: true, ..NewRequest::default() };
        let last = client.open(request.clone()).expect("an id is left");
        assert_eq!((last.id(), client.capacity()), (MAX_31, 0));
        assert_eq!(client.open(request).expect_err("none is left"), NoStream::Leaving);
        let told = client.receive(&mut &[][..], Duration::ZERO).expect("no violation");
        let Some(Event::Leaving { code: ErrorCode::NO_ERROR, last: MAX_31, .. }) = told else {
            panic!("{told:?}");
        };
        assert!(!client.has_events() && client.in_flight() == 1, "open streams go on");
    }
}
