//! The time of a round trip to a server, by the specifications "Server Selection" and "Server Monitoring".

use std::time::Duration;

/// The weight of the newest sample, as a divisor.
const WEIGHT: u32 = 5;

/// Samples of which the shortest is known.
const RECENT_MAX: usize = 10;

/// A moving average of round trips, in which the newest counts for a fifth, and the shortest of the last ten.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RoundTripTime {
    average: Option<Duration>,
    /// The newest is first.
    recent: [Option<Duration>; RECENT_MAX],
}

impl RoundTripTime {
    /// Continues from an average.
    pub fn new(average: Option<Duration>) -> Self {
        Self { average, recent: [None; RECENT_MAX] }
    }

    /// Adds a sample.
    pub fn add(&mut self, sample: Duration) {
        self.average = Some(match self.average {
            Some(average) => (average * (WEIGHT - 1) + sample) / WEIGHT,
            None => sample,
        });
        self.recent.rotate_right(1);
        self.recent[0] = Some(sample);
    }

    /// The average; `None` without a sample.
    pub fn average(self) -> Option<Duration> {
        self.average
    }

    /// The shortest of the last ten; zero until there are two.
    pub fn least(self) -> Duration {
        match self.recent {
            [Some(_), Some(_), ..] => self.recent.into_iter().flatten().min().unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }
}
