//! One listening socket for every kind of server, with the same options.

use std::fs;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::address::Address;
use crate::limits::ACCEPT_QUEUE;

/// A listening socket, non-blocking.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Binds and listens. The file of a Unix socket that nobody listens on any more is replaced.
    pub(crate) fn bind(address: &Address) -> io::Result<Self> {
        let bound = match address {
            Address::Tcp(address) => bind_tcp(address).map(Self::Tcp),
            Address::Unix(path) => {
                bind_unix(path).map(|listener| Self::Unix(listener, path.clone()))
            }
        };
        bound.map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))
    }

    /// Prints the line that tells a parent process where to connect.
    pub(crate) fn announce(&self) -> io::Result<()> {
        let address = match self {
            Self::Tcp(listener) => Address::Tcp(listener.local_addr()?),
            Self::Unix(_, path) => Address::Unix(path.clone()),
        };
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "listening on {address}")?;
        stdout.flush()
    }

    /// A guard that removes the file of a Unix socket.
    pub(crate) fn socket_file(&self) -> Option<SocketFile> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(_, path) => Some(SocketFile(path.clone())),
        }
    }

    /// Sets what every accepted connection gets: TCP_NODELAY where it exists.
    pub(crate) fn tune(&self, connection: impl AsFd) -> io::Result<()> {
        if let Self::Tcp(_) = self {
            sockopt::set_tcp_nodelay(connection, true)?;
        }
        Ok(())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        }
    }
}

/// Removes the file of a Unix socket when dropped.
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Someone else may have removed it; there is nobody left to tell.
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether a failed accept concerns only the connection that was lost, not the listener.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::INTR | Errno::AGAIN | Errno::CONNABORTED | Errno::PROTO)
    )
}

fn bind_tcp(address: &SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket(family)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, address)?;
    net::listen(&socket, ACCEPT_QUEUE)?;
    Ok(socket.into())
}

fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let socket = socket(AddressFamily::UNIX)?;
    let address = SocketAddrUnix::new(path)?;
    if is_stale(path) {
        fs::remove_file(path)?;
    }
    net::bind(&socket, &address)?;
    net::listen(&socket, ACCEPT_QUEUE)?;
    Ok(socket.into())
}

fn socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(net::socket_with(family, SocketType::STREAM, flags, None)?)
}

fn is_stale(path: &Path) -> bool {
    let connected = std::os::unix::net::UnixStream::connect(path);
    connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
