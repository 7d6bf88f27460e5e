//! The four kinds of calls: one message or a stream of them, in each direction.
//!
//! Run it: `cargo run --release --example rpc_streams`. It calls itself once a kind and ends.

use ringway::rpc::{Server, Sink, Status, Streaming};
use ringway::runtime::{block_on, yield_now};

/// What travels, as protobuf.
#[derive(Clone, PartialEq, prost::Message)]
struct Tick {
    #[prost(string, tag = "1")]
    symbol: String,
    #[prost(uint64, tag = "2")]
    cents: u64,
}

/// The signature of a method is its kind.
#[ringway::service(package = "market.v1")]
trait Market {
    /// One request, one reply.
    async fn price(&self, symbol: String) -> Result<Tick, Status>;
    /// A stream of requests, one reply: the dearest of them.
    async fn dearest(&self, ticks: Streaming<Tick>) -> Result<Tick, Status>;
    /// One request, a stream of replies: prices for as long as the caller wants them.
    async fn watch(&self, symbol: String, ticks: Sink<Tick>) -> Result<(), Status>;
    /// A stream in each direction: a price for each symbol.
    async fn prices(&self, symbols: Streaming<String>, ticks: Sink<Tick>) -> Result<(), Status>;
}

struct Exchange;

impl Market for Exchange {
    async fn price(&self, symbol: String) -> Result<Tick, Status> {
        let cents = 100 * symbol.len() as u64;
        Ok(Tick { symbol, cents })
    }

    async fn dearest(&self, mut ticks: Streaming<Tick>) -> Result<Tick, Status> {
        let mut dearest = None;
        while let Some(tick) = ticks.next().await? {
            dearest = dearest.into_iter().chain([tick]).max_by_key(|tick| tick.cents);
        }
        dearest.ok_or_else(|| Status::invalid_argument("there was no tick"))
    }

    async fn watch(&self, symbol: String, mut ticks: Sink<Tick>) -> Result<(), Status> {
        for cents in 100.. {
            ticks.send(Tick { symbol: symbol.clone(), cents }).await?; // waits for a slow reader
            yield_now().await; // others on this core have their turn
        }
        Ok(())
    }

    async fn prices(
        &self,
        mut symbols: Streaming<String>,
        mut ticks: Sink<Tick>,
    ) -> Result<(), Status> {
        while let Some(symbol) = symbols.next().await? {
            ticks.send(self.price(symbol).await?).await?;
        }
        Ok(())
    }
}

fn main() -> ringway::Result {
    let server = Server::bind("tcp://127.0.0.1:0")?.service(MarketServer::new(Exchange)).start()?;
    println!("listening on {}", server.addresses()[0]);
    let market = MarketClient::connect(&server.addresses()[0])?;
    block_on(call_each(market))??;
    server.shutdown();
    server.wait()
}

async fn call_each(market: MarketClient) -> Result<(), Status> {
    println!("price: {}", market.price("RWY".into()).await?.cents);

    let (mut ticks, dearest) = market.dearest();
    for cents in [120, 180, 150] {
        ticks.send(Tick { symbol: "RWY".into(), cents }).await?;
    }
    ticks.finish(); // without it, dropping the sink would cancel the call
    println!("dearest: {}", dearest.await?.cents);

    let mut watched = market.watch("RWY".into());
    for _ in 0..3 {
        println!("watch: {:?}", watched.next().await?.map(|tick| tick.cents));
    }
    drop(watched); // enough: the handler ends at its next `send`

    let (mut symbols, mut ticks) = market.prices();
    for symbol in ["A", "BB"] {
        symbols.send(symbol.into()).await?;
        println!("prices: {symbol} {:?}", ticks.next().await?.map(|tick| tick.cents));
    }
    symbols.finish();
    assert!(ticks.next().await?.is_none(), "the handler has ended");
    Ok(())
}
