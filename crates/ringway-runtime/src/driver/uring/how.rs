//! The ways in which a send is put to the kernel.

use io_uring::squeue::Flags;

/// How a send meets a socket that has no room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// With `MSG_DONTWAIT` the kernel answers within the enter that submits, and with `MSG_WAITALL`
    /// a send that is cut short counts as failed: it takes everything, or fails. So the completion
    /// of a success says nothing new and is left out.
    AtOnce,
    /// It waits for room first, then takes what fits and tells how much that was. So a slow peer
    /// needs no thread of the kernel, and what it takes is known as it takes it.
    Patient,
    /// It takes what fits, and fails where nothing does; its owner knows when to try again.
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
