//! A server with some traffic of its own, to be looked at: open the link that it prints in a browser.
//!
//! Run it: `cargo run --release --example rpc_console -- 127.0.0.1:9000`.

use std::time::Duration;

use ringway::rpc::{Context, Server, Sink, Status};
use ringway::runtime::{sleep, spawn};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    item: String,
    count: u32,
}

#[ringway::service(package = "shop.v1")]
trait Shop {
    #[method(no_side_effects)]
    async fn price(&self, item: String) -> Result<f64, Status>;
    async fn buy(&self, order: Order) -> Result<String, Status>;
    /// One at a time, so that others wait for it.
    #[method(concurrency = 1)]
    async fn report(&self, day: u32) -> Result<String, Status>;
    async fn watch(&self, context: Context, item: String, prices: Sink<f64>) -> Result<(), Status>;
}

struct Corner;

impl Shop for Corner {
    async fn price(&self, item: String) -> Result<f64, Status> {
        Ok(item.len() as f64 * 1.25)
    }

    async fn buy(&self, order: Order) -> Result<String, Status> {
        if order.count == 0 {
            return Err(Status::invalid_argument("nothing is ordered"));
        }
        sleep(Duration::from_millis(u64::from(order.count))).await; // the till
        Ok(format!("{} × {}", order.count, order.item))
    }

    async fn report(&self, day: u32) -> Result<String, Status> {
        sleep(Duration::from_millis(40)).await;
        Ok(format!("all went well on day {day}"))
    }

    async fn watch(
        &self,
        context: Context,
        item: String,
        mut prices: Sink<f64>,
    ) -> Result<(), Status> {
        let mut day = 0;
        while context.until_draining(sleep(Duration::from_millis(200))).await.is_some() {
            prices.send(item.len() as f64 + f64::from(day % 7)).await?;
            day += 1;
        }
        Ok(())
    }
}

fn main() -> ringway::Result {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let server =
        Server::bind(format!("tcp://{address}"))?.service(ShopServer::new(Corner)).start()?;
    let address = server.addresses()[0].clone();
    println!("listening on {address}");
    if let Some(link) = server.console_link() {
        println!("console at {link}");
    }

    let shop = ShopClient::connect(&address)?;
    for customer in 0..4_u32 {
        let shop = shop.clone();
        let _customer = server.cores()[0].spawn(async move || customer_of(shop, customer).await);
    }
    server.wait_for_signal()
}

/// Buys until the shop closes.
async fn customer_of(shop: ShopClient, customer: u32) {
    let watching = shop.clone();
    spawn(async move {
        let mut prices = watching.watch("tea".to_owned());
        while let Ok(Some(_price)) = prices.next().await {}
    });
    for turn in 0.. {
        let count = (turn + customer) % 13;
        let order = Order { item: "tea".to_owned(), count };
        let sold = shop.buy(order).await;
        let (_price, _report) = (shop.price("tea".to_owned()).await, shop.report(turn).await);
        if sold.is_err_and(|status| status.is_unavailable()) {
            return;
        }
    }
}
