//! The beginning of a connection: connect, `hello`, authentication.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use bson::oid::ObjectId;
use bson::{RawDocument, RawDocumentBuf};
use ringway_net::{Client as Connector, StreamLimits};
use ringway_runtime::timeout;
use ringway_wire::mongo::{
    HelloReply, HelloRequest, REPLY_LEN_MAX_DEFAULT, ScramClient, ScramMechanism, ServerKind,
};

use super::authentication::{self, nonce};
use super::keys::KeyCache;
use super::{HandshakeMetadata, OwnedAnswer, ServerConnection, ServerLimits, external, unsendable};
use crate::error::{Error, Fate, Kind, Result};
use crate::limits::{
    KEEPALIVE, SEND_QUEUE_MAX, SESSION_TIMEOUT_DEFAULT, WIRE_VERSION_MAX, WIRE_VERSION_MIN,
};
use crate::options::{ClientOptions, Identity, Login, PlainLogin};
use crate::uri::HostAddress;

/// What all connections of a client begin with.
pub(crate) struct Greeting {
    pub(crate) options: Arc<ClientOptions>,
    pub(super) metadata: Arc<HandshakeMetadata>,
    keys: KeyCache,
}

impl Greeting {
    pub(crate) fn new(options: Arc<ClientOptions>, metadata: Arc<HandshakeMetadata>) -> Self {
        Self { options, metadata, keys: KeyCache::default() }
    }

    /// The beginning of connections without a client around them.
    #[cfg(test)]
    pub(crate) fn alone(options: ClientOptions) -> Self {
        let options = Arc::new(options);
        let metadata = HandshakeMetadata::new(&options);
        Self::new(options, metadata)
    }
}

/// Makes a connection that is ready for commands. Nothing of the user's command is sent here, so every
/// error says that it was not. `greeted` is told the service behind a load balancer, once that has said who it is.
///
/// Specification: Connection Monitoring and Pooling, "Backpressure-enabled": a server that ends a connection before it
/// has answered `hello`, or does not answer, may have too much to do.
pub(crate) async fn connect(
    greeting: &Greeting,
    address: &HostAddress,
    greeted: &dyn Fn(ObjectId),
) -> Result<ServerConnection> {
    let is_greeted = Cell::new(false);
    let made = in_time(greeting, address, greet(greeting, address, greeted, &is_greeted)).await;
    made.map_err(|mut error| {
        if !is_greeted.get() && error.may_be_overload() {
            error.mark_overloaded();
        }
        error
    })
}

pub(super) async fn in_time<T>(
    greeting: &Greeting,
    address: &HostAddress,
    done: impl Future<Output = Result<T>>,
) -> Result<T> {
    let limit = greeting.options.connect_timeout;
    let done = timeout(limit, done).await.unwrap_or_else(|_| {
        let how = if greeting.options.is_tls { " over TLS" } else { "" };
        let what = format!("cannot connect to {address}{how} within {limit:?}");
        Err(Error::new(Kind::ConnectTimeout, Fate::NotSent, what))
    });
    done.map_err(|error| error.fate(Fate::NotSent))
}

pub(super) async fn open(
    greeting: &Greeting,
    address: &HostAddress,
    reply_len_max: usize,
) -> Result<ServerConnection> {
    let options = &greeting.options;
    let what = || format!("no connection to the server at {address}");
    let failed = |error| Error::network(Fate::NotSent, what(), error);
    let place = address.to_address(options.is_tls)?;
    let mut connector = Connector::new(place).map_err(failed)?;
    if let Some(tls) = &options.tls {
        connector = connector.tls(tls.clone());
    }
    let limits = StreamLimits { send_queue_max: SEND_QUEUE_MAX, ..StreamLimits::default() };
    let connector = connector.attempts_max(1).connect_timeout(options.connect_timeout);
    let connector = connector.stream_limits(limits).keepalive(KEEPALIVE);
    let connection = connector.open().await.map_err(failed)?;
    Ok(ServerConnection::new(connection, reply_len_max, options.api.clone()))
}

