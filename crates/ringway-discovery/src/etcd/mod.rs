//! etcd's v3 API, the wire of every registry that is not in the same process, and its client.
//!
//! ```text
//!  EtcdRegistry ──► EtcdRegistration ──► registering ──┐
//!         └───────► EtcdWatch ─────────► watching ─────┴─► members ──► one member of the cluster
//! ```
//!
//! Handles are for any thread. The tasks that keep leases alive and follow watches run on a core of their own, so that
//! no slow handler costs a server its lease.

pub(crate) mod config;
mod failure;
pub(crate) mod keys;
mod lease;
mod listing;
mod member;
mod members;
mod own_core;
mod put;
mod range;
mod registering;
mod registration;
mod registry;
mod select;
mod shared;
pub(crate) mod token;
mod watch;
mod watching;

pub use config::EtcdConfig;
pub use registry::EtcdRegistry;

/// The messages and services of `proto/rpc.proto`.
#[allow(missing_docs, unreachable_pub, clippy::all)] // etcd's own documentation describes them
pub mod api {
    include!(concat!(env!("OUT_DIR"), "/etcd.rs"));
}

#[cfg(test)]
mod tests;
