//! What the machine of a server has ended by itself.

/// Counts of calls that a server's machine has ended, of whichever protocol, modulo 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unserved {
    /// Answered as not executed: beyond the streams that a client may have open or a lease, while too
    /// many are given up, after GOAWAY, or since they were not whole when the time to drain was over.
    pub refused: u32,
    /// Their request did not come whole in time.
    pub overdue: u32,
    /// Their request broke a rule or a limit of the protocol that holds for one call, or could not be
    /// read.
    pub malformed: u32,
    /// Their client took nothing of the reply for too long.
    pub stalled: u32,
}

impl Unserved {
    /// What has come since the machine said `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            refused: self.refused.wrapping_sub(before.refused),
            overdue: self.overdue.wrapping_sub(before.overdue),
            malformed: self.malformed.wrapping_sub(before.malformed),
            stalled: self.stalled.wrapping_sub(before.stalled),
        }
    }
}
