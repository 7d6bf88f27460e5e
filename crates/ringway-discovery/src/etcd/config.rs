//! How a registry on etcd is reached.

use std::fmt;
use std::time::Duration;

use ringway_net::ClientTls;
use ringway_rpc::ServerAddress;

use crate::endpoint::Error;
use crate::limits;

/// Where a cluster of etcd, or a registry server, is, and how it is used.
///
/// ```
/// use ringway_discovery::EtcdConfig;
///
/// let config = EtcdConfig::new(["10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"])?
///     .user("market", "open sesame")
///     .namespace("production/");
/// assert!(!format!("{config:?}").contains("sesame"));
/// # Ok::<(), ringway_discovery::Error>(())
/// ```
#[derive(Clone)]
pub struct EtcdConfig {
    pub(super) members: Vec<ServerAddress>,
    pub(super) tls: Option<ClientTls>,
    pub(super) user: Option<User>,
    pub(super) namespace: String,
    pub(super) connect_timeout: Duration,
    pub(super) request_timeout: Duration,
    pub(super) progress_interval: Duration,
    pub(super) hold: Duration,
}

#[derive(Clone)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) password: String,
}

impl EtcdConfig {
    /// A cluster with these members, each `host:port`. `https://`, `grpcs://` or `tls://` before it stands for TLS;
    /// `http://`, `grpc://`, `tcp://` and nothing for no encryption.
    ///
    /// # Errors
    /// Fails if there is no address or more than 32, or if one is malformed.
    pub fn new<A: AsRef<str>>(members: impl IntoIterator<Item = A>) -> Result<Self, Error> {
        let members: Result<Vec<_>, _> =
            members.into_iter().map(|it| address(it.as_ref())).collect();
        let members = members?;
        if members.is_empty() || members.len() > limits::MEMBERS_MAX {
            let why = format!("a registry has 1 to {} addresses", limits::MEMBERS_MAX);
            return Err(Error::new(format!("{why}, not {}", members.len())));
        }
        Ok(Self {
            members,
            tls: None,
            user: None,
            namespace: limits::NAMESPACE.to_owned(),
            connect_timeout: limits::CONNECT_TIMEOUT,
            request_timeout: limits::REQUEST_TIMEOUT,
            progress_interval: limits::PROGRESS_INTERVAL,
            hold: limits::HOLD,
        })
    }

    /// Sets trust and client certificate for members with `https://` or `grpcs://`. By default they are verified
    /// against the machine's root certificates.
    #[must_use]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Sets the user that authenticates with a password.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some(User { name: name.into(), password: password.into() });
        self
    }

    /// Sets what all keys begin with; the default is `ringway/`. The key of an endpoint is this, the name of its service,
    /// a slash and its address, so that etcd's own resolver finds it too.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Sets the timeout of connecting to a member; 2 seconds by default.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Sets the time within which a member has to answer, before another one is asked; 2 seconds by default.
    #[must_use]
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.request_timeout = limit;
        self
    }

    /// Sets the time after which a member that has told a watch nothing is asked whether it is still there; 5 seconds
    /// by default. A member that is cut off is noticed after this and the request timeout.
    #[must_use]
    pub fn progress_interval(mut self, interval: Duration) -> Self {
        self.progress_interval = interval;
        self
    }

    /// Sets for how long a watch keeps its list while the registry tells one of less than half the endpoints at once, or
    /// an older one, before it asks again and believes it; 5 seconds by default.
    #[must_use]
    pub fn hold(mut self, time: Duration) -> Self {
        self.hold = time;
        self
    }
}

/// The password is left out.
impl fmt::Debug for EtcdConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members: Vec<_> = self.members.iter().map(ToString::to_string).collect();
        f.debug_struct("EtcdConfig")
            .field("members", &members)
            .field("user", &self.user.as_ref().map(|user| &user.name))
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// The address of a member.
///
/// # Errors
/// Fails if it is malformed.
pub(crate) fn address(text: &str) -> Result<ServerAddress, Error> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("grpc", text));
    let scheme = match scheme {
        "http" | "grpc" | "tcp" => "grpc",
        "https" | "grpcs" | "tls" => "grpcs",
        _ => {
            let why = "write host:port, and https:// before it for TLS";
            return Err(Error::new(format!("`{text}` is not a member of a registry: {why}")));
        }
    };
    let address = format!("{scheme}://{}", rest.trim_end_matches('/'));
    address.parse().map_err(|status: ringway_rpc::Status| Error::new(status.message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_written_as_etcds_clients_write_them() {
        let all = [
            "a:1",
            "http://a:2/",
            "https://a:3",
            "grpc://a:4",
            "grpcs://[::1]:5",
            "tcp://a:6",
            "tls://a:7",
        ];
        let config = EtcdConfig::new(all).expect("members");
        let read: Vec<_> = config.members.iter().map(ToString::to_string).collect();
        let expected = [
            "grpc://a:1",
            "grpc://a:2",
            "grpcs://a:3",
            "grpc://a:4",
            "grpcs://[::1]:5",
            "grpc://a:6",
            "grpcs://a:7",
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn what_is_no_member_is_named() {
        for (text, why) in [("ftp://a:1", "write host:port"), ("a", "the port is missing")] {
            let error = EtcdConfig::new([text]).expect_err(text).to_string();
            assert!(error.contains(text) && error.contains(why), "{error}");
        }
        assert!(EtcdConfig::new(Vec::<String>::new()).is_err());
        assert!(EtcdConfig::new(vec!["a:1"; 33]).is_err());
    }
}
