//! The plainest fast echo server: one thread, level-triggered epoll.
//!
//! One `recv` into one buffer that all connections share and that stays in cache, one `send` back.
//! A level-triggered loop needs no second `recv` to see `EAGAIN`, so a message costs two calls and
//! its share of `epoll_wait`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

use crate::limits::{EVENTS_PER_WAIT, READ_BYTES};
use crate::listener::{Listener, is_transient};
use crate::stop::Stop;

/// Echoes until asked to stop.
pub(crate) fn serve(listener: Listener, stop: Stop) -> io::Result<()> {
    let mut server = EpollServer::new(listener, &stop)?;
    server.listener.announce()?;
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS_PER_WAIT);
    loop {
        match epoll::wait(&server.epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.drain(..) {
            match event.data.u64() {
                STOP => return Ok(()),
                LISTENER => server.accept_all()?,
                descriptor => server.on_ready(descriptor as usize),
            }
        }
    }
}

/// `EventData` of the two descriptors that are no connection; no descriptor is that large.
const STOP: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

struct EpollServer {
    epoll: OwnedFd,
    listener: Listener,
    /// Indexed by descriptor: the kernel gives out the lowest free one, so this stays dense.
    connections: Vec<Option<EpollConnection>>,
    buffer: Vec<u8>,
}

struct EpollConnection {
    socket: OwnedFd,
    /// What the socket did not take. While it is not empty nothing is read, so it never holds more
    /// than one read.
    pending: Vec<u8>,
}

/// What remains to be done with a connection after an event.
#[derive(PartialEq, Eq)]
enum Outcome {
    Keep,
    Close,
}

impl EpollServer {
    fn new(listener: Listener, stop: &Stop) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, stop, EventData::new_u64(STOP), EventFlags::IN)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        Ok(Self { epoll, listener, connections: Vec::new(), buffer: vec![0; READ_BYTES] })
    }

    fn accept_all(&mut self) -> io::Result<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        loop {
            match accept_with(&self.listener, flags).map_err(io::Error::from) {
                Ok(socket) => self.add(socket)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn add(&mut self, socket: OwnedFd) -> io::Result<()> {
        self.listener.tune(&socket)?;
        let slot = socket.as_raw_fd() as usize;
        epoll::add(&self.epoll, &socket, EventData::new_u64(slot as u64), EventFlags::IN)?;
        if self.connections.len() <= slot {
            self.connections.resize_with(slot + 1, || None);
        }
        self.connections[slot] = Some(EpollConnection { socket, pending: Vec::new() });
        Ok(())
    }

    fn on_ready(&mut self, slot: usize) {
        let Some(connection) = &mut self.connections[slot] else {
            return;
        };
        let outcome = if connection.pending.is_empty() {
            echo(&self.epoll, connection, &mut self.buffer)
        } else {
            flush(&self.epoll, connection)
        };
        if outcome != Ok(Outcome::Keep) {
            // Closing the only descriptor of a socket also takes it out of the epoll set.
            self.connections[slot] = None;
        }
    }
}

fn echo(
    epoll: &OwnedFd,
    connection: &mut EpollConnection,
    buffer: &mut [u8],
) -> Result<Outcome, Errno> {
    let received = match recv(&connection.socket, &mut *buffer, RecvFlags::empty()) {
        Ok((0, _)) => return Ok(Outcome::Close),
        Ok((received, _)) => received,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(Outcome::Keep),
        Err(error) => return Err(error),
    };
    let sent = send_some(connection, &buffer[..received])?;
    if sent < received {
        connection.pending.extend_from_slice(&buffer[sent..received]);
        watch(epoll, connection, EventFlags::OUT)?;
    }
    Ok(Outcome::Keep)
}

fn flush(epoll: &OwnedFd, connection: &mut EpollConnection) -> Result<Outcome, Errno> {
    let sent = send_some(connection, &connection.pending)?;
    connection.pending.drain(..sent);
    if connection.pending.is_empty() {
        watch(epoll, connection, EventFlags::IN)?;
    }
    Ok(Outcome::Keep)
}

/// Sends as much as the socket takes now, which may be nothing.
fn send_some(connection: &EpollConnection, bytes: &[u8]) -> Result<usize, Errno> {
    match send(&connection.socket, bytes, SendFlags::NOSIGNAL) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        sent_or_error => sent_or_error,
    }
}

fn watch(epoll: &OwnedFd, connection: &EpollConnection, flags: EventFlags) -> Result<(), Errno> {
    let slot = connection.socket.as_raw_fd() as u64;
    epoll::modify(epoll, connection.socket.as_fd(), EventData::new_u64(slot), flags)
}
