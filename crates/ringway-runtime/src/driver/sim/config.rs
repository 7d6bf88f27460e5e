//! How a simulation is set up.

use std::time::Duration;

use super::Faults;
use crate::limits;

/// One simulated network: its seed, its faults, its distances.
///
/// Two simulations with equal configurations whose programs do the same go through the same
/// events at the same virtual times. So the seed of a failed test repeats the failure.
///
/// The network belongs to one core: servers and clients that are to meet run there as different
/// tasks. Its clock moves only while the core waits; computing takes no virtual time. With a
/// `latency_max` of zero, a pair of tasks that never stop talking therefore keeps the clock still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimConfig {
    /// Decides every random choice; print it when a test fails.
    pub seed: u64,
    /// Faults of the network and their frequency.
    pub faults: Faults,
    /// The shortest time from one socket to another.
    pub latency_min: Duration,
    /// The longest time from one socket to another, faults not counted.
    pub latency_max: Duration,
    /// Bytes sent and not yet read that each direction of a stream holds; a send beyond that waits
    /// for the reader. Also what the receive queue of a datagram socket holds. At least one.
    pub socket_buffer_bytes: usize,
    /// Descriptors that may be open at once; one more fails with `EMFILE`.
    pub descriptors_max: usize,
}

impl SimConfig {
    /// No faults, latencies of a local network.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            seed,
            faults: Faults::none(),
            latency_min: Duration::from_micros(20),
            latency_max: Duration::from_micros(200),
            socket_buffer_bytes: limits::SIM_SOCKET_BUFFER_BYTES,
            descriptors_max: limits::SIM_DESCRIPTORS_MAX,
        }
    }

    /// The faults of [`Faults::harsh`].
    #[must_use]
    pub const fn harsh(seed: u64) -> Self {
        Self { faults: Faults::harsh(), ..Self::new(seed) }
    }
}

impl Default for SimConfig {
    /// Seed zero, no faults.
    fn default() -> Self {
        Self::new(0)
    }
}
