//! The echo server of monoio's own documentation: io_uring driver, a task a connection, a buffer
//! that travels into the kernel and back.

use std::io;

use monoio::io::{AsyncReadRent, AsyncReadRentExt, AsyncWriteRent, AsyncWriteRentExt};
use monoio::net::{TcpListener, UnixListener, UnixStream};
use monoio::{IoUringDriver, RuntimeBuilder};

use crate::limits::{READ_BYTES, RING_SUBMISSIONS};
use crate::listener::{Listener, is_transient};
use crate::stop::Stop;

/// Echoes until asked to stop.
pub(crate) fn serve(listener: Listener, stop: Stop) -> io::Result<()> {
    let mut runtime = RuntimeBuilder::<IoUringDriver>::new()
        .with_entries(RING_SUBMISSIONS)
        .uring_builder(ring())
        .build()?;
    runtime.block_on(async {
        let stop = stop.into_stream();
        stop.set_nonblocking(false)?;
        let mut stop = UnixStream::from_std(stop)?;
        listener.announce()?;
        monoio::spawn(async {
            if let Err(error) = accept(listener).await {
                eprintln!("ringway-peers: accept: {error}");
                std::process::exit(1);
            }
        });
        stop.read_u8().await.map(drop)
    })
}

/// Monoio asks for no flags by itself. These two save it up to a twentieth of its CPU time on small
/// messages; DEFER_TASKRUN on top of them saves nothing more.
fn ring() -> io_uring_of_monoio::Builder {
    let mut builder = io_uring_of_monoio::IoUring::builder();
    builder.setup_single_issuer().setup_coop_taskrun();
    builder
}

async fn accept(listener: Listener) -> io::Result<()> {
    match listener {
        Listener::Tcp(listener) => {
            // io_uring answers EAGAIN at once for a non-blocking socket instead of waiting.
            listener.set_nonblocking(false)?;
            let listener = TcpListener::from_std(listener)?;
            loop {
                match listener.accept().await {
                    Ok((socket, _)) => {
                        socket.set_nodelay(true)?;
                        monoio::spawn(echo(socket));
                    }
                    Err(error) if is_transient(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Listener::Unix(listener, _) => {
            listener.set_nonblocking(false)?;
            let listener = UnixListener::from_std(listener)?;
            loop {
                match listener.accept().await {
                    Ok((socket, _)) => drop(monoio::spawn(echo(socket))),
                    Err(error) if is_transient(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

async fn echo(mut socket: impl AsyncReadRent + AsyncWriteRent) {
    let mut buffer: Vec<u8> = Vec::with_capacity(READ_BYTES);
    loop {
        let (received, filled) = socket.read(buffer).await;
        let Ok(1..) = received else { return };
        let (sent, returned) = socket.write_all(filled).await;
        if sent.is_err() {
            return;
        }
        buffer = returned;
        buffer.clear();
    }
}
