//! A connection between the kernel and the core that will have it.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use ringway_runtime::io::{Accepted, Stream, StreamLimits};
use socket2::{SockRef, Socket};

/// An accepted connection that has no owner yet; can be given to another core.
pub(crate) enum Arrival {
    /// Handed out by the listener.
    Accepted(Accepted),
    /// Taken from the kernel's queue when the listener was about to close.
    Taken(OwnedFd),
}

impl Arrival {
    /// The IP address that it comes from; `None` on a Unix socket, and when the peer is gone.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        let peer = match self {
            Self::Accepted(accepted) => accepted.peer_addr(),
            Self::Taken(socket) => SockRef::from(socket).peer_addr(),
        };
        Some(peer.ok()?.as_socket()?.ip())
    }

    /// Makes it a stream of the calling core.
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
