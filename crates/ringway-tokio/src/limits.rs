//! The bounds of this crate.

/// Threads of the runtime that this crate starts. Futures that wait for databases and other services need no
/// more; programs that compute there set a runtime of their own.
pub(crate) const THREADS: usize = 1;

/// Threads of its pool for blocking work, as many as in Ringway's own pool.
pub(crate) const BLOCKING_THREADS_MAX: usize = 32;

/// Futures that `run` may have there at once in the whole process, as many as a server has calls by default.
pub(crate) const RUNNING_MAX: usize = 100_000;
