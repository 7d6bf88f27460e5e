//! Addresses as people write them, and as the kernel tells them.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ringway_runtime::spawn_blocking;
use socket2::SockAddr;

use crate::error::{Error, Kind, Result};
use crate::limits;

/// Where to listen or to connect to.
///
/// ```
/// use ringway_net::Address;
///
/// let address: Address = "tcp://[::1]:7001".parse()?;
/// assert_eq!(address.port(), Some(7001));
/// assert_eq!(address.to_string(), "tcp://[::1]:7001");
/// assert!("tcp://7001".parse::<Address>().is_err());
/// # Ok::<(), ringway_net::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Address {
    /// `tcp://host:port`
    Tcp(Authority),
    /// `udp://host:port`
    Udp(Authority),
    /// `unix:///path`, or `unix://@name` for a name without a file (Linux's abstract names).
    Unix(PathBuf),
    /// `tls://host:port`: TLS over TCP.
    Tls(Authority),
}

/// A host and a port.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Authority {
    host: Host,
    port: u16,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Host {
    Ip(IpAddr),
    Name(String),
}

/// One end of a connection, as the kernel names it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Endpoint {
    /// TCP or UDP.
    Ip(SocketAddr),
    /// A Unix socket with a path, or with an abstract name written as `@name`.
    Unix(PathBuf),
    /// A Unix socket without a name: most clients.
    Unnamed,
}

impl Address {
    /// The host and the port; `None` for a Unix socket.
    pub fn authority(&self) -> Option<&Authority> {
        match self {
            Self::Tcp(authority) | Self::Udp(authority) | Self::Tls(authority) => Some(authority),
            Self::Unix(_) => None,
        }
    }

    /// The port; `None` for a Unix socket.
    pub fn port(&self) -> Option<u16> {
        self.authority().map(Authority::port)
    }

    /// The same address with another port; a Unix address is returned as it is.
    #[must_use]
    pub fn with_port(mut self, port: u16) -> Self {
        if let Self::Tcp(at) | Self::Udp(at) | Self::Tls(at) = &mut self {
            at.port = port;
        }
        self
    }

    /// The internet addresses of the host, in the resolver's order. A name is looked up on the
    /// blocking pool.
    ///
    /// # Errors
    /// [`is_address`](Error::is_address) for a Unix address or a name that does not resolve;
    /// [`is_limit`](Error::is_limit) when the blocking pool is full.
    pub async fn resolve(&self) -> Result<Vec<SocketAddr>> {
        let Some(Authority { host, port }) = self.authority() else {
            return Err(self.error("a Unix socket has no internet address"));
        };
        let name = match host {
            Host::Ip(ip) => return Ok(vec![SocketAddr::new(*ip, *port)]),
            Host::Name(name) => name.clone(),
        };
        let port = *port;
        let look_up = move || (&*name, port).to_socket_addrs().map(Vec::from_iter);
        let task = spawn_blocking(look_up)
            .map_err(|error| Error::with_source(Kind::Limit, "name look-up", error))?;
        let found = task.await.map_err(|_panic| self.error("the name look-up panicked"))?;
        self.checked(found)
    }

    /// As [`resolve`](Self::resolve), on the calling thread.
    pub(crate) fn resolve_blocking(&self) -> Result<Vec<SocketAddr>> {
        match self.authority() {
            None => Err(self.error("a Unix socket has no internet address")),
            Some(Authority { host: Host::Ip(ip), port }) => Ok(vec![SocketAddr::new(*ip, *port)]),
            Some(Authority { host: Host::Name(name), port }) => {
                self.checked((&**name, *port).to_socket_addrs().map(Vec::from_iter))
            }
        }
    }

    fn checked(&self, found: std::io::Result<Vec<SocketAddr>>) -> Result<Vec<SocketAddr>> {
        let found = found.map_err(|error| {
            Error::with_source(Kind::Address, format!("cannot look up {self}"), error)
        })?;
        if found.is_empty() {
            return Err(self.error("the name has no address"));
        }
        Ok(found)
    }

    fn error(&self, why: &str) -> Error {
        Error::new(Kind::Address, format!("{self}: {why}"))
    }
}

impl Authority {
    /// A host, by name or by number, and a port.
    ///
    /// # Errors
    /// [`is_address`](Error::is_address) when the host is empty, too long or has a character that
    /// no host name has.
    pub fn new(host: &str, port: u16) -> Result<Self> {
        let text = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(ip) = text.parse() {
            return Ok(Self { host: Host::Ip(ip), port });
        }
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
        if host.is_empty() || host.len() > limits::HOST_LEN_MAX || !host.chars().all(is_plain) {
            return Err(Error::new(Kind::Address, format!("`{host}` is no host name")));
        }
        Ok(Self { host: Host::Name(host.to_owned()), port })
    }

    /// The host without brackets.
    pub fn host(&self) -> String {
        match &self.host {
            Host::Ip(ip) => ip.to_string(),
            Host::Name(name) => name.clone(),
        }
    }

