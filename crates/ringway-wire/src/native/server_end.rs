//! How calls end at the server, and how the connection does (section 8).

use std::time::Duration;

use super::frame::OutgoingFrame;
use super::native_connection::Pending;
use super::server::{Drain, Server};
use super::server_answer::UNAVAILABLE;
use super::slots::{NO_STREAM, Phase};
use super::{Flags, FrameKind, GoAwayCode, Side, StreamId, Violation};

impl Server {
    /// Tells the client how many requests it may have in flight from now on. What it sends beyond
    /// is refused, as safe to repeat elsewhere.
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

    /// Notes how many requests may be in flight from now on.
    pub(super) fn note_permits(&mut self) {
        let most = self.connection.config.settings.max_streams;
        self.permits = match self.drain.is_some() || self.resets.is_exhausted() {
            true => 0,
            false => self.lease.map_or(most, |lease| lease.min(most)) as usize,
        };
    }

    fn put_lease(&mut self, permits: u32) {
        let (kind, flags) = (FrameKind::Lease, Flags::NONE);
        self.connection.outbox.put(&OutgoingFrame::control(kind, flags, permits, &[]));
    }

    /// Answers the client's preface, and says what was to be said before that.
    pub(super) fn greet(&mut self) {
        self.connection.greet();
        if let Some(permits) = self.lease {
            self.put_lease(permits);
        }
        if let Some(drain) = self.drain {
            self.connection.put_go_away(GoAwayCode::NoError, drain.length, "");
        }
    }

    /// Announces the end of the connection. New requests are refused from now on; those that run
    /// have `drain` to finish, then the machine answers them UNAVAILABLE, with a
    /// [`Failed`](super::ServerEvent::Failed) for each, and requests that are not whole by then as not
    /// executed. Close when
    /// [`is_finished`](Self::is_finished).
    pub fn go_away(&mut self, code: GoAwayCode, drain: Duration, reason: &str) {
        if self.connection.failed.is_none() {
            if self.connection.has_greeted {
                self.connection.put_go_away(code, drain, reason);
            }
            self.drain = Some(Drain { length: drain, until: None });
            self.note_permits();
        }
    }

    /// Whether the connection is to be closed: it drained, or failed, and all of it is sent.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let is_done =
            self.connection.failed.is_some() || self.drain.is_some() && self.in_flight() == 0;
        is_done && !self.has_output()
    }

    /// Does what is due: PING, the end of a drain. Earlier calls than
    /// [`poll_timeout`](Self::poll_timeout) asks for do no harm.
    ///
    /// # Errors
    ///
    /// When the client is gone, as in [`receive`](Self::receive).
    pub fn handle_timeout(&mut self, now: Duration) -> Result<(), Violation> {
        self.connection.handle_timeout(now)?;
        self.end_overdue(now);
        if let Some(drain) = &mut self.drain {
            let until = *drain.until.get_or_insert(now.saturating_add(drain.length));
            if now >= until {
                self.end_all();
            }
        }
        Ok(())
    }

    /// The time to drain is over.
    fn end_all(&mut self) {
        let text = "the server ends this connection";
        let meta = self.own_meta(|meta| meta.status_message(text));
        let unheard = self.own_meta(|meta| meta.refused().status_message(text));
        for stream in self.connection.slots.live_ids() {
            let index = stream.slot() as usize;
            if !self.is_known(index) {
                self.refused += 1;
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

    /// Asks the client for less, or no longer: while memory is tight, new streams begin with a
    /// window of 64 KiB, and those of open streams fall to that as their readers take what came.
    /// What was granted already may still come.
    ///
    /// A change is told to the client in SETTINGS. It may be taken back at any time, but since it
    /// takes a round trip, not with every message.
    pub fn set_tight(&mut self, is_tight: bool) {
        self.connection.set_tight(is_tight);
    }

    /// Tells that nobody reads the messages of a call any more, though it goes on. Those that come
    /// are dropped here, and their client gets no credit for more.
    pub fn ignore(&mut self, stream: StreamId) {
        if let Some(index) = self.connection.slots.find_open(stream)
            && let place = self.connection.slots.get(index).stream
            && place != NO_STREAM
        {
            self.connection.streams.ignore(place);
        }
    }

    /// Bytes kept for a stream that has most, up to a quarter, of those that count for
    /// [`kept_len`](Self::kept_len). It is known without looking at all streams.
    #[must_use]
    pub fn largest_len(&mut self, side: Side) -> usize {
        self.largest(side).map_or(0, |(_, len)| len)
    }

    fn largest(&mut self, side: Side) -> Option<(StreamId, usize)> {
        if self.connection.failed.is_some() { None } else { self.connection.streams.largest(side) }
    }

    /// Ends the call with [most](Self::largest_len) bytes kept as RESOURCE_EXHAUSTED, with a
    /// [`Failed`](super::ServerEvent::Failed) if it was known. Others are not affected, unless the client
    /// does not read such answers: then the connection fails, as [`receive`](Self::receive) tells.
    /// `false`: no call keeps any.
    pub fn end_largest(&mut self, side: Side) -> bool {
        let Some((stream, _)) = self.largest(side) else {
            return false;
        };
        let index = stream.slot() as usize;
        let is_known = self.is_running(index);
        let text = "the server has no memory for what this call keeps there";
        if let Err(violation) = self.end_by_limit(index, text, is_known) {
            self.connection.fail(violation);
            self.connection.is_failure_untold = true;
        }
        true
    }

    /// The status with which a call has ended, if its [`Failed`](super::ServerEvent::Failed) is still
    /// to come.
    #[cold]
    #[must_use]
    pub fn failure(&self, stream: StreamId) -> Option<u8> {
        self.connection.pending.iter().find_map(|pending| match *pending {
            Pending::Failed(of, code) if of == stream => Some(code),
            _ => None,
        })
    }

    /// Whether the call in slot `index` has a handler that is not done.
    pub(super) fn is_running(&mut self, index: usize) -> bool {
        self.connection.slots.at(index).phase == Phase::Open && self.is_known(index)
    }

    /// Whether the call in slot `index` was told to the caller.
    pub(super) fn is_known(&mut self, index: usize) -> bool {
        match self.connection.slots.at(index).stream {
            NO_STREAM => true,
            place => self.connection.streams.at(place).receive.request.is_none(),
        }
    }
}
