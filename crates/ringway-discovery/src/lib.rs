//! Service discovery: servers register, clients watch.
//!
//! This crate is under construction. So far it has the store: the keys of a registry, their history and their leases.

mod etcd;
mod limits;
mod server;
mod store;

pub use server::Registry;
pub use store::{
    Change, Changes, Compacted, KeyRange, KeyValue, Lease, LeaseError, LeaseId, Read, ReadError,
    Revision, Store, Transaction,
};
