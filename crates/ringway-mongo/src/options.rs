//! What a client may be told.

mod client_key;
mod driver_info;
#[cfg(feature = "encrypted-keys")]
mod encrypted_key;
#[cfg(not(feature = "encrypted-keys"))]
#[path = "options/encrypted_key_none.rs"]
mod encrypted_key;
mod environment;
mod from_uri;
mod identity;
mod server_api;
#[cfg(feature = "dns")]
mod srv;

use std::sync::Arc;
use std::time::Duration;

use bson::RawDocumentBuf;
use ringway_net::ClientTls;
use ringway_wire::mongo::MongoCompressor;

use crate::error::{Error, Result};
use crate::limits;
use crate::observer::{CommandEvent, CommandObserver};
use crate::pool_events::{PoolEvent, PoolObserver};
use crate::reads::Reads;
use crate::srv_source::SrvSource;
use crate::topology::Topology;
use crate::topology_events::{TopologyEvent, TopologyObserver};
use crate::uri::{ConnectionString, Credential, ReadPreference, WriteConcern};
use crate::write_concerns::without_time;

pub use driver_info::DriverInfo;
pub(crate) use environment::Environment;
pub(crate) use from_uri::malformed;
pub(crate) use identity::{Identity, Login, PlainLogin};
pub use server_api::{ServerApi, ServerApiVersion};

/// The settings of a [`Client`](crate::Client), read from a connection string. Setters go before it.
///
/// ```
/// use std::time::Duration;
/// use ringway_mongo::ClientOptions;
///
/// let options = ClientOptions::parse("mongodb://ada:secret@db.internal/shop?maxPoolSize=10")?
///     .timeout(Duration::from_secs(2));
/// assert!(!format!("{options:?}").contains("secret"));
/// # Ok::<(), ringway_mongo::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// What is known of the servers before any has answered.
    pub(crate) seeds: Topology,
    /// Where the servers are looked up again; `None` if the connection string names them.
    pub(crate) srv: Option<SrvSource>,
    /// Whether the only server is used as it is, whatever it says of others.
    pub(crate) is_direct: bool,
    /// Whether the only server is a load balancer.
    pub(crate) is_balanced: bool,
    pub(crate) is_tls: bool,
    pub(crate) tls: Option<ClientTls>,
    pub(crate) login: Option<Arc<Identity>>,
    /// Whether a password may be sent as it is where others can read it.
    pub(crate) plain_without_tls: bool,
    /// Fields of each command that declare a version of the server's interface.
    pub(crate) api: Option<Arc<RawDocumentBuf>>,
    pub(crate) database: Option<String>,
    pub(crate) application: Option<String>,
    /// Libraries around the client.
    pub(crate) driver_infos: Vec<DriverInfo>,
    pub(crate) environment: Environment,
    pub(crate) compressors: Vec<MongoCompressor>,
    pub(crate) timeout: Duration,
    /// Whether the user has set that time: then servers are told how long they may work.
    pub(crate) is_time_told: bool,
    pub(crate) connect_timeout: Duration,
    pub(crate) pool_size_max: u32,
    pub(crate) pool_size_min: u32,
    pub(crate) connecting_max: u32,
    pub(crate) idle_max: Option<Duration>,
    pub(crate) retry_reads: bool,
    pub(crate) retry_writes: bool,
    pub(crate) selection_timeout: Duration,
    /// How often an operation is tried again that an overloaded server has refused.
    pub(crate) adaptive_retries_max: u32,
    pub(crate) overload_retargeting: bool,
    pub(crate) local_threshold: Duration,
    /// Whether servers that can tell of changes by themselves are had to.
    pub(crate) streams: bool,
    pub(crate) reads: Reads,
    pub(crate) observer: Option<CommandObserver>,
    pub(crate) pool_observer: Option<PoolObserver>,
    pub(crate) topology_observer: Option<TopologyObserver>,
    pub(crate) read_concern: Option<RawDocumentBuf>,
    pub(crate) write_concern: Option<RawDocumentBuf>,
}

impl ClientOptions {
    /// Reads a connection string. What it warns of goes to the log.
    ///
    /// # Errors
    /// [`is_options`](crate::Error::is_options): the string is malformed, asks for what this client does not have, or
    /// names a file that cannot be read or used.
    pub fn parse(uri: &str) -> Result<Self> {
        let parsed = ConnectionString::parse(uri).map_err(from_uri::malformed)?;
        Self::from_connection_string(&parsed)
    }

