//! The integration tests of this crate, in one program.

mod registry_etcdctl;
mod support;
