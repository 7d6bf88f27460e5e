//! Supervision of the peer: preface, SETTINGS, field blocks and PING.

use std::time::Duration;

use super::{Http2Config, Violation};
use crate::limits::{HTTP2_BLOCK_TIMEOUT, HTTP2_SETTINGS_TIMEOUT, PING_AFTER_MIN};

/// The deadlines of one connection.
#[derive(Debug)]
pub(super) struct Clocks {
    ping_after: Duration,
    ping_timeout: Duration,
    /// Deadline for the peer's preface and SETTINGS.
    handshake_until: Option<Duration>,
    /// Deadline for the acknowledgement of our SETTINGS.
    settings_until: Option<Duration>,
    /// Deadline for the rest of an incomplete field block.
    block_until: Option<Duration>,
    heard: Duration,
    /// When the PING was sent, if nothing has arrived since.
    probed: Option<Duration>,
    /// Whether output waits for the socket.
    is_held_up: bool,
    /// Whether such output could go on since the last look.
    has_gone_on: bool,
}

impl Clocks {
    pub(super) fn new(config: &Http2Config, now: Duration) -> Self {
        Self {
            ping_after: config.ping_after.max(PING_AFTER_MIN),
            ping_timeout: config.ping_timeout,
            handshake_until: Some(now.saturating_add(config.handshake_timeout)),
            settings_until: None,
            block_until: None,
            heard: now,
            probed: None,
            is_held_up: false,
            has_gone_on: false,
        }
    }

    #[inline]
    pub(super) fn hear(&mut self, now: Duration) {
        self.heard = now;
        self.probed = None;
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
        self.handshake_until = None;
    }

    pub(super) fn note_settings_sent(&mut self, now: Duration) {
        self.settings_until = Some(now.saturating_add(HTTP2_SETTINGS_TIMEOUT));
    }

    pub(super) fn note_settings_acknowledged(&mut self) {
        self.settings_until = None;
    }

    pub(super) fn note_block(&mut self, begins: bool, now: Duration) {
        self.block_until = begins.then(|| now.saturating_add(HTTP2_BLOCK_TIMEOUT));
    }

    pub(super) fn deadline(&self) -> Duration {
        let ping = match self.probed {
            Some(probed) => probed.saturating_add(self.ping_timeout),
            None => self.heard.saturating_add(self.ping_after),
        };
        let others = [self.handshake_until, self.settings_until, self.block_until];
        others.into_iter().flatten().fold(ping, Duration::min)
    }

    /// Checks the deadlines; `true` asks for a PING.
    ///
    /// # Errors
    ///
    /// Fails when a deadline has passed.
    pub(super) fn look(&mut self, now: Duration) -> Result<bool, Violation> {
        if std::mem::take(&mut self.has_gone_on) {
            self.hear(now); // when exactly is not known
            if self.settings_until.is_some() {
                self.note_settings_sent(now);
            }
        }
        let is_over = |until: Option<Duration>| until.is_some_and(|until| now >= until);
        if is_over(self.handshake_until) {
            return Err(Violation::HandshakeTimeout);
        }
        if is_over(self.settings_until) {
            return Err(Violation::SettingsTimeout);
        }
        if is_over(self.block_until) {
            return Err(Violation::BlockTimeout);
        }
        match self.probed {
            Some(probed) if now >= probed.saturating_add(self.ping_timeout) => {
                Err(Violation::Silent)
            }
            None if now >= self.heard.saturating_add(self.ping_after) => {
                self.probed = Some(now);
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}
