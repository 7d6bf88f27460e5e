//! Raw descriptors as the standard library's owned and borrowed ones.
//!
//! A raw descriptor here belongs to exactly one registered [`Key`](crate::driver::Key), or is on
//! its way to one; whoever holds it closes it, once.

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The descriptor as something that system calls take.
pub(crate) fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: callers pass a descriptor that they hold open for the whole use of the borrow.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Takes over a descriptor that the caller owns.
pub(crate) fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: the module's rule: the caller is the one holder of `fd` and gives it up here.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
