//! What goes wrong in a simulation, and how often.

use std::time::Duration;

/// Rates of the simulated network's and disks' faults, in occurrences per 1,000 opportunities.
///
/// The first group is what any kernel does now and then; a correct program notices nothing of it
/// but time. The second group is visible to programs: connections break, datagrams get lost, disks fail.
///
/// All fields are public so that a test can take a preset and change what it is about:
/// `Faults { resets: 100, ..Faults::harsh() }`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Faults {
    /// A receive that hands over only a part of what has arrived. Per received piece.
    pub short_receives: u16,
    /// A send that is taken in part and resumed later. Per piece taken.
    pub short_sends: u16,
    /// A receive that finds no free buffer and is parked for a while. Per received piece.
    pub starvation: u16,
    /// A multishot receive or accept that ends and has to be armed again. Per completion.
    pub rearms: u16,
    /// Neighbouring events of different sockets that change places. Per pair.
    pub reorders: u16,
    /// A turn that hands over only a part of the events that are due. Per turn.
    pub short_turns: u16,
    /// A stop or close that takes effect only after more has happened. Per stop or close.
    pub late_cancels: u16,
    /// A read of a file that finds only a part of what is there. Per read.
    pub short_file_reads: u16,
    /// A write to a file that is taken in part. Per write.
    pub short_file_writes: u16,
    /// Bytes, connects and completions that take up to [`delay_max`](Self::delay_max) longer.
    pub delays: u16,

    /// A connection that is reset for both sides within [`reset_within`](Self::reset_within) of
    /// being made. Per connection.
    pub resets: u16,
    /// A reset that also discards what had arrived but was not yet read. Per reset.
    pub lossy_resets: u16,
    /// A connect that is refused although somebody listens. Per connect.
    pub connects_refused: u16,
    /// A connect whose packets are lost until it times out. Per connect.
    pub connects_lost: u16,
    /// An accept that ends with `EMFILE` and leaves its connection waiting. Per connection. As where
    /// descriptors really run out, dropped streams that have sent everything are not kept open for
    /// their peers any longer; a peer that is still sending is reset.
    pub accept_errors: u16,
    /// An inet datagram that never arrives. Per datagram; unix datagrams are never lost.
    pub datagrams_lost: u16,
    /// An inet datagram that arrives twice.
    pub datagrams_doubled: u16,
    /// An inet datagram that may overtake others or be overtaken.
    pub datagrams_reordered: u16,
    /// A read of a file that fails with `EIO`. Per read.
    pub read_errors: u16,
    /// A write, or anything else that takes room, that fails with `ENOSPC`. Per operation.
    pub disk_full: u16,
    /// A sync that fails with `EIO`; what it had to write is lost at the next crash, whatever is synced until
    /// then, as it is on Linux. Per sync.
    pub sync_errors: u16,

    /// The longest extra wait that any of these faults causes.
    pub delay_max: Duration,
    /// The longest time between a connection's start and its reset.
    pub reset_within: Duration,
}

impl Faults {
    /// Nothing goes wrong; what is left is latency and full buffers.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            short_receives: 0,
            short_sends: 0,
            starvation: 0,
            rearms: 0,
            reorders: 0,
            short_turns: 0,
            late_cancels: 0,
            short_file_reads: 0,
            short_file_writes: 0,
            delays: 0,
            resets: 0,
            lossy_resets: 0,
            connects_refused: 0,
            connects_lost: 0,
            accept_errors: 0,
            datagrams_lost: 0,
            datagrams_doubled: 0,
            datagrams_reordered: 0,
            read_errors: 0,
            disk_full: 0,
            sync_errors: 0,
            delay_max: Duration::from_millis(5),
            reset_within: Duration::from_millis(50),
        }
    }

    /// Everything that a correct program survives without losing a byte or a connection, often:
    /// pieces, delays, shortages, late cancels, failing accepts. No resets, refusals or lost
    /// datagrams. A program that drops a stream while its peer is sending relies on more than
    /// [`accept_errors`](Self::accept_errors) leaves it; for such a one these are to be zero.
    #[must_use]
    pub const fn harsh() -> Self {
        Self {
            short_receives: 400,
            short_sends: 300,
            starvation: 60,
            rearms: 150,
            reorders: 300,
            short_turns: 250,
            late_cancels: 500,
            short_file_reads: 300,
            short_file_writes: 300,
            delays: 200,
            accept_errors: 150,
            ..Self::none()
        }
    }

    /// Whether nothing can go wrong.
    #[must_use]
    pub fn are_none(&self) -> bool {
        let times = Self::none();
        *self == Self { delay_max: self.delay_max, reset_within: self.reset_within, ..times }
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self::none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_differ_in_what_a_program_can_see() {
        assert!(Faults::none().are_none());
        assert!(Faults { delay_max: Duration::ZERO, ..Faults::none() }.are_none());
        let harsh = Faults::harsh();
        assert!(!harsh.are_none());
        assert_eq!((harsh.resets, harsh.connects_refused, harsh.datagrams_lost), (0, 0, 0));
    }
}
