//! The clients. Each verifies every reply and prints the same report.

mod connection;
mod cpu;
mod mongo;
mod ping_pong;
mod report;
mod rpc;
mod run;

pub(crate) use mongo::mongo;
pub(crate) use ping_pong::ping_pong;
pub(crate) use rpc::{calls, flood, streams};
