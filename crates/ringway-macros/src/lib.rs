//! The `#[service]` attribute.

mod client;
mod expand;
mod method;
mod options;
mod server;
mod service;
mod signature;

use proc_macro::TokenStream;

/// Turns a trait into a service: server glue and a typed client.
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
///     /// Uploads prices.
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
/// request. Its arguments and return type decide its kind:
///
/// | kind | arguments | returns | the client's method returns |
/// |---|---|---|---|
/// | unary | `request: Req` | `Result<Rep, Status>` | `Call<Rep>` |
/// | client stream | `requests: Streaming<Req>` | `Result<Rep, Status>` | `(Sink<Req>, Call<Rep>)` |
/// | server stream | `request: Req, replies: Sink<Rep>` | `Result<(), Status>` | `Streaming<Rep>` |
/// | bidi | `requests: Streaming<Req>, replies: Sink<Rep>` | `Result<(), Status>` | `(Sink<Req>, Streaming<Rep>)` |
///
/// A message's type decides how it travels: `Bytes` as they are, types with `prost::Message` as protobuf,
/// types with serde's `Serialize` and `Deserialize` as JSON. `()` is an empty reply. A method without a
/// request takes only `&self`, or `&self` and its `Sink`; with a `Context` it takes `()` as well. Several
/// values, as in `&self, symbol: String, amount: u32`, travel as one JSON object, with a member for each
/// name.
///
/// If a message of your own is called `Context`, `Sink` or `Streaming`, write it as `self::Context`. A
/// `#[deprecated]` on a method or on the trait warns users of the client.
///
/// Futures of handlers need not be `Send`, since a call stays on its core. On the network a method is
/// called `package.Service/Method`, where `Method` is the function's name in UpperCamelCase.
///
/// # What is generated
///
/// - The trait, for you to implement.
/// - `MarketServer<T>`, for `Server::service`: `new(service)` shares one implementation among all cores,
///   `per_core(|| service)` makes one for each core, which may use `Rc` and `Cell`.
///   `intercept(interceptor)` runs code around the calls of this service only.
/// - `MarketClient`, with `connect(addresses)` (unless a method of the trait has this name), `new(client)`,
///   `with(options)`, and one function for each method of the trait. So a method cannot be called `new` or
///   `with`; `name = "New"` gives it that name on the network.
///
/// # Options
///
/// Options of the service, all optional:
///
/// | option | meaning |
/// |---|---|
/// | `package = "market.v1"` | the package; without it the name has no prefix |
/// | `name = "Market"` | the name on the network, if not the trait's |
/// | `server = "MarketServer"`, `client = "MarketClient"` | the names of the generated types |
/// | `descriptors = include_bytes!(…)` | a `FileDescriptorSet` for reflection |
/// | `crate = "::ringway::rpc"` | where generated code finds the library |
///
/// Options of a method, as `#[method(…)]`:
///
/// | option | meaning |
/// |---|---|
/// | `idempotent` | executing it twice does no harm, so calls may be retried and hedged |
/// | `no_side_effects` | it changes nothing, so it is idempotent and may be called by GET over HTTP |
/// | `timeout_ms = 500` | the timeout of calls whose caller sets none |
/// | `concurrency = 64` | how many calls may run at once on a server |
/// | `offload` | it blocks or computes for long, so it runs on the blocking pool; unary only. With `per_core` each such call makes an implementation of its own |
/// | `tokio` | it uses libraries that need tokio, so it runs on its core in the context of a tokio runtime; needs the feature `tokio` |
/// | `name = "Quote"` | the name on the network, if not the function's in UpperCamelCase |
#[proc_macro_attribute]
pub fn service(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(options.into(), item.into()).into()
}
