//! One client of three servers, of which one dies while calls run and a fourth takes its place.
//! Calls that were declared idempotent are repeated elsewhere and none of them fails; of the others
//! the caller is told.
//!
//! Run it: `cargo run --release --example rpc_balanced`. It starts the servers itself and ends.
//! With an address it is one such server: `… rpc_balanced tcp://127.0.0.1:9001`.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ringway::rpc::{Client, Host, Server, ServerHandle, Side, Status};
use ringway::runtime::{block_on, sleep, spawn};

#[ringway::service(package = "shop.v1")]
trait Shop {
    /// Asking twice does no harm.
    #[method(idempotent)]
    async fn price(&self, item: u64) -> Result<u64, Status>;

    /// Ordering twice does.
    async fn order(&self, number: u64) -> Result<u64, Status>;
}

struct Books;

impl Shop for Books {
    async fn price(&self, item: u64) -> Result<u64, Status> {
        sleep(Duration::from_millis(1)).await;
        Ok(100 * item)
    }

    async fn order(&self, number: u64) -> Result<u64, Status> {
        sleep(Duration::from_millis(1)).await;
        println!("order {number}");
        sleep(Duration::from_millis(1)).await;
        Ok(number)
    }
}

fn main() -> ringway::Result {
    if let Some(address) = std::env::args().nth(1) {
        let server = Server::bind(address.as_str())?.service(ShopServer::new(Books));
        let server = server.on_ready(|addresses| println!("listening on {}", addresses[0]));
        return server.serve();
    }
    let mut servers = Vec::new();
    for _ in 0..4 {
        let server = Server::bind("tcp://127.0.0.1:0")?.threads(1).service(ShopServer::new(Books));
        let server = server.start()?;
        println!("listening on {}", server.addresses()[0]);
        servers.push(server);
    }
    let client = servers[..3].iter().fold(Client::builder(), |client, server| {
        client.address(&server.addresses()[0]) // see also `weighted_address` and `balance`
    });
    block_on(ask_prices(client.build()?, servers.clone()))??;
    let served = servers[3].metrics();
    let prices = served.method(Side::Server, "shop.v1.Shop/Price").map_or(0, |calls| calls.started);
    println!("the fourth server was {}", if prices > 0 { "called" } else { "left out" });
    for server in &servers[1..] {
        server.shutdown();
        server.wait()?;
    }
    Ok(())
}

/// Keeps some calls under way until all are made, and replaces a server in the middle.
async fn ask_prices(client: Client, servers: Vec<ServerHandle>) -> Result<(), Status> {
    let next = Rc::new(Cell::new(0));
    let callers = (0..IN_FLIGHT).map(|_| {
        let (client, servers, next) = (client.clone(), servers.clone(), next.clone());
        let shop = ShopClient::new(client.clone());
        spawn(async move {
            while next.get() < CALLS {
                let item = next.replace(next.get() + 1);
                if item == CALLS / 2 {
                    servers[0].abort();
                    let hosts = servers[1..].iter().map(|server| Host::new(&server.addresses()[0]));
                    client.set_hosts(hosts.collect::<Result<Vec<_>, _>>()?)?;
                }
                assert_eq!(shop.price(item).await?, 100 * item);
            }
            Ok::<(), Status>(())
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("it does not panic")?;
    }
    println!("{CALLS} calls, none failed");
    Ok(())
}

const CALLS: u64 = 3_000;
const IN_FLIGHT: usize = 64;
