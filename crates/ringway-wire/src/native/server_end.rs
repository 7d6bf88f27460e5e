//! How calls and the connection end on the server (section 8).

use std::time::Duration;

use super::draining::{Drain, DrainStep, UNKNOWN};
use super::frame::OutgoingFrame;
use super::native_connection::{NONE, Pending};
use super::server::Server;
use super::server_answer::UNAVAILABLE;
use super::slots::{NO_STREAM, Phase};
use super::{Flags, FrameKind, GoAwayCode, Side, StreamId, Violation};
use crate::limits::DRAIN_KNOWN;

impl Server {
    /// Sets how many requests the client may have in flight from now on, and tells it. Further
    /// requests are refused as safe to repeat elsewhere.
    pub fn lease(&mut self, permits: u32) {
        if self.drain.is_some() || self.connection.failed.is_some() {
            return;
        }
        self.lease = Some(permits);
        self.note_permits();
        if self.connection.has_greeted {
            self.put_lease(permits);
        }
    }

    /// Recomputes how many requests may be in flight.
    pub(super) fn note_permits(&mut self) {
        let most = self.connection.config.settings.max_streams;
        let is_over = self.drain.is_some_and(|drain| drain.is_final());
        self.permits = match is_over || self.resets.is_exhausted() {
            true => 0,
            false => self.lease.map_or(most, |lease| lease.min(most)) as usize,
        };
    }

    fn put_lease(&mut self, permits: u32) {
        let (kind, flags) = (FrameKind::Lease, Flags::NONE);
        self.connection.outbox.put(&OutgoingFrame::control(kind, flags, permits, &[]));
    }

    /// Answers the client's preface with our own, followed by the lease and the GOAWAY set before
    /// it.
    pub(super) fn greet(&mut self) {
        self.connection.greet();
        if let Some(permits) = self.lease {
            self.put_lease(permits);
        }
        if let Some(drain) = self.drain {
            self.connection.put_go_away(GoAwayCode::NoError, 0, drain.length, "");
        }
    }

    /// Sends GOAWAY in two steps: requests that cross the first are served, and later ones are
    /// refused once the client has acknowledged it. Running calls have `drain` to finish. Then the
    /// machine answers those UNAVAILABLE, with a [`Failed`](super::ServerEvent::Failed) event for
    /// each, and incomplete requests as not executed. Close the connection when it
    /// [`is_finished`](Self::is_finished).
    pub fn go_away(&mut self, code: GoAwayCode, drain: Duration, reason: &str) {
        if self.connection.failed.is_some() {
            return;
        }
        let (has_greeted, former) = (self.connection.has_greeted, self.drain.map(|it| it.step));
        let step = match former {
            // A client whose preface has not come hears of it before anything else.
            _ if !has_greeted => DrainStep::Final,
            None => DrainStep::Announced {
                nonce: self.connection.keepalive.next_nonce(),
                known: Duration::MAX,
            },
            Some(step) => step,
        };
        if has_greeted {
            let requests = self.connection.requests as u32;
            let count = match step {
                DrainStep::Announced { .. } => requests.wrapping_add(UNKNOWN),
                DrainStep::Final => requests,
            };
            self.connection.put_go_away(code, count, drain, reason);
        }
        if let (None, DrainStep::Announced { nonce, .. }) = (former, step) {
            let ping = OutgoingFrame::control(FrameKind::Ping, NONE, nonce, &[]);
            self.connection.outbox.put(&ping);
        }
        self.drain = Some(Drain { code, length: drain, step, until: None });
        self.note_permits();
    }

    /// Handles the ACK of a PING.
    pub(super) fn on_drain_pong(&mut self, of: u32) {
        let step = self.drain.map(|drain| drain.step);
        if matches!(step, Some(DrainStep::Announced { nonce, .. }) if nonce == of) {
            self.announce_last();
        }
    }

    /// Sends the last GOAWAY, with the true count; further requests are refused.
    fn announce_last(&mut self) {
        let Some(drain) = self.drain.as_mut().filter(|drain| !drain.is_final()) else { return };
        drain.step = DrainStep::Final;
        let left = drain.until.map_or(drain.length, |it| it.saturating_sub(self.connection.now));
        let (code, requests) = (drain.code, self.connection.requests as u32);
        self.connection.put_go_away(code, requests, left, "");
        self.note_permits();
    }

    /// Does what is due in a drain. Returns whether its time is over.
    pub(super) fn look_at_drain(&mut self, now: Duration) -> bool {
        let Some(drain) = &mut self.drain else { return false };
        let until = *drain.until.get_or_insert(now.saturating_add(drain.length));
        if let DrainStep::Announced { known, .. } = &mut drain.step {
            *known = now.saturating_add(DRAIN_KNOWN).min(*known);
            if now >= *known || now >= until {
                self.announce_last();
            }
        }
        now >= until
    }

