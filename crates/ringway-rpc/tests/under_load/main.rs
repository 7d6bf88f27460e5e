//! Measurements of an overloaded server and client. They are not tests of correctness.
//!
//! ```text
//! cargo test --release -p ringway-rpc --test under_load -- --nocapture --test-threads 1
//! ```
//!
//! The server runs on core 0 and the client on core 1, so nothing else should run on either. Each
//! measurement prints a row and fails beyond its bar. `RINGWAY_RUNS` repeats each.

mod holdups;
mod load;
mod overload;
mod storms;
mod unread;
mod work;

use std::time::Duration;

use ringway_rpc::{Client, Server, ServerHandle};
use ringway_runtime::Builder;
use ringway_runtime::affinity::CoreSet;

use work::{Work, WorkClient, WorkServer};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Starts a server on core 0.
fn serve(set: impl FnOnce(Server) -> Server) -> ServerHandle {
    let cores = CoreSet::parse("0").expect("the first core");
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port");
    let server = server.net(|net| net.cores(cores)).service(WorkServer::new(Work));
    set(server).start().expect("the server starts")
}

fn connect(server: &ServerHandle) -> WorkClient {
    let address = server.addresses()[0].clone();
    WorkClient::new(Client::builder().address(address).build().expect("an address"))
}

/// Runs a measurement on core 1, as often as requested.
fn measure<F: Future<Output = ()> + 'static>(
    set: impl Fn(Server) -> Server,
    body: impl Fn(ServerHandle) -> F,
) {
    let runs = std::env::var("RINGWAY_RUNS").ok().and_then(|runs| runs.parse().ok());
    for _ in 0..runs.unwrap_or(1) {
        let server = serve(&set);
        let core = Builder::default().cores(CoreSet::parse("1").expect("the second core"));
        core.block_on(body(server.clone())).expect("a core");
        server.abort();
        server.wait().expect("the server ends");
    }
}
