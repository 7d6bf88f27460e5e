//! The code that `#[service]` generates, tested through the server's method table.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use ringway_wire::native::Piece;

use super::{Begin, Encoded, Methods, Registered, Service, Started};
use crate::call::codec::Codec;
use crate::call::context::tests::sample;
use crate::call::method::{Kind, Method};
use crate::{Context, Sink, Status, Streaming, service};

#[derive(Clone, PartialEq, prost::Message)]
struct Price {
    #[prost(uint64, tag = "1")]
    cents: u64,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Order {
    amount: u32,
}

/// A small market.
#[service(package = "market.v1", descriptors = b"described", crate = "crate")]
trait Market {
    #[method(idempotent, timeout_ms = 500, concurrency = 64)]
    async fn quote(&self, symbol: Bytes) -> Result<Price, Status>;
    async fn place_order(&self, context: Context, order: Order) -> Result<(), Status>;
    #[method(name = "Settle", offload)]
    async fn settle_all(&self, request: ()) -> Result<Order, Status>;
    async fn upload(&self, ticks: Streaming<Price>) -> Result<Order, Status>;
    async fn watch(&self, symbol: Bytes, prices: Sink<Price>) -> Result<(), Status>;
    async fn trade(&self, orders: Streaming<Order>, fills: Sink<Bytes>) -> Result<(), Status>;
}

/// An implementation that is neither `Send` nor `Sync`.
#[derive(Default)]
struct Exchange {
    calls: Rc<Cell<u64>>,
}

impl Market for Exchange {
    async fn quote(&self, symbol: Bytes) -> Result<Price, Status> {
        self.calls.set(self.calls.get() + 1);
        Ok(Price { cents: self.calls.get() * 100 + symbol.len() as u64 })
    }

    async fn place_order(&self, context: Context, order: Order) -> Result<(), Status> {
        context.set_trailer("amount", order.amount.to_string())?;
        Ok(())
    }

    async fn settle_all(&self, (): ()) -> Result<Order, Status> {
        Ok(Order { amount: 7 })
    }

    async fn upload(&self, mut ticks: Streaming<Price>) -> Result<Order, Status> {
        let mut amount = 0;
        while ticks.next().await?.is_some() {
            amount += 1;
        }
        Ok(Order { amount })
    }

    async fn watch(&self, _: Bytes, mut prices: Sink<Price>) -> Result<(), Status> {
        prices.send(Price::default()).await
    }

    async fn trade(
        &self,
        mut orders: Streaming<Order>,
        mut fills: Sink<Bytes>,
    ) -> Result<(), Status> {
        while let Some(order) = orders.next().await? {
            fills.send(order.amount.to_string().into()).await?;
        }
        Ok(())
    }
}

fn entries() -> Vec<Registered> {
    let mut methods = Methods::default();
    MarketServer::per_core(Exchange::default).register(&mut methods);
    methods.into_entries()
}

/// Returns the result of a call that does not wait.
fn call(entry: &Registered, context: &Context, request: &[u8]) -> (Encoded, Vec<u8>) {
    let message = Some(Piece::Borrowed(request));
    let begin =
        Begin { context: context.clone(), message, stream: None, held: None, is_json: false };
    let mut out = Vec::new();
    match entry.handler.start(begin, &mut out) {
        Started::Done(outcome) => (outcome.expect("a reply"), out),
        Started::Waiting(_) | Started::Refused(_) => panic!("{:?} waits", entry.method),
    }
}

#[test]
fn descriptor_has_the_declared_options() {
    let server = MarketServer::per_core(Exchange::default);
    let descriptor = server.descriptor();
    assert_eq!(descriptor.name, "market.v1.Market");
    assert_eq!(descriptor.file_descriptor_set, Some(&b"described"[..]));
    let known: Vec<_> = descriptor.methods.iter().map(|it| (it.short_name(), it.kind())).collect();
    let expected = [
        ("Quote", Kind::Unary),
        ("PlaceOrder", Kind::Unary),
        ("Settle", Kind::Unary),
        ("Upload", Kind::ClientStream),
        ("Watch", Kind::ServerStream),
        ("Trade", Kind::Bidi),
    ];
    assert_eq!(known, expected);
    let [quote, order, settle, ..] = descriptor.methods else { unreachable!("there are six") };
    assert_eq!(quote.name(), "market.v1.Market/Quote");
    assert!(quote.is_idempotent() && !order.is_idempotent());
    assert_eq!(quote.timeout(), Some(std::time::Duration::from_millis(500)));
    assert_eq!((quote.concurrency_max(), order.concurrency_max()), (Some(64), None));
    assert!(settle.is_offloaded() && !quote.is_offloaded());
}

#[test]
fn codecs_are_chosen_by_type() {
    let codecs: Vec<_> = entries().iter().map(|it| (it.codec_in, it.codec_out)).collect();
    assert_eq!(codecs, [(0, 1), (2, 1), (1, 2), (1, 2), (0, 1), (2, 0)]);
}

#[test]
fn one_implementation_serves_all_calls_of_a_core() {
    let entries = entries();
    let context = sample();
    assert_eq!(call(&entries[0], &context, b"RWY").1, [8, 103]);
    let second = call(&entries[0], &context, b"RWY");
    assert_eq!((second.0, &second.1[..]), (Encoded::InScratch, &[8, 0xCB, 1][..]));
    let another = self::entries();
    assert_eq!(call(&another[0], &context, b"RWY").1, [8, 103], "another core has its own");
}

#[test]
fn handler_gets_the_context_of_its_call() {
    let context = sample();
    let (encoded, out) = call(&entries()[1], &context, br#"{"amount":12}"#);
    assert_eq!((encoded, out.len()), (Encoded::InScratch, 0), "an empty message");
    assert_eq!(context.take_trailers().get("amount"), Some("12"));
}

#[test]
fn a_method_that_is_added_again_replaces_the_former_one() {
    let server = MarketServer::per_core(Exchange::default);
    let (mut methods, all) = (Methods::default(), server.descriptor().methods);
    server.register(&mut methods);
    methods.unary(&all[0], Codec::raw(), Codec::raw(), async |_, request: Bytes| Ok(request));
    let entries = methods.into_entries();
    let names: Vec<_> = entries.iter().map(|entry| entry.method.name()).collect();
    assert_eq!(names, all.iter().map(Method::name).collect::<Vec<_>>());
    assert_eq!((entries[0].codec_out, entries[1].codec_out), (0, 1));
}
