//! The initial window of streams, and its changes while they are open (RFC 9113, sections 6.5.3 and
//! 6.9.2).

use super::StreamHandle;
use super::connection::Connection;
use super::put::put_settings;
use super::role::Role;
use super::settings::{WINDOW_DEFAULT, setting};

/// The initial window that the peer should know, and the one it does know.
#[derive(Debug)]
pub(super) struct StartWindow {
    wanted: u32,
    /// The value in our last SETTINGS.
    said: u32,
    /// The value with which windows of streams are counted. It rises when an increase is sent, and
    /// falls when a decrease is acknowledged, so that nothing the peer was allowed to send is
    /// rejected.
    pub(super) counted: u32,
    /// Whether our last SETTINGS are unacknowledged; further ones wait for that.
    is_unacknowledged: bool,
}

impl StartWindow {
    /// Starts with the value in the first SETTINGS.
    pub(super) fn new(size: u32) -> Self {
        Self { wanted: size, said: size, counted: size, is_unacknowledged: true }
    }
}

impl<R: Role> Connection<R> {
    /// Turns memory pressure on or off. Under pressure streams have windows of 64 KiB, and windows
    /// of open streams shrink to that as their readers take data. Credit granted before stays
    /// valid.
    ///
    /// A change is announced in SETTINGS, which takes a round trip, so do not switch with every
    /// message.
    pub fn set_memory_pressure(&mut self, is_under_pressure: bool) {
        self.growth.is_under_pressure = is_under_pressure;
        self.start.wanted =
            if is_under_pressure { WINDOW_DEFAULT } else { self.config.initial_window };
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
        self.keepalive.note_settings_changed();
        self.streams.open_streams_mut().for_each(|(_, s)| s.window.raise(by));
    }

    /// Handles the acknowledgement of our last SETTINGS.
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
            // The peer may be waiting for credit that was too little to return before.
            if s.window.is_due() && !s.remote_ended {
                due.push(stream);
            }
        }
        due.into_iter().for_each(|stream| self.give_back(stream));
    }
}
