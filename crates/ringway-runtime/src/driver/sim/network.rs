//! The sockets of a simulation: sent and arrived bytes, and bound addresses.
//!
//! This half knows no operations, no time and no chance; it is the state that a kernel's socket
//! layer holds between two system calls.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use socket2::SockAddr;

use super::address::{Addresses, reachable};
use crate::driver::{BindOptions, Key, RecvEnd};

/// Every open socket, by descriptor.
#[derive(Debug)]
pub(super) struct Network {
    sockets: BTreeMap<RawFd, SimSocket>,
    /// The next descriptor. None is used twice, so that nothing late can reach a later owner.
    next_fd: RawFd,
    /// Number of sockets whose `held` is set.
    held_count: usize,
    descriptors_max: usize,
    pub(super) listeners: Addresses,
    pub(super) receivers: Addresses,
}

/// One end of a connection, a listener or a datagram socket.
#[derive(Debug)]
pub(super) struct SimSocket {
    /// The key for its events; `None` until the first operation.
    pub(super) key: Option<Key>,
    /// Whether a program holds the descriptor, which it does not while a connection waits to be
    /// accepted.
    pub(super) held: bool,
    pub(super) kind: SocketKind,
}

#[derive(Debug)]
pub(super) enum SocketKind {
    /// A stream socket before it is connected.
    Unconnected,
    Listener(SimListener),
    Stream(SimStream),
    Datagram(SimDatagramSocket),
}

#[derive(Debug)]
pub(super) struct SimListener {
    pub(super) local: SockAddr,
    /// Connections that are not accepted yet.
    pub(super) backlog: VecDeque<RawFd>,
    /// The largest number of them.
    pub(super) backlog_max: usize,
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct SimStream {
    pub(super) peer: RawFd,
    /// Our address; `None` for an unnamed Unix socket.
    pub(super) local: Option<SockAddr>,
    pub(super) remote: Option<SockAddr>,
    /// Bytes that have arrived and are not read yet.
    pub(super) inbox: VecDeque<u8>,
    /// Whether the peer's end of data has arrived.
    pub(super) eof: bool,
    pub(super) reset: bool,
    /// Whether a send has failed because of the reset; further ones get a broken pipe.
    pub(super) reset_told: bool,
    pub(super) write_ended: bool,
    /// Bytes sent from here that the peer has not read.
    pub(super) outstanding: usize,
    /// The arrival time of the last thing sent from here; what follows arrives no earlier.
    pub(super) arrives_at: Duration,
}

#[derive(Debug)]
pub(super) struct SimDatagramSocket {
    pub(super) local: SockAddr,
    /// The destination of datagrams without an address.
    pub(super) remote: Option<SockAddr>,
    pub(super) inbox: VecDeque<Datagram>,
    pub(super) inbox_bytes: usize,
    /// Senders that wait for room here.
    pub(super) waiting: Vec<Key>,
    /// The arrival time of the last datagram sent from here.
    pub(super) arrives_at: Duration,
}

#[derive(Clone, Debug)]
pub(super) struct Datagram {
    pub(super) from: Option<Box<SockAddr>>,
    pub(super) bytes: Vec<u8>,
}

/// What a receive on a descriptor finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inbound {
    Nothing,
    Ready,
    Ended(RecvEnd),
}

/// The first descriptor: far above those of real processes, so that one handed to the kernel by
/// mistake fails instead of hitting a file.
const FIRST_FD: RawFd = 1_000_000;

impl Network {
    pub(super) fn new(descriptors_max: usize) -> Self {
        Self {
            sockets: BTreeMap::new(),
            next_fd: FIRST_FD,
            held_count: 0,
            descriptors_max,
            listeners: Addresses::new(),
            receivers: Addresses::new(),
        }
    }

    /// Number of descriptors that a program holds.
    pub(super) fn held_count(&self) -> usize {
        self.held_count
    }

    /// # Errors
    /// Returns `EMFILE` when a program holds as many descriptors as allowed.
    pub(super) fn check_room(&self) -> io::Result<()> {
        if self.held_count < self.descriptors_max {
            return Ok(());
        }
        Err(io::Error::from_raw_os_error(libc::EMFILE))
    }

