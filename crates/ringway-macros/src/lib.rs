//! The `#[service]` attribute.

mod client;
mod expand;
mod method;
mod options;
mod server;
mod service;
mod signature;

use proc_macro::TokenStream;

/// Makes a service of a trait: server glue and a typed client, from one declaration.
///
/// ```text
/// use ringway::rpc::{Context, Server, Sink, Status, Streaming};
///
/// #[ringway::service(package = "market.v1")]
/// pub trait Market {
///     /// The price right now.
///     #[method(idempotent, timeout_ms = 500)]
///     async fn quote(&self, request: QuoteRequest) -> Result<Quote, Status>;
///
///     /// Takes prices in.
///     async fn upload(&self, ticks: Streaming<Tick>) -> Result<Summary, Status>;
///
///     /// Prices as they change, until the caller has enough.
///     async fn watch(
///         &self,
///         context: Context,
///         request: WatchRequest,
///         quotes: Sink<Quote>,
///     ) -> Result<(), Status>;
///
///     /// Orders in, fills out.
///     async fn trade(&self, orders: Streaming<Order>, fills: Sink<Fill>) -> Result<(), Status>;
/// }
///
/// struct Exchange;
///
/// impl Market for Exchange {
///     async fn quote(&self, request: QuoteRequest) -> Result<Quote, Status> {
///         Ok(Quote { symbol: request.symbol, price: 42 })
///     }
///     // …
/// }
///
/// // A server process:
/// Server::bind("tcp://127.0.0.1:9000")?.service(MarketServer::new(Exchange)).serve()?;
///
/// // A client:
/// let market = MarketClient::connect("tcp://127.0.0.1:9000")?;
/// let quote = market.quote(QuoteRequest { symbol: "RWY".into() }).await?;
/// let mut quotes = market.watch(WatchRequest::default());
/// while let Some(quote) = quotes.next().await? {
///     println!("{}", quote.price);
/// }
/// ```
///
/// # Methods
///
/// A method is an `async fn` that takes `&self`, then optionally the call's `Context`, then its
/// request. What it takes and returns says what kind it is:
///
/// | kind | arguments | returns | the client's method returns |
/// |---|---|---|---|
/// | unary | `request: Req` | `Result<Rep, Status>` | `Call<Rep>` |
/// | client stream | `requests: Streaming<Req>` | `Result<Rep, Status>` | `(Sink<Req>, Call<Rep>)` |
/// | server stream | `request: Req, replies: Sink<Rep>` | `Result<(), Status>` | `Streaming<Rep>` |
/// | bidi | `requests: Streaming<Req>, replies: Sink<Rep>` | `Result<(), Status>` | `(Sink<Req>, Streaming<Rep>)` |
///
/// The types say how messages travel: `Bytes` as they are, types with `prost::Message` as protobuf,
/// types with serde's `Serialize` and `Deserialize` as JSON. `()` stands for no reply, and for no
/// request where there is a `Context`; without one a method may take `&self` alone, or the `Sink` behind it.
///
/// A message of your own that is called `Context`, `Sink` or `Streaming` is written with its place:
/// `self::Context`. A method's or trait's `#[deprecated]` warns those who use the client.
///
/// Futures of handlers need not be `Send`: a call stays on its core. On the network a method is
/// called `package.Service/Method`, where `Method` is the function's name in UpperCamelCase.
///
/// # What is generated
///
/// - The trait, for the implementation.
/// - `MarketServer<T>`, to be given to a server: `new(service)` with one implementation for all
///   cores, or `per_core(|| service)` with one for each, which may use `Rc` and `Cell`;
///   `intercept(interceptor)` runs code around the calls of this service alone.
/// - `MarketClient`: `connect(addresses)`, unless a method of the trait is called so, `new(client)`,
///   `with(options)`, and a method for each of the trait's. So no method is called `new` or `with`;
///   `name = "New"` gives one that name on the network.
///
/// # Options
///
/// Options of the service, all optional:
///
/// | option | meaning |
/// |---|---|
/// | `package = "market.v1"` | the package; without it the name stands alone |
/// | `name = "Market"` | the name on the network, if not the trait's |
/// | `server = "MarketServer"`, `client = "MarketClient"` | what the generated types are called |
/// | `descriptors = include_bytes!(…)` | a `FileDescriptorSet` for reflection |
/// | `crate = "::ringway::rpc"` | where generated code finds the library |
///
/// Options of a method, as `#[method(…)]`:
///
/// | option | meaning |
/// |---|---|
/// | `idempotent` | carrying it out twice does no harm: it may be retried and hedged |
/// | `no_side_effects` | it changes nothing: besides being idempotent, it may be called by GET over HTTP |
/// | `timeout_ms = 500` | the deadline that clients give to calls that do not say how long they may take |
/// | `concurrency = 64` | at most so many calls run at once on a server |
/// | `offload` | it blocks or computes for long, and runs on the blocking pool; unary only. With `per_core` each such call makes an implementation of its own |
/// | `tokio` | it uses libraries that need tokio, and runs within the context of a tokio runtime, still on its core; with the feature `tokio` |
/// | `name = "Quote"` | the name on the network, if not the function's in UpperCamelCase |
#[proc_macro_attribute]
pub fn service(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(options.into(), item.into()).into()
}
