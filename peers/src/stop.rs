//! SIGTERM and SIGINT as a readable descriptor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// Readable once the process was asked to end.
///
/// A signal handler writes a byte into a socket pair, so each loop waits for the end as it waits
/// for data. A thread waiting for signals would be simpler and unfair: with two threads the kernel
/// counts references on every descriptor lookup, on every system call of the loop.
pub(crate) struct Stop(UnixStream);

impl Stop {
    pub(crate) fn on_signals() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        pipe::register(SIGTERM, writer.try_clone()?)?;
        pipe::register(SIGINT, writer)?;
        Ok(Self(reader))
    }

    pub(crate) fn into_stream(self) -> UnixStream {
        self.0
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
