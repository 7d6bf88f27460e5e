//! Tests of services and of those who call them, without a network and without waiting.
//!
//! [`simulate`] runs a test over a network in memory whose clock moves as soon as everybody waits, so an
//! hour of timeouts takes no time. A seed decides what is left to chance, and repeats it. A service, two
//! clients, a lost connection and a seed:
//!
//! ```
//! use std::{cell::Cell, time::Duration};
//! use ringway_rpc::testing::{TestServer, simulate};
//! use ringway_runtime::{sleep, spawn};
//! # use ringway_rpc::Status;
//!
//! #[ringway_rpc::service(crate = "ringway_rpc")]
//! trait Counter {
//!     async fn add(&self, number: u64) -> Result<u64, Status>;
//! }
//!
//! impl Counter for Cell<u64> {
//!     async fn add(&self, number: u64) -> Result<u64, Status> {
//!         sleep(Duration::from_secs(5)).await; // of the virtual clock
//!         Ok(self.replace(self.get() + number))
//!     }
//! }
//!
//! simulate(7, async {
//!     let server = TestServer::start(CounterServer::per_core(Cell::default))?;
//!     let [ann, bob] = server.clients(CounterClient::new)?;
//!     let lost = spawn(ann.add(10));
//!     sleep(Duration::from_secs(1)).await;
//!     server.lose_connections();
//!     assert!(lost.await?.is_err_and(|status| status.is_unavailable()));
//!     assert_eq!(bob.add(2).await?, 0); // the handler of the lost call was dropped
//!     Ok(())
//! })?;
//! # Ok::<(), Status>(())
//! ```
//!
//! A handler alone is called with [`Context::for_test`](crate::Context::for_test):
//!
//! ```
//! use ringway_rpc::{Context, Metadata, Status};
//!
//! async fn greet(context: Context, name: String) -> Result<String, Status> {
//!     Ok(format!("{} {name}", context.metadata().get("greeting").unwrap_or("Hello,")))
//! }
//!
//! let mut metadata = Metadata::new();
//! metadata.insert("greeting", "Good morning,")?;
//! let greeted = ringway_runtime::block_on(greet(Context::for_test(metadata), "Ann".into()))?;
//! assert_eq!(greeted?, "Good morning, Ann");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use ringway_runtime::Builder;
use ringway_runtime::sim::SimConfig;

use crate::call::status::Status;

pub use crate::server::TestServer;

/// Runs a test in a simulation: the calling thread is its one core. Clients and [`TestServer`]s that the
/// test starts meet over a network in memory. The same seed gives the same run, so print it where it is
/// chosen at random.
///
/// For faults and distances of the network call [`Builder::simulate`] yourself.
///
/// # Errors
/// The test's own, and INTERNAL when nothing can happen any more and the test has not ended.
///
/// # Panics
/// When the test does.
pub fn simulate<T: 'static>(
    seed: u64,
    test: impl Future<Output = Result<T, Status>> + 'static,
) -> Result<T, Status> {
    fastrand::seed(seed); // clients choose their servers by it
    let ended = Builder::simulate(SimConfig::new(seed), test);
    ended.unwrap_or_else(|error| Err(Status::internal(format!("seed {seed}: {error}"))))
}
