//! Accepted connections as the streams that RPC servers on tokio take.

use std::io;
use std::os::unix::net::UnixListener as StdUnixListener;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tokio_stream::{Stream, StreamExt};

use crate::listener::is_transient;

/// Connections of a TCP listener, with TCP_NODELAY.
pub(crate) fn tcp(
    listener: std::net::TcpListener,
) -> io::Result<impl Stream<Item = io::Result<TcpStream>> + Unpin> {
    let listener = TcpListenerStream::new(TcpListener::from_std(listener)?);
    Ok(listener.map(|accepted| {
        let socket = checked(accepted)?;
        socket.set_nodelay(true)?;
        Ok(socket)
    }))
}

/// Connections of a Unix listener.
pub(crate) fn unix(
    listener: StdUnixListener,
) -> io::Result<impl Stream<Item = io::Result<UnixStream>> + Unpin> {
    Ok(UnixListenerStream::new(UnixListener::from_std(listener)?).map(checked))
}

/// Ends the process when no further connection can be accepted: the frameworks would go round in
/// their loops.
fn checked<S>(accepted: io::Result<S>) -> io::Result<S> {
    if let Err(error) = &accepted
        && !is_transient(error)
    {
        eprintln!("ringway-peers: accept: {error}");
        std::process::exit(1);
    }
    accepted
}
