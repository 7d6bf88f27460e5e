//! An open file of the kernel's, or of a simulation's.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{AtFlags, OFlags, StatxFlags, fcntl_getfl, fcntl_setfl, statx};

use super::answer::FileKind;

/// A descriptor that is shared by a file and its operations in flight, so none of them can reach the next
/// owner of its number.
#[derive(Debug)]
pub(crate) enum FileDescriptor {
    /// Dropping it closes it on the spot, which may wait for a disk or a network.
    Kernel(OwnedFd),
    /// Closed by its driver only.
    Simulated(RawFd),
}

impl FileDescriptor {
    /// # Errors
    /// `EBADF` for one of a simulation.
    pub(crate) fn of_kernel(&self) -> io::Result<BorrowedFd<'_>> {
        match self {
            Self::Kernel(fd) => Ok(fd.as_fd()),
            Self::Simulated(_) => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    /// # Errors
    /// `EBADF` for one of the kernel's.
    pub(crate) fn of_simulation(&self) -> io::Result<RawFd> {
        match self {
            Self::Simulated(fd) => Ok(*fd),
            Self::Kernel(_) => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }
}

/// Refuses what is not of the `wanted` kind: reading a pipe or a device may wait for ever. Waits for nothing
/// itself, as the kernel tells what it knows already.
pub(crate) fn check_opened(fd: OwnedFd, wanted: FileKind) -> io::Result<FileDescriptor> {
    let known = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let status = statx(&fd, c"", known, StatxFlags::TYPE)?;
    let found = FileKind::of_mode(status.stx_mode);
    if found != wanted {
        return Err(wrong_kind(found, wanted));
    }
    // That was for pipes. On a file io_uring would not wait for the disk where the file system has no way
    // of its own to do that.
    fcntl_setfl(&fd, fcntl_getfl(&fd)? - OFlags::NONBLOCK)?;
    Ok(FileDescriptor::Kernel(fd))
}

pub(crate) fn wrong_kind(found: FileKind, wanted: FileKind) -> io::Error {
    match (found, wanted) {
        (FileKind::Directory, _) => io::Error::from_raw_os_error(libc::EISDIR),
        (_, FileKind::Directory) => io::Error::from_raw_os_error(libc::ENOTDIR),
        _ => {
            let what =
                "this is neither a regular file nor a directory, and reading it may never end";
            io::Error::new(io::ErrorKind::InvalidInput, what)
        }
    }
}
