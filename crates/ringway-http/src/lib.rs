//! HTTP/1.1 for the side doors of services, on the Ringway runtime.
//!
//! A [`Router`] finds the handler of a request, [`serve`] makes it the handler of a
//! [`ringway_net::Server`], and a [`Client`] makes requests of its own. hyper reads and writes the
//! bytes; sockets, timers and tasks are those of the core, so a handler never leaves its thread.
//!
//! This crate serves what stands beside calls: metrics, health, a page, a webhook, JSON for a
//! script. A program that is mostly HTTP should use axum, which runs beside Ringway's cores
//! on its own tokio runtime (`ringway::tokio`).
//!
//! # Examples
//!
//! ```
//! use ringway_http::{Client, Router, param, serve, text};
//! use ringway_net::Server;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let router = Router::new()
//!     .get("/hello/{name}", async |request| Ok(text(format!("Hello, {}!", param(&request, "name")))));
//! let server = Server::bind("tcp://127.0.0.1:0")?.start(serve(router))?;
//! let url = server.addresses()[0].to_string().replace("tcp", "http") + "/hello/Ada";
//!
//! let body = ringway_runtime::block_on(async move {
//!     Client::new().get(&url).await?.into_body().bytes(1024).await
//! })??;
//! assert_eq!(body, "Hello, Ada!");
//! server.shutdown();
//! server.wait()?;
//! # Ok(())
//! # }
//! ```

mod body;
mod body_account;
mod client;
mod contained;
mod error;
mod feed;
mod files;
mod http2;
mod left_over;
mod limits;
mod pace;
mod peer_watch;
mod queued_io;
mod reply;
mod reply_account;
mod router;
mod serve;
mod upgrade;
mod websocket;

pub use body::{Body, Request, RequestBody, Response};
pub use body_account::BodyAccount;
pub use client::{Client, ClientBody};
pub use error::{Error, Result};
pub use feed::BodyFeed;
pub use files::Files;
pub use http;
pub use http2::{http2_request, http2_response};
pub use peer_watch::PeerWatch;
pub use reply::{html, json, status, text};
pub use reply_account::ReplyAccount;
pub use router::{Params, Router, param};
pub use serve::{HttpLimits, serve, serve_connection, serve_with};
pub use websocket::{
    ClientSecrets, CloseCode, Closing, MessageSending, RequestPage, WebSocket, WebSocketLimits,
    WebSocketMessage, WebSocketSender, WebSocketUpgrade,
};
