//! Service discovery: servers register, clients watch.
//!
//! This crate is under construction. So far it has the store: the keys of a registry, their history and their leases.

mod admin;
mod announcement;
mod contract;
mod endpoint;
mod etcd;
mod limits;
mod local;
mod resolve;
mod server;
mod sources;
mod store;

pub use admin::{ListedEndpoint, RegistryAdmin};
pub use announcement::Announcement;
pub use contract::{
    Answer, Discovery, EndpointChange, Freshness, Registration, RegistrationState, ServiceSnapshot,
    ServiceWatch,
};
pub use endpoint::{Endpoint, Error, Health};
pub use local::{Endpoints, Local, LocalRegistration, LocalService, LocalWatch};
pub use resolve::{RegistryResolver, install};
pub use server::Registry;
pub use store::{
    Change, Changes, Compacted, KeyRange, KeyValue, Lease, LeaseError, LeaseId, Read, ReadError,
    Revision, Store, Transaction,
};
