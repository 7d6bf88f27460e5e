//! The `#[service]` attribute.
