//! How a client handles the frames of a server (sections 6 to 8).

use std::borrow::Cow;

use super::client::{Client, ClientEvent, FailedBy};
use super::frame::Frame;
use super::frame_decoder::{Form, Peeked};
use super::native_connection::{NativeConnection, Stage};
use super::receive_side::Assembled;
use super::slots::{Found, NO_STREAM, Phase};
use super::{Flags, FrameKind, Header, MetaReader, Piece, StreamId, Tag, Violation};

const UNKNOWN: u8 = 2;
const RESOURCE_EXHAUSTED: u8 = 8;
const UNIMPLEMENTED: u8 = 12;
const STATUS_MAX: u32 = 16;

/// Flags that a RESPONSE may have if it is not the last fragment of a longer message.
const WHOLE: Flags = Flags::END.union(Flags::CRC).union(Flags::NOMSG);

const REPLY: Form = Form::new(FrameKind::Response, Flags::END);
const MESSAGE: Form = Form::new(FrameKind::Data, Flags::NONE);

impl Client {
    /// Decodes the frame at the front of `input` on a fast path for the most common forms. `None`
    /// leaves the input and the connection unchanged for the general path.
    #[inline]
    pub(super) fn plain_event<'i>(&mut self, input: &mut &'i [u8]) -> Option<ClientEvent<'i>> {
        if let Some(frame) = self.connection.frame_decoder.peek(REPLY, input) {
            let (stream, message) = (frame.stream, Piece::Borrowed(frame.body));
            let index = self.connection.slots.find_open(stream)?;
            let slot = self.connection.slots.get(index);
            let is_plain = (slot.stream == NO_STREAM)
                & slot.is_sent
                & (frame.body.len() <= self.plain_len_max)
                & (frame.body.len() <= slot.reply_credit as usize);
            if !is_plain {
                return None;
            }
            self.connection.slots.release(index);
            self.note_room();
            *input = frame.rest;
            let (status, meta) = (status(frame.aux), Piece::EMPTY);
            return Some(ClientEvent::Response { stream, status, meta, message: Some(message) });
        }
        let (stream, message) = self.plain_message(input)?;
        let message = Piece::Borrowed(message);
        Some(ClientEvent::Message { stream, message })
    }

    #[inline(always)]
    fn plain_message<'i>(&mut self, input: &mut &'i [u8]) -> Option<(StreamId, &'i [u8])> {
        let Peeked { stream, body, rest, .. } =
            self.connection.frame_decoder.peek(MESSAGE, input)?;
        if body.len() > self.plain_len_max || !self.connection.plain_message(stream, body.len()) {
            return None;
        }
        *input = rest;
        Some((stream, body))
    }

    /// Takes the next message of a stream off the front of `input` on a fast path for consecutive
    /// messages. Call it after [`receive`](Self::receive). `None` only means that the next input
    /// needs `receive`.
    #[inline]
    pub fn receive_message<'i>(&mut self, input: &mut &'i [u8]) -> Option<(StreamId, &'i [u8])> {
        if self.connection.is_plain() { self.plain_message(input) } else { None }
    }

    pub(super) fn on_frame<'i>(
        &mut self,
        frame: Frame<'i>,
        before: &'i [u8],
        input: &mut &'i [u8],
    ) -> Result<Option<ClientEvent<'i>>, Violation> {
        NativeConnection::check_reserved(&frame.header)?;
        if frame.header.kind == FrameKind::Response && self.connection.stage == Stage::Open {
            return self.on_response(frame);
        }
        self.on_other(frame, before, input)
    }

    fn on_response<'i>(&mut self, frame: Frame<'i>) -> Result<Option<ClientEvent<'i>>, Violation> {
        let Frame { header, mut body } = frame;
        let (stream, flags) = (header.stream, header.flags);
        let meta = body.split_to(usize::from(header.meta_len));
        let connection = &mut self.connection;
        let Some(index) = find_sent(connection, &header)? else {
            return Ok(None);
        };
        let slot = connection.slots.at(index);
        let is_plain = (slot.phase == Phase::Open)
            & (slot.stream == NO_STREAM)
            & WHOLE.contains(flags)
            & (meta.len() <= connection.config.settings.max_meta as usize)
            & (body.len() <= self.plain_len_max)
            & (body.len() <= slot.reply_credit as usize);
        if !is_plain {
            return self.end_call(index, &header, meta, body);
        }
        connection.slots.release(index);
        self.note_room();
        let message = (!flags.contains(Flags::NOMSG)).then_some(body);
        Ok(Some(ClientEvent::Response { stream, status: status(header.aux), meta, message }))
    }

    /// Ends a call whose RESPONSE the fast path does not cover.
    fn end_call<'i>(
        &mut self,
        index: usize,
        header: &Header,
        meta: Piece<'i>,
        payload: Piece<'i>,
    ) -> Result<Option<ClientEvent<'i>>, Violation> {
        let stream = header.stream;
        let slot = self.connection.slots.at(index);
        if slot.phase == Phase::Closing {
            let parity = slot.reset_parity;
            self.connection.keepalive.answered(parity);
            self.release(index);
            return Ok(None);
        }
        let mut message = None;
        if header.flags.contains(Flags::NOMSG) {
            if slot.stream != NO_STREAM && {
                let stream_index = slot.stream;
                self.connection.streams.at(stream_index).receive.is_assembling()
            } {
                // A handler may fail in the middle of a message; the fragments received so far
                // are dropped.
                self.release(index);
                let status = status(header.aux);
                return Ok(Some(ClientEvent::Response { stream, status, meta, message }));
            }
        } else {
            let stream_index = self.receiving_stream(index);
            if self.connection.streams.get(stream_index).receive.has_ended {
                return Err(Violation::AfterEnd { kind: header.kind, stream });
            }
            match self.connection.fragment(stream_index, header, payload)? {
                Assembled::Message(whole) => message = Some(whole),
                Assembled::Partial | Assembled::Ignored => {
                    return Err(Violation::OutOfOrder { kind: header.kind, stream });
                }
                Assembled::TooLarge(what) => {
                    self.release(index);
                    return Ok(Some(ended(stream, RESOURCE_EXHAUSTED, what.text("client").into())));
                }
            }
        }
        self.release(index);
        if meta.len() > self.connection.config.settings.max_meta as usize {
            return Ok(Some(ended(stream, RESOURCE_EXHAUSTED, META_TOO_LARGE.into())));
        }
        Ok(Some(ClientEvent::Response { stream, status: status(header.aux), meta, message }))
    }

    fn release(&mut self, index: usize) {
        self.connection.drop_stream(index);
        self.connection.slots.release(index);
        self.note_room();
    }

    /// The stream of a call that receives more than one frame; it is created if the call has none.
    fn receiving_stream(&mut self, index: usize) -> u32 {
        let slot = self.connection.slots.at(index);
        let (had_none, window) = (slot.stream == NO_STREAM, slot.reply_credit);
        let stream_index = self.connection.stream_at(index, 0, window);
        // A call sent without a stream was sent completely.
        self.connection.streams.at(stream_index).send.has_ended |= had_none;
        stream_index
    }

    fn on_other<'i>(
        &mut self,
        frame: Frame<'i>,
        before: &'i [u8],
        input: &mut &'i [u8],
    ) -> Result<Option<ClientEvent<'i>>, Violation> {
        let kind = frame.header.kind;
        match kind {
            _ if self.connection.stage != Stage::Open => self.on_control(frame),
            FrameKind::Data => {
                let Some(index) = find_sent(&mut self.connection, &frame.header)? else {
                    return Ok(None);
                };
                if self.connection.slots.at(index).phase == Phase::Closing {
                    return Ok(None);
                }
                self.on_data(index, frame, before, input)
            }
            FrameKind::Credit => {
                let Some(index) = find_sent(&mut self.connection, &frame.header)? else {
                    return Ok(None);
                };
                // A call without a stream has nothing left to send.
                match self.connection.slots.at(index).stream {
                    NO_STREAM => self.connection.bear(kind).map(|()| None),
                    stream_index => {
                        self.connection.credit(stream_index, frame.header.aux).map(|()| None)
                    }
                }
            }
            FrameKind::Lease => {
                self.connection.bear(kind)?;
                let permits = frame.header.aux as usize;
                let is_less = permits < self.permits;
                self.lease_cuts = self.lease_cuts.wrapping_add(u32::from(is_less));
                self.permits = permits;
                self.note_room();
                Ok(None)
            }
            _ => self.on_control(frame),
        }
    }

    fn on_control<'i>(&mut self, frame: Frame<'i>) -> Result<Option<ClientEvent<'i>>, Violation> {
        let is_settings = frame.header.kind == FrameKind::Settings;
        let Some(go_away) = self.connection.on_control(frame)? else {
            if is_settings {
                self.connection.slots.reconsider();
                self.note_room();
            }
            return Ok(None);
        };
        self.is_draining = true;
        Ok(Some(ClientEvent::Leaving {
            code: go_away.code,
            drain_ms: go_away.drain_ms,
            accepted: go_away.accepted,
            reason: go_away.reason,
        }))
    }

    fn on_data<'i>(
        &mut self,
        index: usize,
        mut frame: Frame<'i>,
        before: &'i [u8],
        input: &mut &'i [u8],
    ) -> Result<Option<ClientEvent<'i>>, Violation> {
        let (header, kind, stream) = (frame.header, frame.header.kind, frame.header.stream);
        let stream_index = self.receiving_stream(index);
        let receive = &mut self.connection.streams.at(stream_index).receive;
        if receive.has_ended {
            return Err(Violation::AfterEnd { kind, stream });
        }
        let is_first = receive.is_untouched();
        receive.has_begun = true;
        let meta_len = usize::from(header.meta_len);
        if meta_len > self.connection.config.settings.max_meta as usize {
            return Ok(Some(self.give_up(stream, RESOURCE_EXHAUSTED, META_TOO_LARGE.into())));
        }
        if meta_len > 0 && is_first {
            let meta = frame.body.clone().split_to(meta_len);
            if has_unknown(&meta) {
                return Ok(Some(self.give_up(stream, UNIMPLEMENTED, META_UNKNOWN.into())));
            }
            // The message in the same frame becomes the next event.
            self.connection.frame_decoder.put_back(frame, before, input);
            return Ok(Some(ClientEvent::Initial { stream, meta }));
        }
        let has_ended = header.flags.contains(Flags::END);
        if header.flags.contains(Flags::NOMSG) {
            if receive.is_assembling() {
                return Err(Violation::OutOfOrder { kind, stream });
            }
            receive.has_ended = has_ended;
            return self.connection.bear(kind).map(|()| None);
        }
        drop(frame.body.split_to(meta_len));
        let assembled = self.connection.fragment(stream_index, &header, frame.body)?;
        self.connection.streams.at(stream_index).receive.has_ended = has_ended;
        match assembled {
            Assembled::Partial | Assembled::Ignored => Ok(None),
            Assembled::Message(message) => Ok(Some(ClientEvent::Message { stream, message })),
            Assembled::TooLarge(what) => {
                Ok(Some(self.give_up(stream, RESOURCE_EXHAUSTED, what.text("client").into())))
            }
        }
    }

    /// Cancels a call whose reply this client does not accept, and ends it for the caller.
    fn give_up<'i>(
        &mut self,
        stream: StreamId,
        status: u8,
        text: Cow<'static, str>,
    ) -> ClientEvent<'i> {
        self.cancel(stream, status, &text);
        ended(stream, status, text)
    }
}

