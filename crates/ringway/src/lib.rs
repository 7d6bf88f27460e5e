//! One Rust stack for latency-critical services on Linux.
//!
//! This crate only re-exports the others under one name, and holds the examples.
//!
//! | module | is for |
//! |---|---|
//! | [`rpc`] | services, clients, streams, deadlines: [`service`] makes both sides of a trait |
//! | [`discovery`] | registries: servers register, clients find them |
//! | [`net`] | servers, clients, connections, TLS, sessions, groups |
//! | [`wire`] | codecs: bytes ⇄ messages, without I/O |
//! | [`runtime`] | tasks, timers, buffers, files and raw sockets of one core |
//! | `mongo` | a MongoDB client on the core that calls it; with the feature `mongo` |
//! | `tokio` | libraries that need tokio, in handlers; with the feature `tokio` |
//!
//! # Examples
//!
//! A service, and a call of it:
//!
//! ```no_run
//! use ringway::rpc::{Server, Status};
//!
//! #[ringway::service(package = "hello.v1")]
//! trait Greeter {
//!     async fn greet(&self, name: String) -> Result<String, Status>;
//! }
//!
//! struct English;
//!
//! impl Greeter for English {
//!     async fn greet(&self, name: String) -> Result<String, Status> {
//!         Ok(format!("Hello, {name}!"))
//!     }
//! }
//!
//! fn main() -> ringway::Result {
//!     let server = Server::bind("tcp://127.0.0.1:9000")?.service(GreeterServer::new(English));
//!     let server = server.start()?;
//!     let greeter = GreeterClient::connect("tcp://127.0.0.1:9000")?;
//!     println!("{}", greeter.greet("world".into()).wait()?); // `.await` in async code
//!     server.shutdown();
//!     server.wait()
//! }
//! ```
//!
//! A server that sends every byte back, one thread and one listener a core, drained on SIGTERM:
//!
//! ```no_run
//! use std::time::Duration;
//! use ringway::net::{Connection, Server};
//!
//! fn main() -> ringway::Result<()> {
//!     Server::bind("tcp://127.0.0.1:7001")?
//!         .idle_timeout(Duration::from_secs(60))
//!         .serve(async |mut connection: Connection| {
//!             while let Some(view) = connection.recv().await? {
//!                 connection.send(view);
//!             }
//!             Ok(())
//!         })
//! }
//! ```

pub use ringway_discovery as discovery;
pub use ringway_http as http;
#[cfg(feature = "mongo")]
pub use ringway_mongo as mongo;
pub use ringway_net as net;
pub use ringway_net::{Error, Result};
pub use ringway_rpc as rpc;
pub use ringway_rpc::service;
pub use ringway_runtime as runtime;
#[cfg(feature = "tokio")]
pub use ringway_tokio as tokio;
pub use ringway_wire as wire;

/// The programs of these documents are compiled, and mostly run, as documentation tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/rpc.md")]
    mod rpc {}
    #[doc = include_str!("../../../docs/discovery.md")]
    mod discovery {}
    #[doc = include_str!("../../../docs/tokio.md")]
    mod tokio {}
    #[doc = include_str!("../../../docs/http.md")]
    mod http {}
    #[doc = include_str!("../../../docs/jsonrpc.md")]
    mod jsonrpc {}
    #[doc = include_str!("../../../docs/grpc.md")]
    mod grpc {}
    #[doc = include_str!("../../../docs/net.md")]
    mod net {}
    #[doc = include_str!("../../../docs/runtime.md")]
    mod runtime {}
}
