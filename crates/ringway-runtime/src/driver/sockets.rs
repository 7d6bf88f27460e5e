//! Creating, adopting and closing the kernel's sockets by their raw descriptors.
//!
//! A raw descriptor here belongs to exactly one registered [`Key`](crate::driver::Key), or is about
//! to; its owner closes it with [`close`], once.

use std::io;
use std::os::fd::{IntoRawFd, RawFd};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::{Shutdown, connect_unspec, shutdown};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use super::BindOptions;
use crate::limits;
pub(crate) use crate::sys::{borrow, own};

/// Whether system calls on a socket block. io_uring needs sockets that do, epoll sockets that do
/// not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Blocking,
    NonBlocking,
}

pub(crate) fn close(fd: RawFd) {
    drop(own(fd));
}

/// Opens a listening stream socket and returns its address.
pub(crate) fn listen(
    addr: &SockAddr,
    options: BindOptions,
    mode: Mode,
) -> io::Result<(RawFd, SockAddr)> {
    let socket = open(addr.domain(), Type::STREAM, mode)?;
    if !addr.is_unix() {
        socket.set_reuse_address(true)?;
    }
    bind(&socket, addr, options)?;
    socket.listen(options.backlog)?;
    let bound = socket.local_addr()?;
    Ok((socket.into_raw_fd(), bound))
}

/// Opens a bound datagram socket and returns its address.
pub(crate) fn bind_datagram(
    addr: &SockAddr,
    options: BindOptions,
    mode: Mode,
) -> io::Result<(RawFd, SockAddr)> {
    let socket = open(addr.domain(), Type::DGRAM, mode)?;
    bind(&socket, addr, options)?;
    let bound = socket.local_addr()?;
    Ok((socket.into_raw_fd(), bound))
}

pub(crate) fn open_stream(addr: &SockAddr, mode: Mode) -> io::Result<RawFd> {
    Ok(open(addr.domain(), Type::STREAM, mode)?.into_raw_fd())
}

pub(crate) fn set_mode(fd: RawFd, mode: Mode) -> io::Result<()> {
    let flags = fcntl_getfl(borrow(fd))?;
    let wanted = match mode {
        Mode::Blocking => flags - OFlags::NONBLOCK,
        Mode::NonBlocking => flags | OFlags::NONBLOCK,
    };
    if wanted != flags {
        fcntl_setfl(borrow(fd), wanted)?;
    }
    Ok(())
}

/// Makes `call` on a socket that does not block meanwhile, whatever its mode is otherwise.
pub(crate) fn at_once<T>(fd: RawFd, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let flags = fcntl_getfl(borrow(fd))?;
    if flags.contains(OFlags::NONBLOCK) {
        return call();
    }
    fcntl_setfl(borrow(fd), flags | OFlags::NONBLOCK)?;
    let answer = call();
    fcntl_setfl(borrow(fd), flags)?;
    answer
}

/// Whether accepting continues after this result, a descriptor or a negative error number: `accept`
/// may fail because one connection is gone, which does not concern the listener.
pub(crate) fn accepting_goes_on(result: i32) -> bool {
    result >= 0
        || matches!(
            -result,
            libc::EINTR
                | libc::ECONNABORTED
                | libc::EPROTO
                | libc::ENETDOWN
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::EHOSTUNREACH
                | libc::ENONET
        )
}

pub(crate) fn shutdown_write(fd: RawFd) -> io::Result<()> {
    Ok(shutdown(borrow(fd), Shutdown::Write)?)
}

/// Makes the next close of a TCP socket reset the connection: unsent bytes are dropped, the peer sees an error.
pub(crate) fn reset_on_close(fd: RawFd) {
    let borrowed = borrow(fd);
    // A Unix socket accepts the option and ignores it.
    let _gone_already = SockRef::from(&borrowed).set_linger(Some(Duration::ZERO));
}

/// Ends a connection the same way its close will, which also ends what waits for it in the kernel.
#[cold]
pub(crate) fn end_waits(fd: RawFd) {
    let borrowed = borrow(fd);
    let resets = matches!(SockRef::from(&borrowed).linger(), Ok(Some(Duration::ZERO)));
    // If it resets, no end may be sent before: the peer must not take a part for the whole.
    if !resets || connect_unspec(borrowed).is_err() {
        let _gone_already = shutdown(borrowed, Shutdown::Both);
    }
}

/// Limits the time that a blocking send on a stream waits in the kernel to a tick.
#[cold]
pub(crate) fn bound_send_waits(fd: RawFd) {
    let borrowed = borrow(fd);
    let socket = SockRef::from(&borrowed);
    if matches!(socket.r#type(), Ok(Type::STREAM)) {
        let _as_it_was = socket.set_write_timeout(Some(limits::KERNEL_SEND_WAIT));
    }
}

fn open(domain: Domain, kind: Type, mode: Mode) -> io::Result<Socket> {
    let kind = if mode == Mode::NonBlocking { kind.nonblocking() } else { kind };
    Socket::new(domain, kind.cloexec(), None::<Protocol>)
}

fn bind(socket: &Socket, addr: &SockAddr, options: BindOptions) -> io::Result<()> {
    if addr.is_ipv6() {
        socket.set_only_v6(options.only_v6)?;
    }
    if options.reuse_port && !addr.is_unix() {
        socket.set_reuse_port(true)?;
    }
    socket.bind(addr)
}
