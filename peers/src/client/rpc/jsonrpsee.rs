//! Calls through jsonrpsee's clients. The payload is a text in base64, as in Ringway's JSON form of bytes.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use jsonrpsee_core::client::{ClientT, Error as CallError};
use jsonrpsee_core::rpc_params;
use jsonrpsee_http_client::HttpClient;
use jsonrpsee_ws_client::{WsClient, WsClientBuilder};

use super::caller::Caller;
use crate::address::Address;
use crate::client::run::Error;
use crate::jsonrpsee_echo::SAY;
use crate::limits::JSON_MESSAGE_BYTES_MAX;

/// A client with connections of its own.
#[derive(Clone)]
pub(super) enum JsonrpseeCaller {
    /// Makes a connection for each call in flight.
    Http(HttpClient),
    WebSocket(Arc<WsClient>),
}

impl JsonrpseeCaller {
    /// # Errors
    /// If nobody listens there.
    pub(super) async fn over_http(address: &Address) -> Result<Self, Error> {
        let client = HttpClient::builder()
            .max_request_size(JSON_MESSAGE_BYTES_MAX)
            .max_response_size(JSON_MESSAGE_BYTES_MAX)
            .build(format!("http://{}", tcp(address)?))?;
        let mut caller = Self::Http(client);
        caller.call(Bytes::new()).await?; // it connects with its first call
        Ok(caller)
    }

    /// A client that takes `depth` calls at a time.
    ///
    /// # Errors
    /// If nobody listens there.
    pub(super) async fn over_web_socket(address: &Address, depth: usize) -> Result<Self, Error> {
        let client = WsClientBuilder::new()
            .max_request_size(JSON_MESSAGE_BYTES_MAX)
            .max_response_size(JSON_MESSAGE_BYTES_MAX)
            .max_concurrent_requests(depth.max(1))
            .build(format!("ws://{}", tcp(address)?))
            .await?;
        Ok(Self::WebSocket(Arc::new(client)))
    }

    async fn say(&self, payload: String) -> Result<String, CallError> {
        match self {
            Self::Http(client) => client.request(SAY, rpc_params![payload]).await,
            Self::WebSocket(client) => client.request(SAY, rpc_params![payload]).await,
        }
    }
}

impl Caller for JsonrpseeCaller {
    async fn call(&mut self, payload: Bytes) -> Result<Bytes, Error> {
        let reply = self.say(BASE64_STANDARD.encode(&payload)).await?;
        Ok(BASE64_STANDARD.decode(reply)?.into())
    }
}

fn tcp(address: &Address) -> Result<&std::net::SocketAddr, Error> {
    match address {
        Address::Tcp(address) => Ok(address),
        Address::Unix(_) => Err("jsonrpsee's clients connect by TCP alone".into()),
    }
}
