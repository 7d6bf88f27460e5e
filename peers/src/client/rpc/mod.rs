//! The clients of RPC servers: the framework's own client on one thread, a task for each call that
//! is in flight.

mod caller;
mod calls;
mod jsonrpsee;
mod streams;
mod tarpc;
mod tonic;

pub(crate) use calls::calls;
pub(crate) use streams::{flood, streams};
