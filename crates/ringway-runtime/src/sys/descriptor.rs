//! Conversion of raw descriptors to owned and borrowed ones.
//!
//! A raw descriptor here belongs to exactly one registered [`Key`](crate::driver::Key), or is about
//! to; its owner closes it, once.

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Borrows a descriptor for system calls.
pub(crate) fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: callers pass a descriptor that they hold open for the whole use of the borrow.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Takes over a descriptor that the caller owns.
pub(crate) fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: the module's rule: the caller is the one holder of `fd` and gives it up here.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
