//! The integration tests of this crate, in one program.

mod authentication;
mod concern_specs;
mod faults;
mod ferretdb;
mod pool;
mod sdam_specs;
mod selection_specs;
mod support;
mod uri_specs;
