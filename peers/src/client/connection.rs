//! One connection of the client and the one request it has in flight.

use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::{Errno, writev};
use rustix::net::{RecvFlags, recv};

use crate::address::Address;
use crate::message::{HEADER_BYTES, Messages, begins_with, remainder};

/// A connection with at most one request in flight.
pub(crate) struct Connection {
    /// `None` after a failure.
    socket: Option<OwnedFd>,
    number: u32,
    sequence: u64,
    header: [u8; HEADER_BYTES],
    /// Bytes of the request that the socket took.
    sent: usize,
    /// Bytes of the reply that were compared.
    received: usize,
    /// Whether all of them were as sent.
    intact: bool,
    in_flight: bool,
    sent_at: Instant,
    watched: EventFlags,
}

/// What an event meant.
pub(crate) enum Event {
    Nothing,
    /// The whole reply is here.
    Reply {
        intact: bool,
    },
}

impl Connection {
    /// Connects, waiting until it is done.
    pub(crate) fn open(address: &Address, number: u32) -> io::Result<Self> {
        let socket = connect(address).map_err(|error| {
            io::Error::new(error.kind(), format!("connection {number} to {address}: {error}"))
        })?;
        Ok(Self {
            socket: Some(socket),
            number,
            sequence: 0,
            header: [0; HEADER_BYTES],
            sent: 0,
            received: 0,
            intact: true,
            in_flight: false,
            sent_at: Instant::now(),
            watched: EventFlags::IN,
        })
    }

    /// Adds the connection to an epoll set, under its number.
    pub(crate) fn register(&self, epoll: &OwnedFd) -> io::Result<()> {
        let data = EventData::new_u64(u64::from(self.number));
        Ok(epoll::add(epoll, self.socket()?, data, EventFlags::IN)?)
    }

    /// Begins the next request, timed from `now`.
    pub(crate) fn send_next(
        &mut self,
        epoll: &OwnedFd,
        messages: &Messages,
        now: Instant,
    ) -> Result<(), Errno> {
        self.sequence += 1;
        self.header = messages.header(self.number, self.sequence);
        self.sent = 0;
        self.received = 0;
        self.intact = true;
        self.in_flight = true;
        self.sent_at = now;
        self.send_rest(epoll, messages)
    }

    /// Goes on with what the event allows.
    ///
    /// # Errors
    /// If the connection failed, was closed by the peer, or sent what nobody asked for.
    pub(crate) fn on_ready(
        &mut self,
        epoll: &OwnedFd,
        flags: EventFlags,
        messages: &Messages,
        buffer: &mut [u8],
    ) -> Result<Event, Errno> {
        if self.socket.is_none() {
            return Ok(Event::Nothing);
        }
        if flags.contains(EventFlags::OUT) {
            self.send_rest(epoll, messages)?;
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            return self.receive(messages, buffer);
        }
        Ok(Event::Nothing)
    }

    /// When the request in flight began.
    pub(crate) fn sent_at(&self) -> Instant {
        self.sent_at
    }

    /// Closes; answers whether a request was in flight.
    pub(crate) fn close(&mut self) -> bool {
        self.socket = None;
        std::mem::take(&mut self.in_flight)
    }

    fn send_rest(&mut self, epoll: &OwnedFd, messages: &Messages) -> Result<(), Errno> {
        let parts = messages.parts(&self.header, self.number, self.sequence);
        let [header, body] = remainder(parts, self.sent).map(IoSlice::new);
        let sent = match writev(self.socket()?, &[header, body]) {
            Err(Errno::AGAIN | Errno::INTR) => 0,
            sent_or_error => sent_or_error?,
        };
        self.sent += sent;
        let wanted = if self.sent < messages.message_bytes() {
            EventFlags::IN | EventFlags::OUT
        } else {
            EventFlags::IN
        };
        self.watch(epoll, wanted)
    }

    /// Compares whatever part of the reply has come. Reading goes on while the request is still
    /// being sent, or two full sockets would wait for each other.
    fn receive(&mut self, messages: &Messages, buffer: &mut [u8]) -> Result<Event, Errno> {
        let received = match recv(self.socket()?, &mut *buffer, RecvFlags::empty()) {
            Ok((0, _)) => return Err(Errno::CONNRESET),
            Ok((received, _)) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Event::Nothing),
            Err(error) => return Err(error),
        };
        // More than was sent so far cannot be an echo of it, whatever it contains.
        if !self.in_flight || self.received + received > self.sent {
            return Err(Errno::PROTO);
        }
        let parts = messages.parts(&self.header, self.number, self.sequence);
        self.intact &= begins_with(remainder(parts, self.received), &buffer[..received]);
        self.received += received;
        if self.received < messages.message_bytes() {
            return Ok(Event::Nothing);
        }
        self.in_flight = false;
        Ok(Event::Reply { intact: self.intact })
    }

    /// Changes the watched events; the system call is made only on a change.
    fn watch(&mut self, epoll: &OwnedFd, wanted: EventFlags) -> Result<(), Errno> {
        if self.watched != wanted {
            let data = EventData::new_u64(u64::from(self.number));
            epoll::modify(epoll, self.socket()?, data, wanted)?;
            self.watched = wanted;
        }
        Ok(())
    }

    fn socket(&self) -> Result<&OwnedFd, Errno> {
        self.socket.as_ref().ok_or(Errno::NOTCONN)
    }
}

fn connect(address: &Address) -> io::Result<OwnedFd> {
    match address {
        Address::Tcp(address) => {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(stream.into())
        }
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_nonblocking(true)?;
            Ok(stream.into())
        }
    }
}
