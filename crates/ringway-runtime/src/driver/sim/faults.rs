//! Faults of a simulation, and how often they happen.

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
    /// A receive delivers only a part of what has arrived. Rate per received piece.
    pub short_receives: u16,
    /// A send is accepted in part and resumed later. Rate per accepted piece.
    pub short_sends: u16,
    /// A receive finds no free buffer and is parked for a while. Rate per received piece.
    pub starvation: u16,
    /// A multishot receive or accept ends and has to be armed again. Rate per completion.
    pub rearms: u16,
    /// Neighbouring events of different sockets are swapped. Rate per pair.
    pub reorders: u16,
    /// A turn delivers only a part of the events that are due. Rate per turn.
    pub short_turns: u16,
    /// A stop or close takes effect only after more has happened. Rate per stop or close.
    pub late_cancels: u16,
    /// A read of a file that finds only a part of what is there. Per read.
    pub short_file_reads: u16,
    /// A write to a file that is taken in part. Per write.
    pub short_file_writes: u16,
    /// Bytes, connects and completions that take up to [`delay_max`](Self::delay_max) longer.
    pub delays: u16,

    /// A connection is reset for both sides within [`reset_within`](Self::reset_within) of its
    /// start. Rate per connection.
    pub resets: u16,
    /// A reset also discards what had arrived but was not yet read. Rate per reset.
    pub lossy_resets: u16,
    /// A connect is refused although there is a listener. Rate per connect.
    pub connects_refused: u16,
    /// A connect's packets are lost until it times out. Rate per connect.
    pub connects_lost: u16,
    /// An accept ends with `EMFILE` and leaves its connection waiting. Rate per connection. As when
    /// descriptors really run out, dropped streams that have sent everything are no longer kept
    /// open for their peers; a peer that is still sending is reset.
    pub accept_errors: u16,
    /// An inet datagram never arrives. Rate per datagram; Unix datagrams are never lost.
    pub datagrams_lost: u16,
    /// An inet datagram arrives twice.
    pub datagrams_doubled: u16,
    /// An inet datagram may overtake others or be overtaken.
    pub datagrams_reordered: u16,
    /// A read of a file that fails with `EIO`. Per read.
    pub read_errors: u16,
    /// A write, or anything else that takes room, that fails with `ENOSPC`. Per operation.
    pub disk_full: u16,
    /// A sync that fails with `EIO`; what it had to write is lost at the next crash, whatever is synced until
    /// then, as it is on Linux. Per sync.
    pub sync_errors: u16,

    /// The longest extra delay that any of these faults causes.
    pub delay_max: Duration,
    /// The longest time between a connection's start and its reset.
    pub reset_within: Duration,
}

impl Faults {
    /// No faults; only latency and full buffers remain.
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

    /// Frequent faults that a correct program survives without losing a byte or a connection:
    /// partial transfers, delays, shortages, late cancels, failing accepts. No resets, refusals or
    /// lost datagrams. If a program drops a stream while its peer is sending, set
    /// [`accept_errors`](Self::accept_errors) to zero, since they reset that peer.
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

    /// Whether there are no faults.
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
