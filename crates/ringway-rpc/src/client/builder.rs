//! The builder of clients.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ringway_net::ClientTls;
use ringway_wire::{http2, native};

use super::compression::ClientCompression;
use super::config::ClientConfig;
use super::connector::Connector;
use super::handle::Client;
use super::host_rules::HostRules;
use super::hosts::Host;
use super::interceptor::{self, IncomingReply, MakeClientInterceptor, NextCall, OutgoingCall};
use super::options::CallOptions;
use super::resolve::{Resolver, SharedState, resolver_of};
use super::server_address::{ServerAddress, ToServerAddresses};
use crate::call::status::Status;
use crate::limits;
use crate::metrics::Metrics;
use crate::policy::balance::Policy;

/// Configures a [`Client`]: its servers, connections and default call options.
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
    resolver: Option<Box<dyn Resolver>>,
    rules: HostRules,
    subset: Option<usize>,
    last_known: Option<PathBuf>,
    /// The first failure to parse an address.
    failure: Option<Status>,
    policy: Policy,
    connector: Connector,
    connections_min: usize,
    connections_max: usize,
    native: native::Config,
    http2: http2::Http2Config,
    compression: Option<ClientCompression>,
    options: CallOptions,
    interceptors: Vec<MakeClientInterceptor>,
}

impl Client {
    /// Makes a client for one server, or for [several](ToServerAddresses) among which its calls are
    /// balanced. It connects when the first call is made.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when an address is malformed, when there are none or more than 1,024, or when the scheme of a
    /// source is [unknown](crate::register_scheme).
    pub fn connect(addresses: impl ToServerAddresses) -> Result<Self, Status> {
        if let Some(source) = addresses.source() {
            return Self::builder().source(&source).build();
        }
        let addresses = addresses.to_server_addresses()?;
        addresses.into_iter().fold(Self::builder(), ClientBuilder::address).build()
    }

