//! How the conformance suite gets a simulated driver.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockAddr;

use crate::buf::Pools;
use crate::driver::conformance::Fixture;
use crate::driver::sim::{Sim, SimConfig};

/// A network without latency: the suite also polls, and the clock of a simulation does not move
/// for one who only polls.
pub(in crate::driver) struct SimFixture;

impl Fixture for SimFixture {
    type Driver = Sim;

    /// Nobody else is there to wake a simulation.
    const IS_WOKEN: bool = false;

    fn driver(pools: &Pools, _eventfd: Arc<OwnedFd>) -> io::Result<Sim> {
        let config = SimConfig { latency_max: Duration::ZERO, ..SimConfig::new(1) };
        let config = SimConfig { latency_min: Duration::ZERO, ..config };
        Ok(Sim::new(config, pools))
    }

    fn unix_addr(name: &str) -> SockAddr {
        SockAddr::unix(format!("/sim/{name}")).expect("a short name")
    }

    fn descriptors_open(driver: &Sim) -> usize {
        driver.open_descriptors()
    }
}
