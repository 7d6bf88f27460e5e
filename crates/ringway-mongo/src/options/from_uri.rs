//! The settings that a connection string has. What is not done yet is refused, not ignored.

use std::sync::Arc;

use bson::RawDocumentBuf;
use ringway_net::{Address, Authority, ClientTls};
use ringway_wire::mongo::MongoCompressor;

use super::client_key::{self, read, unusable};
use super::{ClientOptions, Environment, Identity, unlimited_if_zero};
use crate::error::{Error, Fate, Kind, Result};
use crate::limits;
use crate::reads::Reads;
use crate::topology::Topology;
use crate::uri::{
    Compressor, ConnectionString, Credential, HostAddress, MonitoringMode, TlsOptions, UriOptions,
};

impl ClientOptions {
    /// Takes the settings of a parsed connection string.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse).
    pub fn from_connection_string(uri: &ConnectionString) -> Result<Self> {
        for warning in &uri.warnings {
            tracing::warn!("connection string: {warning}");
        }
        check(uri)?;
        let options = &uri.options;
        let is_tls = options.tls.enabled == Some(true);
        let environment = Environment::here();
        uri.hosts.iter().try_for_each(|host| host.to_address(is_tls).map(drop))?;
        let login = uri.credential.as_ref().map(|it| login(it, is_tls)).transpose()?;
        let timeout = options.timeout.or(options.socket_timeout).map(unlimited_if_zero);
        let connect_timeout = options.connect_timeout.map(unlimited_if_zero);
        let pool_size = options.max_pool_size.unwrap_or(limits::POOL_SIZE_DEFAULT);
        let connecting = options.max_connecting.unwrap_or(limits::CONNECTING_MAX_DEFAULT);
        let level = options.zlib_level.unwrap_or(-1);
        let write_concern = &options.write_concern;
        let read = Self {
            seeds: Topology::new(uri),
            srv: crate::srv_source::SrvSource::of(uri),
            is_balanced: options.load_balanced == Some(true),
            is_direct: options.direct_connection == Some(true),
            is_tls,
            tls: tls(&options.tls)?,
            login,
            plain_without_tls: false,
            api: None,
            database: uri.database.clone(),
            application: options.app_name.clone(),
            driver_infos: Vec::new(),
            compressors: options
                .compressors
                .iter()
                .map(|known| compressor(*known, level))
                .collect(),
            timeout: timeout.unwrap_or(limits::OPERATION_TIMEOUT_DEFAULT),
            is_time_told: false,
            connect_timeout: connect_timeout.unwrap_or(limits::CONNECT_TIMEOUT_DEFAULT),
            pool_size_max: if pool_size == 0 { limits::POOL_SIZE_MAX } else { pool_size },
            pool_size_min: options.min_pool_size.unwrap_or(0),
            connecting_max: connecting.max(1),
            idle_max: options.max_idle_time.and_then(super::idle_max),
            retry_reads: options.retry_reads.unwrap_or(true),
            retry_writes: options.retry_writes.unwrap_or(true),
            selection_timeout: options
                .server_selection_timeout
                .map_or(limits::SELECTION_TIMEOUT_DEFAULT, unlimited_if_zero),
            adaptive_retries_max: options
                .max_adaptive_retries
                .unwrap_or(limits::ADAPTIVE_RETRIES_DEFAULT),
            overload_retargeting: options.enable_overload_retargeting.unwrap_or(false),
            local_threshold: options.local_threshold.unwrap_or(limits::LOCAL_THRESHOLD_DEFAULT),
            streams: is_streaming(options.server_monitoring_mode.unwrap_or_default(), &environment),
            environment,
            reads: Reads::new(&options.read_preference.clone().unwrap_or_default())?,
            observer: None,
            pool_observer: None,
            topology_observer: None,
            read_concern: options
                .read_concern
                .as_ref()
                .map(|c| raw(&c.to_document()))
                .transpose()?,
            write_concern: match write_concern.is_server_default() {
                true => None,
                false => Some(raw(&write_concern.to_document())?),
            },
        };
        Ok(match options.timeout {
            Some(limit) => read.timeout(unlimited_if_zero(limit)),
            None => read,
        })
    }
}

