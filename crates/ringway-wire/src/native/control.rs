//! Frames of the connection itself: preface, SETTINGS, PING, GOAWAY (sections 1, 8 and 9).

use super::frame::{Frame, OutgoingFrame};
use super::native_connection::{NONE, NativeConnection, Stage};
use super::{
    Flags, FrameKind, GoAway, GoAwayCode, Header, PREFACE, PREFACE_LEN, Piece, Settings, Violation,
    check_preface,
};

/// The first bytes of a peer, as they come.
#[derive(Debug, Default)]
pub(super) struct ArrivingPreface {
    bytes: [u8; PREFACE_LEN],
    len: usize,
}

impl ArrivingPreface {
    /// Takes bytes off `input`; the preface, when it is whole.
    fn fill(&mut self, input: &mut &[u8]) -> Option<&[u8; PREFACE_LEN]> {
        let (now, rest) = input.split_at(input.len().min(PREFACE_LEN - self.len));
        self.bytes[self.len..self.len + now.len()].copy_from_slice(now);
        self.len += now.len();
        *input = rest;
        (self.len == PREFACE_LEN).then_some(&self.bytes)
    }
}

/// A peer that says it will leave.
#[derive(Debug)]
pub(super) struct GoAwayFrame<'i> {
    pub(super) code: u32,
    pub(super) drain_ms: u32,
    pub(super) accepted: u32,
    pub(super) reason: Piece<'i>,
}

impl GoAwayFrame<'_> {
    /// Whether calls that are open may go on to their ends (section 8).
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
    /// Sends the preface and the settings, before anything else and once.
    pub(super) fn greet(&mut self) {
        self.has_greeted = true;
        self.outbox.put_raw(&PREFACE);
        self.put_settings();
    }

    /// Announces the settings as they are now.
    pub(super) fn put_settings(&mut self) {
        let mut body = Vec::new();
        self.config.settings.encode(&mut body);
        self.outbox.put(&OutgoingFrame::control(FrameKind::Settings, NONE, 0, &body));
        self.unacknowledged.push_back((self.config.settings.initial_credit, self.now));
    }

    /// Takes the peer's preface off `input`; `None` when there is more to come.
    ///
    /// # Errors
    ///
    /// When the peer speaks something else.
    pub(super) fn take_preface(&mut self, input: &mut &[u8]) -> Result<Option<()>, Violation> {
        let Some(preface) = self.preface.fill(input) else {
            return Ok(None);
        };
        check_preface(preface)?;
        self.stage = Stage::Settings;
        Ok(Some(()))
    }

    /// Takes a frame of the connection that both sides may send; gives back any other.
    ///
    /// # Errors
    ///
    /// When the peer must not send it so.
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
                    self.fail(go_away.violation()); // behind the event that tells it
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
        if !self.settings_frames.take(self.now) {
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

    /// Answers SETTINGS. From here on streams have the credit that these grant, so none that is opened
    /// by a fragment may go before.
    fn acknowledge(&mut self) -> Result<(), Violation> {
        self.outbox.bar_fragments();
        self.answer(&OutgoingFrame::control(FrameKind::Settings, Flags::ACK, 0, &[]))
    }

    fn on_ping(&mut self, header: &Header) -> Result<(), Violation> {
        let kind = FrameKind::Ping;
        if header.flags.contains(Flags::ACK) {
            // Whatever arrives proves that the peer is there.
            self.on_pong(header.aux);
            return self.bear(kind);
        }
        if !self.pings.take(self.now) {
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
