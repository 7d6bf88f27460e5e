//! Timers.

pub(crate) mod wheel;
