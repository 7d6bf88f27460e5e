//! What was made from a `.proto` file, over real sockets: calls of each kind, and reflection.

use std::time::Duration;

use prost::Message as _;
use prost_types::FileDescriptorSet;
use ringway::rpc::reflection::{DescribeRequest, DescribeResponse, ListRequest, ListResponse};
use ringway::rpc::{Client, Codec, Kind, Method, Server, Status};
use ringway::runtime::{block_on, timeout};
use ringway_build_example::Stall;
use ringway_build_example::market::{
    Fill, MarketClient, MarketServer, Order, QuoteRequest, Summary, Tick,
};

static LIST: Method = Method::new("ringway.reflection.v1.Reflection/List", Kind::Unary);
static DESCRIBE: Method = Method::new("ringway.reflection.v1.Reflection/Describe", Kind::Unary);

#[test]
fn one_request_and_one_reply() {
    run(async |market, _| {
        let reply = market.quote(QuoteRequest { symbol: "salt".into() }).await?;
        let last = reply.last.expect("a price");
        assert_eq!((&*last.symbol, last.price, &last.note[..]), ("salt", 4.0, &b"fresh"[..]));
        let refused = market.quote(QuoteRequest::default()).await.expect_err("no symbol");
        assert!(refused.is_invalid_argument(), "{refused}");
        Ok(())
    });
}

#[test]
fn a_stream_of_requests() {
    run(async |market, _| {
        let (mut ticks, summary) = market.upload();
        for price in [1.5, 9.25, 3.0] {
            ticks.send(Tick { price, ..Tick::default() }).await?;
        }
        ticks.finish();
        assert_eq!(summary.await?, Summary { ticks: 3, highest: 9.25 });
        Ok(())
    });
}

#[test]
fn a_stream_of_replies() {
    run(async |market, _| {
        let mut ticks = market.watch(QuoteRequest { symbol: "oil".into() });
        let mut seen = Vec::new();
        while let Some(tick) = ticks.next().await? {
            seen.push((tick.symbol, tick.price));
        }
        assert_eq!(seen, [("o".into(), 1.0), ("oi".into(), 2.0), ("oil".into(), 3.0)]);
        Ok(())
    });
}

#[test]
fn a_stream_in_each_direction() {
    run(async |market, _| {
        let (mut orders, mut fills) = market.trade();
        for id in 1..=3 {
            orders.send(Order { id, symbol: "tea".into(), count: 10 }).await?;
            assert_eq!(fills.next().await?, Some(Fill { id, price: 30.0 }));
        }
        orders.finish();
        assert_eq!(fills.next().await?, None);
        Ok(())
    });
}

#[test]
fn reflection_shows_the_file() {
    run(async |_, client| {
        let list = client.unary(&LIST, Codec::protobuf(), Codec::protobuf(), ListRequest {});
        let ListResponse { services } = list.await?;
        assert!(services.iter().any(|name| name == "market.v1.Market"), "{services:?}");

        let request = DescribeRequest { service: "market.v1.Market".into() };
        let describe = client.unary(&DESCRIBE, Codec::protobuf(), Codec::protobuf(), request);
        let described: DescribeResponse = describe.await?;
        let methods = described.methods.iter().map(|method| {
            (&*method.name, method.streams_in, method.streams_out, method.idempotent)
        });
        let methods: Vec<_> = methods.collect();
        assert_eq!(
            methods,
            [
                ("Quote", false, false, true),
                ("Upload", true, false, false),
                ("Watch", false, true, false),
                ("Trade", true, true, false),
            ]
        );
        assert!(described.methods.iter().all(|m| (m.codec_in, m.codec_out) == (1, 1)));

        let files = FileDescriptorSet::decode(described.file_descriptor_set).expect("descriptors");
        let file = files.file.iter().find(|file| file.package() == "market.v1").expect("the file");
        assert_eq!(file.name(), "market.proto");
        let service = &file.service[0];
        let types = |at: usize| (service.method[at].input_type(), service.method[at].output_type());
        assert_eq!((service.name(), service.method.len()), ("Market", 4));
        assert_eq!(types(3), (".market.v1.Order", ".market.v1.Fill"));
        Ok(())
    });
}

/// Runs a test with a client, typed and untyped, of a server that serves the stall.
fn run(test: impl AsyncFnOnce(&MarketClient, &Client) -> Result<(), Status> + 'static) {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let server = server.service(MarketServer::new(Stall)).start().expect("the server starts");
    let client = Client::connect(server.addresses()[0].clone()).expect("an address");
    let ended = block_on(timeout(Duration::from_secs(20), async move {
        test(&MarketClient::new(client.clone()), &client).await
    }));
    ended.expect("a core").expect("no hang").unwrap_or_else(|status| panic!("{status}"));
    server.shutdown();
    server.wait().expect("the server ends in order");
}