    /// Starts building a client with other than default settings.
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
            resolver: None,
            rules: HostRules::new(),
            subset: None,
            last_known: None,
            failure: None,
            policy: Policy::default(),
            connector: Connector::new(),
            connections_min: 1,
            connections_max: limits::CONNECTIONS_MAX,
            native,
            http2: http2::Http2Config::client(),
            compression: None,
            options: CallOptions::new(),
            interceptors: Vec::new(),
        }
        .connect_timeout(limits::CONNECT_TIMEOUT)
    }

    /// Adds a server: `tcp://host:port`, `tls://host:port` or `unix:///path` for the native protocol,
    /// `grpc://host:port`, `grpcs://host:port` or `grpc+unix:///path` for gRPC, `jsonrpc+tcp://host:port`,
    /// `jsonrpc+tls://host:port` or `jsonrpc+unix:///path` for JSON-RPC, and `http://` or `https://` for JSON-RPC by POST. Calls are balanced among all
    /// servers, which speak JSON-RPC all or not at all.
    pub fn address<A>(self, address: A) -> Self
    where
        A: TryInto<ServerAddress>,
        Status: From<A::Error>,
    {
        self.weighted_address(address, 1)
    }

    /// Adds a server with a weight from 1 to 100: it gets `weight` times as many calls as one added with
    /// [`address`](Self::address), whose weight is 1.
    ///
    /// If a server is added twice, the last weight wins.
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

    /// Takes the servers from a source with an address, such as `etcd://10.0.0.1:2379/market` or `dns://market:9000`,
    /// and follows their changes. Its scheme has to be [known](crate::register_scheme): `ringway_discovery::install()`
    /// registers `local`, `etcd`, `etcds`, `dns` and `file`.
    pub fn source(mut self, address: &str) -> Self {
        match resolver_of(address) {
            Ok(resolver) => self.resolver = Some(resolver),
            Err(status) => drop(self.failure.get_or_insert(status)),
        }
        self
    }

    /// Takes the servers from a [resolver](Resolver), and follows their changes. Calls that are made before the first
    /// list wait for it until their deadline.
    pub fn resolver(mut self, resolver: impl Resolver) -> Self {
        self.resolver = Some(Box::new(resolver));
        self
    }

    /// Sets the zone of the client: servers of other zones get calls only while those of its own zone cannot take
    /// them, or if it has none.
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.rules.zone = zone.into();
        self
    }

    /// Calls only hosts for which `filter` is true, for example those of one [version](Host::version_of). It runs once
    /// for each host of a new list.
    ///
    /// ```
    /// use ringway_rpc::{Client, Host};
    ///
    /// let client = Client::builder().address("tcp://10.0.0.1:9000").only(|host| host.version_of() != "1.0");
    /// # client.build()?;
    /// # Ok::<(), ringway_rpc::Status>(())
    /// ```
    pub fn only(mut self, filter: impl Fn(&Host) -> bool + Send + Sync + 'static) -> Self {
        self.rules.filter = Some(Arc::new(filter));
        self
    }

    /// Sets how many servers of a long list are called at most, 1 to 1,024. The default is 100 for the list of a
    /// resolver, and all for addresses. Each client takes others, evenly spread, and keeps them while the list changes. Up to a quarter are of other zones than its own.
    pub fn subset(mut self, hosts: usize) -> Self {
        self.subset = Some(hosts);
        self
    }

    /// Decides which servers belong to the [subset](Self::subset): equal numbers make equal choices. It is random
    /// if not set.
    pub fn subset_seed(mut self, seed: u64) -> Self {
        self.rules.seed = seed;
        self
    }

    /// Keeps the last list of the resolver in a file. A client that starts while the source is down uses that list,
    /// marked [stale](crate::ResolverState::Stale), until the source answers. Each client needs a file of its own.
    pub fn last_known(mut self, path: impl Into<PathBuf>) -> Self {
        self.last_known = Some(path.into());
        self
    }

    /// Sets the load balancing policy. The default considers latency and load.
    pub fn balance(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets trust and client certificate for `tls://` and `grpcs://` servers. By default they are
    /// verified against the machine's root certificates. For gRPC servers, ALPN always offers `h2`.
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.connector.set_tls(tls);
        self
    }

    /// Sets the timeout of one attempt to connect, and then of the server's first bytes and settings. The
    /// default is 5 seconds.
    /// A TLS handshake has its own, [`ClientTls::handshake_timeout`].
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connector.connect_timeout = limit;
        // The driver waits for the first bytes that long; the rest of the settings may take as long again.
        let settings = limit.saturating_mul(2);
        (self.native.preface_timeout, self.http2.handshake_timeout) = (settings, settings);
        self
    }

    /// Sets the number of connections that each core keeps to each host it uses, 1 to 1,024. The default
    /// is 1. More are opened while all are full, up to [`connections_max`](Self::connections_max).
    pub fn connections(mut self, count: usize) -> Self {
        self.connections_min = count.max(1);
        self
    }

    /// Sets the maximum number of connections of each core to each host, at most 1,024. The default is 4.
    pub fn connections_max(mut self, count: usize) -> Self {
        self.connections_max = count;
        self
    }

    /// Sets the length of the longest message that is accepted, in bytes, below 2 GiB. The default is 4
    /// MiB.
    pub fn message_bytes_max(mut self, bytes: u32) -> Self {
        self.native.settings.max_message = bytes;
        self
    }

    /// Pings a server from which nothing has arrived for `interval`, and gives the connection up if
    /// nothing arrives within `timeout`. The defaults are 30 and 10 seconds; for gRPC servers, many of
    /// which allow one ping in five minutes, they are 310 and 10, and they are pinged only while a call is
    /// [open](Self::keep_alive_while_idle).
    pub fn keep_alive(mut self, interval: Duration, timeout: Duration) -> Self {
        self.native.ping_after = interval;
        self.native.ping_timeout = timeout;
        (self.http2.ping_after, self.http2.ping_timeout) = (interval, timeout);
        self
    }

    /// Sets whether gRPC servers are also pinged while no call is open. The default is `false`: many of
    /// them accept one such ping in two hours, and close the connection after a few more.
    pub fn keep_alive_while_idle(mut self, pings: bool) -> Self {
        self.http2.pings_idle = pings;
        self
    }

    /// Has compressed replies of gRPC servers accepted, and requests to them compressed if `compression` says
    /// so. There is none if not set, nor in the native protocol. It needs the feature `compression`, and
    /// `message_bytes_max` holds for what a reply becomes.
    pub fn compression(mut self, compression: ClientCompression) -> Self {
        self.compression = Some(compression);
        self
    }

    /// Sets the default options of calls.
    pub fn options(mut self, options: CallOptions) -> Self {
        self.options = options;
        self
    }

    /// Runs code around every call. It sees the method, metadata and deadline, and may add metadata,
    /// wait, answer early, and inspect or replace the outcome. The first interceptor declared is the
    /// outermost. Retries and hedged attempts happen inside of it.
    ///
    /// It runs on the core of its call, or on the background core for callers on other threads, and must
    /// not block. The call's deadline applies to it, and dropping the call drops it. A streaming call
    /// runs inside of it until its streams are over; once they are open, its return value has no effect.
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

    /// Makes the client. Each core that makes calls connects when it makes the first one.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when there is no address or more than 1,024, when an address is malformed, when a
    /// weight is not from 1 to 100, or when another number is out of range.
    pub fn build(mut self) -> Result<Client, Status> {
        self.check()?;
        let all = if self.resolver.is_some() { limits::SUBSET_HOSTS } else { limits::HOSTS_MAX };
        self.rules.subset = self.subset.unwrap_or(all);
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let list = match &self.resolver {
            None => self.connector.list(self.hosts, &self.rules)?,
            Some(_) if self.hosts.is_empty() => Vec::new().into(),
            Some(resolver) => {
                let why = format!(
                    "a client has either addresses of servers, such as {}, or a source of them, such as {}",
                    self.hosts[0].address(),
                    resolver.name()
                );
                return Err(Status::invalid_argument(why));
            }
        };
        let source = self.resolver.as_ref().map(|resolver| resolver.name());
        let config = ClientConfig {
            connector: self.connector,
            policy: self.policy,
            connections_min: self.connections_min,
            connections_max: self.connections_max.max(self.connections_min),
            native: self.native,
            http2: self.http2,
            compression: self.compression.map(ClientCompression::of_connection),
            interceptors: self.interceptors,
            metrics: Metrics::new(),
            rules: self.rules,
            resolver: source.map(|source| Arc::new(SharedState::new(source))),
        };
        let client = Client::new(Arc::new(config), list, self.options);
        if let Some(resolver) = self.resolver {
            client.resolve(resolver, self.last_known)?;
        }
        Ok(client)
    }

    /// Checks that servers would accept the settings and that a core can keep so many connections.
    fn check(&self) -> Result<(), Status> {
        if self.compression.is_some() {
            ClientCompression::check()?;
        }
        let (connections, message) =
            (limits::CONNECTIONS_SETTABLE, limits::MESSAGE_BYTES_MAX as usize);
        let most = limits::HOSTS_MAX;
        if let Some(subset) = self.subset.filter(|subset| !(1..=most).contains(subset)) {
            let why = format!("subset is {subset}, not 1 to {most}");
            return Err(Status::invalid_argument(why));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_server_have_the_time_of_a_connect_at_least() {
        let patient = Duration::from_secs(60);
        for (builder, limit) in [
            (Client::builder(), limits::CONNECT_TIMEOUT),
            (Client::builder().connect_timeout(patient), patient),
        ] {
            assert!(
                builder.native.preface_timeout > limit,
                "the first bytes have the limit itself"
            );
            assert!(builder.http2.handshake_timeout > limit);
        }
    }
}
