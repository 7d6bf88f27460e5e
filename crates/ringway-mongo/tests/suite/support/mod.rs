//! Support for several test files: FerretDB, a server that does as a test says, and the specifications.

#[path = "../../../../ringway-wire/tests/suite/support/allocations.rs"]
pub(crate) mod allocations;
#[path = "../../../../ringway-wire/tests/suite/support/alone.rs"]
pub(crate) mod alone;
pub(crate) mod bulk_double;
#[path = "../../../../ringway-net/tests/suite/support/certificates.rs"]
#[allow(dead_code, reason = "the tests of TLS itself use all of it")]
pub(crate) mod certificates;
pub(crate) mod fake;
pub(crate) mod fault_proxy;
pub(crate) mod ferret;
pub(crate) mod mongod;
#[allow(dead_code, reason = "tests inside of the crate change its records")]
pub(crate) mod name_server;
pub(crate) mod replica_set;
pub(crate) mod runner;
pub(crate) mod scram;
pub(crate) mod specs;
pub(crate) mod streaming;
pub(crate) mod tls_front;
pub(crate) mod unified;

use std::time::Duration;

use ringway_mongo::{Client, ClientOptions};

/// Ends a test that hangs; no test takes a tenth of it.
const TIME_MAX: Duration = Duration::from_secs(60);

/// The same for the tests of a whole specification, of which some take 10 s, and 40 s on a busy machine.
const SUITE_TIME_MAX: Duration = Duration::from_secs(600);

/// Runs a test on a core.
pub(crate) fn on_core<T: 'static>(test: impl Future<Output = T> + 'static) -> T {
    on_core_within(TIME_MAX, test)
}

/// Runs the tests of a whole specification on a core.
pub(crate) fn suite_on_core<T: 'static>(tests: impl Future<Output = T> + 'static) -> T {
    on_core_within(SUITE_TIME_MAX, tests)
}

fn on_core_within<T: 'static>(limit: Duration, test: impl Future<Output = T> + 'static) -> T {
    let limited = ringway_runtime::timeout(limit, test);
    ringway_runtime::block_on(limited).expect("a runtime").expect("the test hangs")
}

/// Runs a test with a client of a server of its own.
pub(crate) fn with_server<F: Future<Output = ()>>(test: impl FnOnce(Client) -> F + 'static) {
    let Some(ferret) = ferret::Ferret::start() else { return };
    on_core(async move {
        test(client(&ferret.address)).await;
    });
}

/// Drops a future once `is_time`; it must not be ready before.
pub(crate) async fn drop_when<T>(future: impl Future<Output = T>, is_time: impl Fn() -> bool) {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| {
        assert!(future.as_mut().poll(cx).is_pending(), "it is ready too early");
        if is_time() {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// Lets others run until something has happened.
pub(crate) async fn until(has_happened: impl Fn() -> bool) {
    while !has_happened() {
        ringway_runtime::yield_now().await;
    }
}

/// A client of a server at `address`, with a short time for its operations.
pub(crate) fn client(address: &str) -> Client {
    Client::new(options(address))
}

/// The same time as one that servers are not told of: FerretDB's `distinct` does not know it.
pub(crate) fn options(address: &str) -> ClientOptions {
    let begin = match (address.contains('?'), address["mongodb://".len()..].contains('/')) {
        (true, _) => "&",
        (false, true) => "?",
        (false, false) => "/?",
    };
    let address = format!("{address}{begin}socketTimeoutMS=20000");
    ClientOptions::parse(&address).expect("an address")
}
