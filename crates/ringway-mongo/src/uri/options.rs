//! The options of a connection string, by their types.

use std::time::Duration;

use super::{ProxyOptions, ReadConcern, ReadPreference, TlsOptions, WriteConcern};

/// A way to compress messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compressor {
    /// Snappy.
    Snappy,
    /// zlib.
    Zlib,
    /// Zstandard.
    Zstd,
}

impl Compressor {
    const ALL: [(&'static str, Self); 3] =
        [("snappy", Self::Snappy), ("zlib", Self::Zlib), ("zstd", Self::Zstd)];

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, compressor)| *compressor)
    }

    /// The name in connection strings and in the handshake.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, compressor)| *compressor == self).map_or("", |(name, _)| name)
    }
}

/// How a client watches its servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MonitoringMode {
    /// The server tells of changes, unless the client runs as a function of a cloud.
    #[default]
    Auto,
    /// The server tells of changes.
    Stream,
    /// The client asks now and then.
    Poll,
}

impl MonitoringMode {
    const ALL: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("stream", Self::Stream), ("poll", Self::Poll)];

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }

    /// The name in connection strings.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }
}

/// The options of a connection string. What it does not set is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct UriOptions {
    /// The name of the program for the server's log, of 128 bytes at most.
    pub app_name: Option<String>,
    /// Ways to compress messages, the preferred one first.
    pub compressors: Vec<Compressor>,
    /// The level of zlib from -1, its own default, to 9.
    pub zlib_level: Option<i32>,
    /// Time to make a connection; zero for no limit.
    pub connect_timeout: Option<Duration>,
    /// Time without a byte on a connection; zero for no limit.
    pub socket_timeout: Option<Duration>,
    /// Time for a whole operation; zero for no limit.
    pub timeout: Option<Duration>,
    /// Time to find a suitable server; zero for no limit.
    pub server_selection_timeout: Option<Duration>,
    /// Time between two checks of a server.
    pub heartbeat_frequency: Option<Duration>,
    /// How much slower than the nearest a suitable server may be.
    pub local_threshold: Option<Duration>,
    /// How a client watches its servers.
    pub server_monitoring_mode: Option<MonitoringMode>,
    /// Whether the one host is used as it is, whatever replica set it belongs to.
    pub direct_connection: Option<bool>,
    /// Whether the one host is a load balancer.
    pub load_balanced: Option<bool>,
    /// The name that the replica set must have.
    pub replica_set: Option<String>,
    /// Connections of a pool; zero for no limit.
    pub max_pool_size: Option<u32>,
    /// Connections that a pool keeps.
    pub min_pool_size: Option<u32>,
    /// Connections that a pool makes at the same time.
    pub max_connecting: Option<u32>,
    /// Time after which an unused connection is closed; zero for never.
    pub max_idle_time: Option<Duration>,
    /// What a read waits for.
    pub read_concern: Option<ReadConcern>,
    /// What a write waits for.
    pub write_concern: WriteConcern,
    /// Who answers reads.
    pub read_preference: Option<ReadPreference>,
    /// Whether reads are tried again after a failure of the network.
    pub retry_reads: Option<bool>,
    /// Whether writes are tried again after a failure of the network.
    pub retry_writes: Option<bool>,
    /// How often an operation is tried again that an overloaded server has refused.
    pub max_adaptive_retries: Option<u32>,
    /// Whether another server is preferred then.
    pub enable_overload_retargeting: Option<bool>,
    /// A SOCKS5 proxy. A client refuses it, as it cannot go through one.
    pub proxy: ProxyOptions,
    /// The most servers taken from SRV records; zero for all.
    pub srv_max_hosts: Option<u32>,
    /// The service in the name of SRV records; `mongodb` if not set.
    pub srv_service_name: Option<String>,
    /// TLS.
    pub tls: TlsOptions,
}
