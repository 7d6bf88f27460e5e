//! A MongoDB client on the Ringway runtime.
//!
//! This crate is under construction. So far it reads connection strings.

mod uri;

pub use uri::{
    Acknowledgment, AuthMechanism, Compressor, ConnectionString, Credential, HostAddress,
    InvalidUri, MonitoringMode, ReadConcern, ReadMode, ReadPreference, TagSet, TlsOptions,
    UriOptions, WriteConcern,
};
