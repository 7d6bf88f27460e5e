//! Tests of services and their callers, without a network and without waiting.
//!
//! [`simulate`] runs a test on a network in memory with a virtual clock. The clock advances as soon
//! as all tasks wait, so an hour of timeouts takes no time. All randomness comes from a seed, so a run can be
//! repeated. This test has a service, two clients, a lost connection and a seed:
//!
//! ```
//! # use ringway_rpc::{Status, testing::{TestServer, simulate}}; use ringway_runtime::{sleep, spawn};
//! #[ringway_rpc::service(crate = "ringway_rpc")]
//! trait Timer {
//!     async fn wait(&self, seconds: u64) -> Result<(), Status>;
//! }
//! impl Timer for () {
//!     async fn wait(&self, seconds: u64) -> Result<(), Status> {
//!         Ok(sleep(std::time::Duration::from_secs(seconds)).await) // of the virtual clock
//!     }
//! }
//! simulate(7, async {
//!     let server = TestServer::start(TimerServer::new(()))?;
//!     let [ann, bob] = server.clients(TimerClient::new)?;
//!     let lost = spawn(ann.wait(60));
//!     bob.wait(1).await?;
//!     server.lose_connections();
//!     assert!(lost.await?.is_err_and(|status| status.is_unavailable()));
//!     bob.wait(1).await // over a new connection
//! })?;
//! # Ok::<(), Status>(())
//! ```
//!
//! [`Context::for_test`](crate::Context::for_test) makes a context for calling a handler alone:
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

/// Runs a test in a simulation on the calling thread, its only core. Clients and [`TestServer`]s
/// that the test starts use a network in memory. The same seed repeats the same run, so print a
/// seed that is chosen at random.
///
/// Call [`Builder::simulate`] yourself to add latency and faults to the network.
///
/// # Errors
/// Returns the test's error, or INTERNAL if all tasks wait for ever, or if some run again and again at one moment,
/// as in a loop that repeats a failed call at once: pause in between. The text has the seed and the tasks. A task
/// that never yields cannot be noticed.
///
/// # Panics
/// Panics when the test does.
pub fn simulate<T: 'static>(
    seed: u64,
    test: impl Future<Output = Result<T, Status>> + 'static,
) -> Result<T, Status> {
    fastrand::seed(seed); // clients choose servers at random
    let ended = Builder::simulate(SimConfig::new(seed), test);
    ended.unwrap_or_else(|error| Err(Status::internal(format!("seed {seed}: {error}"))))
}
