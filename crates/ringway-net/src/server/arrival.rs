//! A connection between its accept and the core that serves it.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use ringway_runtime::io::{Accepted, Stream, StreamLimits};
use socket2::{SockRef, Socket};

/// An accepted connection that has no owner yet and can move to another core.
pub(crate) enum Arrival {
    /// The listener has returned it.
    Accepted(Accepted),
    /// Taken directly from the kernel's queue of a closing listener.
    Taken(OwnedFd),
}

impl Arrival {
    /// Returns the peer's IP address; `None` on a Unix socket, and when the peer is gone.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        let peer = match self {
            Self::Accepted(accepted) => accepted.peer_addr(),
            Self::Taken(socket) => SockRef::from(socket).peer_addr(),
        };
        Some(peer.ok()?.as_socket()?.ip())
    }

    /// Makes a stream of the calling core.
    pub(crate) fn into_stream(self, limits: &Rc<StreamLimits>) -> io::Result<Stream> {
        match self {
            Self::Accepted(accepted) => accepted.into_stream(limits),
            Self::Taken(socket) => Stream::adopt(socket, limits),
        }
    }
}

impl From<Accepted> for Arrival {
    fn from(accepted: Accepted) -> Self {
        Self::Accepted(accepted)
    }
}

impl From<Socket> for Arrival {
    fn from(socket: Socket) -> Self {
        Self::Taken(socket.into())
    }
}
