//! The side that connects and sends requests.

use std::fmt;

use super::connection::Connection;
use super::put::put_go_away;
use super::role::Calling;
use super::{ErrorCode, Line, StreamHandle};
use crate::limits::HTTP2_REASON_MAX;
use crate::native::Body;

/// One connection to a server as a machine without I/O; see [`Http2Server`](super::Http2Server) for how it is
/// used.
///
/// Each request that [`open`](Connection::open) starts ends in an event that says `end`, in
/// [`Trailers`](super::Event::Trailers), [`Reset`](super::Event::Reset) or
/// [`Failed`](super::Event::Failed), or by [`reset`](Connection::reset) without an event. When the
/// response has ended before the request, `reset` frees the stream.
pub type Http2Client = Connection<Calling>;

/// A request to be sent.
#[derive(Debug, Clone, Default)]
pub struct NewRequest<'a> {
    /// Its fields, pseudo-fields first.
    pub head: &'a [Line<'a>],
    /// Bytes in front of the body.
    pub prefix: &'a [u8],
    /// The first part of its content, if there is one already.
    pub body: Option<Body<'a>>,
    /// Nothing follows.
    pub end: bool,
}

/// Why a request was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoStream {
    /// As many streams are open as the server takes. [`Capacity`](super::Event::Capacity) tells
    /// when there is room.
    Full,
    /// The connection takes no more: the server leaves, stream ids are used up, or it has failed.
    Leaving,
}

impl fmt::Display for NoStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the server takes no more streams at a time",
            Self::Leaving => "the connection takes no more streams",
        })
    }
}

impl std::error::Error for NoStream {}

impl Connection<Calling> {
    /// Opens a stream and sends the head of a request, and its content as far as it is there.
    ///
    /// # Errors
    ///
    /// When no stream can be opened; nothing is sent.
    pub fn open(&mut self, request: NewRequest<'_>) -> Result<StreamHandle, NoStream> {
        if self.room() == 0 {
            let is_full = self.room_later();
            self.is_starved |= is_full;
            return Err(if is_full { NoStream::Full } else { NoStream::Leaving });
        }
        let id = self.next_own;
        self.next_own += 2;
        let opened_at = self.outbox.end();
        let credit = i64::from(self.peer.initial_window);
        let stream = self.streams.open(id, self.start.counted, credit);
        self.streams.at(stream.slot).opened_at = opened_at;
        let is_empty = request.body.is_none() && request.prefix.is_empty();
        self.write_headers(stream, request.head, request.end && is_empty);
        if is_empty {
            self.note_local_end(stream, request.end);
        } else {
            let body = request.body.unwrap_or(Body::Copy(&[]));
            // It was opened just now.
            let _ = self.send(stream, request.prefix, body, request.end);
        }
        Ok(stream)
    }

    /// Streams that may be opened now.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.room()
    }

    /// Whether there will be room again when streams have ended.
    fn room_later(&self) -> bool {
        !self.is_leaving && self.failed.is_none() && self.next_own <= super::frames::MAX_31
    }

    /// Whether anything of an open request has left, so that it may have been executed when the
    /// connection dies.
    #[must_use]
    pub fn was_sent(&self, stream: StreamHandle) -> bool {
        self.streams.peek(stream).is_some_and(|s| s.opened_at < self.outbox.left())
    }

    /// Announces that no more streams are opened, as before closing. `false`: it was announced, or the
    /// server leaves by itself.
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
