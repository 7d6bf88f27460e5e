//! The integration tests of this crate, in one program.

mod concern_specs;
mod sdam_specs;
mod selection_specs;
mod support;
mod uri_specs;
