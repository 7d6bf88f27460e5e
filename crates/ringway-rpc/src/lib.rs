//! One call, whatever the protocol: services, clients, streams, deadlines, balancing, retries.

mod balance;
mod codec;
mod context;
mod limits;
mod metadata;
mod method;
mod metrics;
mod resilience;
mod status;
mod trace;

pub use balance::Policy;
pub use codec::{Codec, select};
pub use context::{Cancelled, Context, Peer};
pub use metadata::{InvalidMetadata, Metadata};
pub use method::{Kind, Method};
pub use metrics::{Latencies, MethodSnapshot, Metrics, Side, Snapshot};
pub use status::{Code, Origin, Pushback, Status};
pub use trace::TraceContext;
