//! Frames about the connection as a whole: preface, SETTINGS, PING, GOAWAY (sections 1, 8 and 9).

use super::frame::{Frame, OutgoingFrame};
use super::native_connection::{NONE, NativeConnection, Stage};
use super::{
    Flags, FrameKind, GoAway, GoAwayCode, Header, PREFACE, PREFACE_LEN, Piece, Settings, Violation,
    check_preface,
};
use crate::limits::{NATIVE_PING_RATE, NATIVE_SETTINGS_RATE};

/// The part of the peer's preface that has arrived.
#[derive(Debug, Default)]
pub(super) struct ArrivingPreface {
    bytes: [u8; PREFACE_LEN],
    len: usize,
}

impl ArrivingPreface {
    /// Moves bytes from `input` to the preface, and returns it once it is complete.
    fn fill(&mut self, input: &mut &[u8]) -> Option<&[u8; PREFACE_LEN]> {
        let (now, rest) = input.split_at(input.len().min(PREFACE_LEN - self.len));
        self.bytes[self.len..self.len + now.len()].copy_from_slice(now);
        self.len += now.len();
        *input = rest;
        (self.len == PREFACE_LEN).then_some(&self.bytes)
    }
}

/// A GOAWAY that was received.
#[derive(Debug)]
pub(super) struct GoAwayFrame<'i> {
    pub(super) code: u32,
    pub(super) drain_ms: u32,
    pub(super) accepted: u32,
    pub(super) reason: Piece<'i>,
}

impl GoAwayFrame<'_> {
    /// Whether open calls may still complete (section 8).
    fn is_orderly(&self) -> bool {
        let code = GoAwayCode::from_code(self.code);
        matches!(code, Some(GoAwayCode::NoError | GoAwayCode::MaxAge))
    }

    fn violation(&self) -> Violation {
        let printable = |char: char| if char.is_control() { ' ' } else { char };
        let reason = String::from_utf8_lossy(&self.reason).chars().map(printable).collect();
        Violation::PeerLeft { code: self.code, reason }
    }
}

impl NativeConnection {
    /// Sends preface and settings; called once, before anything else is sent.
    pub(super) fn greet(&mut self) {
        self.has_greeted = true;
        self.outbox.put_raw(&PREFACE);
        self.put_settings();
    }

    /// Sends the current settings.
    pub(super) fn put_settings(&mut self) {
        let mut body = Vec::new();
        self.config.settings.encode(&mut body);
        self.outbox.put(&OutgoingFrame::control(FrameKind::Settings, NONE, 0, &body));
        self.unacknowledged.push_back((self.config.settings.initial_credit, self.now));
    }

    /// Takes the peer's preface off `input`; `None` when more bytes are needed.
    ///
    /// # Errors
    ///
    /// Fails when the peer speaks another protocol.
    pub(super) fn take_preface(&mut self, input: &mut &[u8]) -> Result<Option<()>, Violation> {
        let Some(preface) = self.preface.fill(input) else {
            return Ok(None);
        };
        check_preface(preface)?;
        self.stage = Stage::Settings;
        Ok(Some(()))
    }

    /// Handles SETTINGS and PING, decodes GOAWAY, and rejects any other kind.
    ///
    /// # Errors
    ///
    /// Fails when the frame breaks the protocol or the peer sends too many.
    pub(super) fn on_control<'i>(
        &mut self,
        frame: Frame<'i>,
    ) -> Result<Option<GoAwayFrame<'i>>, Violation> {
        let Frame { header, body } = frame;
        match header.kind {
            FrameKind::Settings => self.on_settings(&header, &body).map(|()| None),
            kind if self.stage != Stage::Open => Err(Violation::SettingsExpected { kind }),
            FrameKind::Ping => self.on_ping(&header).map(|()| None),
            FrameKind::GoAway => {
                self.bear(header.kind)?;
                let go_away = go_away(&header, body)?;
                if !go_away.is_orderly() {
                    self.fail(go_away.violation()); // reported after the Leaving event
                }
                Ok(Some(go_away))
            }
            FrameKind::Unknown(_) => self.bear(header.kind).map(|()| None),
            kind => Err(Violation::WrongDirection { kind }),
        }
    }

    fn on_settings(&mut self, header: &Header, body: &[u8]) -> Result<(), Violation> {
        let kind = FrameKind::Settings;
        if header.flags.contains(Flags::ACK) {
            let Some((window, sent)) = self.unacknowledged.pop_front() else {
                return Err(Violation::UnexpectedAck { kind });
            };
            self.set_window(window);
            self.auto_tune.note_trip(self.now.saturating_sub(sent));
            self.announce_credit();
            return Ok(());
        }
        if !self.settings_frames.take(NATIVE_SETTINGS_RATE, self.now) {
            return Err(Violation::Flood { kind });
        }
        self.peer = Settings::decode(body)?;
        self.acknowledge()?;
        self.outbox.with_crc = self.peer.checksum;
        if self.stage == Stage::Settings {
            self.stage = Stage::Open;
            self.keepalive.begin();
        }
        Ok(())
    }

    /// Acknowledges SETTINGS. Streams opened after the ACK have the credit that these settings
    /// grant, so fragments that open streams must not overtake it.
    fn acknowledge(&mut self) -> Result<(), Violation> {
        self.outbox.bar_fragments();
        self.answer(&OutgoingFrame::control(FrameKind::Settings, Flags::ACK, 0, &[]))
    }

    fn on_ping(&mut self, header: &Header) -> Result<(), Violation> {
        let kind = FrameKind::Ping;
        if header.flags.contains(Flags::ACK) {
            // Any input already proved that the peer is alive; this only ends a measurement.
            self.on_pong(header.aux);
            return self.bear(kind);
        }
        if !self.pings.take(NATIVE_PING_RATE, self.now) {
            return Err(Violation::Flood { kind });
        }
        self.answer(&OutgoingFrame::control(kind, Flags::ACK, header.aux, &[]))
    }
}

fn go_away<'i>(header: &Header, mut body: Piece<'i>) -> Result<GoAwayFrame<'i>, Violation> {
    let GoAway { code, drain_ms, reason } = GoAway::decode(&body)?;
    let fixed_len = body.len() - reason.len();
    drop(body.split_to(fixed_len));
    Ok(GoAwayFrame { code, drain_ms, accepted: header.aux, reason: body })
}
