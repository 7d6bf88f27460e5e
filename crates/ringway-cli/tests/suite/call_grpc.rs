//! `ringway call` of gRPC servers that know nothing of Ringway: all that it learns is by gRPC's reflection.

use std::fs;

use ringway_rpc::{
    Context, Methods, Next, Server, ServerHandle, Service, ServiceDescriptor, Sink, Status,
    Streaming, service,
};

use crate::support::{Ringway, run, run_with_input};

const ORDER_PROTO: &str = r#"
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
enum Kind { PLAIN = 0; GIFT = 1; }
message Order {
  string item = 1;
  int64 count = 2;
  Kind kind = 3;
  google.protobuf.Timestamp at = 4;
}
"#;

const SHOP_PROTO: &str = r#"
syntax = "proto3";
package shop.v1;
import "google/protobuf/empty.proto";
import "shop/order.proto";
message Receipt { repeated Order orders = 1; }
service Shop {
  rpc Buy(Order) returns (Receipt) { option idempotency_level = IDEMPOTENT; }
  rpc BuyAll(stream Order) returns (Receipt);
  rpc Watch(google.protobuf.Empty) returns (stream Order);
  rpc Chat(stream Order) returns (stream Receipt);
}
"#;

#[derive(Clone, PartialEq, prost::Message)]
struct Order {
    #[prost(string, tag = "1")]
    item: String,
    #[prost(int64, tag = "2")]
    count: i64,
    #[prost(int32, tag = "3")]
    kind: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Receipt {
    #[prost(message, repeated, tag = "1")]
    orders: Vec<Order>,
}

#[service(package = "shop.v1", crate = "ringway_rpc")]
trait Shop {
    async fn buy(&self, order: Order) -> Result<Receipt, Status>;
    async fn buy_all(&self, orders: Streaming<Order>) -> Result<Receipt, Status>;
    async fn watch(&self, nothing: (), orders: Sink<Order>) -> Result<(), Status>;
    async fn chat(&self, orders: Streaming<Order>, receipts: Sink<Receipt>) -> Result<(), Status>;
}

struct Seller;

impl Shop for Seller {
    async fn buy(&self, order: Order) -> Result<Receipt, Status> {
        match order.count {
            0 => Err(Status::failed_precondition("sold out")),
            _ => Ok(Receipt { orders: vec![order] }),
        }
    }

    async fn buy_all(&self, mut incoming: Streaming<Order>) -> Result<Receipt, Status> {
        let mut orders = Vec::new();
        while let Some(order) = incoming.next().await? {
            orders.push(order);
        }
        Ok(Receipt { orders })
    }

    async fn watch(&self, (): (), mut orders: Sink<Order>) -> Result<(), Status> {
        for count in 1..=3 {
            orders.send(Order { item: "tea".to_owned(), count, kind: 1 }).await?;
        }
        Ok(())
    }

    async fn chat(
        &self,
        mut orders: Streaming<Order>,
        mut receipts: Sink<Receipt>,
    ) -> Result<(), Status> {
        while let Some(order) = orders.next().await? {
            receipts.send(Receipt { orders: vec![order] }).await?;
        }
        Ok(())
    }
}

/// The same service, which has its `.proto` files to tell.
struct Described(ShopServer<Seller>, &'static ServiceDescriptor);

impl Described {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("shop")).expect("a directory");
        for (name, text) in [("shop/order.proto", ORDER_PROTO), ("shop/shop.proto", SHOP_PROTO)] {
            fs::write(directory.path().join(name), text).expect("it is written");
        }
        let mut compiler = protox::Compiler::new([directory.path()]).expect("it is there");
        compiler.include_imports(true);
        compiler.open_file("shop/shop.proto").expect("it compiles");
        let set = Vec::leak(compiler.encode_file_descriptor_set());
        let inner = ShopServer::new(Seller);
        let descriptor = ServiceDescriptor {
            name: inner.descriptor().name,
            methods: inner.descriptor().methods,
            file_descriptor_set: Some(set),
        };
        Self(inner, Box::leak(Box::new(descriptor)))
    }
}

impl Service for Described {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        self.1
    }

    fn register(&self, methods: &mut Methods) {
        self.0.register(methods);
    }
}

/// A server that does not know the methods whose names begin with one of `unknown`.
fn serve_without(unknown: &'static [&'static str]) -> (ServerHandle, String) {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a port").threads(1);
    let server = server.service(Described::new());
    let server = server.intercept(async move |context: Context, next: Next| {
        match unknown.iter().any(|name| context.method().name().starts_with(name)) {
            true => Err(Status::unimplemented("unknown service")),
            false => next.run(context).await,
        }
    });
    let server = server.start().expect("it starts");
    let address = server.addresses()[0].to_string().replace("tcp://", "grpc://");
    (server, address)
}

const NEW: &[&str] = &["ringway.reflection."];
const OLD: &[&str] = &["ringway.reflection.", "grpc.reflection.v1."];
const NONE: &[&str] = &["ringway.reflection.", "grpc.reflection."];

