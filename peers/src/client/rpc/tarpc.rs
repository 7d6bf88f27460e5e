//! Calls through tarpc's client.

use bytes::Bytes;
use tarpc::client::{Config, NewClient};
use tarpc::context;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::caller::Caller;
use crate::address::Address;
use crate::client::run::Error;
use crate::tarpc_echo::{EchoClient, transport};

/// Calls on one connection.
#[derive(Clone)]
pub(super) struct TarpcCaller {
    client: EchoClient,
}

impl TarpcCaller {
    /// A connection that takes `depth` calls at a time.
    ///
    /// # Errors
    /// If nobody listens there.
    pub(super) async fn connect(address: &Address, depth: usize) -> Result<Self, Error> {
        let explain = |error| format!("{address}: {error}");
        let client = match address {
            Address::Tcp(address) => {
                let socket = TcpStream::connect(address).await.map_err(explain)?;
                socket.set_nodelay(true)?;
                spawn(socket, depth)
            }
            Address::Unix(path) => spawn(UnixStream::connect(path).await.map_err(explain)?, depth),
        };
        Ok(Self { client })
    }
}

fn spawn<S>(socket: S, depth: usize) -> EchoClient
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut config = Config::default();
    config.max_in_flight_requests = config.max_in_flight_requests.max(depth);
    config.pending_request_buffer = config.pending_request_buffer.max(depth);
    let NewClient { client, dispatch } = EchoClient::new(config, transport(socket));
    tokio::spawn(dispatch);
    client
}

impl Caller for TarpcCaller {
    async fn call(&mut self, payload: Bytes) -> Result<Bytes, Error> {
        Ok(self.client.echo(context::current(), payload).await?)
    }
}
