//! Data divided among the cores: each key belongs to one of them, which keeps it without a lock. A call that comes
//! to another core is carried out on the key's own.
//!
//! Run it: `cargo run --release --example rpc_sharded`. It calls itself and ends.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, OnceLock};

use ringway::rpc::{Client, Context, Server, Status};
use ringway::runtime::CoreHandle;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Entry {
    key: String,
    value: u64,
}

#[ringway::service(package = "shards.v1")]
trait Shards {
    /// Adds to what the key has, and returns the sum.
    async fn add(&self, context: Context, entry: Entry) -> Result<u64, Status>;
    /// How many keys each core has.
    async fn sizes(&self) -> Result<Vec<usize>, Status>;
}

thread_local! {
    /// What this core has. No other one touches it.
    static SHARD: RefCell<HashMap<String, u64>> = RefCell::default();
}

fn add_here(entry: Entry) -> u64 {
    SHARD.with_borrow_mut(|shard| {
        let sum = shard.entry(entry.key).or_default();
        *sum += entry.value;
        *sum
    })
}

/// The cores are known once the server is started.
#[derive(Clone, Default)]
struct Sharded(Arc<OnceLock<Vec<CoreHandle>>>);

impl Sharded {
    fn cores(&self) -> Result<&[CoreHandle], Status> {
        let cores = self.0.get().ok_or_else(|| Status::unavailable("the server is starting"))?;
        Ok(cores)
    }
}

impl Shards for Sharded {
    async fn add(&self, context: Context, entry: Entry) -> Result<u64, Status> {
        let cores = self.cores()?;
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&entry.key);
        let owner = (hash % cores.len() as u64) as usize;
        if owner == context.core() {
            return Ok(add_here(entry)); // nothing crosses a core
        }
        Ok(cores[owner].spawn(async || add_here(entry))?.await?)
    }

    async fn sizes(&self) -> Result<Vec<usize>, Status> {
        let mut sizes = Vec::new();
        for core in self.cores()? {
            sizes.push(core.spawn(async || SHARD.with_borrow(HashMap::len))?.await?);
        }
        Ok(sizes)
    }
}

fn main() -> ringway::Result {
    let service = Sharded::default();
    let server = Server::bind("tcp://127.0.0.1:0")?.threads(2); // or pinned: `.net(|net| net.cores(…))`
    let server = server.service(ShardsServer::new(service.clone())).start()?;
    let _is_first = service.0.set(server.cores().to_vec());
    println!("listening on {}", server.addresses()[0]);

    let shards = ShardsClient::new(Client::connect(server.addresses())?);
    for round in 1..=2 {
        let keys = (0..100).map(|n| Entry { key: format!("key {n}"), value: n });
        let sums = keys.map(|entry| shards.add(entry).wait()).sum::<Result<u64, Status>>()?;
        println!("round {round}: the sums are {sums} together");
    }
    println!("keys of each core: {:?}", shards.sizes().wait()?);
    server.shutdown();
    server.wait()
}
