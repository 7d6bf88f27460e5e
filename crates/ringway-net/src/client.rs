//! Clients: connect, retry, reconnect.

mod backoff;
mod connector;
mod race;
mod reconnecting;

pub use backoff::Backoff;
pub use reconnecting::Reconnecting;

use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::io::StreamLimits;
use ringway_runtime::{now, sleep};
use tracing::Instrument;

use crate::address::Address;
use crate::connection::Connection;
use crate::error::{Error, Kind, Result};
use crate::limits;
use crate::marks;
use crate::spans;
use crate::tls::ClientTls;
use crate::transport::Transport;
use backoff::Series;
use connector::Connector;
use race::is_final;

/// Connects to a server over TCP, TLS or a Unix socket. Use it on a core of the runtime.
///
/// The addresses of a name are tried one after another, alternating between IPv6 and IPv4: the next
/// attempt begins when the last has failed or has not completed within 250 ms. The first that
/// connects is kept (over TLS, the first that completes its handshake). If all fail, the whole
/// attempt is repeated after a growing, jittered pause. Errors that another attempt cannot change,
/// such as a rejected certificate or a missing permission, are not retried.
///
/// ```
/// use ringway_net::Client;
///
/// # ringway_runtime::block_on(async {
/// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
/// # let address = format!("tcp://{}", listener.local_addr()?);
/// let mut connection = Client::connect(&*address).await?;
/// connection.write(b"hello");
/// # Ok::<_, ringway_net::Error>(())
/// # })??;
/// # Ok::<(), ringway_net::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    connector: Connector,
    attempts_max: Option<u32>,
    backoff: Backoff,
    stable_after: Duration,
    stream_limits: StreamLimits,
}

impl Client {
    /// Makes a client of the server at `address`. Each setting below names its default.
    ///
    /// # Errors
    /// [`is_address`](Error::is_address) when the address is malformed, has port 0 or is a UDP
    /// address.
    pub fn new<A>(address: A) -> Result<Self>
    where
        A: TryInto<Address>,
        Error: From<A::Error>,
    {
        let address = address.try_into()?;
        let why_not = match &address {
            Address::Udp(_) => Some("UDP has no connections: use a UdpSocket"),
            _ if address.port() == Some(0) => Some("cannot connect to port 0"),
            _ => None,
        };
        if let Some(why_not) = why_not {
            return Err(Error::new(Kind::Address, format!("{address}: {why_not}")));
        }
        Ok(Self {
            connector: Connector::new(address),
            attempts_max: None,
            backoff: Backoff::default(),
            stable_after: limits::STABLE_AFTER,
            stream_limits: StreamLimits::default(),
        })
    }

    /// Connects with the default settings: [`new`](Self::new), then [`open`](Self::open).
    ///
    /// # Errors
    /// Fails like these two.
    pub async fn connect<A>(address: A) -> Result<Connection>
    where
        A: TryInto<Address>,
        Error: From<A::Error>,
    {
        Self::new(address)?.open().await
    }

    /// Sets the time limit of one address of the name, and that of looking up the name; 5 seconds
    /// by default. A TLS handshake has its own limit.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connector.timeout = limit;
        self
    }

    /// Sets the number of attempts, at least one. By default it is 4 for [`open`](Self::open)
    /// (under a second if refused) and 20 for [`reconnecting`](Self::reconnecting) (one to two
    /// minutes if refused).
    #[must_use]
    pub fn attempts_max(mut self, count: u32) -> Self {
        self.attempts_max = Some(count);
        self
    }

    /// Sets the pauses between attempts; from 100 ms to 10 s by default.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets how long a connection of [`reconnecting`](Self::reconnecting) must live to reset the
    /// back-off; 10 seconds by default.
    #[must_use]
    pub fn stable_after(mut self, period: Duration) -> Self {
        self.stable_after = period;
        self
    }

    /// Sets which roots a `tls://` client trusts and which certificate it presents; the machine's
    /// roots and none by default.
    #[must_use]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.connector.tls = tls;
        self
    }

    /// Sets whether TCP sends small segments at once (`TCP_NODELAY`); on by default.
    #[must_use]
    pub fn nodelay(mut self, on: bool) -> Self {
        self.connector.nodelay = on;
        self
    }

    /// Lets the kernel probe a silent server, like [`Server::keepalive`](crate::Server::keepalive)
    /// does; off by default.
    #[must_use]
    pub fn keepalive(mut self, quiet: Duration) -> Self {
        self.connector.keepalive = Some(quiet);
        self
    }

    /// Sets limits and timeouts of the connections. Orders the marks of the send queue like
    /// [`Peer::set_send_marks`](crate::Peer::set_send_marks).
    #[must_use]
    pub fn stream_limits(mut self, limits: StreamLimits) -> Self {
        self.stream_limits = limits;
        marks::put_in_order(&mut self.stream_limits);
        self
    }

    /// Connects, and retries after failures.
    ///
    /// # Errors
    /// Returns the error of the last attempt with the number of attempts:
    /// [`is_timeout`](Error::is_timeout), [`is_tls`](Error::is_tls),
    /// [`is_address`](Error::is_address) when the name does not resolve,
    /// [`is_limit`](Error::is_limit) when descriptors have run out, or the kernel's error (refused,
    /// unreachable), which [`as_io`](Error::as_io) returns.
    pub async fn open(&self) -> Result<Connection> {
        let attempts_max = self.attempts_max_or(limits::CONNECT_ATTEMPTS_MAX);
        self.attempt(&mut Series::new(self.backoff), attempts_max).await
    }

    /// Returns a source of connections: each call of [`next`](Reconnecting::next) connects again.
    pub fn reconnecting(self) -> Reconnecting {
        Reconnecting::new(self)
    }

    fn attempts_max_or(&self, default: u32) -> u32 {
        self.attempts_max.unwrap_or(default).max(1)
    }

    /// Continues a series until an attempt succeeds or it has `attempts_max` failures.
    async fn attempt(&self, series: &mut Series, attempts_max: u32) -> Result<Connection> {
        let span = spans::of_connect(&self.connector.address);
        self.attempt_within(series, attempts_max).instrument(span).await
    }

    async fn attempt_within(&self, series: &mut Series, attempts_max: u32) -> Result<Connection> {
        loop {
            sleep(series.pause_left(now())).await;
            series.begun(now());
            let error = match self.connector.connect().await {
                Ok(transport) => {
                    series.connected();
                    return Ok(self.connection(transport));
                }
                Err(error) => error,
            };
            series.failed(now());
            if is_final(&error) || series.failures() >= attempts_max {
                return Err(self.gave_up(error, series.failures()));
            }
            tracing::debug!(address = %self.connector.address, %error, "attempt to connect failed");
        }
    }

    fn connection(&self, transport: Transport) -> Connection {
        let limits = Rc::new(self.stream_limits.clone());
        transport.stream().set_limits(Rc::clone(&limits));
        Connection::of_client(transport, limits)
    }

    fn gave_up(&self, error: Error, attempts: u32) -> Error {
        let plural = if attempts == 1 { "" } else { "s" };
        let what =
            format!("cannot connect to {} ({attempts} attempt{plural})", self.connector.address);
        Error::in_context(what, error)
    }
}
