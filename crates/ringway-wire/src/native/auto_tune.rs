//! Window auto-tuning: receive windows grow to what their streams deliver within a round trip
//! (section 6).

use std::time::Duration;

use super::frame::OutgoingFrame;
use super::native_connection::{NONE, NativeConnection};
use super::slots::{Found, NO_STREAM};
use super::window::Window;
use super::{Config, FrameKind, StreamId};
use crate::limits::{
    NATIVE_CREDIT_MAX, NATIVE_GROWN_MAX, NATIVE_INITIAL_CREDIT_MIN, NATIVE_MEASURE_PAUSE,
    NATIVE_MEASURED_MAX, NATIVE_RATE_ENOUGH, NATIVE_REMEASURE_PAUSE,
};

/// The state of a connection's window auto-tuning: its round-trip time and the measurement under
/// way.
#[derive(Debug)]
pub(super) struct AutoTune {
    /// Largest size, in bytes, to which a window may grow.
    size_max: u32,
    /// Memory is short, so windows shrink instead of growing.
    is_under_pressure: bool,
    /// The shortest round trip measured; it rises slowly while all newer ones are longer.
    trip: Option<Duration>,
    round: Option<Round>,
    samples: Vec<Sample>,
    /// The earliest time for the next PING.
    next: Duration,
}

/// A PING that has not been answered.
#[derive(Debug, Clone, Copy)]
struct Round {
    nonce: u32,
    began: Duration,
}

/// A snapshot of a stream, taken when credit was returned to it while a PING was in flight.
#[derive(Debug, Clone, Copy)]
struct Sample {
    stream: StreamId,
    /// Credit that the peer still had before this CREDIT.
    left: u32,
    /// Bytes that the reader had taken or that waited for it.
    delivered: u32,
    /// Bytes delivered just before the snapshot, and the time that they took.
    pace: (u32, Duration),
}

impl AutoTune {
    pub(super) fn new(config: &Config) -> Self {
        let size_max = config.window_max.min(NATIVE_CREDIT_MAX);
        let (trip, round, samples, next) = (None, None, Vec::new(), Duration::ZERO);
        Self { size_max, is_under_pressure: false, trip, round, samples, next }
    }

    /// Records a round trip. The shortest one counts, since longer ones waited behind data; the
    /// known value rises by at most a sixteenth each time, in case the path has become longer.
    pub(super) fn note_trip(&mut self, trip: Duration) {
        if !trip.is_zero() {
            let longest = self.trip.map_or(trip, |known| known + known / 16);
            self.trip = Some(trip.min(longest));
        }
    }

    /// Whether a window may grow: it is below the limit, and its reader keeps up with the sender.
    fn suits(&self, window: &Window, grown: usize) -> bool {
        !self.is_under_pressure
            && window.size() < self.size_max
            && grown < NATIVE_GROWN_MAX
            && window.waiting() <= window.size() / 4
    }

    /// Whether a window already allows such a rate that a larger one would bring nothing.
    fn is_ample(&self, window: &Window) -> bool {
        let enough = |trip: Duration| trip.as_micros() * NATIVE_RATE_ENOUGH / 1_000_000;
        self.trip.is_some_and(|trip| u128::from(window.size()) >= enough(trip))
    }

    /// Whether the next PING may be sent now.
    fn is_due(&self, window: &Window, now: Duration) -> bool {
        let pause = if self.is_ample(window) { NATIVE_REMEASURE_PAUSE } else { Duration::ZERO };
        now >= self.next.saturating_add(pause)
    }

    /// Whether a rate of `bytes` per `time` delivers more than two thirds of the usable window
    /// within a round trip.
    fn is_fast(&self, window: &Window, (bytes, time): (u32, Duration)) -> bool {
        self.within_trip(bytes, time) * 3 > u64::from(window.usable()) * 2
    }

    /// Whether the peer had less than a third of the usable window left when the CREDIT reached it,
    /// judged by the bytes that arrived during `time`, until its answer to the PING.
    fn is_used_up(&self, window: &Window, sample: &Sample, time: Duration) -> bool {
        let arrived = window.delivered().wrapping_sub(sample.delivered);
        let left = u64::from(sample.left).saturating_sub(self.within_trip(arrived, time));
        left * 3 < u64::from(window.usable())
    }

    /// How many bytes arrive within a round trip at a rate of `bytes` per `time`.
    fn within_trip(&self, bytes: u32, time: Duration) -> u64 {
        let trip = self.trip.unwrap_or(time).as_nanos();
        let scaled = u128::from(bytes) * trip / time.as_nanos().max(1);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    fn watch(&mut self, sample: Sample) {
        let is_watched = self.samples.iter().any(|known| known.stream == sample.stream);
        if !is_watched && self.samples.len() < NATIVE_MEASURED_MAX {
            self.samples.push(sample);
        }
    }
}

impl NativeConnection {
    /// Returns credit to the peer once enough of it is pending.
    #[inline]
    pub(super) fn return_credit(&mut self, index: u32) {
        let receive = &self.streams.get(index).receive;
        if receive.window.is_due() && !receive.has_ended {
            self.give_back(index);
        }
    }

    #[cold]
    fn give_back(&mut self, index: u32) {
        let (now, is_under_pressure) = (self.now, self.auto_tune.is_under_pressure);
        let stream = self.streams.get(index);
        let (id, window) = (stream.id, &stream.receive.window);
        let left = window.granted();
        let granted = self.streams.with_window(index, |window| {
            if is_under_pressure {
                window.shrink_to(NATIVE_INITIAL_CREDIT_MIN);
            }
            window.give_back(now)
        });
        self.put_credit(index, granted);
        let window = &self.streams.get(index).receive.window;
        let (delivered, pace) = (window.delivered(), window.pace());
        self.measure(index, Sample { stream: id, left, delivered, pace });
    }

