//! RESPONSEs of handlers and of the machine itself, shortened to what the client accepts (sections
//! 7 and 9).

use super::frame::OutgoingFrame;
use super::native_connection::Pending;
use super::sending::Sent;
use super::server::Server;
use super::slots::{NO_STREAM, Phase};
use super::too_large::TooLarge;
use super::{
    Flags, FrameKind, Gone, MetaReader, MetaWriter, Reply, Settings, StreamId, Tag, Violation,
};
use crate::stamp::AT_NEXT_LOOK;

/// Statuses that the machine answers with.
pub(super) const CANCELLED: u8 = 1;
pub(super) const DEADLINE_EXCEEDED: u8 = 4;
pub(super) const RESOURCE_EXHAUSTED: u8 = 8;
pub(super) const UNIMPLEMENTED: u8 = 12;
pub(super) const UNAVAILABLE: u8 = 14;

impl Server {
    /// Sends a reply that has metadata or no message, belongs to a stream, or is too long for one
    /// frame.
    pub(super) fn respond_at(
        &mut self,
        index: usize,
        stream: StreamId,
        reply: Reply<'_>,
    ) -> Option<u8> {
        if self.connection.failed.is_some() {
            return None;
        }
        let Some((status, meta)) = substitute(&self.connection.peer, &reply) else {
            let status = reply.status;
            self.put_reply(index, stream, reply);
            return Some(status);
        };
        self.put_reply(index, stream, Reply { status, meta: &meta, message: None });
        Some(status)
    }

    fn put_reply(&mut self, index: usize, stream: StreamId, reply: Reply<'_>) {
        let is_empty = reply.message.is_none();
        let frame = OutgoingFrame {
            kind: FrameKind::Response,
            flags: if is_empty { EMPTY } else { Flags::END },
            stream,
            aux: u32::from(reply.status),
            head: &[],
            meta: reply.meta,
            payload: &[],
        };
        let connection = &mut self.connection;
        if is_empty && connection.slots.at(index).stream == NO_STREAM {
            connection.outbox.put(&frame);
            connection.slots.end(index);
            return;
        }
        let stream_index = connection.reply_stream(index);
        let sent = match reply.message {
            None => connection.send_empty(stream_index, &frame),
            Some(body) => connection.send(stream_index, frame, body),
        };
        match sent {
            Sent::Written => connection.end_answered(index),
            Sent::Queued => {
                let slot = connection.slots.at(index);
                slot.phase = Phase::Closing;
                // The client's time to take the reply begins now, however long the handler took.
                let timeout_us = slot.timeout_us;
                connection.note_time(stream_index, timeout_us);
                connection.streams.at(stream_index).touched = AT_NEXT_LOOK;
                connection.streams.abandon(stream_index);
                self.watch(index);
            }
        }
    }

    /// Ends a call whose handler sent more at once than the client accepts.
    #[cold]
    pub(super) fn refuse_to_send(&mut self, index: usize, text: &str) -> Gone {
        let stream = self.connection.slots.id(index);
        self.connection.tell(Pending::Failed(stream, RESOURCE_EXHAUSTED));
        let meta = self.own_meta(|meta| meta.status_message(text));
        self.end_at_once(index, RESOURCE_EXHAUSTED, &meta);
        Gone
    }

    /// Ends a call as not executed.
    pub(super) fn refuse(&mut self, index: usize) -> Result<(), Violation> {
        self.unserved.refused += 1;
        let meta = self.own_meta(|meta| meta.refused());
        self.answer(index, UNAVAILABLE, &meta)
    }

    /// Ends a call that broke a limit; `is_known` says that it has a handler, which then gets an
    /// event.
    pub(super) fn end_by_limit(
        &mut self,
        index: usize,
        text: &str,
        is_known: bool,
    ) -> Result<(), Violation> {
        if is_known {
            let stream = self.connection.slots.id(index);
            self.connection.tell(Pending::Failed(stream, RESOURCE_EXHAUSTED));
        }
        self.end_unknown(index, RESOURCE_EXHAUSTED, text)
    }

    /// Ends a call that was not reported to the caller.
    pub(super) fn end_unknown(
        &mut self,
        index: usize,
        status: u8,
        text: &str,
    ) -> Result<(), Violation> {
        self.unserved.malformed += 1;
        let meta = self.own_meta(|meta| meta.status_message(text));
        self.answer(index, status, &meta)
    }

    /// Ends a call because of something the client did, ahead of all queued output.
    ///
    /// # Errors
    ///
    /// Fails when the client causes many such answers and does not read them.
    pub(super) fn answer(
        &mut self,
        index: usize,
        status: u8,
        meta: &[u8],
    ) -> Result<(), Violation> {
        let frame = ending(self.connection.slots.id(index), status, meta);
        self.connection.end_answered(index);
        self.connection.answer(&frame)
    }

    /// Ends a call for a reason other than the client's input.
    pub(super) fn end_at_once(&mut self, index: usize, status: u8, meta: &[u8]) {
        let frame = ending(self.connection.slots.id(index), status, meta);
        self.connection.end_answered(index);
        self.connection.outbox.put(&frame);
    }

