//! The server side of a connection, which answers requests.

use std::time::Duration;

use super::connection::{Connection, PingTag};
use super::draining::Draining;
use super::frames::MAX_31;
use super::put::{put_go_away, put_ping};
use super::role::{Role, Serving};
use super::{ErrorCode, Line, StreamHandle};
use crate::limits::HTTP2_SMALL_MAX;
use crate::native::{Body, Gone};
use crate::stamp::Stamp;

/// The server side of one connection, as a state machine without I/O.
///
/// Answer each request that an event starts by [`respond`](Connection::respond), or by
/// [`head`](Connection::head), [`send`](Connection::send) and [`finish`](Connection::finish),
/// unless it ends before by an event or [`reset`](Connection::reset).
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use ringway_wire::http2::{
///     Body, Event, Http2Client, Http2Config, Http2Server, Key, Known, Line, NewRequest, Outgoing,
///     Resolver, Vocabulary,
/// };
///
/// #[derive(Debug)]
/// struct Nothing;
///
/// impl Resolver for Nothing {
///     fn key(&self, _name: &[u8]) -> Option<Key> {
///         None
///     }
///     fn value(&self, _key: Key, _value: &[u8]) -> Known {
///         Known { value: 0, keep: false }
///     }
/// }
///
/// let now = Duration::ZERO;
/// let vocabulary = Arc::new(Vocabulary::new(Nothing));
/// let mut client = Http2Client::new(Http2Config::default(), vocabulary.clone(), now);
/// let mut server = Http2Server::new(Http2Config::default(), vocabulary, now);
/// let path = Line::Fixed { id: 0, name: b":path", value: b"/echo" };
/// client.open(NewRequest {
///     head: &[Line::Static(3), Line::Static(6), path], // :method POST, :scheme http
///     body: Some(Body::Copy(b"hello")),
///     end: true,
///     ..NewRequest::default()
/// })?;
///
/// let mut wire = Vec::new();
/// client.transmit(usize::MAX, &mut |out| match out {
///     Outgoing::Copy(bytes) => wire.extend_from_slice(bytes),
///     Outgoing::Shared(bytes) => wire.extend_from_slice(&bytes),
/// });
/// let mut input = &wire[..];
/// let mut answered = false;
/// while let Some(event) = server.receive(&mut input, now)? {
///     if let Event::Head { stream, data, end: true } = event {
///         let status = [Line::Static(8)]; // :status 200
///         server.respond(stream, &status, &[], Body::Copy(&data), &[])?;
///         answered = true;
///     }
/// }
/// assert!(answered && server.has_output());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Http2Server = Connection<Serving>;

impl Connection<Serving> {
    /// Sends the head of a response; `end` says that there is nothing else.
    ///
    /// # Errors
    ///
    /// Returns [`Gone`] when the stream has ended.
    pub fn head(
        &mut self,
        stream: StreamHandle,
        lines: &[Line<'_>],
        end: bool,
    ) -> Result<(), Gone> {
        self.check_sending(stream)?;
        self.write_headers(stream, lines, end);
        self.note_local_end(stream, end);
        Ok(())
    }

    /// Sends a whole response: `head`, then `prefix` and `body`, then `trailers` if there are any.
    /// A small one is written in one piece.
    ///
    /// # Errors
    ///
    /// Returns [`Gone`] when the stream has ended.
    #[inline]
    pub fn respond(
        &mut self,
        stream: StreamHandle,
        head: &[Line<'_>],
        prefix: &[u8],
        body: Body<'_>,
        trailers: &[Line<'_>],
    ) -> Result<(), Gone> {
        self.check_sending(stream)?;
        self.write_headers(stream, head, false);
        let len = prefix.len() + body.len();
        if len <= HTTP2_SMALL_MAX && self.is_direct(stream, len) {
            self.write_data(stream, prefix, &body, trailers.is_empty());
            if !trailers.is_empty() {
                self.write_headers(stream, trailers, true);
            }
            self.note_local_end(stream, true);
            return Ok(());
        }
        let has_trailers = !trailers.is_empty();
        self.send(stream, prefix, body, !has_trailers)?;
        if has_trailers { self.finish(stream, trailers) } else { Ok(()) }
    }

    /// Drains the connection in two steps: a first GOAWAY asks the client to open no more streams,
    /// and those that cross it are served; when the client has answered, later ones are refused.
    /// After `length`, [`DrainOver`](super::Event::DrainOver) asks the caller to end the remaining
    /// streams.
    pub fn drain(&mut self, length: Duration) {
        if self.drain != Draining::No || self.failed.is_some() {
            return;
        }
        let out = &mut self.outbox.written;
        put_go_away(MAX_31, ErrorCode::NO_ERROR, b"", out);
        put_ping(0, PingTag::Drain.payload(0), out);
        self.drain = Draining::Announced(Stamp::of(self.now).after(length));
    }

    /// Tells that the caller does not read what the client sends from now on, or that it does, and how long it did not.
    pub(crate) fn note_reading(&mut self, pause: Option<Duration>, now: Duration) {
        self.keepalive.note_reading(pause, &self.config, now);
    }

    /// Whether the connection is draining with nothing left to serve or send, so that it can be
    /// closed.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.drain.last().is_some() && self.streams.live() == 0 && !self.has_output()
    }
}

impl<R: Role> Connection<R> {
    /// Sends the last GOAWAY, which names the last stream that is served: the client has seen the
    /// first one, or the drain is over.
    pub(crate) fn announce_last(&mut self) {
        if let Draining::Announced(until) = self.drain {
            let last = self.last_peer;
            put_go_away(last, ErrorCode::NO_ERROR, b"", &mut self.outbox.written);
            self.drain = Draining::Final(until, last);
        }
    }

    /// The last stream of the peer that is not refused.
    pub(super) fn last_served(&self) -> u32 {
        self.drain.last().unwrap_or(self.last_peer)
    }
}
