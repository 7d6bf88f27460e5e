//! A MongoDB client on the Ringway runtime.
//!
//! This crate is under construction. So far it reads connection strings, and keeps and chooses servers.

mod topology;
mod uri;

pub use topology::{
    OperationFailure, RoundTripTime, Selection, SelectionError, ServerDescription, ServerType,
    StateChange, Topology, TopologyType, TopologyVersion,
};
pub use uri::{
    Acknowledgment, AuthMechanism, Compressor, ConnectionString, Credential, HostAddress,
    InvalidUri, MonitoringMode, ReadConcern, ReadMode, ReadPreference, TagSet, TlsOptions,
    UriOptions, WriteConcern,
};