/// Who the client is, where that can be shown over such connections.
fn login(credential: &Credential, is_tls: bool) -> Result<Arc<Identity>> {
    let identity = Identity::of(credential)?;
    identity.check(is_tls)?;
    Ok(Arc::new(identity))
}

impl HostAddress {
    /// Where to connect to.
    ///
    /// # Errors
    /// The name is none, or TLS is asked for at a Unix socket.
    pub(crate) fn to_address(&self, is_tls: bool) -> Result<Address> {
        match self {
            Self::Unix(path) if is_tls => Err(refused(&format!(
                "there is no TLS over the Unix socket {}: leave the options of TLS out",
                path.display()
            ))),
            Self::Unix(path) => Ok(Address::Unix(path.clone())),
            Self::Tcp { host, port } => {
                let authority = Authority::new(host, *port).map_err(unusable)?;
                Ok(if is_tls { Address::Tls(authority) } else { Address::Tcp(authority) })
            }
        }
    }
}

/// Refuses what a client cannot do, or would do otherwise than it seems.
fn check(uri: &ConnectionString) -> Result {
    if uri.srv_host.is_some() && uri.hosts.is_empty() {
        let what = "the servers of mongodb+srv:// are looked up by ClientOptions::look_up, with the feature `dns`";
        return Err(refused(what));
    }
    check_tls(&uri.options.tls)?;
    check_proxy(&uri.options)
}

/// Whether servers tell of changes by themselves: not to a function of a cloud, which is stopped between two calls.
fn is_streaming(mode: MonitoringMode, environment: &Environment) -> bool {
    match mode {
        MonitoringMode::Stream => true,
        MonitoringMode::Poll => false,
        MonitoringMode::Auto => !environment.is_function(),
    }
}

/// Refuses what would be sent in plain text by mistake.
fn check_tls(options: &TlsOptions) -> Result {
    match () {
        () if options.is_unclear => {
            Err(refused("tls has a value that is neither true nor false: write tls=true"))
        }
        () if options.enabled != Some(true) && options.has_more() => {
            Err(refused("the connection string has options of TLS, but not tls=true"))
        }
        () => Ok(()),
    }
}

/// A proxy that is not gone through would be passed by.
fn check_proxy(options: &UriOptions) -> Result {
    match options.proxy.host {
        None => Ok(()),
        Some(_) => Err(refused("proxyHost is not supported: there are no connections over SOCKS5")),
    }
}

fn refused(what: &str) -> Error {
    Error::new(Kind::Options, Fate::NotSent, what)
}

fn tls(options: &TlsOptions) -> Result<Option<ClientTls>> {
    if options.enabled != Some(true) {
        return Ok(None);
    }
    let mut tls = ClientTls::new();
    if let Some(file) = &options.ca_file {
        tls = tls.roots_pem(read(file)?).map_err(unusable)?;
    }
    if let Some(file) = &options.certificate_key_file {
        let password = options.certificate_key_file_password.as_deref();
        tls = client_key::present(tls, file, password)?;
    }
    if options.allow_invalid_hostnames == Some(true) {
        tls = tls.dangerous_accept_any_name();
    }
    if options.insecure == Some(true) || options.allow_invalid_certificates == Some(true) {
        tls = tls.dangerous_accept_any_certificate();
    }
    Ok(Some(tls))
}

fn compressor(known: Compressor, zlib_level: i32) -> MongoCompressor {
    match known {
        Compressor::Snappy => MongoCompressor::Snappy,
        Compressor::Zlib => MongoCompressor::Zlib(zlib_level),
        Compressor::Zstd => MongoCompressor::Zstd,
    }
}

fn raw(document: &bson::Document) -> Result<RawDocumentBuf> {
    RawDocumentBuf::try_from(document).map_err(Error::encoding)
}

pub(crate) fn malformed(error: crate::uri::InvalidUri) -> Error {
    let what = "the connection string cannot be used";
    Error::new(Kind::Options, Fate::NotSent, what).with_source(error)
}