    pub(super) fn open_stream(&mut self) -> io::Result<RawFd> {
        self.check_room()?;
        Ok(self.insert(SocketKind::Unconnected, true))
    }

    pub(super) fn listen(
        &mut self,
        addr: &SockAddr,
        options: BindOptions,
    ) -> io::Result<(RawFd, SockAddr)> {
        self.check_room()?;
        let local = self.listeners.bind(addr, options, self.next_fd)?;
        let backlog_max = usize::try_from(options.backlog).unwrap_or(0).max(1);
        let listener = SimListener { local: local.clone(), backlog: VecDeque::new(), backlog_max };
        Ok((self.insert(SocketKind::Listener(listener), true), local))
    }

    pub(super) fn bind_datagram(
        &mut self,
        addr: &SockAddr,
        options: BindOptions,
    ) -> io::Result<(RawFd, SockAddr)> {
        self.check_room()?;
        let local = self.receivers.bind(addr, options, self.next_fd)?;
        let socket = SimDatagramSocket::new(local.clone());
        Ok((self.insert(SocketKind::Datagram(socket), true), local))
    }

    /// Adds the accepted end of a connection, whose client is told of it later.
    pub(super) fn insert_accepted(&mut self, client: RawFd, to: &SockAddr) -> io::Result<RawFd> {
        let local = to.as_socket().map_or_else(|| to.clone(), |inet| reachable(inet).into());
        let remote = match local.as_socket() {
            Some(inet) => Some(self.listeners.with_free_port(inet.ip())?),
            None => None,
        };
        Ok(self.insert(SocketKind::Stream(SimStream::new(client, Some(local), remote)), false))
    }

    fn insert(&mut self, kind: SocketKind, held: bool) -> RawFd {
        let fd = self.next_fd;
        self.next_fd += 1;
        self.held_count += usize::from(held);
        self.sockets.insert(fd, SimSocket { key: None, held, kind });
        fd
    }

    pub(super) fn remove(&mut self, fd: RawFd) -> Option<SimSocket> {
        let socket = self.sockets.remove(&fd)?;
        self.held_count -= usize::from(socket.held);
        match &socket.kind {
            SocketKind::Listener(listener) => self.listeners.release(&listener.local, fd),
            SocketKind::Datagram(datagram) => self.receivers.release(&datagram.local, fd),
            SocketKind::Unconnected | SocketKind::Stream(_) => {}
        }
        Some(socket)
    }

    /// Gives an accepted connection to the program.
    pub(super) fn hold(&mut self, fd: RawFd) {
        if let Some(socket) = self.sockets.get_mut(&fd) {
            self.held_count += usize::from(!socket.held);
            socket.held = true;
        }
    }

    pub(super) fn socket(&self, fd: RawFd) -> Option<&SimSocket> {
        self.sockets.get(&fd)
    }

    pub(super) fn socket_mut(&mut self, fd: RawFd) -> Option<&mut SimSocket> {
        self.sockets.get_mut(&fd)
    }

    pub(super) fn key(&self, fd: RawFd) -> Option<Key> {
        self.socket(fd)?.key
    }

    pub(super) fn listener_mut(&mut self, fd: RawFd) -> Option<&mut SimListener> {
        match &mut self.socket_mut(fd)?.kind {
            SocketKind::Listener(listener) => Some(listener),
            _ => None,
        }
    }

