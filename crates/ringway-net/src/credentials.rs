//! The credentials of the peer of a Unix socket.

use std::io;
use std::os::fd::AsFd;

use nix::sys::socket::{getsockopt, sockopt};

/// The process at the other end of a Unix socket, as of its `connect` or `listen`. The kernel
/// provides the values, so they can be trusted as far as this machine can.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Credentials {
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Process id; `None` if the process is outside of our PID namespace. The process may have
    /// ended, and its id may have been reused.
    pub pid: Option<u32>,
}

impl Credentials {
    /// Reads the credentials of the peer of a Unix socket.
    pub(crate) fn of_peer(socket: &impl AsFd) -> io::Result<Self> {
        let peer = getsockopt(socket, sockopt::PeerCredentials)?;
        let pid = u32::try_from(peer.pid()).ok().filter(|pid| *pid != 0);
        Ok(Self { uid: peer.uid(), gid: peer.gid(), pid })
    }
}
