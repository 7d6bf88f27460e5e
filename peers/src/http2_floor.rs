//! The least that HTTP/2 costs: a server that answers unary gRPC calls with their own message and reads
//! only frame headers.
//!
//! It uses one thread, level-triggered epoll, and one `recv` and one `send` per turn of a connection. It decodes
//! no field, keeps no stream and counts no window of the client. So it serves only clients that
//! send each message as one frame and whose windows hold all replies.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

use crate::http2_frames::Frames;
use crate::limits::{EVENTS_PER_WAIT, READ_BYTES};
use crate::listener::{Listener, is_transient};
use crate::stop::Stop;

/// Answers until asked to stop.
pub(crate) fn serve(listener: Listener, stop: Stop) -> io::Result<()> {
    let mut floor = Floor::new(listener, &stop)?;
    floor.listener.announce()?;
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS_PER_WAIT);
    loop {
        match epoll::wait(&floor.epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.drain(..) {
            match event.data.u64() {
                STOP => return Ok(()),
                LISTENER => floor.accept_all()?,
                descriptor => floor.on_ready(descriptor as usize),
            }
        }
    }
}

/// `EventData` of the two descriptors that are no connection; no descriptor is that large.
const STOP: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

struct Floor {
    epoll: OwnedFd,
    listener: Listener,
    /// Indexed by descriptor.
    callers: Vec<Option<FloorCaller>>,
    input: Vec<u8>,
    output: Vec<u8>,
}

struct FloorCaller {
    socket: OwnedFd,
    frames: Frames,
    /// What the socket did not take. While it is not empty nothing is read, so it never holds more
    /// than the answers to one read.
    unsent: Vec<u8>,
}

/// The connection is over.
struct Over;

impl Floor {
    fn new(listener: Listener, stop: &Stop) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, stop, EventData::new_u64(STOP), EventFlags::IN)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let (callers, output) = (Vec::new(), Vec::new());
        Ok(Self { epoll, listener, callers, input: vec![0; READ_BYTES], output })
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
        if self.callers.len() <= slot {
            self.callers.resize_with(slot + 1, || None);
        }
        self.callers[slot] =
            Some(FloorCaller { socket, frames: Frames::default(), unsent: Vec::new() });
        Ok(())
    }

    fn on_ready(&mut self, slot: usize) {
        let Some(caller) = &mut self.callers[slot] else { return };
        let served = match caller.unsent.is_empty() {
            true => caller.serve(&self.epoll, &mut self.input, &mut self.output),
            false => caller.send_rest(&self.epoll),
        };
        if served.is_err() {
            self.callers[slot] = None; // its only descriptor, so the epoll set forgets it too
        }
    }
}

impl FloorCaller {
    fn serve(
        &mut self,
        epoll: &OwnedFd,
        input: &mut [u8],
        output: &mut Vec<u8>,
    ) -> Result<(), Over> {
        let received = match recv(&self.socket, &mut *input, RecvFlags::empty()) {
            Ok((0, _)) => return Err(Over),
            Ok((received, _)) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(_) => return Err(Over),
        };
        output.clear();
        self.frames.answer(&input[..received], output).map_err(|_| Over)?;
        let sent = self.send_some(output)?;
        if sent < output.len() {
            self.unsent.extend_from_slice(&output[sent..]);
            self.watch(epoll, EventFlags::OUT)?;
        }
        Ok(())
    }

    fn send_rest(&mut self, epoll: &OwnedFd) -> Result<(), Over> {
        let sent = self.send_some(&self.unsent)?;
        self.unsent.drain(..sent);
        if self.unsent.is_empty() { self.watch(epoll, EventFlags::IN) } else { Ok(()) }
    }

    /// Sends as much as the socket takes now, which may be nothing.
    fn send_some(&self, bytes: &[u8]) -> Result<usize, Over> {
        if bytes.is_empty() {
            return Ok(0);
        }
        match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            sent_or_error => sent_or_error.map_err(|_| Over),
        }
    }

    fn watch(&self, epoll: &OwnedFd, flags: EventFlags) -> Result<(), Over> {
        let slot = EventData::new_u64(self.socket.as_raw_fd() as u64);
        epoll::modify(epoll, self.socket.as_fd(), slot, flags).map_err(|_| Over)
    }
}