    /// Metadata of the machine's own answer, or none if the client does not accept that much, since
    /// an answer of its own must always be possible.
    pub(super) fn own_meta(
        &self,
        write: impl for<'w, 'm> FnOnce(&'w mut MetaWriter<'m>) -> &'w mut MetaWriter<'m>,
    ) -> Vec<u8> {
        own_meta(&self.connection.peer, write)
    }
}

/// Makes a RESPONSE without a message.
fn ending(stream: StreamId, status: u8, meta: &[u8]) -> OutgoingFrame<'_> {
    let (kind, aux) = (FrameKind::Response, u32::from(status));
    OutgoingFrame { kind, flags: EMPTY, stream, aux, head: &[], meta, payload: &[] }
}

fn own_meta(
    peer: &Settings,
    write: impl for<'w, 'm> FnOnce(&'w mut MetaWriter<'m>) -> &'w mut MetaWriter<'m>,
) -> Vec<u8> {
    let mut meta = Vec::new();
    write(&mut MetaWriter::new(&mut meta));
    if meta.len() > peer.max_meta as usize {
        meta.clear();
    }
    meta
}

/// Status and metadata of the answer that replaces one too large for the client, or `None` if the
/// reply fits. They always fit.
fn substitute(peer: &Settings, reply: &Reply<'_>) -> Option<(u8, Vec<u8>)> {
    let too_much = |text: &str| {
        let meta = own_meta(peer, |meta| meta.status_message(text));
        Some((RESOURCE_EXHAUSTED, meta))
    };
    let len = reply.message.as_ref().map_or(0, |message| message.len());
    if len > peer.max_message as usize {
        let too_large = TooLarge::Message { len, max: peer.max_message };
        return too_much(&too_large.text("client"));
    }
    let max = peer.max_meta as usize;
    match reply.meta.len() > max {
        false => None,
        // Without its trailers, a success could be mistaken for a complete one.
        true if reply.status == 0 => too_much(TRAILERS_TOO_LONG),
        true => Some((reply.status, shortened_meta(reply.meta, max))),
    }
}

/// Shortens a failure's metadata to `max` bytes: it keeps what a retry must know, then the message,
/// cut at a character boundary. Parts of details or entries would mean nothing, so they are
/// dropped.
fn shortened_meta(meta: &[u8], max: usize) -> Vec<u8> {
    let pieces = || MetaReader::new(meta).map_while(Result::ok);
    let mut kept = Vec::new();
    for (tag, value) in pieces() {
        let before = kept.len();
        if matches!(tag, Tag::Refused | Tag::Pushback) {
            MetaWriter::new(&mut kept).piece(tag, value);
        }
        if kept.len() > max {
            kept.truncate(before);
        }
    }
    let message = pieces().find(|(tag, _)| *tag == Tag::StatusMessage);
    let text = message.map_or_else(Default::default, |(_, text)| String::from_utf8_lossy(text));
    // The tag, and a length in three bytes, since metadata has at most 65,535 bytes.
    let room = max.saturating_sub(kept.len() + 4);
    let text = &text[..text.floor_char_boundary(room)];
    if !text.is_empty() {
        MetaWriter::new(&mut kept).status_message(text);
    }
    kept
}

const EMPTY: Flags = Flags::END.union(Flags::NOMSG);

const TRAILERS_TOO_LONG: &str = "the reply's metadata is longer than the client accepts";
pub(super) const INITIAL_TOO_LONG: &str = "initial metadata is longer than the client accepts";

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Vec<u8> {
        let mut meta = Vec::new();
        MetaWriter::new(&mut meta)
            .status_message(&"é".repeat(20))
            .status_details(&[7; 100])
            .refused()
            .pushback_ms(-1)
            .entry("key", b"value");
        meta
    }

    #[test]
    fn a_shortened_failure_keeps_its_retry_information_and_message() {
        let meta = failure();
        for max in 0..meta.len() {
            let peer = Settings { max_meta: max as u32, ..Settings::default() };
            let reply = Reply { status: 5, meta: &meta, message: None };
            let (status, kept) = substitute(&peer, &reply).expect("it is too long");
            assert_eq!(status, 5, "the handler's own");
            assert!(kept.len() <= max, "{} bytes of {max}", kept.len());
            let pieces: Vec<_> =
                MetaReader::new(&kept).collect::<Result<_, _>>().expect("well-formed");
            let has = |tag| pieces.iter().any(|&(found, _)| found == tag);
            assert_eq!((has(Tag::Refused), has(Tag::Pushback)), (max >= 2, max >= 5));
            let text = pieces.iter().find(|&&(tag, _)| tag == Tag::StatusMessage);
            let text = text.map_or("", |(_, text)| str::from_utf8(text).expect("whole characters"));
            assert_eq!(text.len(), (max.saturating_sub(9) / 2 * 2).min(40), "of {max} bytes");
        }
    }

    #[test]
    fn the_machine_omits_metadata_that_does_not_fit() {
        for (max, len) in [(0, 0), (3, 0), (4, 4), (100, 4)] {
            let peer = Settings { max_meta: max, ..Settings::default() };
            let meta = own_meta(&peer, |meta| meta.status_message("no"));
            assert_eq!(meta.len(), len, "{max}");
            let reply = Reply { status: 0, meta: &[0; 200], message: None };
            let (status, meta) = substitute(&peer, &reply).expect("it is too long");
            assert!(status == RESOURCE_EXHAUSTED && meta.len() <= max as usize);
        }
    }
}
