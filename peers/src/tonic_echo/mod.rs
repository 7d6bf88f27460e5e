//! The gRPC server: tonic on a current-thread runtime, with four kinds of echo.

mod payload;
mod service;

use std::io;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::runtime::Builder;
use tonic::transport::Server;

use crate::accept;
use crate::limits::{CALLS_PER_CONNECTION_MAX, HTTP2_FRAME_BYTES, HTTP2_WINDOW_BYTES};
use crate::listener::Listener;
use crate::stop::Stop;
pub(crate) use payload::EchoCodec;
use service::EchoService;
pub(crate) use service::{BIDI, CLIENT_STREAM, FLOOD, SERVER_STREAM, UNARY, flood_request};

/// Serves until asked to stop.
pub(crate) fn serve(listener: Listener, stop: Stop) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stop = UnixStream::from_std(stop.into_stream())?;
        listener.announce()?;
        tokio::spawn(async {
            if let Err(error) = accept(listener).await {
                eprintln!("ringway-peers: serve: {error}");
                std::process::exit(1);
            }
        });
        stop.read_u8().await.map(drop)
    })
}

async fn accept(listener: Listener) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let server = Server::builder()
        .initial_stream_window_size(HTTP2_WINDOW_BYTES)
        .initial_connection_window_size(HTTP2_WINDOW_BYTES)
        .max_concurrent_streams(CALLS_PER_CONNECTION_MAX as u32)
        .max_frame_size(HTTP2_FRAME_BYTES);
    match listener {
        Listener::Tcp(listener) => {
            server.serve_with_incoming(EchoService, accept::tcp(listener)?).await?
        }
        Listener::Unix(listener, _) => {
            server.serve_with_incoming(EchoService, accept::unix(listener)?).await?;
        }
    }
    Ok(())
}
