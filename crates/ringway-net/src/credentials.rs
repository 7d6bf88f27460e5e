//! Who is at the other end of a Unix socket.

use std::io;
use std::os::fd::AsFd;

use nix::sys::socket::{getsockopt, sockopt};

/// The process at the other end of a Unix socket, as it was when it connected or listened. The kernel says so,
/// so it can be trusted as far as this machine is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Credentials {
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
    /// Its number; `None` for a process that this one's PID namespace does not contain. It may have ended, and
    /// another one have its number.
    pub pid: Option<u32>,
}

impl Credentials {
    /// Of the peer of a Unix socket.
    pub(crate) fn of_peer(socket: &impl AsFd) -> io::Result<Self> {
        let peer = getsockopt(socket, sockopt::PeerCredentials)?;
        let pid = u32::try_from(peer.pid()).ok().filter(|pid| *pid != 0);
        Ok(Self { uid: peer.uid(), gid: peer.gid(), pid })
    }
}
