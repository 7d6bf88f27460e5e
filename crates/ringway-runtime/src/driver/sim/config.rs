//! Configuration of a simulation.

use std::time::Duration;

use super::Faults;
use crate::limits;

/// The configuration of a simulated network: its seed, its faults, its latencies.
///
/// Two simulations with equal configurations and equal programs go through the same events at the
/// same virtual times. So the seed of a failed test repeats the failure.
///
/// The network belongs to one core, so servers and clients that communicate must be tasks of that
/// core. Its clock moves only while the core waits; computing takes no virtual time. So a task that
/// always runs stops the clock: one that yields in a loop, or repeats at once what fails at once, and with
/// a `latency_max` of zero two that never stop communicating. Such a simulation fails after 100,000 turns
/// at one moment and names its tasks. A task that never yields cannot be noticed: it runs for ever, as on
/// any other core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimConfig {
    /// The seed of every random choice; print it when a test fails.
    pub seed: u64,
    /// Faults of the network and their frequency.
    pub faults: Faults,
    /// The shortest time from one socket to another.
    pub latency_min: Duration,
    /// The longest time from one socket to another, faults not counted.
    pub latency_max: Duration,
    /// Bytes that each direction of a stream holds sent and unread; a send beyond that waits for the
    /// reader. Also the size of a datagram socket's receive queue. At least one.
    pub socket_buffer_bytes: usize,
    /// Number of descriptors that may be open; one more fails with `EMFILE`.
    pub descriptors_max: usize,
}

impl SimConfig {
    /// Creates a configuration without faults, with the latencies of a local network.
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

    /// Creates a configuration with the faults of [`Faults::harsh`].
    #[must_use]
    pub const fn harsh(seed: u64) -> Self {
        Self { faults: Faults::harsh(), ..Self::new(seed) }
    }
}

impl Default for SimConfig {
    /// The configuration with seed zero and without faults.
    fn default() -> Self {
        Self::new(0)
    }
}
