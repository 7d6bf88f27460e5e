//! Connects RPC clients of one connection each before the clock starts.

use bytes::Bytes;
use ringway_rpc::{Client, Status};
use ringway_runtime::sync::Semaphore;
use ringway_runtime::{spawn, timeout};

use super::engine::Part;
use super::score::Score;
use crate::args::{Scheme, Uri};
use crate::echo_service::EchoClient;
use crate::limits;

/// Connects a client of the echo service for each connection of `part`. Returns each with its number.
pub(super) async fn dial(part: &Part, score: &Score) -> Vec<(u32, EchoClient)> {
    let uri = part.uri.clone();
    dial_by(part, score, move || connect(uri.clone())).await
}

/// Collects the result of `connect` for each connection of `part`, with its number. A connection that
/// is not up within [`limits::CONNECT_MAX`] is an error of the run, which continues without it.
pub(super) async fn dial_by<T, F>(
    part: &Part,
    score: &Score,
    connect: impl Fn() -> F + Clone + 'static,
) -> Vec<(u32, T)>
where
    T: 'static,
    F: Future<Output = Result<T, Status>> + 'static,
{
    let at_once = Semaphore::new(limits::CONNECTS_AT_ONCE);
    let attempts: Vec<_> = part
        .connections
        .clone()
        .map(|number| {
            let (at_once, connect) = (at_once.clone(), connect.clone());
            let attempt = async move {
                let permit = at_once.acquire(1).await;
                let _permit = permit.map_err(|closed| Status::internal(closed.to_string()))?;
                timeout(limits::CONNECT_MAX, connect()).await?
            };
            (number, spawn(attempt))
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

async fn connect(uri: Uri) -> Result<EchoClient, Status> {
    let builder = match uri.scheme() {
        Scheme::Source => Client::builder().source(uri.as_str()),
        _ => Client::builder().address(uri.as_str()),
    };
    let client = builder.connections_max(1).build()?;
    let client = EchoClient::new(client);
    // A client connects when it makes its first call.
    client.say(Bytes::new()).await?;
    Ok(client)
}
