//! Waiting for epoll on kernels that offer whole milliseconds only.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::event::epoll;

/// Moves the reports of `epoll` to the end of `into`, within its spare capacity. Waits for a first
/// report for at most `timeout_ms`, or forever if that is negative.
pub(crate) fn epoll_wait_ms(
    epoll: &OwnedFd,
    into: &mut Vec<epoll::Event>,
    timeout_ms: i32,
) -> io::Result<()> {
    let spare = into.spare_capacity_mut();
    let (fd, start, room) = (epoll.as_raw_fd(), spare.as_mut_ptr().cast(), spare.len() as i32);
    // SAFETY: the kernel writes `room` events at most to memory that has room for them; both types
    // have the layout of the kernel's `epoll_event`.
    let count = unsafe { libc::epoll_wait(fd, start, room, timeout_ms) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has written this many events behind the present ones.
    unsafe { into.set_len(into.len() + count as usize) };
    Ok(())
}
