//! RPC independent of the protocol: services, clients, streams, deadlines, balancing, retries.

mod builtin;
mod call;
mod client;
mod connection;
mod limits;
mod metrics;
mod policy;
mod remote;
mod server;
mod service;
mod slab;
mod stream;
pub mod testing;
mod waiters;

pub use builtin::health::{Health, ServingStatus};
pub use builtin::reflection;
pub use call::arguments::{ArgumentNames, Arguments};
pub use call::codec::{Codec, select};
pub use call::context::{Context, Done, Draining, Peer};
pub use call::json::Json;
pub use call::metadata::{InvalidMetadata, Metadata};
pub use call::method::{Kind, Method};
#[doc(hidden)] // for the tool, which prints messages as servers do
pub use call::protobuf_json::ProtobufJson;
pub use call::status::{Code, Origin, Pushback, Status};
pub use call::trace::TraceContext;
pub use client::{
    Call, CallOptions, Client, ClientBuilder, ClientCompression, FullCall, Host, HostStatus,
    HostUpdates, IncomingReply, JsonReply, JsonRpcBatch, JsonRpcClient, NextCall, OutgoingCall,
    Renewed, RenewedStream, Resolver, ResolverState, ResolverStats, Resolving, Response,
    ServerAddress, ToServerAddresses, Verdict, register_scheme,
};
pub use metrics::{Latencies, MethodSnapshot, Metrics, Side, Snapshot};
pub use policy::balance::Policy;
pub use ringway_macros::service;
pub use ringway_net::{Credentials, ToAddresses};
pub use server::{
    Compression, Console, Cors, Intercepted, Next, Reply, Server, ServerHandle, ServerStats,
};
#[cfg(feature = "tokio")]
#[doc(hidden)] // for generated code
pub use service::side_tokio;
pub use service::{Instance, Methods, Provider, Service, ServiceDescriptor};
pub use stream::sink::{SendMessage, Sink, TrySendError};
pub use stream::streaming::{NextMessage, Streaming};
