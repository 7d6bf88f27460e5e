//! The integration tests of this crate, in one program.

mod announcing;
mod registry_etcdctl;
mod sources;
mod support;
