//! A service that begins with a `.proto` file: `build.rs` makes messages and a trait from it, this
//! file carries the trait out. A program serves it as any other:
//!
//! ```no_run
//! use ringway::rpc::Server;
//! use ringway_build_example::Stall;
//! use ringway_build_example::market::MarketServer;
//!
//! fn main() -> ringway::Result {
//!     Server::bind("tcp://127.0.0.1:9000")?.service(MarketServer::new(Stall)).serve()
//! }
//! ```

use ringway::rpc::{Sink, Status, Streaming};

use self::market::{Fill, Market, Order, QuoteReply, QuoteRequest, Summary, Tick};

/// What was made from the file: `Market`, `MarketServer`, `MarketClient` and the messages.
#[allow(missing_docs)] // messages are documented by the file, where that says anything
pub mod market {
    include!(concat!(env!("OUT_DIR"), "/market.v1.rs"));
}

/// A market at which everything costs as much as its name has letters.
#[derive(Clone, Copy, Debug)]
pub struct Stall;

impl Stall {
    fn tick(symbol: &str) -> Tick {
        Tick { symbol: symbol.to_owned(), price: symbol.len() as f64, note: "fresh".into() }
    }
}

impl Market for Stall {
    async fn quote(&self, request: QuoteRequest) -> Result<QuoteReply, Status> {
        if request.symbol.is_empty() {
            return Err(Status::invalid_argument("a quote needs a symbol"));
        }
        Ok(QuoteReply { last: Some(Self::tick(&request.symbol)) })
    }

    async fn upload(&self, mut ticks: Streaming<Tick>) -> Result<Summary, Status> {
        let mut summary = Summary::default();
        while let Some(tick) = ticks.next().await? {
            summary.ticks += 1;
            summary.highest = summary.highest.max(tick.price);
        }
        Ok(summary)
    }

    async fn watch(&self, request: QuoteRequest, mut ticks: Sink<Tick>) -> Result<(), Status> {
        for len in 1..=request.symbol.len() {
            ticks.send(Self::tick(&request.symbol[..len])).await?;
        }
        Ok(())
    }

    async fn trade(
        &self,
        mut orders: Streaming<Order>,
        mut fills: Sink<Fill>,
    ) -> Result<(), Status> {
        while let Some(order) = orders.next().await? {
            let price = order.symbol.len() as f64 * f64::from(order.count);
            fills.send(Fill { id: order.id, price }).await?;
        }
        Ok(())
    }
}
