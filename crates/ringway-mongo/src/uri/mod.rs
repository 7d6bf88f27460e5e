//! Connection strings, by MongoDB's specifications "Connection String" and "URI Options".

mod concern;
mod credential;
mod draft;
mod host;
mod invalid_uri;
mod options;
mod percent;
mod proxy;
mod read_preference;
mod srv;
mod table;
mod tls;
mod user_info;
mod values;

pub use concern::{Acknowledgment, ReadConcern, WriteConcern};
pub use credential::{AuthMechanism, Credential};
pub use host::HostAddress;
pub use invalid_uri::InvalidUri;
pub use options::{Compressor, MonitoringMode, UriOptions};
pub use proxy::ProxyOptions;
pub use read_preference::{ReadMode, ReadPreference, TagSet};
pub(crate) use srv::SrvRecords;
pub use tls::TlsOptions;

use std::net::SocketAddr;
use std::time::Duration;

use draft::Draft;
use user_info::UserInfo;

/// A parsed connection string: where the servers are, who asks, and how.
///
/// ```
/// use ringway_mongo::{ConnectionString, HostAddress};
///
/// let uri = "mongodb://ada:secret@db1.example.com,db2.example.com:27018/shop?replicaSet=rs0&w=majority";
/// let parsed = ConnectionString::parse(uri)?;
/// assert_eq!(parsed.hosts[1].to_string(), "db2.example.com:27018");
/// assert_eq!(parsed.database.as_deref(), Some("shop"));
/// assert_eq!(parsed.options.replica_set.as_deref(), Some("rs0"));
/// assert!(parsed.warnings.is_empty());
/// # Ok::<(), ringway_mongo::InvalidUri>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ConnectionString {
    /// The servers to begin with; empty for `mongodb+srv://`.
    pub hosts: Vec<HostAddress>,
    /// The name whose SRV and TXT records list the servers, for `mongodb+srv://`.
    pub srv_host: Option<String>,
    /// The default database.
    pub database: Option<String>,
    /// Who asks; `None` for a client that does not authenticate.
    pub credential: Option<Credential>,
    /// The options after the question mark.
    pub options: UriOptions,
    /// How the hosts were looked up, if they were.
    pub(crate) looked_up: Option<LookedUp>,
    /// What was ignored, and why: each is a sentence for the log. None of them contains a secret.
    pub warnings: Vec<String>,
}

/// How hosts were looked up in DNS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LookedUp {
    /// The name server, if it is not the system's.
    pub(crate) server: Option<SocketAddr>,
    /// How long the records are valid.
    pub(crate) valid_for: Duration,
}

impl ConnectionString {
    /// Parses a connection string.
    ///
    /// Option names do not depend on case. Unknown options, and values that an option cannot have, are ignored and
    /// become [`warnings`](Self::warnings). The last one of a repeated option wins.
    ///
    /// # Errors
    /// The scheme, a host, a percent sign or the user name is malformed, options contradict each other, or the
    /// credential is not one of its mechanism. The error never contains the password.
    pub fn parse(uri: &str) -> Result<Self, InvalidUri> {
        Self::parse_with(uri, None)
    }

    /// Parses a connection string, with what DNS has told of it.
    pub(crate) fn parse_with(uri: &str, records: Option<SrvRecords>) -> Result<Self, InvalidUri> {
        let (is_srv, rest) = strip_scheme(uri)?;
        let authority_len = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(authority_len);
        let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
        let (user_info, hosts) = UserInfo::split(authority)?;
        let hosts = host::parse_all(hosts)?;
        let database = database(path.strip_prefix('/').unwrap_or(path))?;
        let mut draft = Draft::default();
        let (srv_host, mut hosts) = match is_srv {
            true => (Some(host::srv_name(hosts)?), Vec::new()),
            false => (None, hosts),
        };
        if let (Some(name), Some(records)) = (&srv_host, records) {
            // The string itself is read later, so it counts.
            draft = draft.read(&records.options()?)?;
            hosts = records.hosts(name)?;
        }
        let draft = draft.read(query)?;
        draft.finish(user_info, srv_host, hosts, database)
    }
}

fn strip_scheme(uri: &str) -> Result<(bool, &str), InvalidUri> {
    let plain = uri.strip_prefix("mongodb://").map(|rest| (false, rest));
    plain.or_else(|| uri.strip_prefix("mongodb+srv://").map(|rest| (true, rest))).ok_or_else(|| {
        InvalidUri::new("a connection string begins with mongodb:// or mongodb+srv://")
    })
}

/// Returns the default database, which the path names.
fn database(path: &str) -> Result<Option<String>, InvalidUri> {
    let name = percent::decode(path, "the database")?;
    if let Some(bad) = name.chars().find(|c| "/\\ \"$".contains(*c)) {
        let advice =
            "write slashes and at-signs of user names, passwords and socket paths as %2F and %40";
        return Err(InvalidUri::new(format!("the database's name contains {bad:?}; {advice}")));
    }
    Ok(Some(name).filter(|name| !name.is_empty()))
}

impl std::str::FromStr for ConnectionString {
    type Err = InvalidUri;

    fn from_str(uri: &str) -> Result<Self, InvalidUri> {
        Self::parse(uri)
    }
}