/// The slot of a call whose REQUEST was sent; `None` if the call is over.
#[inline]
fn find_sent(
    connection: &mut NativeConnection,
    header: &Header,
) -> Result<Option<usize>, Violation> {
    match connection.slots.find(header.stream) {
        Found::Live(index) if connection.slots.get(index).is_sent => Ok(Some(index)),
        Found::Ended => connection.bear_late(header.kind).map(|()| None),
        Found::Live(_) | Found::Never => {
            Err(Violation::NeverOpened { kind: header.kind, stream: header.stream })
        }
    }
}

#[inline]
fn status(aux: u32) -> u8 {
    if aux <= STATUS_MAX { aux as u8 } else { UNKNOWN }
}

/// Whether metadata contains a mandatory tag that this version does not know.
fn has_unknown(meta: &[u8]) -> bool {
    MetaReader::new(meta).any(|piece| matches!(piece, Ok((Tag::Unknown(_), _))))
}

/// The final event of a call whose reply this client does not accept.
fn ended<'i>(stream: StreamId, status: u8, text: Cow<'static, str>) -> ClientEvent<'i> {
    ClientEvent::Failed { stream, status, by: FailedBy::Client, text }
}

const META_UNKNOWN: &str =
    "the reply has metadata that this client does not understand; it may need a newer version";
const META_TOO_LARGE: &str =
    "the reply's metadata is longer than the client's setting max_meta allows";
