//! Received frames other than DATA (RFC 9113, section 6).

use bytes::Bytes;

use super::connection::{Connection, Handshake, PingTag};
use super::frames::{FrameHeader, MAX_31, check_dependency, flag, go_away, kind, number};
use super::put::{put_ping, put_reset, put_settings_ack};
use super::role::Role;
use super::{ErrorCode, Event, StreamHandle, Violation};
use crate::limits::{HTTP2_OWN_STREAMS_MAX, HTTP2_REASON_MAX, HTTP2_UPDATE_WORTH};
use crate::native::Piece;
use crate::rates::moment;

impl<R: Role> Connection<R> {
    #[inline]
    pub(super) fn on_frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<Event<'static>>, Violation> {
        if header.kind == kind::HEADERS {
            return self.on_headers(header, payload);
        }
        self.on_other(header, payload)
    }

    fn on_other(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<Event<'static>>, Violation> {
        match header.kind {
            kind::CONTINUATION => self.on_continuation(header, payload),
            kind::RST_STREAM => self.on_reset(header.stream, ErrorCode(number(payload))),
            kind::SETTINGS => self.on_settings(header, payload).map(|()| None),
            kind::PUSH_PROMISE => Err(Violation::Pushed),
            kind::PING => self.on_ping(header, payload),
            kind::GOAWAY => self.on_go_away(payload).map(Some),
            kind::WINDOW_UPDATE => self.on_window_update(header.stream, number(payload) & MAX_31),
            kind::PRIORITY => self.on_priority(header.stream, payload),
            _ => Ok(None), // not assembled: it has been handled
        }
    }

    /// Handles PRIORITY (section 6.3). A wrong length resets the stream, unless it was never
    /// opened.
    fn on_priority(
        &mut self,
        id: u32,
        payload: &[u8],
    ) -> Result<Option<Event<'static>>, Violation> {
        if payload.len() == 5 {
            check_dependency(id, payload)?;
            return self.budgets.bear_idle(self.now).map(|()| None);
        }
        if let Some(stream) = self.streams.find(id) {
            return self.fault(stream, Violation::WrongLength);
        }
        if self.is_idle(id) {
            return Err(Violation::WrongLength);
        }
        put_reset(id, Violation::WrongLength.code(), &mut self.outbox.written);
        self.count_answer()?;
        self.budgets.bear_idle(self.now).map(|()| None)
    }

    /// Handles RST_STREAM (section 6.4).
    fn on_reset(&mut self, id: u32, code: ErrorCode) -> Result<Option<Event<'static>>, Violation> {
        let Some(stream) = self.streams.find(id) else {
            if self.is_idle(id) {
                return Err(Violation::IdleStream);
            }
            return self.budgets.bear_idle(self.now).map(|()| None);
        };
        // A stream that is older counted among the open ones, and its handler ends.
        if R::IS_SERVER && self.streams.at(stream.slot).came == moment(self.now) {
            self.budgets.bear_reset(self.now)?;
        }
        self.abandon(stream, false);
        Ok(Some(Event::Reset { stream, code }))
    }

    /// Handles SETTINGS (section 6.5).
    fn on_settings(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), Violation> {
        if header.has(flag::ACK) {
            self.on_settings_ack();
            return self.budgets.bear_idle(self.now);
        }
        if self.stage == Handshake::Settings {
            self.stage = Handshake::Open;
            self.keepalive.note_handshake();
            if !R::IS_SERVER {
                // A limit that the server does not set is unlimited (section 6.5.2).
                self.peer.max_streams = u32::MAX;
            }
        }
        self.budgets.bear_settings(self.now)?;
        let before = self.peer.initial_window;
        let sizes = self.peer.take(payload, !R::IS_SERVER)?;
        self.peer.max_streams = self.peer.max_streams.min(HTTP2_OWN_STREAMS_MAX);
        self.encoder.set_limit(sizes.least);
        self.encoder.set_limit(sizes.last);
        self.move_windows(i64::from(self.peer.initial_window) - i64::from(before))?;
        self.note_capacity();
        put_settings_ack(&mut self.outbox.written);
        self.count_answer()
    }

    /// Applies a change of the initial window to all streams (section 6.9.2).
    fn move_windows(&mut self, by: i64) -> Result<(), Violation> {
        if by == 0 {
            return Ok(());
        }
        let mut has_waiting = false;
        for (_, s) in self.streams.open_streams_mut() {
            s.credit += by;
            if s.credit > i64::from(MAX_31) {
                return Err(Violation::WindowOverflow);
            }
            has_waiting |= s.queued() > 0;
        }
        if has_waiting && by > 0 {
            let all: Vec<StreamHandle> = self.streams.open_streams().map(|(id, _)| id).collect();
            all.into_iter().for_each(|stream| self.schedule(stream.slot));
        }
        Ok(())
    }

    /// Handles PING (section 6.7).
    fn on_ping(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<Event<'static>>, Violation> {
        if !header.has(flag::ACK) {
            self.budgets.bear_ping(self.now)?;
            let payload = *payload.first_chunk().unwrap_or(&[0; 8]);
            put_ping(flag::ACK, payload, &mut self.outbox.written);
            return self.count_answer().map(|()| None);
        }
        self.budgets.bear_idle(self.now)?;
        match PingTag::parse(payload) {
            Some((PingTag::Growth, nonce)) => self.on_growth_pong(nonce),
            Some((PingTag::Drain, _)) => self.announce_last(),
            Some((PingTag::Caller, nonce)) => return Ok(Some(Event::Pong { nonce })),
            Some((PingTag::Keepalive, _)) | None => {}
        }
        Ok(None)
    }

    /// Handles GOAWAY (section 6.8). Streams above the last one that the peer processes are reset
    /// as refused.
    fn on_go_away(&mut self, payload: &[u8]) -> Result<Event<'static>, Violation> {
        self.budgets.bear_idle(self.now)?;
        let (last, code, reason) = go_away(payload);
        let reason = Bytes::copy_from_slice(&reason[..reason.len().min(HTTP2_REASON_MAX)]);
        if !R::IS_SERVER {
            self.is_leaving = true;
            let beyond = self.streams.open_streams().filter(|(stream, _)| stream.id > last);
            let refused: Vec<StreamHandle> = beyond.map(|(stream, _)| stream).collect();
            for stream in refused {
                self.abandon(stream, true);
                let code = ErrorCode::REFUSED_STREAM;
                self.pending.push_back(Event::Reset { stream, code });
            }
        }
        Ok(Event::Leaving { code, last, reason: Piece::Owned(reason) })
    }

    /// Handles WINDOW_UPDATE (section 6.9).
    fn on_window_update(
        &mut self,
        id: u32,
        increment: u32,
    ) -> Result<Option<Event<'static>>, Violation> {
        let stream = self.streams.find(id);
        if increment < HTTP2_UPDATE_WORTH || id != 0 && stream.is_none() {
            self.budgets.bear_idle(self.now)?;
        }
        if id == 0 {
            if increment == 0 {
                return Err(Violation::ZeroIncrement);
            }
            self.credit += i64::from(increment);
            let is_legal = self.credit <= i64::from(MAX_31);
            return if is_legal { Ok(None) } else { Err(Violation::WindowOverflow) };
        }
        let Some(stream) = stream else {
            return if self.is_idle(id) { Err(Violation::IdleStream) } else { Ok(None) };
        };
        if increment == 0 {
            return self.fault(stream, Violation::ZeroIncrement);
        }
        let s = self.streams.at(stream.slot);
        s.credit += i64::from(increment);
        if s.credit > i64::from(MAX_31) {
            return self.fault(stream, Violation::WindowOverflow);
        }
        self.schedule(stream.slot);
        Ok(None)
    }
}
