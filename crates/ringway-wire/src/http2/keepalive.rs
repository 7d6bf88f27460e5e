//! Supervision of the peer: preface, SETTINGS, field blocks and PING.

use std::time::Duration;

use super::{Http2Config, Violation};
use crate::limits::{HTTP2_BLOCK_TIMEOUT, HTTP2_SETTINGS_TIMEOUT};
use crate::stamp::Stamp;

/// The deadlines of one connection, each [`NEVER`](Stamp::NEVER) while nothing is awaited.
#[derive(Debug)]
pub(super) struct Clocks {
    /// Deadline for the peer's preface and SETTINGS.
    handshake_until: Stamp,
    /// Deadline for the acknowledgement of our SETTINGS.
    settings_until: Stamp,
    /// Whether SETTINGS were sent since the time was last known: their deadline counts from when it is next known.
    are_settings_new: bool,
    /// Deadline for the rest of an incomplete field block.
    block_until: Stamp,
    heard: Stamp,
    /// Deadline for the answer to our PING, if nothing has arrived since.
    answer_until: Stamp,
    /// Whether output waits for the socket.
    is_held_up: bool,
    /// Whether such output could go on since the last look.
    has_gone_on: bool,
    /// Whether input is left unread, the rest of a field block among it.
    is_unread: bool,
}

impl Clocks {
    pub(super) fn new(config: &Http2Config, now: Duration) -> Self {
        let now = Stamp::of(now);
        Self {
            handshake_until: now.after(config.handshake_timeout),
            settings_until: Stamp::NEVER,
            are_settings_new: false,
            block_until: Stamp::NEVER,
            heard: now,
            answer_until: Stamp::NEVER,
            is_held_up: false,
            has_gone_on: false,
            is_unread: false,
        }
    }

    #[inline]
    pub(super) fn hear(&mut self, now: Duration) {
        self.heard = Stamp::of(now);
        self.answer_until = Stamp::NEVER;
    }

    /// Records that input is not read from now on, or that it is, and was not for so long. What has begun in that time
    /// begins now.
    pub(super) fn note_reading(
        &mut self,
        pause: Option<Duration>,
        config: &Http2Config,
        now: Duration,
    ) {
        self.is_unread = pause.is_none();
        let Some(pause) = pause else { return };
        self.handshake_until = self.handshake_until.after(pause);
        self.block_until = self.block_until.after(pause);
        let now = Stamp::of(now);
        self.heard = self.heard.after(pause).min(now);
        for (until, wait) in [
            (&mut self.settings_until, HTTP2_SETTINGS_TIMEOUT),
            (&mut self.answer_until, config.ping_timeout),
        ] {
            if *until != Stamp::NEVER {
                *until = until.after(pause).min(now.after(wait));
            }
        }
    }

    fn block_until(&self) -> Stamp {
        if self.is_unread { Stamp::NEVER } else { self.block_until }
    }

    /// Records that the socket has room. If output has waited for that, the peer has taken something:
    /// it is alive, and has not seen a PING or SETTINGS behind that output.
    #[inline]
    pub(super) fn note_room(&mut self) {
        self.has_gone_on |= self.is_held_up;
    }

    /// Records whether output waits for the socket.
    #[inline]
    pub(super) fn note_held_up(&mut self, is_held_up: bool) {
        self.is_held_up = is_held_up;
    }

    pub(super) fn note_handshake(&mut self) {
        self.handshake_until = Stamp::NEVER;
    }

    pub(super) fn note_settings_sent(&mut self, now: Duration) {
        self.settings_until = Stamp::of(now).after(HTTP2_SETTINGS_TIMEOUT);
    }

    /// Records that SETTINGS were sent by the way, after nobody knows how much silence.
    pub(super) fn note_settings_changed(&mut self) {
        self.are_settings_new = true;
    }

    pub(super) fn note_settings_acknowledged(&mut self) {
        (self.settings_until, self.are_settings_new) = (Stamp::NEVER, false);
    }

    pub(super) fn note_block(&mut self, begins: bool, now: Duration) {
        self.block_until = match begins {
            true => Stamp::of(now).after(HTTP2_BLOCK_TIMEOUT),
            false => Stamp::NEVER,
        };
    }

    /// When a PING is due: never while one is not answered, nor without streams unless that is wanted.
    fn ping_at(&self, config: &Http2Config, has_streams: bool) -> Stamp {
        match self.answer_until == Stamp::NEVER && (has_streams || config.pings_idle) {
            true => self.heard.after(config.ping_after),
            false => Stamp::NEVER,
        }
    }

    pub(super) fn deadline(&self, config: &Http2Config, has_streams: bool) -> Stamp {
        if self.are_settings_new {
            return self.heard;
        }
        let ping = self.ping_at(config, has_streams).min(self.answer_until);
        ping.min(self.handshake_until).min(self.settings_until).min(self.block_until())
    }

    /// Checks the deadlines; `true` asks for a PING.
    ///
    /// # Errors
    ///
    /// Fails when a deadline has passed.
    pub(super) fn look(
        &mut self,
        config: &Http2Config,
        has_streams: bool,
        now: Duration,
    ) -> Result<bool, Violation> {
        if std::mem::take(&mut self.are_settings_new) {
            self.note_settings_sent(now);
        }
        if std::mem::take(&mut self.has_gone_on) {
            self.hear(now); // when exactly is not known
            if self.settings_until != Stamp::NEVER {
                self.note_settings_sent(now);
            }
        }
        for (until, violation) in [
            (self.handshake_until, Violation::HandshakeTimeout),
            (self.settings_until, Violation::SettingsTimeout),
            (self.block_until(), Violation::BlockTimeout),
            (self.answer_until, Violation::Silent),
        ] {
            if until.has_come(now) {
                return Err(violation);
            }
        }
        let is_due = self.ping_at(config, has_streams).has_come(now);
        if is_due {
            self.answer_until = Stamp::of(now).after(config.ping_timeout);
        }
        Ok(is_due)
    }
}
