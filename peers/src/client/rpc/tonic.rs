//! Calls through tonic's client.

use bytes::Bytes;
use tokio_stream::once;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};

use super::caller::Caller;
use crate::address::Address;
use crate::args::Method;
use crate::client::run::Error;
use crate::limits::{HTTP2_FRAME_BYTES, HTTP2_WINDOW_BYTES, RPC_MESSAGE_BYTES_MAX};
use crate::tonic_echo::{BIDI, CLIENT_STREAM, EchoCodec, SERVER_STREAM, UNARY};

/// A connection of its own with the settings of the server.
///
/// # Errors
/// If nobody listens there.
pub(super) async fn connect(address: &Address) -> Result<Grpc<Channel>, Error> {
    let uri = match address {
        Address::Tcp(address) => format!("http://{address}"),
        Address::Unix(path) => format!("unix://{}", path.display()),
    };
    let channel = Endpoint::new(uri)?
        .initial_stream_window_size(HTTP2_WINDOW_BYTES)
        .initial_connection_window_size(HTTP2_WINDOW_BYTES)
        .max_frame_size(HTTP2_FRAME_BYTES)
        .tcp_nodelay(true)
        .connect()
        .await
        .map_err(|error| format!("{address}: {}", with_sources(&error)))?;
    Ok(Grpc::new(channel).max_decoding_message_size(RPC_MESSAGE_BYTES_MAX))
}

/// Calls of one method.
#[derive(Clone)]
pub(super) struct TonicCaller {
    grpc: Grpc<Channel>,
    method: Method,
}

impl TonicCaller {
    pub(super) async fn connect(address: &Address, method: Method) -> Result<Self, Error> {
        Ok(Self { grpc: connect(address).await?, method })
    }
}

impl Caller for TonicCaller {
    async fn call(&mut self, request: Bytes) -> Result<Bytes, Error> {
        let grpc = &mut self.grpc;
        grpc.ready().await?;
        Ok(match self.method {
            Method::Unary => {
                grpc.unary(Request::new(request), path(UNARY), EchoCodec).await?.into_inner()
            }
            Method::ClientStream => {
                let requests = Request::new(once(request));
                grpc.client_streaming(requests, path(CLIENT_STREAM), EchoCodec).await?.into_inner()
            }
            Method::ServerStream => {
                let request = Request::new(request);
                let replies = grpc.server_streaming(request, path(SERVER_STREAM), EchoCodec);
                only(replies.await?.into_inner()).await?
            }
            Method::Bidi => {
                let requests = Request::new(once(request));
                only(grpc.streaming(requests, path(BIDI), EchoCodec).await?.into_inner()).await?
            }
        })
    }
}

/// The path of a method, for a call.
pub(super) fn path(method: &'static str) -> PathAndQuery {
    PathAndQuery::from_static(method)
}

/// The one message of a stream, once the stream has ended.
async fn only(mut replies: Streaming<Bytes>) -> Result<Bytes, Error> {
    let reply = replies.message().await?.ok_or("a stream ended without a message")?;
    match replies.message().await? {
        None => Ok(reply),
        Some(_) => Err("a stream had more than one message".into()),
    }
}

/// An error with its causes, since tonic's own text is `transport error`.
fn with_sources(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
