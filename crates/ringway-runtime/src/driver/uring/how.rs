//! The ways in which a send is submitted to the kernel.

use io_uring::squeue::Flags;

/// How a send behaves when its socket has no room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// With `MSG_DONTWAIT` the kernel answers within the enter that submits, and with `MSG_WAITALL`
    /// a partial send counts as failed: everything is accepted, or the send fails. So a success
    /// needs no completion, and has none.
    AtOnce,
    /// The send waits for room first, then sends what fits and reports how much that was. So a slow
    /// peer occupies no thread of the kernel, and its progress is known.
    Patient,
    /// The send sends what fits, and fails if nothing does; the driver knows when to try again.
    Eager,
}

/// `IORING_RECVSEND_POLL_FIRST` of the kernel's interface.
const POLL_FIRST: u16 = 1;

impl How {
    /// The flags of the message, the priority field and the flags of the submission.
    pub(crate) fn asks(self) -> (i32, u16, Flags) {
        let (flags, priority, quiet) = match self {
            How::AtOnce => (libc::MSG_WAITALL | libc::MSG_DONTWAIT, 0, Flags::SKIP_SUCCESS),
            How::Patient => (0, POLL_FIRST, Flags::empty()),
            How::Eager => (libc::MSG_DONTWAIT, 0, Flags::empty()),
        };
        (flags | libc::MSG_NOSIGNAL, priority, quiet)
    }
}