    pub(super) fn stream_mut(&mut self, fd: RawFd) -> Option<&mut SimStream> {
        match &mut self.socket_mut(fd)?.kind {
            SocketKind::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    pub(super) fn datagram_mut(&mut self, fd: RawFd) -> Option<&mut SimDatagramSocket> {
        match &mut self.socket_mut(fd)?.kind {
            SocketKind::Datagram(socket) => Some(socket),
            _ => None,
        }
    }

    pub(super) fn inbound(&self, fd: RawFd) -> Inbound {
        let failed = |errno| Inbound::Ended(RecvEnd::Failed(errno));
        match self.socket(fd).map(|socket| &socket.kind) {
            None => failed(libc::EBADF),
            Some(SocketKind::Unconnected | SocketKind::Listener(_)) => failed(libc::ENOTCONN),
            Some(SocketKind::Stream(stream)) if !stream.inbox.is_empty() => Inbound::Ready,
            Some(SocketKind::Stream(stream)) if stream.eof => Inbound::Ended(RecvEnd::Eof),
            Some(SocketKind::Stream(stream)) if stream.reset => failed(libc::ECONNRESET),
            Some(SocketKind::Datagram(socket)) if !socket.inbox.is_empty() => Inbound::Ready,
            Some(SocketKind::Stream(_) | SocketKind::Datagram(_)) => Inbound::Nothing,
        }
    }

    /// The address of a descriptor's own end; `None` if it has no name.
    pub(super) fn local_addr(&self, fd: RawFd) -> io::Result<Option<SockAddr>> {
        let socket = self.socket(fd).ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))?;
        Ok(match &socket.kind {
            SocketKind::Unconnected => None,
            SocketKind::Listener(listener) => Some(listener.local.clone()),
            SocketKind::Stream(stream) => stream.local.clone(),
            SocketKind::Datagram(socket) => Some(socket.local.clone()),
        })
    }

    /// The address of a descriptor's other end; `None` if it has no name.
    pub(super) fn peer_addr(&self, fd: RawFd) -> io::Result<Option<SockAddr>> {
        let socket = self.socket(fd).ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))?;
        match &socket.kind {
            SocketKind::Stream(stream) => Ok(stream.remote.clone()),
            SocketKind::Datagram(SimDatagramSocket { remote: Some(to), .. }) => {
                Ok(Some(to.clone()))
            }
            _ => Err(io::Error::from_raw_os_error(libc::ENOTCONN)),
        }
    }
}

impl SimStream {
    pub(super) fn new(peer: RawFd, local: Option<SockAddr>, remote: Option<SockAddr>) -> Self {
        Self {
            peer,
            local,
            remote,
            inbox: VecDeque::new(),
            eof: false,
            reset: false,
            reset_told: false,
            write_ended: false,
            outstanding: 0,
            arrives_at: Duration::ZERO,
        }
    }

    /// Whether the stream has a Unix address, at least at one end.
    pub(super) fn is_unix(&self) -> bool {
        [&self.local, &self.remote].into_iter().flatten().any(SockAddr::is_unix)
    }

    /// Moves arrived bytes into `buffer` and returns how many.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> usize {
        let count = buffer.len().min(self.inbox.len());
        let (front, back) = self.inbox.as_slices();
        let from_front = count.min(front.len());
        buffer[..from_front].copy_from_slice(&front[..from_front]);
        buffer[from_front..count].copy_from_slice(&back[..count - from_front]);
        self.inbox.drain(..count);
        count
    }
}

impl SimDatagramSocket {
    fn new(local: SockAddr) -> Self {
        Self {
            local,
            remote: None,
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            waiting: Vec::new(),
            arrives_at: Duration::ZERO,
        }
    }

    /// Whether a datagram fits; an empty queue accepts any.
    pub(super) fn has_room(&self, bytes: usize, capacity: usize) -> bool {
        self.inbox.is_empty() || self.inbox_bytes + bytes + DATAGRAM_COST <= capacity
    }

    pub(super) fn put(&mut self, datagram: Datagram) {
        self.inbox_bytes += datagram.bytes.len() + DATAGRAM_COST;
        self.inbox.push_back(datagram);
    }

    pub(super) fn take(&mut self) -> Option<Datagram> {
        let datagram = self.inbox.pop_front()?;
        self.inbox_bytes -= datagram.bytes.len() + DATAGRAM_COST;
        Some(datagram)
    }
}

/// The cost of a queued datagram beside its bytes, so that empty ones are bounded too.
const DATAGRAM_COST: usize = 64;

/// Whether datagrams to this address can be lost.
pub(super) fn is_inet(addr: &SockAddr) -> bool {
    addr.as_socket().is_some()
}
