//! One call, whatever the protocol: services, clients, streams, deadlines, balancing, retries.

mod balance;
mod batch;
mod bridge;
mod carrier;
mod client;
mod codec;
mod context;
mod desk;
mod health;
mod kept;
mod limits;
mod metadata;
mod method;
mod metrics;
mod opening;
mod packed;
mod parked;
mod pipe;
pub mod reflection;
mod resilience;
mod server;
mod service;
mod sink;
mod status;
mod stream_table;
mod streaming;
mod trace;
mod waiters;

pub use balance::Policy;
pub use client::{
    Call, CallOptions, Client, ClientBuilder, FullCall, Host, IncomingReply, NextCall,
    OutgoingCall, Response,
};
pub use codec::{Codec, select};
pub use context::{Context, Done, Peer};
pub use health::{Health, Serving};
pub use metadata::{InvalidMetadata, Metadata};
pub use method::{Kind, Method};
pub use metrics::{Latencies, MethodSnapshot, Metrics, Side, Snapshot};
pub use ringway_macros::service;
pub use server::{Next, Reply, Server, ServerHandle, ServerStats};
pub use service::{Instance, Methods, Provider, Service, ServiceDescriptor};
pub use sink::{Sink, TrySendError};
pub use status::{Code, Origin, Pushback, Status};
pub use streaming::Streaming;
pub use trace::TraceContext;
