//! How unanswered calls and the connection end on the server.

use std::time::Duration;

use super::server::{GrpcServer, code};
use super::server_calls::ServedCall;
use crate::http2::{ErrorCode, StreamHandle, Violation};
use crate::limits::DRAIN_KNOWN;
use crate::native::{GoAwayCode, ServerEvent, Side};

/// A drain: the connection ends after it has completed its open calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerDrain {
    length: Duration,
    /// End of the drain, set when the time is next known.
    until: Option<Duration>,
    /// The time from which the client is assumed to know of the drain.
    known: Duration,
    is_over: bool,
}

impl GrpcServer {
    /// Sends GOAWAY in two steps: calls that cross the first are served, and later ones are refused
    /// when the client has answered. Running calls have `drain` to finish; then the machine answers
    /// them UNAVAILABLE, with a [`Failed`](ServerEvent::Failed) event for each, and resets
    /// incomplete requests as not executed.
    ///
    /// HTTP/2 has other codes and no field for the duration, so neither is sent.
    pub fn go_away(&mut self, _code: GoAwayCode, drain: Duration, _reason: &str) {
        // The HTTP/2 machine must not end the drain itself, since it does not know which calls
        // have run.
        self.http.drain(Duration::MAX);
        let known = Duration::MAX;
        let drain = ServerDrain { length: drain, until: None, known, is_over: false };
        self.drain = Some(Box::new(drain));
    }

    /// Whether the connection is draining, has nothing left to do, and no new call can be in
    /// flight.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let is_known = self.http.is_drain_known() || self.is_drain_over();
        self.drain.is_some() && is_known && self.in_flight() == 0
    }

    /// Whether the drain is over, so that requests are refused.
    #[inline]
    pub(super) fn is_drain_over(&self) -> bool {
        self.drain.as_ref().is_some_and(|drain| drain.is_over)
    }

    /// The latest time to call [`handle_timeout`](Self::handle_timeout); `None` after a failure.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let http = self.http.poll_timeout()?;
        let drain = self.drain.as_ref().filter(|drain| !drain.is_over);
        let known = drain.filter(|_| !self.http.is_drain_known()).map(|drain| drain.known);
        let drain = drain.map(|drain| drain.until.unwrap_or(self.http.now));
        Some(
            [drain, known, self.waits.as_ref().and_then(|waits| waits.next())]
                .into_iter()
                .flatten()
                .fold(http, Duration::min),
        )
    }

    /// Does what is due by now: sends PINGs, and ends overdue calls and the drain.
    ///
    /// # Errors
    ///
    /// Fails when the client no longer answers.
    pub fn handle_timeout(&mut self, now: Duration) -> Result<(), Violation> {
        self.http.now = now;
        self.http.handle_timeout(now)?;
        self.end_overdue(now);
        let Some(drain) = self.drain.as_mut().filter(|drain| !drain.is_over) else {
            return Ok(());
        };
        if drain.until.is_none() {
            drain.until = Some(now.saturating_add(drain.length));
            drain.known = now.saturating_add(DRAIN_KNOWN);
        }
        if now >= drain.known {
            self.http.announce_last();
        }
        if drain.until.is_some_and(|until| now >= until) {
            drain.is_over = true;
            self.end_all();
        }
        Ok(())
    }

    /// Ends all calls because the drain is over.
    fn end_all(&mut self) {
        for stream in self.calls.live() {
            let Some(call) = self.calls.of(stream) else { continue };
            if call.is_known() {
                let text = "the server is shutting down and the time to finish open calls is over";
                let failed = self.fail_known(stream, code::UNAVAILABLE, text);
                self.pending.push_back(failed);
            } else {
                self.http.unserved.refused += 1;
                self.http.reset(stream, ErrorCode::REFUSED_STREAM);
                self.calls.end(stream);
            }
        }
        self.give_up_guests();
        // Drops replies that their clients do not read.
        self.http.reset_unsent(ErrorCode::CANCEL);
    }

    /// Tells whether the caller reads what the client sends from now on. While it does not, because output waits or
    /// others come first, the client is not to blame for what does not arrive.
    pub fn note_reading(&mut self, is_reading: bool, now: Duration) {
        let pause = self.reading.note(is_reading, now);
        self.http.note_reading(is_reading.then_some(pause), now);
    }

    /// When an incomplete request is late.
    fn limit(&self, call: &ServedCall) -> Duration {
        let stalled = call.touched.saturating_add(self.http.config.stall_timeout);
        call.until.min(self.reading.when(stalled, self.http.now))
    }

    /// Sets a deadline for an incomplete request.
    pub(super) fn watch(&mut self, stream: StreamHandle) {
        let Some(call) = self.calls.get(stream) else { return };
        let (limit, id) = (self.limit(call), call.id());
        let waits = self.waits.get_or_insert_default();
        waits.arm(limit, id);
        let (calls, live) = (&self.calls, self.http.in_flight());
        waits.settle(live, |id| calls.find(id).is_some());
    }

    /// Ends the requests whose deadline has passed.
    fn end_overdue(&mut self, now: Duration) {
        while let Some(id) = self.waits.as_mut().and_then(|waits| waits.pop_due(now)) {
            let Some(stream) = self.calls.find(id) else { continue };
            let Some(call) = self.calls.get(stream).filter(|call| !call.is_known()) else {
                continue;
            };
            if self.limit(call) > now {
                self.watch(stream);
                continue;
            }
            self.end_late(stream);
        }
    }

    /// Ends a request that was not whole at its deadline.
    pub(super) fn end_late(&mut self, stream: StreamHandle) {
        self.http.unserved.overdue += 1;
        let text = "the request did not arrive completely in time";
        self.fail(stream, code::DEADLINE_EXCEEDED, text);
    }

    /// Bytes held for the largest call, as counted by [`kept_len`](Self::kept_len).
    #[must_use]
    pub fn largest_len(&mut self, side: Side) -> usize {
        self.largest(side).map_or(0, |(_, len)| len)
    }

    fn largest(&self, side: Side) -> Option<(StreamHandle, usize)> {
        match side {
            Side::Unread => {
                let both = [self.calls.largest(), self.largest_guest()];
                both.into_iter().flatten().max_by_key(|&(_, len)| len)
            }
            Side::Unsent => self.http.largest_unsent(),
        }
    }

    /// Ends the call that holds the [most bytes](Self::largest_len) with RESOURCE_EXHAUSTED, and
    /// reports [`Failed`](ServerEvent::Failed) if the caller knows the call. `false` means that no
    /// call holds any.
    pub fn end_largest(&mut self, side: Side) -> bool {
        let Some((stream, _)) = self.largest(side) else { return false };
        if self.end_large_guest(stream) {
            return true;
        }
        let known = self.calls.of(stream).filter(|call| call.is_known()).map(|call| call.id());
        match side {
            Side::Unread => {
                let text = "the server is short of memory and ended the call that held the most";
                self.fail(stream, code::RESOURCE_EXHAUSTED, text);
            }
            // Trailers would wait behind data that the client does not read.
            Side::Unsent => {
                self.http.reset(stream, ErrorCode::ENHANCE_YOUR_CALM);
                self.calls.end(stream);
            }
        }
        if let Some(stream) = known {
            self.pending.push_back(ServerEvent::Failed { stream, code: code::RESOURCE_EXHAUSTED });
        }
        true
    }
}
