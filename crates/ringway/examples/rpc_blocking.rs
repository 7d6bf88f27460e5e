//! Calls from plain threads: whoever has no runtime waits. The threads share one client, whose
//! connections a core of ours serves in the background.
//!
//! Run it: `cargo run --release --example rpc_blocking`. It calls itself and ends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use ringway::rpc::{Server, Status};

#[ringway::service(package = "counter.v1")]
trait Counter {
    async fn add(&self, amount: u64) -> Result<u64, Status>;
    async fn wait_for(&self, total: u64) -> Result<u64, Status>;
}

#[derive(Default)]
struct Total(AtomicU64);

impl Counter for Total {
    async fn add(&self, amount: u64) -> Result<u64, Status> {
        Ok(self.0.fetch_add(amount, Ordering::Relaxed) + amount)
    }

    async fn wait_for(&self, total: u64) -> Result<u64, Status> {
        while self.0.load(Ordering::Relaxed) < total {
            ringway::runtime::sleep(Duration::from_millis(1)).await;
        }
        Ok(total)
    }
}

fn main() -> ringway::Result {
    let counter = CounterServer::new(Total::default());
    let server = Server::bind("tcp://127.0.0.1:0")?.service(counter).start()?;
    println!("listening on {}", server.addresses()[0]);

    let counter = CounterClient::connect(&server.addresses()[0])?;
    let add = || (0..250).try_for_each(|_| counter.add(1).wait().map(drop));
    thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(add));
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })?;
    println!("total: {}", counter.wait_for(1_000).wait()?);

    let more = counter.wait_for(1_001).timeout(Duration::from_millis(50)).wait();
    println!("more: {}", more.unwrap_err());

    server.shutdown();
    server.wait()
}
