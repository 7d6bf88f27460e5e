//! Service discovery: servers register, clients watch.
//!
//! [`Discovery`] is what every registry does. [`Local`] is one inside this process; [`EtcdRegistry`] is one on a cluster of
//! etcd, or on a [`Registry`], the registry server of this crate, which has etcd's API.

mod admin;
mod announcement;
mod contract;
mod endpoint;
mod etcd;
mod limits;
mod local;
mod log;
mod resolve;
mod server;
mod sources;
mod store;

#[doc(hidden)]
pub mod fuzz;
#[doc(hidden)] // for measurements by the bare wire
pub use etcd::api as etcd_api;

pub use admin::{ListedEndpoint, RegistryAdmin};
pub use announcement::Announcement;
pub use contract::{
    Answer, Discovery, EndpointChange, Freshness, Registration, RegistrationState, ServiceSnapshot,
    ServiceWatch,
};
pub use endpoint::{Endpoint, Error, Health};
pub use etcd::{EtcdConfig, EtcdRegistry};
pub use local::{Endpoints, Local, LocalRegistration, LocalService, LocalWatch};
pub use resolve::{RegistryResolver, install};
pub use server::{Registry, RegistryBuilder};
pub use store::{
    Change, Changes, Compacted, KeyRange, KeyValue, Lease, LeaseError, LeaseId, Read, ReadError,
    Revision, Store, Transaction,
};
