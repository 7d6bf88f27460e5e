//! Accepting and connecting.

use std::os::fd::{IntoRawFd, RawFd};

use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, sockopt};
use socket2::{SockAddr, SockRef};

use super::Epoll;
use crate::driver::sockets;
use crate::driver::{Event, Key};
use crate::limits;

impl Epoll {
    pub(super) fn accept(&mut self, key: Key, events: &mut Vec<Event>) {
        let handle = &mut self.handles[key.index()];
        for _ in 0..limits::EPOLL_ACCEPTS {
            self.counters.syscalls += 1;
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match accept_with(sockets::borrow(handle.fd), flags) {
                Ok(socket) => events.push(Event::Accepted { key, fd: socket.into_raw_fd() }),
                Err(Errno::AGAIN) => {
                    handle.readable = false;
                    return;
                }
                Err(error) if sockets::accepting_goes_on(-error.raw_os_error()) => {}
                Err(error) => {
                    handle.accepting = false;
                    events.push(Event::AcceptEnded { key, errno: error.raw_os_error() });
                    return;
                }
            }
        }
        self.requeue(key);
    }

    /// Starts a connect: `Ok` with its outcome, or `Err` if it is still in progress.
    pub(super) fn start_connect(&mut self, fd: RawFd, addr: &SockAddr) -> Result<i32, Errno> {
        self.counters.syscalls += 1;
        let Err(error) = SockRef::from(&sockets::borrow(fd)).connect(addr) else {
            return Ok(0);
        };
        match error.raw_os_error() {
            Some(errno @ (libc::EINPROGRESS | libc::EINTR)) => Err(Errno::from_raw_os_error(errno)),
            errno => Ok(errno.unwrap_or(libc::EINVAL)),
        }
    }

    #[cold]
    pub(super) fn finish_connect(&mut self, key: Key, events: &mut Vec<Event>) {
        let handle = &mut self.handles[key.index()];
        handle.connecting = false;
        self.counters.syscalls += 1;
        let errno = match sockopt::socket_error(sockets::borrow(handle.fd)) {
            Ok(Ok(())) => 0,
            Ok(Err(error)) | Err(error) => error.raw_os_error(),
        };
        events.push(Event::Connected { key, errno });
    }
}
