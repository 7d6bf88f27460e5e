//! The time of a round trip to a server, by the specification "Server Selection".

use std::time::Duration;

/// The weight of the newest sample, as a divisor.
const WEIGHT: u32 = 5;

/// A moving average of round trips, in which the newest counts for a fifth.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RoundTripTime {
    average: Option<Duration>,
}

impl RoundTripTime {
    /// Continues from an average.
    pub fn new(average: Option<Duration>) -> Self {
        Self { average }
    }

    /// Adds a sample.
    pub fn add(&mut self, sample: Duration) {
        self.average = Some(match self.average {
            Some(average) => (average * (WEIGHT - 1) + sample) / WEIGHT,
            None => sample,
        });
    }

    /// The average; `None` without a sample.
    pub fn average(self) -> Option<Duration> {
        self.average
    }
}
