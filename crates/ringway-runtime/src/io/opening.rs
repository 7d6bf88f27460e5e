//! The start of streams: accepted, connected, or made elsewhere.

use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::rc::Rc;

use socket2::SockAddr;

use super::stream_state::StreamState;
use super::{Socket, Stream, StreamLimits};
use crate::core::Core;
use crate::driver::Key;

impl Core {
    /// Makes a stream of a connected descriptor that is already in the driver's mode.
    pub(super) fn open_stream(self: &Rc<Self>, fd: RawFd, limits: &Rc<StreamLimits>) -> Stream {
        let key = self.insert_stream(StreamState::new(fd, Rc::clone(limits), self.now()));
        self.schedule_deadlines(key);
        Stream::of_key(Rc::clone(self), key)
    }

    /// As `open_stream`, for a descriptor made elsewhere.
    pub(super) fn adopt_stream(
        self: &Rc<Self>,
        socket: OwnedFd,
        limits: &Rc<StreamLimits>,
    ) -> io::Result<Stream> {
        self.driver.borrow_mut().adopt(socket.as_raw_fd())?;
        Ok(self.open_stream(socket.into_raw_fd(), limits))
    }

    pub(super) fn start_connect(self: &Rc<Self>, addr: &SockAddr) -> io::Result<Stream> {
        let fd = self.driver.borrow_mut().open_stream(addr)?;
        let mut state = StreamState::new(fd, Rc::default(), self.now());
        state.connecting = true;
        let key = self.insert_stream(state);
        self.driver.borrow_mut().connect(key, addr);
        Ok(Stream::of_key(Rc::clone(self), key))
    }

    fn insert_stream(&self, state: StreamState) -> Key {
        let fd = state.fd;
        let key = self.sockets.borrow_mut().insert(Socket::Stream(state));
        self.register(key, fd);
        key
    }
}
