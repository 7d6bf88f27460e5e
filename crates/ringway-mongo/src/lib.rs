//! A MongoDB client on the event loop of the service that calls it.
//!
//! On a core, a [`Client`] has connections of that core's own, so an operation crosses no thread. Replies are read
//! where they were received. The same client serves tasks of tokio and plain threads, which may also
//! [wait](Wait::wait) instead of awaiting.
//!
//! | to | use |
//! |---|---|
//! | say where the server is and who you are | [`Client::connect`], [`ClientOptions`], [`ConnectionString`] |
//! | run commands | [`Client::database`], [`Database::run_command`] |
//! | read and write documents | [`Collection`] |
//! | send many commands over a long line | [`Database::pipeline`], [`Pipeline`] |
//! | the same from many tasks | [`Database::multiplexed`], [`Multiplexed`] |
//! | read many | [`Cursor`] |
//! | read what was seen or written before, or a snapshot | [`ClientSession`] |
//! | write many | [`Collection::bulk_write`], [`WriteModel`]; to several collections: [`Client::bulk_write`] |
//! | keep files | [`Database::gridfs`] |
//! | see each command | [`ClientOptions::on_command`] |
//! | see what pools do | [`ClientOptions::on_pool`] |
//! | see what becomes of the servers | [`ClientOptions::on_topology`] |
//! | block a plain thread | [`Wait`] |
//! | know what a failure means | [`Error`], above all [`Error::may_have_happened`] |
//!
//! Documents are those of the crate [`bson`], or types of your own through serde.

mod action;
mod bulk_failure;
mod change_stream;
mod client;
mod client_core;
mod client_shared;
mod collection;
mod collection_shared;
mod connection;
mod connection_pin;
mod core_number;
mod cursor;
mod database;
mod decode;
mod deployment;
mod error;
mod gridfs;
mod here;
mod limits;
mod multiplexer;
mod observer;
mod options;
mod orphans;
mod pool;
mod pool_events;
mod raw_argument;
mod reads;
mod running;
mod session;
#[cfg(feature = "dns")]
mod srv_source;
#[cfg(not(feature = "dns"))]
#[path = "srv_source_none.rs"]
mod srv_source;
#[cfg(test)]
mod test_support;
mod topology;
mod topology_events;
mod transaction;
mod uri;
mod write_concerns;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/mongo.md")]
mod guide {}

pub use action::{
    Aggregate, BulkWrite, ClientBulkWrite, CommandCursor, CommandReplied, Count, CreateCollection,
    Delete, DeleteResult, Distinct, EstimatedCount, Explain, Find, FindAndModify, FindOne,
    IndexModel, InsertMany, InsertManyResult, InsertOne, ListDatabases, Multiplexed,
    MultiplexedCommand, NamespacedWrite, Pipeline, ReturnDocument, Shutdown, Update, UpdateResult,
    Verbosity, WriteModel,
};
pub use bson;
pub use bulk_failure::{BulkFailure, BulkWriteResult, WriteOutcome};
pub use change_stream::{ChangeStream, Watch};
pub use client::Client;
pub use collection::Collection;
pub use cursor::{Cursor, CursorType};
pub use database::Database;
pub use error::{Error, Result, ServerError};
pub use gridfs::{Download, GridFs, GridFsFile, Upload};
pub use limits::OPERATION_TIMEOUT_DEFAULT;
pub use observer::{CommandEvent, CommandPhase};
pub use options::{ClientOptions, DriverInfo, ServerApi, ServerApiVersion};
pub use pool::PoolCounts;
pub use pool_events::{CheckOutFailure, CloseReason, PoolChange, PoolEvent};
pub use raw_argument::{IntoRaw, IntoUpdate};
pub use running::{Running, Wait};
pub use topology::{
    OperationFailure, RoundTripTime, Selection, SelectionError, ServerDescription, ServerType,
    StateChange, Topology, TopologyType, TopologyVersion,
};
pub use topology_events::{TopologyChange, TopologyEvent};
pub use transaction::{ClientSession, EndTransaction, TransactionOptions};
pub use uri::{
    Acknowledgment, AuthMechanism, Compressor, ConnectionString, Credential, HostAddress,
    InvalidUri, MonitoringMode, ProxyOptions, ReadConcern, ReadMode, ReadPreference, TagSet,
    TlsOptions, UriOptions, WriteConcern,
};
