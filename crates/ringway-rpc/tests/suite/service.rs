//! A service and a client made by `#[service]`, over real sockets.

use std::cell::Cell;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{
    CallOptions, Client, Context, Server, ServerHandle, Service, Sink, Status, Streaming, service,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, prost::Message)]
struct Tick {
    #[prost(uint64, tag = "1")]
    cents: u64,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Summary {
    ticks: usize,
    cents: u64,
}

#[service(package = "market.v1", crate = "ringway_rpc")]
trait Market {
    /// Returns the symbol reversed.
    async fn quote(&self, symbol: Bytes) -> Result<Bytes, Status>;
    /// Returns the caller's metadata and whether it has a deadline.
    async fn tenant(&self, context: Context, request: ()) -> Result<String, Status>;
    #[method(offload)]
    async fn thread(&self, context: Context, request: String) -> Result<String, Status>;
    #[method(timeout_ms = 20)]
    async fn never(&self, request: ()) -> Result<(), Status>;
    async fn upload(&self, ticks: Streaming<Tick>) -> Result<Summary, Status>;
    /// Takes no arguments.
    #[method(idempotent)]
    async fn markets(&self) -> Result<Vec<String>, Status>;
    #[method(offload)]
    async fn weekday(&self) -> Result<String, Status>;
    /// Or several values, also before a sink.
    async fn price(&self, symbol: String, amount: u32) -> Result<String, Status>;
    async fn between(&self, _: Context, from: u64, to: u64, _: Sink<Tick>) -> Result<(), Status>;
    async fn every(&self, ticks: Sink<Tick>) -> Result<(), Status>;
    async fn watch(&self, count: Summary, ticks: Sink<Tick>) -> Result<(), Status>;
    async fn double(&self, ticks: Streaming<Tick>, doubled: Sink<Tick>) -> Result<(), Status>;
}

/// An implementation that is not `Sync`, as one per core may be.
#[derive(Default)]
struct Exchange {
    quotes: Cell<u32>,
}

impl Market for Exchange {
    async fn quote(&self, symbol: Bytes) -> Result<Bytes, Status> {
        self.quotes.set(self.quotes.get() + 1);
        match symbol.is_empty() {
            true => Err(Status::invalid_argument("which symbol?")),
            false => Ok(symbol.iter().rev().copied().collect()),
        }
    }

    async fn tenant(&self, context: Context, (): ()) -> Result<String, Status> {
        context.set_trailer("quotes", self.quotes.get().to_string())?;
        let tenant = context.metadata().get("tenant").unwrap_or("nobody");
        Ok(format!("{tenant} {}", context.remaining().is_some()))
    }

    async fn thread(&self, context: Context, request: String) -> Result<String, Status> {
        let thread = std::thread::current().name().unwrap_or("").to_owned();
        Ok(format!("{request} {} {thread}", context.method().short_name()))
    }

    async fn never(&self, (): ()) -> Result<(), Status> {
        std::future::pending().await
    }

    async fn upload(&self, mut ticks: Streaming<Tick>) -> Result<Summary, Status> {
        let mut summary = Summary { ticks: 0, cents: 0 };
        while let Some(tick) = ticks.next().await? {
            summary.ticks += 1;
            summary.cents += tick.cents;
        }
        Ok(summary)
    }

    async fn markets(&self) -> Result<Vec<String>, Status> {
        Ok(vec!["Vienna".into(), "Turin".into()])
    }

    async fn weekday(&self) -> Result<String, Status> {
        Ok("Monday".into())
    }

    async fn price(&self, symbol: String, amount: u32) -> Result<String, Status> {
        Ok(format!("{amount} of {symbol}"))
    }

    async fn between(
        &self,
        _: Context,
        from: u64,
        to: u64,
        mut ticks: Sink<Tick>,
    ) -> Result<(), Status> {
        for cents in from..to {
            ticks.send(Tick { cents }).await?;
        }
        Ok(())
    }

    async fn every(&self, mut ticks: Sink<Tick>) -> Result<(), Status> {
        ticks.send(Tick { cents: 7 }).await
    }

    async fn watch(&self, count: Summary, mut ticks: Sink<Tick>) -> Result<(), Status> {
        for cents in 0..count.cents {
            ticks.send(Tick { cents }).await?;
        }
        Err(Status::out_of_range("no more"))
    }

