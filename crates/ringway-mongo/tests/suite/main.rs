//! The integration tests of this crate, in one program.

mod allocations;
mod authentication;
mod bson_corpus;
mod bulk;
mod change_streams;
mod concern_specs;
mod crud_specs;
mod deployments;
mod faces;
mod faults;
mod ferretdb;
mod gridfs;
mod lying_servers;
mod observer;
mod operations;
mod pipeline;
mod pool;
mod retries;
mod routers;
mod sdam_specs;
mod selection_specs;
mod srv_specs;
mod stepdowns;
mod support;
mod transactions;
mod uri_specs;
