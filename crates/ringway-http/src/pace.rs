//! The pace at which peers send.

use std::time::{Duration, Instant};

use ringway_runtime::{now, now_exact};

use crate::limits::{BODY_RATE_MIN, BODY_STALL};

/// The pace at which a peer sends its body.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Time spent waiting for the peer; a slow reader here does not count against it.
    waited: Duration,
    pub(crate) bytes: u64,
    /// The longest silence of the peer.
    pub(crate) silence_max: Duration,
    /// Bytes per second that the peer must send on average.
    rate_min: u64,
}

impl Default for Pace {
    fn default() -> Self {
        let (silence_max, rate_min) = (BODY_STALL, BODY_RATE_MIN);
        Self { waited: Duration::ZERO, bytes: 0, silence_max, rate_min }
    }
}

impl Pace {
    pub(crate) fn of_stream(silence_max: Duration) -> Self {
        Self { silence_max, rate_min: 0, ..Self::default() }
    }

    /// Records a wait and all bytes received so far.
    pub(crate) fn note(&mut self, waited: Duration, bytes: u64) {
        self.waited += waited;
        self.bytes = bytes;
    }

    /// Begins a wait, which is recorded with all bytes received so far when it ends or is given up.
    pub(crate) fn waits(&mut self, bytes: u64) -> PacedWait<'_> {
        PacedWait { pace: self, bytes, began: now() }
    }

    pub(crate) fn is_too_slow(&self) -> bool {
        let counted = self.waited.saturating_sub(BODY_STALL).as_secs();
        self.bytes < counted * self.rate_min
    }

    /// Returns how long to wait until the peer counts as too slow.
    pub(crate) fn left(&self) -> Duration {
        let earned = Duration::from_secs(self.bytes / BODY_RATE_MIN + 1);
        (BODY_STALL + earned).saturating_sub(self.waited)
    }
}

/// A wait for a peer.
pub(crate) struct PacedWait<'a> {
    pace: &'a mut Pace,
    bytes: u64,
    began: Instant,
}

impl Drop for PacedWait<'_> {
    fn drop(&mut self) {
        self.pace.note(now_exact().saturating_duration_since(self.began), self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_to_keep_a_pace_once_it_has_had_its_time() {
        let pace = |waited: u64, bytes| Pace {
            waited: Duration::from_secs(waited),
            bytes,
            ..Pace::default()
        };
        assert!(!pace(30, 1).is_too_slow() && pace(31, 999).is_too_slow());
        assert!(!pace(31, 1_000).is_too_slow() && pace(130, 99_999).is_too_slow());
        for (waited, bytes) in [(0, 0), (29, 5), (31, 1_000), (100, 99_000)] {
            let (mut pace, left) = (pace(waited, bytes), pace(waited, bytes).left());
            pace.note(left - Duration::from_millis(1), bytes);
            assert!(!pace.is_too_slow(), "{waited} s, {bytes} bytes");
            pace.note(Duration::from_millis(1), bytes);
            assert!(pace.is_too_slow(), "{waited} s, {bytes} bytes");
        }
    }
}
