//! Support for several test files.

#[path = "../../../../ringway-wire/tests/suite/support/allocations.rs"]
pub(crate) mod allocations;
#[path = "../../../../ringway-wire/tests/suite/support/alone.rs"]
pub(crate) mod alone;
pub(crate) mod bare_client;
pub(crate) mod certificates;
pub(crate) mod patient;
pub(crate) mod peer;
pub(crate) mod server;
pub(crate) mod trust;