#[test]
fn a_server_tells_what_it_offers_in_either_version() {
    for unknown in [NEW, OLD] {
        let (server, address) = serve_without(unknown);
        let ended = run(&format!("call {address} --list"));
        assert!(ended.out.contains("grpc.health.v1.Health\n  Check  "), "{}", ended.out);
        let shop = "\
shop.v1.Shop
  Buy     Order                  -> Receipt            idempotent
  BuyAll  stream of Order        -> Receipt
  Watch   google.protobuf.Empty  -> stream of Order
  Chat    stream of Order        -> stream of Receipt
";
        assert!(ended.out.contains(shop), "{}{}", ended.out, ended.err);
        server.abort();
    }
}

#[test]
fn every_kind_of_method_is_called_with_json() {
    let order = |item: &str, count: u32, kind: &str| {
        format!(r#"{{"item":"{item}","count":"{count}","kind":"{kind}"}}"#)
    };
    for unknown in [NEW, OLD, &[]] {
        let (server, address) = serve_without(unknown);
        let answers = |words: &str, input: &str, expected: &[String]| {
            let ended = run_with_input(&format!("call {address} shop.v1.Shop/{words}"), input);
            let lines: Vec<&str> = ended.out.lines().collect();
            assert_eq!(
                (ended.status.code(), lines),
                (Some(0), expected.iter().map(|it| &**it).collect()),
                "{}",
                ended.err
            );
        };
        let receipt = |orders: &[String]| format!(r#"{{"orders":[{}]}}"#, orders.join(","));
        let (tea, nuts) = (order("tea", 2, "GIFT"), order("nuts", 7, "PLAIN"));
        answers(
            r#"Buy {"item":"tea","count":2,"kind":"GIFT","at":"2026-01-02T03:04:05Z"}"#,
            "",
            &[receipt(std::slice::from_ref(&tea))],
        );
        let two = format!("{tea}\n{{\"item\":\"nuts\",\"count\":\"7\"}}\n");
        answers("BuyAll -", &two, &[receipt(&[tea.clone(), nuts.clone()])]);
        answers("Chat -", &two, &[receipt(&[tea]), receipt(&[nuts])]);
        let watched: Vec<String> = (1..=3).map(|count| order("tea", count, "GIFT")).collect();
        answers("Watch", "", &watched);
        server.abort();
    }
}

#[test]
fn a_stream_answers_while_the_input_goes_on() {
    use std::io::Write;
    let (server, address) = serve_without(NEW);
    let mut chat = Ringway::start(&format!("call {address} shop.v1.Shop/Chat -"));
    for item in ["tea", "nuts"] {
        writeln!(chat.stdin(), r#"{{"item":"{item}"}}"#).expect("it reads");
        assert!(chat.line().contains(item));
    }
    chat.close_stdin();
    assert_eq!(chat.wait().status.code(), Some(0));
    server.abort();
}

#[test]
fn what_cannot_be_called_is_said() {
    let (server, address) = serve_without(NEW);
    let fails = |words: &str, part: &str| {
        let ended = run(&format!("call {address} {words}"));
        assert_eq!((ended.status.code(), &*ended.out), (Some(1), ""), "{words}");
        assert!(ended.err.contains(part), "{words}: {}", ended.err);
    };
    fails("shop.v1.Shop/Buy {\"count\":0}", "FAILED_PRECONDITION: sold out");
    fails("shop.v1.Shop/Buy {\"price\":1}", "the request is not shop.v1.Order as JSON");
    fails("shop.v1.Shop/Sell", "shop.v1.Shop has no method Sell; it has Buy, BuyAll");
    fails("shop.Shop/Buy", "NOT_FOUND: no service shop.Shop; there is shop.v1.Shop");
    server.abort();
    let (server, address) = serve_without(NONE);
    for words in ["--list", "shop.v1.Shop/Buy {}"] {
        let ended = run(&format!("call {address} {words}"));
        assert_eq!((ended.status.code(), &*ended.out), (Some(1), ""), "{words}");
        assert!(ended.err.contains("turn reflection on"), "{words}: {}", ended.err);
    }
    server.abort();
}

#[test]
fn load_is_put_on_a_method_of_a_grpc_server() {
    let (server, address) = serve_without(NEW);
    let ended = run(&format!(
        "bench call {address} shop.v1.Shop/Buy {{\"item\":\"tea\",\"count\":2}} -c 2 -p 3 -d 0.05 --warmup 0 \
         --repeat 1 --format json --expect {{\"orders\":[{{\"item\":\"tea\",\"count\":\"2\"}}]}}"
    ));
    assert_eq!(ended.status.code(), Some(0), "{}{}", ended.out, ended.err);
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("one JSON object");
    let row = &report["rows"][0];
    assert_eq!(row["parameters"]["server"], *address);
    assert!(row["verified"].as_u64().is_some_and(|count| count > 0), "{row}");
    server.abort();
}