    /// Whether the connection should be closed: it has drained or failed, and all output is handed
    /// out.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        (self.connection.failed.is_some() || self.is_drained()) && !self.has_output()
    }

    /// Whether the connection has drained: no call is open, and no request can be on its way.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.drain.is_some_and(|drain| drain.is_final()) && self.in_flight() == 0
    }

    /// Does what is due by now: sends PINGs and ends the drain. Calling it before
    /// [`poll_timeout`](Self::poll_timeout) says is harmless.
    ///
    /// # Errors
    ///
    /// Fails when the client no longer answers; the error repeats as with
    /// [`receive`](Self::receive).
    pub fn handle_timeout(&mut self, now: Duration) -> Result<(), Violation> {
        self.connection.handle_timeout(now)?;
        self.end_overdue(now);
        if self.look_at_drain(now) {
            self.end_all();
        }
        Ok(())
    }

    /// Ends all calls because the drain is over.
    fn end_all(&mut self) {
        let text = "the server is shutting down and the time to finish open calls is over";
        let meta = self.own_meta(|meta| meta.status_message(text));
        let unheard = self.own_meta(|meta| meta.refused().status_message(text));
        for stream in self.connection.slots.live_ids() {
            let index = stream.slot() as usize;
            if !self.is_known(index) {
                self.unserved.refused += 1;
                self.end_at_once(index, UNAVAILABLE, &unheard);
                continue;
            }
            if self.is_running(index) {
                self.connection.tell(Pending::Failed(stream, UNAVAILABLE));
            }
            self.end_at_once(index, UNAVAILABLE, &meta);
        }
        if let Some(drain) = &mut self.drain {
            drain.until = Some(Duration::MAX);
        }
    }

    /// Turns memory pressure on or off. Under pressure new streams start with a window of 64 KiB,
    /// and windows of open streams shrink to that as their readers take messages. Credit granted
    /// before stays valid.
    ///
    /// A change is announced in SETTINGS, which takes a round trip, so do not switch with every
    /// message.
    pub fn set_memory_pressure(&mut self, is_under_pressure: bool) {
        self.connection.set_memory_pressure(is_under_pressure);
    }

    /// Drops the messages of a call that stays open although nobody reads them any more. The client
    /// gets no credit for more.
    pub fn ignore(&mut self, stream: StreamId) {
        if let Some(index) = self.connection.slots.find_open(stream)
            && let stream_index = self.connection.slots.get(index).stream
            && stream_index != NO_STREAM
        {
            self.connection.streams.ignore(stream_index);
        }
    }

    /// Bytes held for the largest stream, to within a quarter, as counted by
    /// [`kept_len`](Self::kept_len). It is found without visiting all streams.
    #[must_use]
    pub fn largest_len(&mut self, side: Side) -> usize {
        self.largest(side).map_or(0, |(_, len)| len)
    }

    fn largest(&mut self, side: Side) -> Option<(StreamId, usize)> {
        if self.connection.failed.is_some() { None } else { self.connection.streams.largest(side) }
    }

    /// Ends the call that holds the [most bytes](Self::largest_len) with RESOURCE_EXHAUSTED, and
    /// reports [`Failed`](super::ServerEvent::Failed) if the caller knows the call. Others are not
    /// affected, unless the client does not read such answers: then the connection fails, which
    /// [`receive`](Self::receive) reports. `false` means that no call holds any.
    pub fn end_largest(&mut self, side: Side) -> bool {
        let Some((stream, _)) = self.largest(side) else {
            return false;
        };
        let index = stream.slot() as usize;
        let is_known = self.is_running(index);
        let text = "the server is short of memory and ended the call that held the most";
        if let Err(violation) = self.end_by_limit(index, text, is_known) {
            self.connection.fail(violation);
            self.connection.is_failure_untold = true;
        }
        true
    }

    /// The status with which a call failed, if its [`Failed`](super::ServerEvent::Failed) event is
    /// still pending.
    #[cold]
    #[must_use]
    pub fn failure(&self, stream: StreamId) -> Option<u8> {
        self.connection.pending.iter().find_map(|pending| match *pending {
            Pending::Failed(of, code) if of == stream => Some(code),
            _ => None,
        })
    }

    /// Whether the call in slot `index` has a handler that has not finished.
    pub(super) fn is_running(&mut self, index: usize) -> bool {
        self.connection.slots.at(index).phase == Phase::Open && self.is_known(index)
    }

    /// Whether the call in slot `index` was reported to the caller.
    pub(super) fn is_known(&mut self, index: usize) -> bool {
        match self.connection.slots.at(index).stream {
            NO_STREAM => true,
            stream_index => self.connection.streams.at(stream_index).receive.request.is_none(),
        }
    }
}
