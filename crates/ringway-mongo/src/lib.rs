//! A MongoDB client on the event loop of the service that calls it.
//!
//! A [`Client`] belongs to one core: its connections are sockets of that core, so an operation crosses no
//! thread and takes no lock. Replies are read where they were received.
//!
//! | to | use |
//! |---|---|
//! | say where the server is and who you are | [`Client::connect`], [`ClientOptions`], [`ConnectionString`] |
//! | run commands | [`Client::database`], [`Database::run_command`] |
//! | read and write documents | [`Collection`] |
//! | read many | [`Cursor`] |
//! | know what a failure means | [`Error`], above all [`Error::may_have_happened`] |
//!
//! Documents are those of the crate [`bson`], or types of your own through serde. This crate is under
//! construction: so far it speaks to one server, while [`Topology`] keeps and chooses several.

mod action;
mod client;
mod client_core;
mod collection;
mod collection_shared;
mod connection;
mod cursor;
mod database;
mod error;
mod limits;
mod options;
mod orphans;
mod pool;
mod raw_argument;
mod session;
mod topology;
mod uri;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/mongo.md")]
mod guide {}

pub use action::{
    Aggregate, Count, Delete, DeleteResult, Distinct, Find, FindOne, InsertMany, Update,
    UpdateResult,
};
pub use bson;
pub use client::Client;
pub use collection::Collection;
pub use cursor::Cursor;
pub use database::Database;
pub use error::{Error, Result, ServerError};
pub use limits::OPERATION_TIMEOUT_DEFAULT;
pub use options::ClientOptions;
pub use pool::PoolCounts;
pub use raw_argument::IntoRaw;
pub use topology::{
    OperationFailure, RoundTripTime, Selection, SelectionError, ServerDescription, ServerType,
    StateChange, Topology, TopologyType, TopologyVersion,
};
pub use uri::{
    Acknowledgment, AuthMechanism, Compressor, ConnectionString, Credential, HostAddress,
    InvalidUri, MonitoringMode, ReadConcern, ReadMode, ReadPreference, TagSet, TlsOptions,
    UriOptions, WriteConcern,
};
