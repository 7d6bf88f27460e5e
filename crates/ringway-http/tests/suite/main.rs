//! The integration tests of this crate, as one program.

mod bad_requests;
mod client;
mod early_answers;
mod files;
mod server;
mod support;
mod websocket_client;
mod websocket_deflate;
mod websocket_server;
