//! Setting up a client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ringway_net::ClientTls;
use ringway_wire::{http2, native};

use super::config::ClientConfig;
use super::handle::Client;
use super::hosts::{Connector, Host};
use super::interceptor::{self, IncomingReply, MakeClientInterceptor, NextCall, OutgoingCall};
use super::options::CallOptions;
use super::server_address::{ServerAddress, ToServerAddresses};
use crate::call::status::Status;
use crate::limits;
use crate::metrics::Metrics;
use crate::policy::balance::Policy;

/// Sets up a [`Client`]: where its servers are, how many connections, what calls do by default.
///
/// ```
/// use std::time::Duration;
/// use ringway_rpc::{CallOptions, Client};
///
/// let client = Client::builder()
///     .address("tcp://127.0.0.1:9000")
///     .address("tcp://127.0.0.1:9001")
///     .connections(2)
///     .options(CallOptions::new().timeout(Duration::from_millis(500)))
///     .build()?;
/// # Ok::<(), ringway_rpc::Status>(())
/// ```
#[must_use = "a client is made by `build`"]
pub struct ClientBuilder {
    hosts: Vec<Host>,
    /// The first address that is none.
    failure: Option<Status>,
    policy: Policy,
    connector: Connector,
    connections_min: usize,
    connections_max: usize,
    native: native::Config,
    http2: http2::Http2Config,
    options: CallOptions,
    interceptors: Vec<MakeClientInterceptor>,
}

impl Client {
    /// Makes a client of one server, or of [several](ToServerAddresses) over which its calls are spread. It
    /// connects when the first call is made.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when an address is malformed, or there is none or more than 1,024.
    pub fn connect(addresses: impl ToServerAddresses) -> Result<Self, Status> {
        let addresses = addresses.to_server_addresses()?;
        addresses.into_iter().fold(Self::builder(), ClientBuilder::address).build()
    }

    /// Begins a client with settings of its own.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }
}

impl ClientBuilder {
    fn new() -> Self {
        let mut native = native::Config::default();
        native.settings.initial_credit = limits::REPLY_CREDIT;
        Self {
            hosts: Vec::new(),
            failure: None,
            policy: Policy::default(),
            connector: Connector::new(),
            connections_min: 1,
            connections_max: limits::CONNECTIONS_MAX,
            native,
            http2: http2::Http2Config::client(),
            options: CallOptions::new(),
            interceptors: Vec::new(),
        }
    }

    /// Adds a server: `tcp://host:port`, `tls://host:port` or `unix:///path` for the native protocol,
    /// `grpc://host:port` or `grpcs://host:port` for gRPC. Calls are spread over all of them.
    pub fn address<A>(self, address: A) -> Self
    where
        A: TryInto<ServerAddress>,
        Status: From<A::Error>,
    {
        self.weighted_address(address, 1)
    }

    /// Adds a server that gets `weight` times as many calls as one of weight 1, which is what
    /// [`address`](Self::address) gives; from 1 to 100.
    ///
    /// Of a server that is named twice the last weight counts.
    ///
    /// ```
    /// use ringway_rpc::{Client, Policy};
    ///
    /// let client = Client::builder()
    ///     .weighted_address("tcp://10.0.0.1:9000", 3) // three calls of four
    ///     .weighted_address("tcp://10.0.0.2:9000", 1)
    ///     .balance(Policy::RoundRobin)
    ///     .build()?;
    /// # Ok::<(), ringway_rpc::Status>(())
    /// ```
    pub fn weighted_address<A>(mut self, address: A, weight: u32) -> Self
    where
        A: TryInto<ServerAddress>,
        Status: From<A::Error>,
    {
        match Host::new(address) {
            Ok(host) => self.hosts.push(host.weight(weight)),
            Err(status) => drop(self.failure.get_or_insert(status)),
        }
        self
    }

    /// Sets the load balancing over several servers; by latency and load if not set.
    pub fn balance(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// For `tls://` and `grpcs://`: whom to trust and what to show; verified against the machine's roots if not
    /// set. To servers of gRPC `h2` is offered by ALPN, whatever is set here.
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.connector.set_tls(tls);
        self
    }

