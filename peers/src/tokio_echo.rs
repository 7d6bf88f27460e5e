//! The echo server of tokio's own documentation: current-thread runtime, a task a connection.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::runtime::Builder;

use crate::limits::READ_BYTES;
use crate::listener::{Listener, is_transient};
use crate::stop::Stop;

/// Echoes until asked to stop.
pub(crate) fn serve(listener: Listener, stop: Stop) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let mut stop = UnixStream::from_std(stop.into_stream())?;
        listener.announce()?;
        tokio::spawn(async {
            if let Err(error) = accept(listener).await {
                eprintln!("ringway-peers: accept: {error}");
                std::process::exit(1);
            }
        });
        stop.read_u8().await.map(drop)
    })
}

async fn accept(listener: Listener) -> io::Result<()> {
    match listener {
        Listener::Tcp(listener) => {
            let listener = TcpListener::from_std(listener)?;
            loop {
                match listener.accept().await {
                    Ok((socket, _)) => {
                        socket.set_nodelay(true)?;
                        tokio::spawn(echo(socket));
                    }
                    Err(error) if is_transient(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Listener::Unix(listener, _) => {
            let listener = UnixListener::from_std(listener)?;
            loop {
                match listener.accept().await {
                    Ok((socket, _)) => drop(tokio::spawn(echo(socket))),
                    Err(error) if is_transient(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

/// A read that leaves room in the buffer tells tokio that the socket is empty, which saves the
/// second `read`; so the buffer is larger than the largest message of the suite. It is not zeroed:
/// the pages that no message reaches are never touched.
async fn echo(mut socket: impl AsyncRead + AsyncWrite + Unpin) {
    let mut buffer = Vec::with_capacity(READ_BYTES);
    while let Ok(1..) = socket.read_buf(&mut buffer).await {
        if socket.write_all(&buffer).await.is_err() {
            return;
        }
        buffer.clear();
    }
}
