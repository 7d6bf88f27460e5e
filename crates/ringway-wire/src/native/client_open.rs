//! How a client opens calls (section 3).

use std::fmt;
use std::time::Duration;

use super::client::Client;
use super::frame::OutgoingFrame;
use super::native_connection::{NONE, NativeConnection};
use super::sending::Sent;
use super::{Body, Flags, FrameKind, MetaWriter, RequestHead, StreamId};
use crate::limits::{NATIVE_CREDIT_MAX, NATIVE_INITIAL_CREDIT_MIN};

/// The parameters of a call to open.
#[derive(Debug, Clone)]
pub struct Open<'a> {
    /// The caller's number for the method, small and from 1 on, or 0 to send the name with each
    /// call.
    pub method: u32,
    /// The method's name, `package.Service/Method`; it is sent at the first use of its number.
    pub name: &'a str,
    /// Time that the server may take, counted from the arrival of the request.
    pub timeout: Option<Duration>,
    /// Encoding of this side's messages: 0 raw, 1 protobuf, 2 JSON; numbers from 128 up are by
    /// agreement.
    pub codec: u8,
    /// Attempt number: 0 for the first, then the number of the retry or hedge.
    pub attempt: u8,
    /// Priority: 0 is normal, and calls with higher values are shed first.
    pub priority: u8,
    /// Reply bytes that the server may send before any are taken; at least 65,536.
    pub initial_credit: u32,
    /// Further metadata, written by a [`MetaWriter`].
    pub meta: &'a [u8],
    /// The first message.
    pub message: Option<Body<'a>>,
    /// Whether this is the whole request, with no messages to follow.
    pub end: bool,
}

impl Default for Open<'_> {
    /// A raw call without name, time limit or message that stays open and grants 64 KiB of credit.
    fn default() -> Self {
        Self {
            method: 0,
            name: "",
            timeout: None,
            codec: 0,
            attempt: 0,
            priority: 0,
            initial_credit: NATIVE_INITIAL_CREDIT_MIN,
            meta: &[],
            message: None,
            end: false,
        }
    }
}

/// The reason why a call cannot be opened on this connection now; it was not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// The server's limit of open calls is reached;
    /// [`ClientEvent::Capacity`](super::ClientEvent::Capacity) tells when a call can be opened
    /// again.
    Full,
    /// The server's lease is used up; [`ClientEvent::Capacity`](super::ClientEvent::Capacity) tells
    /// when a call can be opened again.
    Leased,
    /// The server takes no more calls on this connection.
    Draining,
    /// The connection has failed.
    Closed,
    /// The metadata is longer than the server accepts.
    TooLarge,
}

impl Client {
    /// Opens a call. Its slot is reused only after its RESPONSE has arrived.
    ///
    /// # Errors
    ///
    /// Returns an error when this connection cannot open the call now; nothing was sent.
    #[inline]
    pub fn open(&mut self, call: Open<'_>) -> Result<StreamId, OpenError> {
        if self.is_draining || self.connection.failed.is_some() {
            return Err(if self.is_draining { OpenError::Draining } else { OpenError::Closed });
        }
        if self.connection.slots.live() >= self.permits {
            self.is_starved = true;
            return Err(OpenError::Leased);
        }
        let needs_meta = !self.is_announced(call.method) | !call.meta.is_empty();
        let timeout_us = call.timeout.map_or(0, timeout_us);
        if needs_meta || timeout_us > u64::from(u32::MAX) {
            return self.open_with_meta(call, timeout_us);
        }
        self.open_as(call, timeout_us as u32, NONE, &[])
    }

    fn is_announced(&self, method: u32) -> bool {
        let word = self.announced.get((method / 64) as usize);
        word.is_some_and(|word| word & 1 << (method % 64) != 0)
    }

    #[cold]
    fn open_with_meta(
        &mut self,
        mut call: Open<'_>,
        timeout_us: u64,
    ) -> Result<StreamId, OpenError> {
        if call.method > self.connection.peer.max_methods {
            call.method = 0;
        }
        let is_named = !self.is_announced(call.method);
        let mut meta = std::mem::take(&mut self.scratch);
        meta.clear();
        let mut writer = MetaWriter::new(&mut meta);
        if is_named {
            writer.method(call.name);
        }
        if timeout_us > u64::from(u32::MAX) {
            writer.timeout_us(timeout_us);
        }
        meta.extend_from_slice(call.meta);
        let opened = if meta.len() > self.connection.peer.max_meta as usize {
            Err(OpenError::TooLarge)
        } else {
            let flags = if is_named { Flags::NAMED } else { NONE };
            let (method, timeout_us) = (call.method, timeout_us.min(u64::from(u32::MAX)) as u32);
            let opened = self.open_as(call, timeout_us, flags, &meta);
            self.note_announced(method, &opened);
            opened
        };
        self.scratch = meta;
        opened
    }

