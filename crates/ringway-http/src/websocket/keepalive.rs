//! Detects a peer that has vanished.

use std::time::{Duration, Instant};

use super::peer_limits::WebSocketLimits;

/// The time of the last sign of life, and of the ping that followed.
#[derive(Debug)]
pub(super) struct Keepalive {
    ping_after: Option<Duration>,
    pong_wait: Duration,
    heard: Instant,
    pinged: Option<Instant>,
}

/// The action due for a silent peer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Ping,
    /// The peer did not answer a ping in time.
    Gone,
}

impl Keepalive {
    pub(super) fn new(limits: &WebSocketLimits, now: Instant) -> Self {
        let WebSocketLimits { ping_after, pong_wait, .. } = *limits;
        Self { ping_after, pong_wait, heard: now, pinged: None }
    }

    /// Notes a sign of life, or that none can be expected now.
    pub(super) fn note_sign(&mut self, now: Instant) {
        (self.heard, self.pinged) = (now, None);
    }

    /// Returns the time of the next check.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.pinged {
            Some(pinged) => pinged.checked_add(self.pong_wait),
            None => self.heard.checked_add(self.ping_after?),
        }
    }

    pub(super) fn due(&mut self, now: Instant) -> Due {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return Due::Nothing;
        }
        match self.pinged.replace(now) {
            None => Due::Ping,
            Some(_) => Due::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_peer_is_pinged_and_then_gone() {
        let (ping_after, pong_wait) = (Some(Duration::from_secs(30)), Duration::from_secs(20));
        let limits = WebSocketLimits { ping_after, pong_wait, ..WebSocketLimits::default() };
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut keepalive = Keepalive::new(&limits, begin);
        assert_eq!(keepalive.due(at(29)), Due::Nothing);
        keepalive.note_sign(at(29));
        assert_eq!((keepalive.due(at(58)), keepalive.due(at(59))), (Due::Nothing, Due::Ping));
        assert_eq!(keepalive.deadline(), Some(at(79)));
        keepalive.note_sign(at(78));
        assert_eq!((keepalive.due(at(107)), keepalive.due(at(108))), (Due::Nothing, Due::Ping));
        assert_eq!((keepalive.due(at(127)), keepalive.due(at(128))), (Due::Nothing, Due::Gone));
    }

    #[test]
    fn who_is_not_pinged_may_be_silent() {
        let limits = WebSocketLimits { ping_after: None, ..WebSocketLimits::default() };
        let begin = Instant::now();
        let mut keepalive = Keepalive::new(&limits, begin);
        assert_eq!(keepalive.deadline(), None);
        assert_eq!(keepalive.due(begin + Duration::from_secs(1 << 20)), Due::Nothing);
    }
}
