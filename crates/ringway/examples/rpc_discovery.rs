//! A client that finds its servers in a registry, and a roll-out in which no call fails: each of three servers is
//! replaced while calls run. A server registers when it is ready; before it stops, it deregisters and serves on for a
//! while.
//!
//! Run it: `cargo run --release --example rpc_discovery`. It has the registry in its own process. With the address of
//! one, such as `… rpc_discovery 127.0.0.1:2379`, it uses `ringway serve registry`, or etcd.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use ringway::discovery::{
    Announcement, Discovery, EtcdConfig, EtcdRegistry, Local, RegistryResolver,
};
use ringway::rpc::{Client, Server, ServerHandle, Status};

#[ringway::service(package = "shop.v1")]
trait Shop {
    async fn order(&self, number: u64) -> Result<u64, Status>;
}

struct Books;

impl Shop for Books {
    async fn order(&self, number: u64) -> Result<u64, Status> {
        Ok(number)
    }
}

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    match std::env::args().nth(1) {
        Some(address) => roll_out(&EtcdRegistry::new(EtcdConfig::new([address])?)),
        None => roll_out(&Local::new()),
    }
}

fn roll_out<R: Discovery + Clone + 'static>(registry: &R) -> Result<()> {
    let mut servers = (0..3).map(|_| start(registry)).collect::<Result<Vec<_>>>()?;
    // With `ringway::discovery::install()`, `Client::connect("etcd://127.0.0.1:2379/shop")` does the same.
    let client = Client::builder().resolver(RegistryResolver::new(registry.clone(), "shop"));
    let shop = ShopClient::new(client.zone("eu-1").build()?);
    let (is_over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let caller = {
        let (is_over, calls) = (Arc::clone(&is_over), Arc::clone(&calls));
        thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let number = calls.fetch_add(1, Ordering::Relaxed);
                shop.order(number).wait()?; // it would say why it failed
            }
            Ok::<_, Status>(())
        })
    };
    for server in &mut servers {
        let former = std::mem::replace(server, start(registry)?);
        former.shutdown();
        former.wait()?;
        println!("replaced {}", former.addresses()[0]);
    }
    is_over.store(true, Ordering::Relaxed);
    caller.join().expect("it does not panic")?;
    println!("{} calls, none failed", calls.load(Ordering::Relaxed));
    for server in servers {
        server.shutdown();
        server.wait()?;
    }
    Ok(())
}

fn start<R: Discovery + Clone + 'static>(registry: &R) -> Result<ServerHandle> {
    let server = Server::bind("tcp://127.0.0.1:0")?.threads(1).service(ShopServer::new(Books));
    let announcement = Announcement::new(registry.clone(), "shop").zone("eu-1");
    // Five seconds, the default, suit clients that are far away.
    Ok(announcement.drain_delay(Duration::from_millis(300)).on(server)?.start()?)
}
