//! Clients: calls to services, from any thread.
//!
//! ```text
//!  Client ──► Call ──► core's clients ──► pool ──► host ──► link ◄──► driver (a task) ◄──► socket
//!               ▲                                            │
//!               └────────────── pending call ◄── outcome ────┘
//! ```

mod attempt;
mod background;
mod blocking;
mod builder;
mod call;
mod call_life;
mod carry;
mod config;
mod driver;
mod handle;
mod hedge;
mod hosts;
mod intercepted;
mod interception;
mod interceptor;
mod line;
mod link;
mod local_clients;
mod one_reply;
mod options;
mod outcome;
mod pending_calls;
mod placed_call;
mod pool;
mod pool_host;
mod registration;
mod registry;
mod remote_call;
mod scratch;
#[cfg(test)]
mod simulated;
mod spread;
mod stream_call;
mod stream_lives;
mod tally;
mod unary;

pub use builder::ClientBuilder;
pub use call::{Call, FullCall, Response};
pub use handle::Client;
pub use hosts::Host;
pub use interceptor::{IncomingReply, NextCall, OutgoingCall};
pub use options::CallOptions;
