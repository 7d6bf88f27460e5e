//! RPC clients of one connection each, connected before the clock starts.

use bytes::Bytes;
use ringway_rpc::{Client, Status};
use ringway_runtime::sync::Semaphore;
use ringway_runtime::{spawn, timeout};

use super::engine::Part;
use super::score::Score;
use crate::args::Uri;
use crate::echo_service::EchoClient;
use crate::limits;

/// A client for each connection of `part`, with the connection's number. A connection that is not up within
/// [`limits::CONNECT_MAX`] is an error of the run, and the others are measured without it.
pub(super) async fn dial(part: &Part, score: &Score) -> Vec<(u32, EchoClient)> {
    let at_once = Semaphore::new(limits::CONNECTS_AT_ONCE);
    let attempts: Vec<_> = part
        .connections
        .clone()
        .map(|number| {
            let (at_once, uri) = (at_once.clone(), part.uri.clone());
            (number, spawn(async move { connect(&at_once, &uri).await }))
        })
        .collect();
    let mut clients = Vec::with_capacity(attempts.len());
    for (number, attempt) in attempts {
        match attempt.await.unwrap_or_else(|lost| Err(lost.into())) {
            Ok(client) => clients.push((number, client)),
            Err(status) => score.unconnected(&status),
        }
    }
    clients
}

async fn connect(at_once: &Semaphore, uri: &Uri) -> Result<EchoClient, Status> {
    let _permit =
        at_once.acquire(1).await.map_err(|closed| Status::internal(closed.to_string()))?;
    let client = Client::builder().address(uri.as_str()).connections_max(1).build()?;
    let client = EchoClient::new(client);
    // A client connects with its first call.
    timeout(limits::CONNECT_MAX, client.say(Bytes::new())).await??;
    Ok(client)
}
