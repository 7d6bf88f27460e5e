//! The tarpc server and what its client shares with it: bincode over length-delimited frames,
//! current-thread runtime.

use std::io;
use std::pin::pin;

use bytes::Bytes;
use tarpc::context::Context;
use tarpc::serde::{Deserialize, Serialize};
use tarpc::serde_transport::{self, Transport};
use tarpc::server::{BaseChannel, Channel, Config};
use tarpc::tokio_serde::formats::Bincode;
use tarpc::tokio_util::codec::LengthDelimitedCodec;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::UnixStream;
use tokio::runtime::Builder;
use tokio_stream::{Stream, StreamExt};

use crate::accept;
use crate::limits::{CALLS_PER_CONNECTION_MAX, RPC_MESSAGE_BYTES_MAX};
use crate::listener::Listener;
use crate::stop::Stop;

/// The service.
#[tarpc::service]
pub(crate) trait Echo {
    /// Answers with the payload.
    async fn echo(payload: Bytes) -> Bytes;
}

#[derive(Clone)]
struct TarpcEcho;

impl Echo for TarpcEcho {
    async fn echo(self, _: Context, payload: Bytes) -> Bytes {
        payload
    }
}

/// Serves until asked to stop.
pub(crate) fn serve(listener: Listener, stop: Stop) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stop = UnixStream::from_std(stop.into_stream())?;
        listener.announce()?;
        match listener {
            Listener::Tcp(listener) => drop(tokio::spawn(accept(accept::tcp(listener)?))),
            Listener::Unix(listener, _) => drop(tokio::spawn(accept(accept::unix(listener)?))),
        }
        stop.read_u8().await.map(drop)
    })
}

/// A transport over `socket`, for either end.
pub(crate) fn transport<S, Item, SinkItem>(
    socket: S,
) -> Transport<S, Item, SinkItem, Bincode<Item, SinkItem>>
where
    S: AsyncRead + AsyncWrite,
    Item: for<'de> Deserialize<'de>,
    SinkItem: Serialize,
{
    let mut frames = LengthDelimitedCodec::builder();
    let framed = frames.max_frame_length(RPC_MESSAGE_BYTES_MAX).new_framed(socket);
    serde_transport::new(framed, Bincode::default())
}

async fn accept<S>(mut sockets: impl Stream<Item = io::Result<S>> + Unpin)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    while let Some(accepted) = sockets.next().await {
        if let Ok(socket) = accepted {
            tokio::spawn(answer(socket));
        }
    }
}

/// Answers one request after another without a task for each, since the answer never waits: the
/// buffer of answers that are not sent yet has room for all calls that a client keeps in flight.
async fn answer<S>(socket: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = Config { pending_response_buffer: CALLS_PER_CONNECTION_MAX };
    let requests = BaseChannel::new(config, transport(socket)).execute(TarpcEcho.serve());
    let mut requests = pin!(requests);
    while let Some(response) = requests.next().await {
        response.await;
    }
}
