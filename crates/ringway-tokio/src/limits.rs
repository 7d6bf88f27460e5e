//! The bounds of this crate.

/// Threads of the runtime that this crate starts. What waits for databases and other services needs no
/// more; whoever computes there brings a runtime of their own.
pub(crate) const THREADS: usize = 1;

/// Threads of its pool for blocking work: as many as the pool of Ringway's own.
pub(crate) const BLOCKING_THREADS_MAX: usize = 32;

/// Futures that `run` has there at once, in the whole process: as many as a server has calls by default.
pub(crate) const RUNNING_MAX: usize = 100_000;
