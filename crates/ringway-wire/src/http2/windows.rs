//! Receive windows of streams: credit returns as readers take data, and windows grow to suit the
//! path.

use std::time::Duration;

use super::StreamHandle;
use super::connection::{Connection, PingTag};
use super::growth::{GrowthPing, StreamSample};
use super::put::{put_ping, put_window_update};
use super::role::Role;
use crate::limits::{HTTP2_GROWN_MAX, HTTP2_MEASURE_PAUSE, HTTP2_RATE_ENOUGH};

impl<R: Role> Connection<R> {
    /// Reports that the reader has taken `bytes` of a stream's data, so that the peer may send as
    /// many more. Report each byte of each event exactly once, unless the stream has ended.
    #[inline]
    pub fn taken(&mut self, stream: StreamHandle, bytes: usize) {
        if let Some(s) = self.streams.get(stream) {
            s.window.add_pending(bytes as u32);
            if s.window.is_due() && !s.remote_ended {
                self.give_back(stream);
            }
        }
    }

    #[cold]
    pub(super) fn give_back(&mut self, stream: StreamHandle) {
        let (now, size_max, start) = (self.now, self.config.window_max, self.start.counted);
        let is_under_pressure = self.growth.is_under_pressure;
        let Some(s) = self.streams.get(stream) else { return };
        let before = s.window.grown();
        if is_under_pressure {
            s.window.shrink_to(start);
        }
        let granted = s.window.give_back(now);
        let delivered = s.window.delivered();
        self.growth.grown -= self.growth.grown.min(before - s.window.grown());
        let suits = self.growth.suits(&s.window, size_max);
        if granted > 0 {
            put_window_update(stream.id, granted, &mut self.outbox.written);
        }
        if suits {
            self.measure(StreamSample { stream, at: now, delivered });
        }
    }

    /// Samples a stream whose window may limit its sender. The answer to the PING behind the
    /// WINDOW_UPDATE tells how much arrived within a round trip.
    fn measure(&mut self, sample: StreamSample) {
        let measured = self.growth.measurement.get_or_insert_default();
        if measured.round.is_none() {
            if sample.at < measured.next {
                return;
            }
            measured.nonce = measured.nonce.wrapping_add(1);
            measured.round = Some(GrowthPing { nonce: measured.nonce, began: sample.at });
            measured.samples.clear();
            put_ping(0, PingTag::Growth.payload(measured.nonce), &mut self.outbox.written);
        }
        measured.watch(sample);
    }

    /// Handles the answer to a measuring PING.
    pub(super) fn on_growth_pong(&mut self, nonce: u32) {
        let Some(mut measured) = self.growth.measurement.take() else { return };
        if let Some(round) = measured.round.take_if(|round| round.nonce == nonce) {
            measured.next = round.began.saturating_add(HTTP2_MEASURE_PAUSE);
            let trip = self.now.saturating_sub(round.began);
            measured.samples.iter().for_each(|sample| self.grow(sample, trip));
        }
        self.growth.measurement = Some(measured);
    }

    /// Doubles a window if more than two thirds of its usable size arrived within a round trip.
    fn grow(&mut self, sample: &StreamSample, trip: Duration) {
        let (now, size_max) = (self.now, self.config.window_max);
        let Some(s) = self.streams.get(sample.stream) else { return };
        let window = &mut s.window;
        let Some(came) = sample.within(trip, now, window.delivered()) else { return };
        let is_used_up = came * 3 > u64::from(window.usable()) * 2;
        let enough = trip.as_micros() * HTTP2_RATE_ENOUGH / 1_000_000;
        let is_ample = u128::from(window.size()) >= enough;
        if !is_used_up || is_ample || s.remote_ended || !self.growth.suits(window, size_max) {
            return;
        }
        let room = (size_max - window.size()).min(HTTP2_GROWN_MAX - self.growth.grown);
        let by = window.size().min(room);
        let granted = window.grow(by);
        self.growth.grown += by;
        if granted > 0 {
            put_window_update(sample.stream.id, granted, &mut self.outbox.written);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::fuzz_machines::Paths;
    use super::super::{
        Body, ErrorCode, Http2Client, Http2Config, Line, NewRequest, StreamHandle, Vocabulary,
    };

    #[test]
    fn window_growth_is_subtracted_however_the_stream_ends() {
        let vocabulary = Arc::new(Vocabulary::new(Paths));
        let mut client = Http2Client::new(Http2Config::client(), vocabulary, Duration::ZERO);
        let ends: [fn(&mut Http2Client, StreamHandle); 3] = [
            |client, stream| client.reset(stream, ErrorCode::CANCEL),
            |client, stream| client.abandon(stream, false),
            |client, stream| client.end_remote(stream),
        ];
        for end in ends {
            let head = &[Line::Static(3)];
            let body = Some(Body::Copy(b"x"));
            let request = NewRequest { head, prefix: &[], body, end: true };
            let stream = client.open(request).expect("room");
            client.streams.at(stream.slot).window.grow(1 << 20);
            client.growth.grown += 1 << 20;
            end(&mut client, stream);
            assert_eq!(client.growth.grown, 0);
        }
        assert_eq!(client.in_flight(), 0);
    }
}
