//! How a server handles the frames of a client, and the answers it gives itself (sections 6 and 7).

use bytes::Bytes;

use super::frame::Frame;
use super::frame_decoder::{Form, Peeked};
use super::native_connection::{NativeConnection, Stage};
use super::receive_side::{Assembled, Unready};
use super::sending::added_credit;
use super::server::Server;
use super::server_event::{PlainRequest, ServerEvent};
use super::slots::{Found, NO_STREAM, Phase};
use super::{Flags, FrameKind, Header, Piece, REQUEST_HEAD_LEN, RequestHead, StreamId, Violation};
use crate::limits::NATIVE_METHODS_DEFAULT;
use crate::rates::moment;

/// Flags that a frame with a whole message may have.
const WHOLE: Flags = Flags::END.union(Flags::CRC).union(Flags::NAMED).union(Flags::NOMSG);

const UNARY: Form = Form::new(FrameKind::Request, Flags::END);
const MESSAGE: Form = Form::new(FrameKind::Data, Flags::NONE);

impl Server {
    /// Decodes the request at the front of `input` if the fast path covers it.
    #[inline(always)]
    pub(super) fn plain_request<'i>(&mut self, input: &mut &'i [u8]) -> Option<PlainRequest<'i>> {
        let frame = self.connection.frame_decoder.peek(UNARY, input)?;
        let (head, message) = frame.body.split_first_chunk()?;
        let head = RequestHead::decode(head).ok()?;
        let stream = frame.stream;
        let is_plain = (message.len() <= self.plain_len_max)
            & (stream.slot() < self.slots_max)
            & (self.connection.slots.live() < self.permits);
        if !is_plain {
            return None;
        }
        let index = self.connection.slots.accept(stream, head.initial_credit)?;
        let slot = self.connection.slots.at(index);
        slot.remote_ended = true;
        slot.timeout_us = head.timeout_us;
        slot.came = moment(self.connection.now);
        self.connection.requests += 1;
        *input = frame.rest;
        Some(PlainRequest { stream, head, message })
    }

    /// Decodes the frame at the front of `input` on a fast path for the most common forms. `None`
    /// leaves the input and the connection unchanged for the general path.
    #[inline]
    pub(super) fn plain_event<'i>(&mut self, input: &mut &'i [u8]) -> Option<ServerEvent<'i>> {
        if let Some(PlainRequest { stream, head, message }) = self.plain_request(input) {
            let (meta, message) = (Piece::EMPTY, Some(Piece::Borrowed(message)));
            return Some(ServerEvent::Request { stream, head, meta, message, end: true });
        }
        let (stream, message) = self.plain_message(input)?;
        let message = Piece::Borrowed(message);
        Some(ServerEvent::Message { stream, message, end: false })
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
    ) -> Result<Option<ServerEvent<'i>>, Violation> {
        NativeConnection::check_reserved(&frame.header)?;
        if frame.header.kind == FrameKind::Request && self.connection.stage == Stage::Open {
            return self.on_request(frame);
        }
        self.on_other(frame)
    }

    fn on_request<'i>(&mut self, frame: Frame<'i>) -> Result<Option<ServerEvent<'i>>, Violation> {
        let Frame { header, mut body } = frame;
        let (stream, flags) = (header.stream, header.flags);
        let raw = body.split_to(REQUEST_HEAD_LEN);
        let head = RequestHead::decode(raw.first_chunk().unwrap_or(&[0; REQUEST_HEAD_LEN]))?;
        let meta = body.split_to(usize::from(header.meta_len));
        let connection = &mut self.connection;
        if stream.slot() >= self.slots_max {
            return Err(Violation::SlotOutOfRange { slot: stream.slot(), max: self.slots_max });
        }
        let Some(index) = connection.slots.accept(stream, head.initial_credit) else {
            return Err(Violation::StreamInUse { stream });
        };
        let slot = connection.slots.at(index);
        slot.timeout_us = head.timeout_us;
        slot.came = moment(connection.now);
        connection.requests += 1;
        if flags.contains(Flags::NAMED) {
            let numbers_max = connection.config.settings.max_methods.max(NATIVE_METHODS_DEFAULT);
            self.names.note(head.method, &meta, numbers_max)?;
        }
        let connection = &mut self.connection;
        let is_plain = flags.contains(Flags::END)
            & WHOLE.contains(flags)
            & (meta.len() <= connection.config.settings.max_meta as usize)
            & (body.len() <= self.plain_len_max)
            & (connection.slots.live() <= self.permits);
        if is_plain {
            connection.slots.at(index).remote_ended = true;
            let message = (!flags.contains(Flags::NOMSG)).then_some(body);
            return Ok(Some(ServerEvent::Request { stream, head, meta, message, end: true }));
        }
        self.begin(index, header, head, meta, body)
    }

    /// Handles a request that is not simply one whole frame.
    fn begin<'i>(
        &mut self,
        index: usize,
        header: Header,
        head: RequestHead,
        meta: Piece<'i>,
        payload: Piece<'i>,
    ) -> Result<Option<ServerEvent<'i>>, Violation> {
        let (stream, flags) = (header.stream, header.flags);
        // Whatever happens to the call, its client will not send the name again.
        let named = (flags.contains(Flags::NAMED) && head.method != 0)
            .then(|| ServerEvent::Named { method: head.method, meta: meta.clone() });
        if self.is_paying()? || self.connection.slots.live() > self.permits {
            return self.refuse(index).map(|()| named);
        }
        if meta.len() > self.connection.config.settings.max_meta as usize {
            let text = "metadata is longer than the server accepts";
            return self.end_by_limit(index, text, false).map(|()| named);
        }
        let window = self.connection.window;
        let stream_index = self.connection.stream_at(index, head.initial_credit, window);
        self.connection.note_time(stream_index, head.timeout_us);
        let end = flags.contains(Flags::END);
        if flags.contains(Flags::NOMSG) {
            self.note_end(index, stream_index, end);
            return Ok(Some(ServerEvent::Request { stream, head, meta, message: None, end }));
        }
        match self.connection.fragment(stream_index, &header, payload)? {
            Assembled::TooLarge(what) => {
                self.end_by_limit(index, &what.text("server"), false).map(|()| named)
            }
            Assembled::Partial => {
                // A copy, so that nothing else of the frame stays alive.
                let meta = Bytes::copy_from_slice(&meta);
                let request = Unready { head, meta, message: None, is_single: false };
                self.keep_request(index, stream_index, request);
                Ok(named)
            }
            Assembled::Ignored => Ok(None),
            Assembled::Message(message) => {
                self.note_end(index, stream_index, end);
                self.note_handed_over(stream_index, end);
                let message = Some(message);
                Ok(Some(ServerEvent::Request { stream, head, meta, message, end }))
            }
        }
    }

    fn note_end(&mut self, index: usize, stream_index: u32, end: bool) {
        if end {
            self.connection.slots.at(index).remote_ended = true;
            self.connection.streams.at(stream_index).receive.has_ended = true;
        }
    }

    /// Forgets delivered messages of a complete request, since its reader does not report them as
    /// taken.
    fn note_handed_over(&mut self, stream_index: u32, end: bool) {
        if end {
            self.connection.streams.hand_over(stream_index);
        }
    }

    fn on_other<'i>(&mut self, frame: Frame<'i>) -> Result<Option<ServerEvent<'i>>, Violation> {
        let kind = frame.header.kind;
        let is_call = matches!(kind, FrameKind::Data | FrameKind::Credit | FrameKind::Rst);
        if !is_call || self.connection.stage != Stage::Open {
            let Header { kind, flags, aux, .. } = frame.header;
            let go_away = self.connection.on_control(frame)?;
            if kind == FrameKind::Ping && flags.contains(Flags::ACK) {
                self.on_drain_pong(aux);
            }
            self.note_window();
            return Ok(go_away.map(ServerEvent::leaving));
        }
        let index = match self.connection.slots.find(frame.header.stream) {
            Found::Live(index) => index,
            Found::Ended => return self.connection.bear_late(kind).map(|()| None),
            Found::Never => {
                return Err(Violation::NeverOpened { kind, stream: frame.header.stream });
            }
        };
        match kind {
            FrameKind::Data => self.on_data(index, frame),
            FrameKind::Credit => self.on_credit(index, &frame.header).map(|()| None),
            _ => self.on_reset(index, frame),
        }
    }

    fn on_data<'i>(
        &mut self,
        index: usize,
        frame: Frame<'i>,
    ) -> Result<Option<ServerEvent<'i>>, Violation> {
        let Frame { header, mut body } = frame;
        let (stream, kind) = (header.stream, header.kind);
        let slot = self.connection.slots.at(index);
        if slot.remote_ended {
            return Err(Violation::AfterEnd { kind, stream });
        }
        let stream_index = slot.stream;
        if slot.phase == Phase::Closing || stream_index == NO_STREAM {
            return Ok(None);
        }
        // The client's metadata arrived with its REQUEST.
        drop(body.split_to(usize::from(header.meta_len)));
        let end = header.flags.contains(Flags::END);
        if header.flags.contains(Flags::NOMSG) {
            if self.connection.streams.at(stream_index).receive.is_assembling() {
                return Err(Violation::OutOfOrder { kind, stream });
            }
            self.note_end(index, stream_index, end);
            return match self.take_request(stream_index) {
                Some(request) if end => self.on_rest(index, request, None, end),
                Some(request) => {
                    self.connection.streams.await_rest(stream_index, request);
                    self.connection.bear(kind).map(|()| None)
                }
                None if end => Ok(Some(ServerEvent::End { stream })),
                None => self.connection.bear(kind).map(|()| None),
            };
        }
        let assembled = self.connection.fragment(stream_index, &header, body)?;
        let message = match assembled {
            Assembled::Partial => return Ok(None),
            Assembled::Ignored => {
                self.note_end(index, stream_index, end);
                return Ok(end.then_some(ServerEvent::End { stream }));
            }
            Assembled::TooLarge(what) => {
                let is_known = self.is_known(index);
                return self.end_by_limit(index, &what.text("server"), is_known).map(|()| None);
            }
            Assembled::Message(message) => message,
        };
        self.note_end(index, stream_index, end);
        match self.take_request(stream_index) {
            None => Ok(Some(ServerEvent::Message { stream, message, end })),
            Some(request) => self.on_rest(index, request, Some(message), end),
        }
    }

    #[inline]
    fn take_request(&mut self, stream_index: u32) -> Option<Unready> {
        let request = self.connection.streams.at(stream_index).receive.request.take()?;
        self.connection.streams.count(stream_index);
        Some(request)
    }

    fn on_credit(&mut self, index: usize, header: &Header) -> Result<(), Violation> {
        let slot = self.connection.slots.at(index);
        if slot.stream == NO_STREAM {
            slot.reply_credit = added_credit(slot.reply_credit, header.aux)?;
            return self.connection.bear_credit(header.aux);
        }
        let stream_index = slot.stream;
        self.connection.credit(stream_index, header.aux)
    }
}
