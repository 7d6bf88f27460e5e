//! RPC clients of one connection each, connected before the clock starts.

use std::io;

use bytes::Bytes;
use ringway_rpc::Client;
use ringway_runtime::timeout;

use super::engine::Part;
use crate::echo_service::EchoClient;
use crate::limits;

/// A client for each connection of `part`, with the connection's number.
///
/// # Errors
/// A connection that is not up within [`limits::CONNECT_MAX`].
pub(super) async fn dial(part: &Part) -> io::Result<Vec<(u32, EchoClient)>> {
    let mut clients = Vec::with_capacity(part.connections.len());
    for number in part.connections.clone() {
        let client = Client::builder().address(part.uri.as_str()).connections_max(1).build();
        let client = EchoClient::new(client.map_err(io::Error::other)?);
        // A client connects with its first call.
        let first = timeout(limits::CONNECT_MAX, client.say(Bytes::new())).await;
        let first = first.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        first.map_err(io::Error::other)?;
        clients.push((number, client));
    }
    Ok(clients)
}