    async fn double(
        &self,
        mut ticks: Streaming<Tick>,
        mut doubled: Sink<Tick>,
    ) -> Result<(), Status> {
        while let Some(tick) = ticks.next().await? {
            doubled.send(Tick { cents: tick.cents * 2 }).await?;
        }
        Ok(())
    }
}

fn serve(service: impl Service) -> (ServerHandle, MarketClient) {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a port");
    let server = server.threads(1).service(service).start().expect("it starts");
    let client = Client::connect(server.addresses()[0].clone()).expect("a good address");
    (server, MarketClient::new(client))
}

/// Runs a test on its own core, for at most a minute.
fn run<F>(test: impl FnOnce(MarketClient) -> F + 'static)
where
    F: Future<Output = Result<(), Status>> + 'static,
{
    let (server, market) = serve(MarketServer::per_core(Exchange::default));
    let outcome = ringway_runtime::block_on(async {
        ringway_runtime::timeout(Duration::from_secs(60), test(market)).await
    });
    outcome.expect("a core").expect("in time").expect("success");
    server.abort();
}

#[test]
fn methods_without_arguments() {
    run(async |market: MarketClient| {
        assert_eq!(market.markets().await?, ["Vienna", "Turin"]);
        assert_eq!(market.weekday().await?, "Monday");
        let mut ticks = market.every();
        assert_eq!(ticks.next().await?, Some(Tick { cents: 7 }));
        assert_eq!(ticks.next().await?, None);
        Ok(())
    });
}

#[test]
fn methods_that_take_several_values() {
    run(async |market: MarketClient| {
        assert_eq!(market.price("RWY".into(), 3).await?, "3 of RWY");
        let mut ticks = market.between(4, 6);
        assert_eq!(ticks.next().await?, Some(Tick { cents: 4 }));
        assert_eq!(ticks.next().await?, Some(Tick { cents: 5 }));
        assert_eq!(ticks.next().await?, None);
        Ok(())
    });
}

#[test]
fn unary() {
    run(async |market: MarketClient| {
        assert_eq!(market.quote(Bytes::from_static(b"RWY")).await?, "YWR");
        let refused = market.quote(Bytes::new()).await.expect_err("there is no symbol");
        assert_eq!(refused.to_string(), "INVALID_ARGUMENT: which symbol?");
        let reply = market.tenant(()).metadata("tenant", "blue").full().await?;
        assert_eq!(reply.message, "blue true");
        assert_eq!(reply.trailers.get("quotes"), Some("2"), "one implementation a core");
        Ok(())
    });
}

#[test]
fn client_options_apply_to_its_calls() {
    run(async |market: MarketClient| {
        let market = market.with(CallOptions::new().no_timeout().metadata("tenant", "red"));
        assert_eq!(market.tenant(()).await?, "red false");
        Ok(())
    });
}

#[test]
fn declared_timeout_is_the_default() {
    run(async |market: MarketClient| {
        assert!(market.never(()).await.is_err_and(|status| status.is_deadline_exceeded()));
        Ok(())
    });
}

#[test]
fn offloaded_calls_run_on_the_blocking_pool() {
    run(async |market: MarketClient| {
        assert_eq!(market.thread("hello".to_owned()).await?, "hello Thread ringway-blocking");
        Ok(())
    });
}

#[test]
fn client_stream() {
    run(async |market: MarketClient| {
        let (mut ticks, summary) = market.upload();
        for cents in 1..=1_000 {
            ticks.send(Tick { cents }).await?;
        }
        ticks.finish();
        assert_eq!(summary.await?, Summary { ticks: 1_000, cents: 500_500 });
        Ok(())
    });
}

#[test]
fn server_stream() {
    run(async |market: MarketClient| {
        let mut ticks = market.watch(Summary { ticks: 0, cents: 1_000 });
        for cents in 0..1_000 {
            assert_eq!(ticks.next().await?, Some(Tick { cents }));
        }
        let end = ticks.next().await.expect_err("the handler's status ends the stream");
        assert!(end.is_out_of_range(), "{end}");
        Ok(())
    });
}

#[test]
fn bidi() {
    run(async |market: MarketClient| talk(market.double()).await);
}

async fn talk((mut ticks, mut doubled): (Sink<Tick>, Streaming<Tick>)) -> Result<(), Status> {
    for cents in 0..100 {
        ticks.send(Tick { cents }).await?;
        assert_eq!(doubled.next().await?, Some(Tick { cents: cents * 2 }));
    }
    ticks.finish();
    assert_eq!(doubled.next().await?, None);
    Ok(())
}

#[test]
fn stream_outlives_its_client() {
    run(async |market: MarketClient| {
        let streams = market.double();
        drop(market); // before there is a connection
        talk(streams).await
    });
}

#[test]
fn plain_thread_waits_for_calls() {
    let (server, market) = serve(MarketServer::per_core(Exchange::default));
    assert_eq!(market.quote(Bytes::from_static(b"ab")).wait().expect("a reply"), "ba");
    server.abort();
}
