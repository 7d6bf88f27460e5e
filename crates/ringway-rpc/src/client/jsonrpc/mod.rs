//! The client's end of JSON-RPC.
//!
//! [`JsonClient`] is a protocol's machine like the others, so pools, retries, deadlines, hedging and metrics are
//! those of all calls. On lines and over a WebSocket it begins with `rpc.ping`: any answer shows that the server speaks
//! JSON-RPC. A Ringway server answers `true`, and gets deadlines and traces with each call from then on. By POST it
//! begins with the first call, as any client of HTTP.
//!
//! Requests are written where a call is made (`request.rs`), up to their id, which the connection appends.

mod answers;
mod carrier;
mod config;
mod failure;
mod form;
mod machine;
mod post;
mod request;
mod slots;
mod socket;
mod state;
mod subscribed;
#[cfg(test)]
mod tests;
mod texts;
mod violation;

pub(super) use config::JsonClientConfig;
pub(super) use failure::status_of;
pub(super) use form::TextForm;
pub(super) use request::{check_reply, encode, open_params};
pub(super) use state::JsonClient;
pub(super) use violation::JsonServerViolation;