async fn greet(
    greeting: &Greeting,
    address: &HostAddress,
    greeted: &dyn Fn(ObjectId),
    is_greeted: &Cell<bool>,
) -> Result<ServerConnection> {
    let options = &greeting.options;
    let login = options.login.as_deref();
    if let Some(login) = login {
        login.check(options.is_tls)?;
        check_secrecy(login, options, address)?;
    }
    let mut connection = open(greeting, address, REPLY_LEN_MAX_DEFAULT).await?;
    let speculation = login.map(Speculation::new);
    let hello = hello(&mut connection, greeting, speculation.as_ref()).await;
    let hello = hello.map_err(|error| unanswered(options, address, error))?;
    is_greeted.set(true);
    let reply = HelloReply::of(hello.body()).map_err(Error::reply)?;
    check_version(&reply)?;
    check_set_name(options, reply.set_name)?;
    connection.facts.server = reply.kind;
    if options.is_balanced {
        greeted(service(&reply)?);
        // Specification: Load Balancer Support, "Session Support" and "Server Selection".
        connection.facts.server = ServerKind::Mongos;
    }
    connection.facts.wire_version = reply.wire_version_max;
    connection.facts.limits = ServerLimits {
        message_len_max: reply.message_len_max,
        writes_max: reply.writes_max,
        has_sessions: reply.session_timeout_minutes.is_some() || options.is_balanced,
        session_timeout: session_timeout(reply.session_timeout_minutes),
    };
    let compressors = options.compressors.iter().copied();
    let compressor = { compressors }.find(|known| reply.has_compressor(known.name()));
    if let Some(speculation) = speculation {
        speculation.go_on(&mut connection, &greeting.keys, &reply).await?;
    }
    // Commands that authenticate are never compressed.
    connection.facts.compressor = compressor;
    Ok(connection)
}

/// An authentication that `hello` begins, because the server most likely has its mechanism.
enum Speculation<'a> {
    Scram {
        login: &'a Login,
        client: ScramClient,
        document: RawDocumentBuf,
    },
    X509 {
        user: Option<&'a str>,
        document: RawDocumentBuf,
    },
    /// It begins afterwards: a password is not shown to a server that does not want it.
    Plain(&'a PlainLogin),
}

impl<'a> Speculation<'a> {
    fn new(identity: &'a Identity) -> Self {
        match identity {
            Identity::Scram(login) => {
                let mechanism = login.mechanism.unwrap_or(ScramMechanism::Sha256);
                let client = ScramClient::new(mechanism, &login.user, &nonce());
                let document = client.speculate(&login.source);
                Self::Scram { login, client, document }
            }
            Identity::X509(user) => {
                let user = user.as_deref();
                Self::X509 { user, document: external::speculate_x509(user) }
            }
            Identity::Plain(login) => Self::Plain(login),
        }
    }

    fn document(&self) -> Option<&RawDocument> {
        match self {
            Self::Scram { document, .. } | Self::X509 { document, .. } => Some(document),
            Self::Plain(_) => None,
        }
    }

    /// The user whose mechanisms the server is to tell.
    fn asks_for(&self) -> Option<String> {
        match self {
            Self::Scram { login, .. } if login.mechanism.is_none() => {
                Some(format!("{}.{}", login.source, login.user))
            }
            _ => None,
        }
    }

    /// Goes on behind the reply to `hello`, up to the end.
    async fn go_on(
        self,
        connection: &mut ServerConnection,
        keys: &KeyCache,
        reply: &HelloReply<'_>,
    ) -> Result {
        match self {
            Self::Scram { login, client, .. } => {
                let begun = authentication::Begun::of(reply, login, client);
                authentication::run(connection, login, keys, begun).await
            }
            // The server has taken the certificate already.
            Self::X509 { .. } if reply.speculative_authenticate.is_some() => Ok(()),
            Self::X509 { user, .. } => external::run_x509(connection, user).await,
            Self::Plain(login) => external::run_plain(connection, login).await,
        }
    }
}