    fn put_credit(&mut self, index: u32, granted: u32) {
        if granted > 0 {
            let stream = self.streams.get(index).id;
            let frame = OutgoingFrame {
                stream,
                ..OutgoingFrame::control(FrameKind::Credit, NONE, granted, &[])
            };
            self.outbox.put(&frame);
        }
    }

    /// Samples a stream whose window may limit its sender. The PING behind the CREDIT is answered
    /// when the CREDIT has reached the peer.
    fn measure(&mut self, index: u32, sample: Sample) {
        let window = &self.streams.get(index).receive.window;
        let auto_tune = &mut self.auto_tune;
        if !auto_tune.suits(window, self.streams.grown()) {
            return;
        }
        if auto_tune.round.is_some() {
            auto_tune.watch(sample);
        } else if auto_tune.is_due(window, self.now) && auto_tune.is_fast(window, sample.pace) {
            let nonce = self.keepalive.next_nonce();
            self.outbox.put(&OutgoingFrame::control(FrameKind::Ping, NONE, nonce, &[]));
            auto_tune.round = Some(Round { nonce, began: self.now });
            auto_tune.samples.clear();
            auto_tune.watch(sample);
        }
    }

    /// Handles the answer to a PING: ends the measurement that it belongs to.
    pub(super) fn on_pong(&mut self, nonce: u32) {
        let auto_tune = &mut self.auto_tune;
        let Some(round) = auto_tune.round.take_if(|round| round.nonce == nonce) else {
            return;
        };
        auto_tune.next = round.began.saturating_add(NATIVE_MEASURE_PAUSE);
        let time = self.now.saturating_sub(round.began);
        if time.is_zero() {
            return;
        }
        auto_tune.note_trip(time);
        let samples = std::mem::take(&mut auto_tune.samples);
        samples.iter().for_each(|sample| self.grow(sample, time));
        self.auto_tune.samples = samples;
    }

    /// Doubles a stream's window if its peer has run out of credit, or nearly.
    fn grow(&mut self, sample: &Sample, time: Duration) {
        let Found::Live(slot) = self.slots.find(sample.stream) else {
            return;
        };
        let index = self.slots.get(slot).stream;
        if index == NO_STREAM {
            return;
        }
        let (auto_tune, grown) = (&self.auto_tune, self.streams.grown());
        let receive = &self.streams.get(index).receive;
        let window = &receive.window;
        let is_held_up = !receive.has_ended
            && auto_tune.suits(window, grown)
            && !auto_tune.is_ample(window)
            && auto_tune.is_fast(window, sample.pace)
            && auto_tune.is_used_up(window, sample, time);
        if is_held_up {
            let room = (auto_tune.size_max - window.size()).min((NATIVE_GROWN_MAX - grown) as u32);
            let by = window.size().min(room);
            let granted = self.streams.with_window(index, |window| window.grow(by));
            self.put_credit(index, granted);
        }
    }

    /// Turns memory pressure on or off. Under pressure windows shrink to the smallest size as their
    /// readers take messages, and new streams start with it. The peer is told now, or when it has
    /// acknowledged the previous SETTINGS.
    pub(super) fn set_memory_pressure(&mut self, is_under_pressure: bool) {
        self.auto_tune.is_under_pressure = is_under_pressure;
        self.config.settings.initial_credit =
            if is_under_pressure { NATIVE_INITIAL_CREDIT_MIN } else { self.initial_credit };
        self.announce_credit();
    }

    /// Announces the initial credit of new streams if the peer knows another value and no SETTINGS
    /// wait for their ACK.
    pub(super) fn announce_credit(&mut self) {
        let has_changed = self.window != self.config.settings.initial_credit;
        if self.has_greeted
            && self.failed.is_none()
            && self.unacknowledged.is_empty()
            && has_changed
        {
            self.put_settings();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn auto_tune() -> AutoTune {
        AutoTune::new(&Config::default())
    }

    #[test]
    fn the_known_round_trip_rises_by_at_most_a_sixteenth_with_each_longer_one() {
        let mut auto_tune = auto_tune();
        for (trip, known) in [(160, 160), (1_000, 170), (100, 100), (101, 101), (0, 101)] {
            auto_tune.note_trip(trip * MS);
            assert_eq!(auto_tune.trip, Some(known * MS), "after {trip} ms");
        }
    }

    #[test]
    fn one_ping_measures_eight_streams_at_most() {
        let mut auto_tune = auto_tune();
        for slot in 0..20 {
            for _ in 0..2 {
                let stream = StreamId::new(slot, 1);
                auto_tune.watch(Sample { stream, left: 0, delivered: 0, pace: (0, MS) });
            }
        }
        let slots: Vec<_> = auto_tune.samples.iter().map(|sample| sample.stream.slot()).collect();
        assert_eq!(slots, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn if_a_window_is_large_enough_pings_are_ten_seconds_apart() {
        let window = Window::new(1 << 20);
        // 1 MiB in 976 µs is 1 GiB in a second.
        for (trip, pause) in [(976, 10_000), (977, 0), (2_000, 0)] {
            let trip = Duration::from_micros(trip);
            let mut auto_tune = auto_tune();
            auto_tune.note_trip(trip);
            auto_tune.next = 5_000 * MS;
            let due = (5_000 + pause) * MS;
            assert!(
                auto_tune.is_due(&window, due) && !auto_tune.is_due(&window, due - MS),
                "{trip:?}"
            );
        }
    }
}
