//! Reconnecting clients.

use std::time::Instant;

use ringway_runtime::now;

use super::Client;
use super::backoff::Series;
use crate::connection::Connection;
use crate::error::Result;

/// Makes one connection after another; made by [`Client::reconnecting`].
///
/// A connection that lived for less than the stable period counts as a failed attempt, so a server
/// that accepts and closes at once is not flooded with connects.
///
/// ```no_run
/// use ringway_net::{Client, Connection};
///
/// # async fn talk(connection: Connection) -> ringway_net::Result { Ok(()) }
/// # async fn run() -> ringway_net::Result {
/// let mut connections = Client::new("tcp://127.0.0.1:7001")?.reconnecting();
/// loop {
///     let connection = connections.next().await?;
///     if let Err(error) = talk(connection).await {
///         eprintln!("connecting again: {error}");
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Reconnecting {
    client: Client,
    series: Series,
    /// When the last connection was handed out.
    opened: Option<Instant>,
}

impl Reconnecting {
    pub(super) fn new(client: Client) -> Self {
        Self { series: Series::new(client.backoff), client, opened: None }
    }

    /// Connects again; call it when the previous connection has ended. It pauses between attempts,
    /// and before the first if the previous connection was short-lived. Dropping the future
    /// abandons the current attempt; the next call keeps the pause after it.
    ///
    /// # Errors
    /// Fails like [`Client::open`]; the next call begins a new series of attempts after the current
    /// pause.
    pub async fn next(&mut self) -> Result<Connection> {
        let attempts_max = self.client.attempts_max_or(crate::limits::RECONNECT_ATTEMPTS_MAX);
        if let Some(opened) = self.opened.take() {
            match now().saturating_duration_since(opened) >= self.client.stable_after {
                true => self.series.succeeded(),
                false => self.series.failed(now()),
            }
        }
        let outcome = self.client.attempt(&mut self.series, attempts_max).await;
        match &outcome {
            Ok(_) => self.opened = Some(now()),
            Err(_) => self.series.gave_up(),
        }
        outcome
    }

    /// Returns the number of failures since the last connection that lived for the stable period.
    /// Connections that lived shorter count as failures.
    pub fn failures(&self) -> u32 {
        self.series.failures()
    }
}
