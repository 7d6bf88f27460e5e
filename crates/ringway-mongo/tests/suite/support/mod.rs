//! Support for several test files.

pub(crate) mod specs;
