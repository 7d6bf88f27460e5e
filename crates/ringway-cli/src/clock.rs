//! The exchange of clocks: a request with the client's time, and an answer with the server's beside it. Each is a
//! little-endian number of microseconds since 1970 in eight bytes, as muduo's programs for round trips have it on most
//! machines.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// Bytes of a request, and of an answer.
pub(crate) const EXCHANGE_BYTES: usize = 16;

/// How far the server's clock is before the client's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct ClockReading {
    pub(crate) offset_us: f64,
    /// The true offset is at most this far from the other, however unequal the two ways were.
    pub(crate) error_us: f64,
}

impl ClockReading {
    /// Returns what an exchange tells that began at `mine` by the client's clock and took `round_trip`, during which
    /// the server's clock showed `theirs`.
    pub(crate) fn of(mine: u64, theirs: u64, round_trip: Duration) -> Self {
        let half = round_trip.as_secs_f64() * 1e6 / 2.0;
        let difference = i128::from(theirs) - i128::from(mine);
        Self { offset_us: difference as f64 - half, error_us: half + RESOLUTION_US }
    }

    /// Returns the one of the two that says more.
    pub(crate) fn better(self, other: Self) -> Self {
        if other.error_us < self.error_us { other } else { self }
    }
}

/// Returns the time of this machine in microseconds.
pub(crate) fn now_us() -> u64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(passed.as_micros()).unwrap_or(u64::MAX)
}

/// Returns a request that is sent at `mine`.
pub(crate) fn request(mine: u64) -> [u8; EXCHANGE_BYTES] {
    let mut bytes = [0; EXCHANGE_BYTES];
    bytes[..8].copy_from_slice(&mine.to_le_bytes());
    bytes
}

/// Makes an answer of each request in `bytes`, whose length is a multiple of [`EXCHANGE_BYTES`].
pub(crate) fn answer(bytes: &mut [u8], theirs: u64) {
    for exchange in bytes.chunks_exact_mut(EXCHANGE_BYTES) {
        exchange[8..].copy_from_slice(&theirs.to_le_bytes());
    }
}

/// Returns the two times of an answer; `None` if it is none.
pub(crate) fn times(bytes: &[u8]) -> Option<(u64, u64)> {
    let bytes: &[u8; EXCHANGE_BYTES] = bytes.try_into().ok()?;
    let word =
        |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight of sixteen"));
    Some((word(0), word(8)))
}

/// Both clocks are cut to whole microseconds.
const RESOLUTION_US: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_time_of_the_request_and_the_servers() {
        let mut bytes = [request(7), request(8)].concat();
        answer(&mut bytes, 1 << 50);
        assert_eq!(times(&bytes[..16]), Some((7, 1 << 50)));
        assert_eq!(times(&bytes[16..]), Some((8, 1 << 50)));
        for wrong in [&bytes[..0], &bytes[..15], &bytes[..17]] {
            assert_eq!(times(wrong), None);
        }
    }

    #[test]
    fn the_offset_counts_from_the_middle_of_the_exchange() {
        let trip = Duration::from_micros(40);
        let check = |mine, theirs, offset_us| {
            assert_eq!(
                ClockReading::of(mine, theirs, trip),
                ClockReading { offset_us, error_us: 21.0 }
            );
        };
        check(1_000_000, 1_000_020, 0.0);
        check(1_000_000, 1_000_520, 500.0);
        check(1_000_000, 999_020, -1000.0);
        let quick = ClockReading::of(0, 9, Duration::from_micros(10));
        let slow = ClockReading::of(0, 9, trip);
        assert_eq!((slow.better(quick), quick.better(slow)), (quick, quick));
    }

    /// However the two ways share the time of the exchange.
    #[test]
    fn the_true_offset_is_within_the_error() {
        for way_there in 0..=40 {
            let true_offset = 300.0;
            let theirs = 1_000_000 + way_there + 300;
            let found = ClockReading::of(1_000_000, theirs, Duration::from_micros(40));
            assert!(
                (found.offset_us - true_offset).abs() <= found.error_us,
                "{way_there}: {found:?}"
            );
        }
    }
}
