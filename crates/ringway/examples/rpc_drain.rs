//! A server with streams that have no end, its metrics, and its end by SIGTERM or SIGINT.
//!
//! When it is asked to stop it ends its streams in order, so nobody waits for its drain's timeout. Run it:
//! `cargo run --release --example rpc_drain`, watch it:
//! `ringway call tcp://127.0.0.1:9000 Clock/Watch 100`, and stop it by Ctrl-C. An argument is the address
//! to listen on.

use std::time::Duration;

use ringway::rpc::{Context, Server, Sink, Status};
use ringway::runtime::sleep;

#[ringway::service]
trait Clock {
    /// Counts, once in so many milliseconds.
    async fn watch(&self, context: Context, period: u64, ticks: Sink<u64>) -> Result<(), Status>;
}

struct Ticking;

impl Clock for Ticking {
    async fn watch(&self, context: Context, ms: u64, mut ticks: Sink<u64>) -> Result<(), Status> {
        let period = Duration::from_millis(ms);
        let mut count = 0;
        while context.until_draining(sleep(period)).await.is_some() {
            count += 1;
            ticks.send(count).await?;
        }
        Ok(()) // its reader sees the end of the stream, and may watch another server
    }
}

fn main() -> ringway::Result {
    let address = std::env::args().nth(1).unwrap_or("tcp://127.0.0.1:9000".into());
    let server = Server::bind(address)?
        .service(ClockServer::new(Ticking))
        .drain_delay(Duration::from_millis(100)) // whoever watches its health hears of it first
        .drain_timeout(Duration::from_secs(20)) // for streams that do not end by themselves
        .on_ready(|addresses| println!("listening on {}", addresses[0]))
        .start()?;
    server.wait_for_signal()?;
    let stats = server.metrics();
    let watched: u64 = stats.methods.iter().map(|method| method.started).sum();
    println!("{watched} calls, {} cut off", server.stats().cut_off);
    Ok(())
}