    /// The port; 0 asks the kernel for a free one.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// The kernel's form of a Unix address.
pub(crate) fn unix_sock_addr(path: &Path) -> Result<SockAddr> {
    let name = path.to_string_lossy();
    let made = match name.strip_prefix('@') {
        Some(name) => SockAddr::unix(format!("\0{name}")),
        None => SockAddr::unix(path),
    };
    made.map_err(|error| Error::with_source(Kind::Address, format!("unix://{name}"), error))
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |why: &str| Error::new(Kind::Address, format!("`{text}` is no address: {why}"));
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| bad("write tcp://host:port, udp://…, tls://… or unix:///path"))?;
        if scheme == "unix" {
            return match rest.len() {
                0 => Err(bad("the path is missing")),
                len if len > limits::UNIX_PATH_LEN_MAX => Err(bad("the path is too long")),
                _ => Ok(Self::Unix(rest.into())),
            };
        }
        let (host, port) = rest.rsplit_once(':').ok_or_else(|| bad("the port is missing"))?;
        if host.contains(':') && !host.starts_with('[') {
            return Err(bad("an IPv6 address stands in brackets, as in tcp://[::1]:7001"));
        }
        let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port =
            port.parse().ok().filter(|_| digits).ok_or_else(|| bad("the port is no port"))?;
        let authority = Authority::new(host, port).map_err(|error| bad(&error.to_string()))?;
        match scheme {
            "tcp" => Ok(Self::Tcp(authority)),
            "udp" => Ok(Self::Udp(authority)),
            "tls" => Ok(Self::Tls(authority)),
            _ => Err(bad("the scheme is none of tcp, udp, tls and unix")),
        }
    }
}

impl TryFrom<&str> for Address {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self> {
        text.parse()
    }
}

impl TryFrom<String> for Address {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<&Address> for Address {
    fn from(address: &Address) -> Self {
        address.clone()
    }
}

/// A TCP address.
impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address.into())
    }
}

impl From<SocketAddr> for Authority {
    fn from(address: SocketAddr) -> Self {
        Self { host: Host::Ip(address.ip()), port: address.port() }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(authority) => write!(f, "tcp://{authority}"),
            Self::Udp(authority) => write!(f, "udp://{authority}"),
            Self::Tls(authority) => write!(f, "tls://{authority}"),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(ip) => SocketAddr::new(*ip, self.port).fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

impl Endpoint {
    /// The internet address; `None` for a Unix socket.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            Self::Unix(_) | Self::Unnamed => None,
        }
    }

    /// The IP address; `None` for a Unix socket.
    pub fn ip(&self) -> Option<IpAddr> {
        self.socket_addr().map(|address| address.ip())
    }
}

impl From<SockAddr> for Endpoint {
    fn from(address: SockAddr) -> Self {
        if let Some(address) = address.as_socket() {
            return Self::Ip(address);
        }
        if let Some(path) = address.as_pathname() {
            return Self::Unix(path.to_owned());
        }
        match address.as_abstract_namespace() {
            Some(name) => Self::Unix(format!("@{}", String::from_utf8_lossy(name)).into()),
            None => Self::Unnamed,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
            Self::Unnamed => f.write_str("an unnamed socket"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        let same = [
            "tcp://127.0.0.1:7001",
            "tcp://[::]:0",
            "udp://localhost:53",
            "tls://example.org:443",
            "unix:///run/ringway.sock",
            "unix://@ringway",
        ];
        for text in same {
            assert_eq!(text.parse::<Address>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn bad_addresses_are_refused_with_the_reason() {
        let cases = [
            ("127.0.0.1:1", "write tcp://host:port"),
            ("http://a:1", "the scheme is none of"),
            ("tcp://a", "the port is missing"),
            ("tcp://a:", "the port is no port"),
            ("tcp://a:+1", "the port is no port"),
            ("tcp://a:65536", "the port is no port"),
            ("tcp://:1", "`` is no host name"),
            ("tcp://::1:1", "stands in brackets"),
            ("tcp://a b:1", "`a b` is no host name"),
            ("unix://", "the path is missing"),
        ];
        for (text, why) in cases {
            let error = text.parse::<Address>().expect_err(text);
            assert!(error.is_address() && error.to_string().contains(why), "{error}");
        }
        let long = format!("unix:///{}", "x".repeat(108));
        assert!(long.parse::<Address>().is_err());
    }

    #[test]
    fn names_and_numbers_resolve() {
        let found = ringway_runtime::block_on(async {
            let name = Address::try_from("tcp://localhost:7")?.resolve().await?;
            let number = Address::try_from("udp://[::1]:7")?.resolve().await?;
            assert!(Address::try_from("unix:///x")?.resolve().await.is_err());
            Ok::<_, Error>((name, number))
        });
        let (name, number) = found.expect("a core").expect("both resolve");
        assert!(name.iter().all(|address| address.ip().is_loopback() && address.port() == 7));
        assert_eq!(number, ["[::1]:7".parse().expect("an address")]);
    }

    #[test]
    fn the_kernels_names_are_told_apart() {
        let of = |text: &str| Endpoint::from(unix_sock_addr(Path::new(text)).expect("short"));
        assert_eq!(of("/run/x").to_string(), "/run/x");
        assert_eq!(of("@x").to_string(), "@x");
    }
}