    /// Remembers that the server knows a method's name, once its REQUEST is written: a queued
    /// REQUEST could still be overtaken.
    fn note_announced(&mut self, method: u32, opened: &Result<StreamId, OpenError>) {
        let Ok(stream) = opened else {
            return;
        };
        if method == 0 || !self.connection.slots.get(stream.slot() as usize).is_sent {
            return;
        }
        let word = (method / 64) as usize;
        if self.announced.len() <= word {
            self.announced.resize(word + 1, 0);
        }
        self.announced[word] |= 1 << (method % 64);
    }

    #[inline]
    fn open_as(
        &mut self,
        call: Open<'_>,
        timeout_us: u32,
        flags: Flags,
        meta: &[u8],
    ) -> Result<StreamId, OpenError> {
        let initial_credit =
            call.initial_credit.clamp(NATIVE_INITIAL_CREDIT_MIN, NATIVE_CREDIT_MAX);
        let connection = &mut self.connection;
        let Some(stream) = connection.slots.acquire(connection.peer.max_streams, initial_credit)
        else {
            self.is_starved = true;
            return Err(OpenError::Full);
        };
        let head = RequestHead {
            method: call.method,
            timeout_us,
            codec: call.codec,
            compression: 0,
            attempt: call.attempt,
            priority: call.priority,
            initial_credit,
        };
        let head = head.encode();
        let flags = if call.end { flags | Flags::END } else { flags };
        let kind = FrameKind::Request;
        if let Some(body) = &call.message
            && call.end
            && connection.is_direct(body)
        {
            let frame =
                OutgoingFrame { kind, flags, stream, aux: 0, head: &head, meta, payload: &[] };
            connection.outbox.put_body(&frame, body);
            Self::note_sent(connection, stream);
            return Ok(stream);
        }
        let frame = OutgoingFrame { kind, flags, stream, aux: 0, head: &head, meta, payload: &[] };
        self.open_stream(frame, call.message);
        Ok(stream)
    }

    /// Queues a REQUEST that has no message, stays open, or is too long to be written at once.
    fn open_stream(&mut self, frame: OutgoingFrame<'_>, message: Option<Body<'_>>) {
        let connection = &mut self.connection;
        let stream = frame.stream;
        let index = stream.slot() as usize;
        let end = frame.flags.contains(Flags::END);
        if !end || message.is_some() {
            let (credit, window) =
                (connection.peer.initial_credit, connection.slots.at(index).reply_credit);
            let stream_index = connection.stream_at(index, credit, window);
            connection.streams.at(stream_index).send.has_ended = end;
            if let Some(body) = message {
                if connection.send(stream_index, frame, body) == Sent::Written {
                    Self::note_sent(connection, stream);
                }
                return;
            }
        }
        connection.outbox.put(&OutgoingFrame { flags: frame.flags | Flags::NOMSG, ..frame });
        Self::note_sent(connection, stream);
    }

    #[inline]
    pub(super) fn note_sent(connection: &mut NativeConnection, stream: StreamId) {
        let slot = connection.slots.at(stream.slot() as usize);
        slot.is_sent = true;
        slot.number = connection.requests;
        connection.requests += 1;
    }

    /// Notes a REQUEST that was sent before others that are written already. Those keep their numbers,
    /// so a call may seem accepted that was not, and never the other way round.
    #[inline]
    pub(super) fn note_overtaking(connection: &mut NativeConnection, stream: StreamId) {
        Self::note_sent(connection, stream);
        connection.slots.at(stream.slot() as usize).number -= connection.outbox.overtaken();
    }
}

/// The timeout in microseconds, at least one because zero means no limit. It is rounded up, so that the
/// server does not give up the call before us.
#[inline]
fn timeout_us(timeout: Duration) -> u64 {
    let whole = timeout.as_secs().saturating_mul(1_000_000);
    whole.saturating_add(u64::from(timeout.subsec_nanos().div_ceil(1_000))).max(1)
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the server's limit of concurrent calls on this connection is reached",
            Self::Leased => "the server's lease on this connection is used up",
            Self::Draining => "the server takes no more calls on this connection",
            Self::Closed => "the connection has failed",
            Self::TooLarge => "the metadata is longer than the server accepts",
        })
    }
}

impl std::error::Error for OpenError {}
