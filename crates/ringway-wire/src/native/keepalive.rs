//! Supervision of the peer (section 8): PING, unanswered cancellations, and the preface.

use std::time::Duration;

use super::{Config, FrameKind};
use crate::limits::PING_AFTER_MIN;

/// The action that [`Keepalive::look`] asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// Send a PING with this nonce.
    Probe(u32),
    /// The peer did not answer a frame of this kind in time.
    Dead(FrameKind),
}

/// The deadlines of one connection, except for that of the drain.
#[derive(Debug)]
pub(super) struct Keepalive {
    ping_after: Duration,
    ping_timeout: Duration,
    reset_timeout: Duration,
    /// Deadline for the peer's preface and SETTINGS; `None` once they have arrived.
    preface_until: Option<Duration>,
    heard: Duration,
    /// When the PING was sent, if nothing has arrived since.
    probed: Option<Duration>,
    /// Whether output waits for the socket.
    is_held_up: bool,
    /// Whether such output could go on since the last look.
    has_gone_on: bool,
    nonce: u32,
    /// Cancelled calls without an answer, counted by the period in which they were cancelled. One
    /// that is still counted at the end of the following period is overdue.
    resets: [usize; 2],
    parity: bool,
    period_end: Option<Duration>,
}

impl Keepalive {
    pub(super) fn new(config: &Config, now: Duration) -> Self {
        Self {
            ping_after: config.ping_after.max(PING_AFTER_MIN),
            ping_timeout: config.ping_timeout,
            reset_timeout: config.reset_timeout,
            preface_until: Some(now.saturating_add(config.preface_timeout)),
            heard: now,
            probed: None,
            is_held_up: false,
            has_gone_on: false,
            nonce: 0,
            resets: [0; 2],
            parity: false,
            period_end: None,
        }
    }

    /// Records that bytes arrived.
    #[inline]
    pub(super) fn hear(&mut self, now: Duration) {
        self.heard = now;
        self.probed = None;
    }

    /// Puts off what the peer is awaited for, because nothing was read for so long until now. What has begun in that
    /// time begins now.
    pub(super) fn put_off(&mut self, pause: Duration, now: Duration) {
        let later = |time: Duration| time.saturating_add(pause);
        self.heard = later(self.heard).min(now);
        self.probed = self.probed.map(|probed| later(probed).min(now));
        self.preface_until = self.preface_until.map(later);
    }

    /// Records that the socket has room. If output has waited for that, the peer has taken something:
    /// it is alive, and has not seen a PING or RST behind that output.
    #[inline]
    pub(super) fn note_room(&mut self) {
        self.has_gone_on |= self.is_held_up;
    }

    /// Records whether output waits for the socket.
    #[inline]
    pub(super) fn note_held_up(&mut self, is_held_up: bool) {
        self.is_held_up = is_held_up;
    }

    /// Records that the peer's preface and SETTINGS have arrived.
    pub(super) fn begin(&mut self) {
        self.preface_until = None;
    }

    /// Records that a call was cancelled; the result is to be passed to [`Keepalive::answered`].
    pub(super) fn reset(&mut self) -> bool {
        self.resets[usize::from(self.parity)] += 1;
        self.parity
    }

    /// Records that the server answered a cancelled call.
    pub(super) fn answered(&mut self, parity: bool) {
        self.resets[usize::from(parity)] -= 1;
    }

    fn has_resets(&self) -> bool {
        self.resets != [0; 2]
    }

    /// The time at which [`Keepalive::look`] must be called next.
    pub(super) fn deadline(&self, now: Duration) -> Duration {
        let ping = match self.probed {
            Some(probed) => probed.saturating_add(self.ping_timeout),
            None => self.heard.saturating_add(self.ping_after),
        };
        // A period starts when the current time is next known.
        let resets = self.has_resets().then(|| self.period_end.unwrap_or(now));
        [self.preface_until, resets].into_iter().flatten().fold(ping, Duration::min)
    }

    /// Checks the deadlines against `now`.
    pub(super) fn look(&mut self, now: Duration) -> Due {
        if self.preface_until.is_some_and(|until| now >= until) {
            return Due::Dead(FrameKind::Settings);
        }
        if std::mem::take(&mut self.has_gone_on) {
            self.hear(now); // when exactly is not known
            self.period_end = None;
        }
        if self.has_overdue_reset(now) {
            return Due::Dead(FrameKind::Rst);
        }
        if let Some(probed) = self.probed {
            let is_dead = now >= probed.saturating_add(self.ping_timeout);
            return if is_dead { Due::Dead(FrameKind::Ping) } else { Due::Nothing };
        }
        if now < self.heard.saturating_add(self.ping_after) {
            return Due::Nothing;
        }
        self.probed = Some(now);
        Due::Probe(self.next_nonce())
    }

    /// The nonce of the next PING.
    pub(super) fn next_nonce(&mut self) -> u32 {
        self.nonce = self.nonce.wrapping_add(1);
        self.nonce
    }

    fn has_overdue_reset(&mut self, now: Duration) -> bool {
        if !self.has_resets() {
            self.period_end = None;
            return false;
        }
        let end = *self.period_end.get_or_insert(now.saturating_add(self.reset_timeout));
        if now < end {
            return false;
        }
        self.parity = !self.parity;
        self.period_end = Some(now.saturating_add(self.reset_timeout));
        self.resets[usize::from(self.parity)] > 0
    }
}
