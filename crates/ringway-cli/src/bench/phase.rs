//! Phases of a run, as a core of the client sees them.

/// The treatment of an operation that ends now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Checked, and not counted.
    WarmUp,
    /// Counted.
    Measured,
    /// Checked and timed; no further one is begun.
    Drain,
}
