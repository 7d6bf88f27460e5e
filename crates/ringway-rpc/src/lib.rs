//! One call, whatever the protocol: services, clients, streams, deadlines, balancing, retries.

mod balance;
mod batch;
mod bridge;
mod carrier;
mod codec;
mod context;
mod desk;
mod limits;
mod metadata;
mod method;
mod metrics;
mod opening;
mod pipe;
mod resilience;
mod service;
mod sink;
mod status;
mod stream_table;
mod streaming;
mod trace;

pub use balance::Policy;
pub use codec::{Codec, select};
pub use context::{Cancelled, Context, Peer};
pub use metadata::{InvalidMetadata, Metadata};
pub use method::{Kind, Method};
pub use metrics::{Latencies, MethodSnapshot, Metrics, Side, Snapshot};
pub use ringway_macros::service;
pub use service::{Instance, Methods, Provider, Service, ServiceDescriptor};
pub use sink::{Sink, TrySendError};
pub use status::{Code, Origin, Pushback, Status};
pub use streaming::Streaming;
pub use trace::TraceContext;
