//! Receiving into the core's buffers once a socket is readable.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketAddrAny, SocketAddrUnix, recv, recvfrom};
use socket2::SockAddr;

use super::Epoll;
use super::handle::EpollHandle;
use crate::buf::View;
use crate::driver::sockets;
use crate::driver::{Event, Key, RecvClass, RecvEnd};
use crate::limits;
use crate::sys::RecvBuf;

/// The outcome of one attempt to receive.
enum Attempt {
    /// There may be more bytes.
    More(usize),
    /// The socket is empty; the next edge reports more.
    Drained(usize),
    Interrupted,
    Ended(RecvEnd),
}

impl Epoll {
    /// Receives until the socket is empty, its share of the turn is used up or no buffer is left.
    /// Returns how many bytes were received.
    pub(super) fn receive(&mut self, key: Key, events: &mut Vec<Event>) -> usize {
        let handle = &mut self.handles[key.index()];
        let pool = self.pools.of(handle.class);
        let mut bytes = 0;
        for _ in 0..limits::EPOLL_SOCKET_READS {
            let Some(buffer) = pool.take() else {
                self.counters.starved += 1;
                handle.parked = true;
                self.parked.push(key);
                return bytes;
            };
            self.counters.syscalls += 1;
            let attempt = match handle.class {
                RecvClass::Datagram => receive_datagram(handle, buffer, events),
                RecvClass::Message | RecvClass::Bulk => receive_bytes(handle, buffer, events),
            };
            match attempt {
                Attempt::More(count) => bytes += count,
                Attempt::Drained(count) => {
                    handle.readable = false;
                    return bytes + count;
                }
                Attempt::Interrupted => {}
                Attempt::Ended(end) => {
                    handle.receiving = false;
                    events.push(Event::RecvEnded { key, end });
                    return bytes;
                }
            }
            if bytes >= limits::EPOLL_SOCKET_BYTES {
                break;
            }
        }
        self.requeue(key);
        bytes
    }
}

#[inline]
fn receive_bytes(
    handle: &mut EpollHandle,
    mut buffer: RecvBuf,
    events: &mut Vec<Event>,
) -> Attempt {
    let into = buffer.as_mut_slice();
    let room = into.len();
    match recv(sockets::borrow(handle.fd), into, RecvFlags::empty()) {
        Ok((0, _)) => Attempt::Ended(RecvEnd::Eof),
        Ok((count, _)) => {
            events.push(Event::Received { key: handle.key, data: View::filled(buffer, count) });
            if count < room && handle.is_emptied_by_short_read() {
                Attempt::Drained(count)
            } else {
                Attempt::More(count)
            }
        }
        Err(error) => refused(handle, error),
    }
}

fn receive_datagram(
    handle: &mut EpollHandle,
    mut buffer: RecvBuf,
    events: &mut Vec<Event>,
) -> Attempt {
    match recvfrom(sockets::borrow(handle.fd), buffer.as_mut_slice(), RecvFlags::empty()) {
        Ok((count, _, from)) => {
            let from = from.and_then(address_of).map(Box::new);
            events.push(Event::of_datagram(handle.key, View::filled(buffer, count), from));
            Attempt::More(count)
        }
        Err(error) => refused(handle, error),
    }
}

#[cold]
fn refused(handle: &mut EpollHandle, error: Errno) -> Attempt {
    match error {
        Errno::AGAIN => {
            handle.reads_on = false;
            Attempt::Drained(0)
        }
        Errno::INTR => Attempt::Interrupted,
        _ => Attempt::Ended(RecvEnd::Failed(error.raw_os_error())),
    }
}

/// Converts a sender's address; `None` for a peer without a name.
fn address_of(from: SocketAddrAny) -> Option<SockAddr> {
    if from.address_family() != AddressFamily::UNIX {
        return SocketAddr::try_from(from).ok().map(SockAddr::from);
    }
    let from = SocketAddrUnix::try_from(from).ok()?;
    let name = match from.abstract_name() {
        Some([]) => return None,
        Some(name) => [&[0], name].concat(),
        None => from.path_bytes()?.to_vec(),
    };
    SockAddr::unix(OsStr::from_bytes(&name)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_every_family_are_kept() {
        let v4: SocketAddr = "127.0.0.1:80".parse().expect("an address");
        let v6: SocketAddr = "[::1%3]:80".parse().expect("an address");
        for inet in [v4, v6] {
            assert_eq!(address_of(inet.into()), Some(SockAddr::from(inet)));
        }
        let path = SocketAddrUnix::new("/tmp/a socket").expect("a short path");
        assert_eq!(address_of(path.into()), SockAddr::unix("/tmp/a socket").ok());
        let name = SocketAddrUnix::new_abstract_name(b"name").expect("a short name");
        assert_eq!(address_of(name.into()), SockAddr::unix("\0name").ok());
        assert_eq!(address_of(SocketAddrUnix::new_unnamed().into()), None);
    }
}