    /// Limits the time of one attempt to connect; 5 seconds if not set.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connector.connect_timeout = limit;
        self
    }

    /// Connections that each core keeps to each host it uses, at least one; one if not set. More
    /// are opened while all are full, up to [`connections_max`](Self::connections_max). 1,024 at most.
    pub fn connections(mut self, count: usize) -> Self {
        self.connections_min = count.max(1);
        self
    }

    /// Most connections of each core to each host; 4 if not set, and 1,024 at most.
    pub fn connections_max(mut self, count: usize) -> Self {
        self.connections_max = count;
        self
    }

    /// Bytes of the longest message that is accepted, below 2 GiB. The default is 4 MiB.
    pub fn message_bytes_max(mut self, bytes: u32) -> Self {
        self.native.settings.max_message = bytes;
        self
    }

    /// Asks the server of a connection on which nothing has arrived for `interval` whether it is still
    /// there, and gives the connection up when nothing comes within `timeout`. The defaults are 30 and 10
    /// seconds; to servers of gRPC, many of which bear one such question in five minutes, 300 and 10.
    pub fn keep_alive(mut self, interval: Duration, timeout: Duration) -> Self {
        self.native.ping_after = interval;
        self.native.ping_timeout = timeout;
        (self.http2.ping_after, self.http2.ping_timeout) = (interval, timeout);
        self
    }

    /// Sets the options of calls that have none of their own.
    pub fn options(mut self, options: CallOptions) -> Self {
        self.options = options;
        self
    }

    /// Runs code around every call, in the order of declaration, the first outermost: it sees method,
    /// metadata and deadline, may add metadata, wait, answer early, and look at or replace what the
    /// call leads to. Repeated and hedged attempts are inside of it.
    ///
    /// It runs on the core of its call, or on one in the background for callers on other threads, and
    /// must not block. The deadline of the call holds for it as well, and dropping the call drops it.
    /// A call with streams goes on until these are over; once they are open, what it returns changes
    /// nothing.
    ///
    /// ```
    /// use ringway_rpc::{Client, IncomingReply, NextCall, OutgoingCall, Status};
    ///
    /// async fn add_token(mut call: OutgoingCall, next: NextCall) -> Result<IncomingReply, Status> {
    ///     call.metadata_mut().insert("authorization", "Bearer open sesame")?;
    ///     let name = call.method().name();
    ///     let outcome = next.run(call).await;
    ///     if let Err(status) = &outcome {
    ///         println!("{name}: {status}");
    ///     }
    ///     outcome
    /// }
    ///
    /// let client = Client::builder().address("tcp://127.0.0.1:9000").intercept(add_token).build()?;
    /// # Ok::<(), Status>(())
    /// ```
    pub fn intercept<F>(mut self, interceptor: F) -> Self
    where
        F: AsyncFn(OutgoingCall, NextCall) -> Result<IncomingReply, Status>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        self.interceptors.push(interceptor::maker(interceptor));
        self
    }

    /// Makes the client. It connects when calls are made, on each core that makes some.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when there is no address, one is malformed, there are more than 1,024, a weight
    /// is not from 1 to 100, or another number is out of its range.
    pub fn build(self) -> Result<Client, Status> {
        self.check()?;
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let list = self.connector.list(self.hosts)?;
        let config = ClientConfig {
            connector: self.connector,
            policy: self.policy,
            connections_min: self.connections_min,
            connections_max: self.connections_max.max(self.connections_min),
            native: self.native,
            http2: self.http2,
            interceptors: self.interceptors,
            metrics: Metrics::new(),
        };
        Ok(Client::new(Arc::new(config), list, self.options))
    }

    /// Whether servers would accept the settings, and a core could keep so many connections.
    fn check(&self) -> Result<(), Status> {
        let (connections, message) =
            (limits::CONNECTIONS_SETTABLE, limits::MESSAGE_BYTES_MAX as usize);
        for (name, value, most) in [
            ("message_bytes_max", self.native.settings.max_message as usize, message),
            ("connections", self.connections_min, connections),
            ("connections_max", self.connections_max, connections),
        ] {
            if value > most {
                let why = format!("{name} is {value}, above {most}");
                return Err(Status::invalid_argument(why));
            }
        }
        debug_assert!(self.native.settings.is_valid(), "nothing else of it can be set");
        Ok(())
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}
