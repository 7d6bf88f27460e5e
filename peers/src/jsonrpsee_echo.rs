//! The JSON-RPC server of jsonrpsee, over HTTP and WebSocket on one port, on a current-thread runtime.

use std::io;

use jsonrpsee_server::{RpcModule, Server, ServerConfig};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::runtime::Builder;

use crate::limits::{CALLS_PER_CONNECTION_MAX, CLIENT_CONNECTIONS_MAX, JSON_MESSAGE_BYTES_MAX};
use crate::listener::Listener;
use crate::stop::Stop;

/// The method of `ringway serve rpc`, whose bytes are base64 in JSON.
pub(crate) const SAY: &str = "ringway.bench.Echo/Say";

/// Serves until asked to stop.
pub(crate) fn serve(listener: Listener, stop: Stop) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stop = UnixStream::from_std(stop.into_stream())?;
        listener.announce()?;
        let Listener::Tcp(listener) = listener else {
            return Err(io::Error::other("jsonrpsee listens on TCP alone"));
        };
        let config = ServerConfig::builder()
            .max_connections(CLIENT_CONNECTIONS_MAX as u32)
            .max_request_body_size(JSON_MESSAGE_BYTES_MAX)
            .max_response_body_size(JSON_MESSAGE_BYTES_MAX)
            .set_message_buffer_capacity(CALLS_PER_CONNECTION_MAX as u32)
            .build();
        let server = Server::builder().set_config(config).build_from_tcp(listener)?;
        let mut module = RpcModule::new(());
        let added = module.register_method(SAY, |params, _, _| params.one::<String>());
        added.map(drop).map_err(io::Error::other)?;
        let _serves_until_dropped = server.start(module);
        stop.read_u8().await.map(drop)
    })
}
