//! One-way receiver: level-triggered epoll, large reads, nothing kept and nothing sent.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, accept_with, recv};

use crate::limits::{DISCARD_BYTES, EVENTS_PER_WAIT};
use crate::listener::{Listener, is_transient};
use crate::stop::Stop;

/// Reads and throws away until asked to stop.
pub(crate) fn serve(listener: Listener, stop: Stop) -> io::Result<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &stop, EventData::new_u64(STOP), EventFlags::IN)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    listener.announce()?;
    let mut buffer = vec![0; DISCARD_BYTES];
    let mut connections = Vec::new();
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS_PER_WAIT);
    loop {
        match epoll::wait(&epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.drain(..) {
            match event.data.u64() {
                STOP => return Ok(()),
                LISTENER => accept_all(&epoll, &listener, &mut connections)?,
                slot => discard(&mut connections[slot as usize], &mut buffer),
            }
        }
    }
}

/// `EventData` of the two descriptors that are no connection; no descriptor is that large.
const STOP: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

/// Connections by descriptor.
type Connections = Vec<Option<OwnedFd>>;

fn accept_all(epoll: &OwnedFd, listener: &Listener, open: &mut Connections) -> io::Result<()> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    loop {
        let socket = match accept_with(listener, flags).map_err(io::Error::from) {
            Ok(socket) => socket,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if is_transient(&error) => continue,
            Err(error) => return Err(error),
        };
        let slot = socket.as_raw_fd() as usize;
        epoll::add(epoll, &socket, EventData::new_u64(slot as u64), EventFlags::IN)?;
        if open.len() <= slot {
            open.resize_with(slot + 1, || None);
        }
        open[slot] = Some(socket);
    }
}

fn discard(connection: &mut Option<OwnedFd>, buffer: &mut [u8]) {
    let Some(socket) = connection else { return };
    match recv(socket, buffer, RecvFlags::empty()) {
        Ok((1.., _)) | Err(Errno::AGAIN | Errno::INTR) => {}
        Ok((0, _)) | Err(_) => *connection = None,
    }
}
