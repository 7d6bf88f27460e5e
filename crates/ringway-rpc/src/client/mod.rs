//! RPC clients: calls to services, from any thread.
//!
//! ```text
//!  Client ──► Call ──► clients of the core ──► pool ──► endpoint ──► connection ◄──► its task ◄──► socket
//!               ▲                                                        │
//!               └──────────────────── pending call ◄── outcome ──────────┘
//! ```
//!
//! Modules import only from lines below their own:
//!
//! - `jsonrpc_client`: calls of JSON-RPC to methods that no trait describes.
//! - `renewed`: streams that are asked for again.
//! - `builder`, `handle`: making and holding a client.
//! - `resolve/`: the sources that tell a client its hosts. Its `state` and `scheme_names` are leaves.
//! - `call`, `one_reply`, `stream_call`: calls in a user's hands.
//! - `placed_call`, `remote_call`, `background`: running a call on this thread or on another.
//! - `intercepted`, `hedge`, `unary`, `attempt`: a unary call on its core, from the outermost layer to
//!   one attempt.
//! - `registration`, `local_clients`: a client, and the table of a core that has its pool.
//! - `pool`, `waiting_calls`, `connect`, `endpoints`, `connection_driver`, `endpoint`: the connections of
//!   a client, and the calls that wait for them.
//! - `stream_carrier`, `connection`, `connection_state`, `stream_timers`, `pending_calls`: one connection.
//! - `pool_context`, `load_balancer`, `call_metrics`: state that the parts of a pool share.
//! - `greeting`, `registry`, `config`, `connector`, `host_rules`, `hosts`, `machine`, `server_address`: servers, their
//!   addresses and protocols.
//! - `jsonrpc`: the machine of connections to servers of JSON-RPC.
//! - `interception`, `interceptor`, `options`, `wait_queue`, `timers`, `task_waker`, `outcome`, `scratch`: leaves.

mod attempt;
mod background;
mod builder;
mod call;
mod call_metrics;
mod compression;
mod config;
mod connect;
mod connection;
mod connection_driver;
mod connection_state;
mod connector;
mod endpoint;
mod endpoints;
mod greeting;
mod handle;
mod hedge;
mod host_rules;
mod hosts;
mod intercepted;
mod interception;
mod interceptor;
mod jsonrpc;
mod jsonrpc_client;
mod load_balancer;
mod local_clients;
mod machine;
mod one_reply;
mod options;
mod outcome;
mod pending_calls;
mod placed_call;
mod pool;
mod pool_context;
mod registration;
mod registry;
mod remote_call;
mod renewed;
mod resolve;
mod scratch;
mod server_address;
#[cfg(test)]
mod simulated;
mod stream_call;
mod stream_carrier;
mod stream_timers;
mod task_waker;
mod timers;
mod unary;
mod wait_queue;
mod waiting_calls;

pub use builder::ClientBuilder;
pub use call::{Call, FullCall, Response};
pub use compression::ClientCompression;
pub use handle::Client;
pub use hosts::{Host, HostStatus};
pub use interceptor::{IncomingReply, NextCall, OutgoingCall};
pub use jsonrpc_client::{JsonReply, JsonRpcBatch, JsonRpcClient};
pub use options::CallOptions;
pub use renewed::{Renewed, RenewedStream};
pub use resolve::{
    HostUpdates, Resolver, ResolverState, ResolverStats, Resolving, Verdict, register_scheme,
};
pub use server_address::{ServerAddress, ToServerAddresses};