async fn hello(
    connection: &mut ServerConnection,
    greeting: &Greeting,
    speculation: Option<&Speculation<'_>>,
) -> Result<OwnedAnswer> {
    let user = speculation.and_then(Speculation::asks_for);
    let metadata = greeting.metadata.now();
    let request = HelloRequest {
        is_legacy: greeting.options.greets_legacy(),
        metadata: Some(&metadata),
        compressors: &greeting.options.compressors,
        mechanisms_of: user.as_deref(),
        speculative_authenticate: speculation.and_then(Speculation::document),
        is_load_balanced: greeting.options.is_balanced,
        ..HelloRequest::default()
    };
    say(connection, request).await
}

/// Checks that nobody else can read a password on its way to a server.
fn check_secrecy(login: &Identity, options: &ClientOptions, address: &HostAddress) -> Result {
    let is_local = matches!(address, HostAddress::Unix(_));
    if !matches!(login, Identity::Plain(_)) {
        return Ok(());
    }
    if options.is_tls || is_local || options.plain_without_tls {
        return Ok(());
    }
    let what = format!(
        "PLAIN would show the password to everybody on the way to {address}: add tls=true, or allow it by \
         ClientOptions::plain_without_tls"
    );
    Err(Error::new(Kind::Options, Fate::NotSent, what))
}

pub(super) async fn say(
    connection: &mut ServerConnection,
    request: HelloRequest<'_>,
) -> Result<OwnedAnswer> {
    let api = connection.api();
    let request = HelloRequest { api: api.as_ref().map(|api| &***api), ..request };
    let write =
        |id, out: &mut Vec<u8>| request.begin(id, out).finish().map(drop).map_err(unsendable);
    connection.run(&Cell::new(false), write, |answer| Ok(answer.into_owned())).await
}

/// What the error of a first message says. A server that wants TLS ends a connection without it, and tells no reason.
pub(super) fn unanswered(options: &ClientOptions, address: &HostAddress, error: Error) -> Error {
    if options.is_tls || matches!(address, HostAddress::Unix(_)) || !error.is_network() {
        return error;
    }
    let what = format!(
        "the server at {address} ended the connection instead of answering its first message: if it wants TLS, add \
         tls=true to the connection string"
    );
    Error::new(Kind::Network, Fate::NotSent, what).with_source(error)
}

/// Specification: Server Discovery and Monitoring, "Checking wire protocol compatibility".
fn check_version(reply: &HelloReply<'_>) -> Result {
    let (least, most) = (reply.wire_version_min, reply.wire_version_max);
    if least <= WIRE_VERSION_MAX && most >= WIRE_VERSION_MIN {
        return Ok(());
    }
    let what = format!(
        "the server speaks versions {least} to {most} of the protocol, this client {WIRE_VERSION_MIN} \
         to {WIRE_VERSION_MAX}: use MongoDB 4.0 or later"
    );
    Err(Error::new(Kind::Incompatible, Fate::NotSent, what))
}

/// How long the server keeps a session that is not used.
fn session_timeout(minutes: Option<u32>) -> Duration {
    minutes.map_or(SESSION_TIMEOUT_DEFAULT, |minutes| Duration::from_secs(60 * u64::from(minutes)))
}

/// Who answers behind a load balancer.
///
/// Specification: Load Balancer Support, "Connection Establishment", which sets the first sentence.
fn service(reply: &HelloReply<'_>) -> Result<ObjectId> {
    reply.service_id.ok_or_else(|| {
        let what = "Driver attempted to initialize in load balancing mode, but the server does not support this mode. \
             Leave loadBalanced out of the connection string, or have the server know its load balancer";
        Error::new(Kind::Incompatible, Fate::NotSent, what)
    })
}

/// A server that is used as it is must still be of the required replica set.
fn check_set_name(options: &ClientOptions, told: Option<&str>) -> Result {
    match options.seeds.set_name() {
        Some(required) if options.is_direct && told != Some(required) => {
            let told = told.unwrap_or("none");
            let what = format!(
                "the replica set of the server is {told}, and the connection string requires {required}"
            );
            Err(Error::new(Kind::Incompatible, Fate::NotSent, what))
        }
        _ => Ok(()),
    }
}