    /// Turns TLS on, and sets which roots are trusted and which certificate is presented, instead of files that the
    /// connection string names. A Unix socket has no TLS: operations of such a client fail.
    #[must_use]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.tls = Some(tls);
        self.is_tls = true;
        self
    }

    /// Sets who the client is, instead of the user of the connection string. Nothing has to be encoded.
    ///
    /// # Errors
    /// [`is_options`](crate::Error::is_options): it is not one of its mechanism, such as a certificate with a password.
    pub fn credential(mut self, credential: Credential) -> Result<Self> {
        self.login = Some(Arc::new(Identity::of(&credential)?));
        Ok(self)
    }

    /// Declares the version of the server's interface that the program is written for, with each command. By default none
    /// is, and servers behave as their own version does. A command of the user's must not declare another one.
    #[must_use]
    pub fn server_api(mut self, api: ServerApi) -> Self {
        self.api = Some(Arc::new(api.fields()));
        self
    }

    /// Has servers told of a library that wraps the client, on each new connection.
    ///
    /// # Errors
    /// [`is_options`](crate::Error::is_options): a text of it is empty, has more than 64 bytes or contains `|`.
    /// [`is_limit`](crate::Error::is_limit): there are eight already.
    pub fn driver_info(mut self, info: DriverInfo) -> Result<Self> {
        info.join(&mut self.driver_infos)?;
        Ok(self)
    }

    /// Sets whether authentication by PLAIN, which sends the password as it is, may do so without TLS; false by default. A
    /// Unix socket is always good enough.
    #[must_use]
    pub fn plain_without_tls(mut self, is_allowed: bool) -> Self {
        self.plain_without_tls = is_allowed;
        self
    }

    /// Sets the time of an operation from its call to its result, with waiting for a connection and making
    /// one; 30 s by default. `Duration::MAX` is no limit. What is left of a time that is set here is told to servers
    /// (`maxTimeMS`), so that they do not work on in vain, and all batches of a cursor share it; `wTimeoutMS` and
    /// `maxTimeMS` mean nothing any more.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self.is_time_told = true;
        self.write_concern = self.write_concern.and_then(|concern| without_time(&concern));
        self
    }

    /// Whether the first message of a connection has a name that servers before MongoDB 4.4.2 know as well.
    ///
    /// Specifications: MongoDB Handshake; Stable API, "Handshake behavior".
    pub(crate) fn greets_legacy(&self) -> bool {
        !self.is_balanced && self.api.is_none()
    }

    /// The time of an operation, if the user has set it.
    pub(crate) fn told_timeout(&self) -> Option<Duration> {
        self.is_time_told.then_some(self.timeout)
    }

    /// Sets how many connections the pool has at most; 100 by default, at least one.
    #[must_use]
    pub fn pool_size_max(mut self, count: u32) -> Self {
        self.pool_size_max = count.clamp(1, limits::POOL_SIZE_MAX);
        self
    }

    /// Sets how many connections each core keeps to each server that it knows, made in the background before they are
    /// needed; none by default. More than [`pool_size_max`](Self::pool_size_max) are never made.
    #[must_use]
    pub fn pool_size_min(mut self, count: u32) -> Self {
        self.pool_size_min = count;
        self
    }

    /// Sets whether a read whose connection broke, or whose server was about to stop, is tried once more, within
    /// the same time; true by default.
    #[must_use]
    pub fn retry_reads(mut self, is_on: bool) -> Self {
        self.retry_reads = is_on;
        self
    }

    /// Sets whether a write whose connection broke, or that its server calls retryable, is sent once more under its
    /// number, so that it is executed once; true by default. Servers that stand alone cannot do that, and writes to
    /// many documents at once are never repeated.
    #[must_use]
    pub fn retry_writes(mut self, is_on: bool) -> Self {
        self.retry_writes = is_on;
        self
    }

    /// Sets which members of a replica set answer reads; the primary by default.
    ///
    /// # Errors
    /// [`is_options`](crate::Error::is_options): tags or a lag are asked of the primary.
    pub fn read_preference(mut self, preference: ReadPreference) -> Result<Self> {
        self.reads = Reads::new(&preference)?;
        Ok(self)
    }

    /// Has each command told to `hear`, when it is about to be sent and when it ends: for logs, metrics and tests.
    /// It runs on the core of the operation, so it must be short; what it panics with is logged. Commands that
    /// authenticate or ask servers how they are are not told.
    ///
    /// ```
    /// use ringway_mongo::{ClientOptions, CommandPhase};
    ///
    /// let options = ClientOptions::parse("mongodb://127.0.0.1")?.on_command(|event| {
    ///     if let CommandPhase::Succeeded { after, .. } = event.phase {
    ///         println!("{} at {}: {after:?}", event.name, event.server);
    ///     }
    /// });
    /// # Ok::<(), ringway_mongo::Error>(())
    /// ```
    #[must_use]
    pub fn on_command(mut self, hear: impl Fn(&CommandEvent<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(CommandObserver::new(hear));
        self
    }

    /// Has each change of a pool and of its connections told to `hear`: for logs, metrics and tests. Each core has a
    /// pool for each server. It runs on that core, so it must be short; what it panics with is logged. Connections
    /// on which servers are asked how they are belong to no pool.
    ///
    /// ```
    /// use ringway_mongo::{ClientOptions, PoolChange};
    ///
    /// let options = ClientOptions::parse("mongodb://127.0.0.1")?.on_pool(|event| {
    ///     if let PoolChange::ConnectionClosed { connection, reason } = event.change {
    ///         println!("connection {connection} to {}: {reason:?}", event.server);
    ///     }
    /// });
    /// # Ok::<(), ringway_mongo::Error>(())
    /// ```
    #[must_use]
    pub fn on_pool(mut self, hear: impl Fn(&PoolEvent<'_>) + Send + Sync + 'static) -> Self {
        self.pool_observer = Some(PoolObserver::new(hear));
        self
    }

    /// Has what becomes of the servers told to `hear`, and each question to them how they are: for logs, metrics and
    /// tests. Each core has its own view. It runs on that core, so it must be short; what it panics with is logged. A
    /// server that is used as it is (`directConnection`) and a load balancer are not asked.
    ///
    /// ```
    /// use ringway_mongo::{ClientOptions, TopologyChange};
    ///
    /// let options = ClientOptions::parse("mongodb://127.0.0.1")?.on_topology(|event| {
    ///     if let TopologyChange::ServerChanged { previous, current } = event.change {
    ///         println!("{} was {:?} and is {:?}", current.address, previous.kind, current.kind);
    ///     }
    /// });
    /// # Ok::<(), ringway_mongo::Error>(())
    /// ```
    #[must_use]
    pub fn on_topology(
        mut self,
        hear: impl Fn(&TopologyEvent<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.topology_observer = Some(TopologyObserver::new(hear));
        self
    }

    /// Sets how long an operation waits for a server that suits it, such as a new primary; 30 s by default, and zero is no
    /// limit. The time of the operation holds as well.
    #[must_use]
    pub fn selection_timeout(mut self, limit: Duration) -> Self {
        self.selection_timeout = unlimited_if_zero(limit);
        self
    }

    /// Sets how often an operation is tried again that a server has refused because it is overloaded (MongoDB 8.2 and
    /// later); twice by default. Before each try there is a pause, whose bound doubles.
    #[must_use]
    pub fn adaptive_retries_max(mut self, count: u32) -> Self {
        self.adaptive_retries_max = count;
        self
    }

    /// Sets whether such an operation is rather sent to another server that suits; false by default. With
    /// `primaryPreferred`, an overloaded primary then has secondaries read, which may be behind.
    #[must_use]
    pub fn overload_retargeting(mut self, is_on: bool) -> Self {
        self.overload_retargeting = is_on;
        self
    }

    /// Sets after which time without use a connection is closed, 10 ms at least; zero is never, which is the default.
    #[must_use]
    pub fn idle_max(mut self, period: Duration) -> Self {
        self.idle_max = idle_max(period);
        self
    }
}

fn unlimited_if_zero(time: Duration) -> Duration {
    if time.is_zero() { Duration::MAX } else { time }
}

fn idle_max(period: Duration) -> Option<Duration> {
    (!period.is_zero()).then(|| period.max(limits::IDLE_MIN))
}

/// The field `writeConcern` of a command.
pub(crate) fn write_concern(concern: &WriteConcern) -> Result<RawDocumentBuf> {
    RawDocumentBuf::try_from(&concern.to_document()).map_err(Error::encoding)
}
