//! The window that streams begin with, and how it changes while they are open (RFC 9113, sections
//! 6.5.3 and 6.9.2).

use super::StreamHandle;
use super::connection::Connection;
use super::put::put_settings;
use super::role::Role;
use super::settings::{WINDOW_DEFAULT, setting};

/// What the peer is to know, and what it does.
#[derive(Debug)]
pub(super) struct StartWindow {
    wanted: u32,
    /// By our last SETTINGS.
    said: u32,
    /// What the windows of streams are reckoned with. It rises when that is said, and falls when the
    /// peer has acknowledged it, so that nothing is refused that it may have sent.
    pub(super) counted: u32,
    /// Our last SETTINGS are. Others wait for that.
    is_unacknowledged: bool,
}

impl StartWindow {
    /// By the settings of the greeting.
    pub(super) fn new(size: u32) -> Self {
        Self { wanted: size, said: size, counted: size, is_unacknowledged: true }
    }
}

impl<R: Role> Connection<R> {
    /// Asks the peer for less, or no longer: while memory is tight, streams have windows of 64 KiB.
    /// Those of open streams fall to that as their readers take what came. What was granted already may
    /// still come.
    ///
    /// A change is told to the peer in SETTINGS. It may be taken back at any time, but since it takes a
    /// round trip, not with every message.
    pub fn set_tight(&mut self, is_tight: bool) {
        self.growth.is_tight = is_tight;
        self.start.wanted = if is_tight { WINDOW_DEFAULT } else { self.config.initial_window };
        self.say_start();
    }

    fn say_start(&mut self) {
        let start = &mut self.start;
        if start.is_unacknowledged || start.said == start.wanted || self.failed.is_some() {
            return;
        }
        (start.said, start.is_unacknowledged) = (start.wanted, true);
        let by = start.said.saturating_sub(start.counted);
        start.counted += by;
        put_settings(&[(setting::INITIAL_WINDOW_SIZE, start.said)], &mut self.outbox.written);
        self.keepalive.note_settings_sent(self.now);
        self.streams.open_streams_mut().for_each(|(_, s)| s.window.raise(by));
    }

    /// The peer has taken note of our last SETTINGS.
    pub(super) fn on_settings_ack(&mut self) {
        self.keepalive.note_settings_acknowledged();
        let start = &mut self.start;
        if !std::mem::take(&mut start.is_unacknowledged) {
            return;
        }
        let by = start.counted - start.said;
        start.counted = start.said;
        if by > 0 {
            self.lower_windows(by);
        }
        self.say_start();
    }

    fn lower_windows(&mut self, by: u32) {
        let mut due: Vec<StreamHandle> = Vec::new();
        for (stream, s) in self.streams.open_streams_mut() {
            s.window.lower(by);
            // The peer may be waiting for what was not worth a frame before.
            if s.window.is_due() && !s.remote_ended {
                due.push(stream);
            }
        }
        due.into_iter().for_each(|stream| self.give_back(stream));
    }
}
