//! One call, whatever the protocol: services, clients, streams, deadlines, balancing, retries.

mod codec;
mod limits;
mod metadata;
mod method;
mod status;
mod trace;

pub use codec::{Codec, select};
pub use metadata::{InvalidMetadata, Metadata};
pub use method::{Kind, Method};
pub use status::{Code, Origin, Pushback, Status};
pub use trace::TraceContext;
