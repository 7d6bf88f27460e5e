//! Phases of a run, as seen by a core of the client.

/// How an operation that ends now is treated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It is checked and not counted.
    WarmUp,
    /// It is checked and counted.
    Measured,
    /// It is checked and timed, and no further one begins.
    Drain,
}
