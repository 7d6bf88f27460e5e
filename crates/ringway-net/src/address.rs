//! Addresses in text form and in the kernel's form.

mod several;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use socket2::SockAddr;

pub use several::ToAddresses;

use crate::error::{Error, Kind, Result};
use crate::limits;
use crate::look_up::look_up;

/// An address to listen on or to connect to.
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
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// `tcp://host:port`
    Tcp(Authority),
    /// `udp://host:port`
    Udp(Authority),
    /// `unix:///path`, or `unix://@name` for a socket in Linux's abstract namespace, which has no
    /// file.
    Unix(PathBuf),
    /// `tls://host:port`: TLS over TCP.
    Tls(Authority),
}

/// Prints like `Display`.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A host and a port.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Authority {
    host: Host,
    port: u16,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Host {
    Ip {
        ip: IpAddr,
        /// The number of the interface of a link-local IPv6 address; 0 for every other address.
        scope: u32,
    },
    Name(String),
}

/// The address of one end of a connection, as the kernel reports it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Endpoint {
    /// TCP or UDP.
    Ip(SocketAddr),
    /// A Unix socket with a path, or with an abstract name, written as `@name`.
    Unix(PathBuf),
    /// A Unix socket without a name, as most clients have.
    Unnamed,
}

impl Address {
    /// Returns the host and the port; `None` for a Unix socket.
    pub fn authority(&self) -> Option<&Authority> {
        match self {
            Self::Tcp(authority) | Self::Udp(authority) | Self::Tls(authority) => Some(authority),
            Self::Unix(_) => None,
        }
    }

    /// Returns the port; `None` for a Unix socket.
    pub fn port(&self) -> Option<u16> {
        self.authority().map(Authority::port)
    }

    /// Returns the address with another port; a Unix address is returned unchanged.
    #[must_use]
    pub fn with_port(mut self, port: u16) -> Self {
        if let Self::Tcp(at) | Self::Udp(at) | Self::Tls(at) = &mut self {
            at.port = port;
        }
        self
    }

    /// Returns the file of a Unix socket; `None` for an abstract name (`unix://@name`) and for an
    /// internet address.
    pub fn unix_file(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) => abstract_name(path).is_none().then_some(path),
            Self::Tcp(_) | Self::Udp(_) | Self::Tls(_) => None,
        }
    }

    /// Resolves the host to its internet addresses, in the resolver's order. A name is looked up on
    /// the blocking pool; concurrent look-ups of the same name are shared.
    ///
    /// # Errors
    /// [`is_address`](Error::is_address) for a Unix address or a name that does not resolve;
    /// [`is_limit`](Error::is_limit) when the blocking pool is full, or too many names wait.
    pub async fn resolve(&self) -> Result<Vec<SocketAddr>> {
        match self.host()? {
            (Host::Ip { ip, scope }, port) => Ok(vec![with_scope(*ip, port, *scope)]),
            (Host::Name(name), port) => {
                let mut found = self.checked(look_up(name).await?)?;
                found.iter_mut().for_each(|address| address.set_port(port));
                Ok(found)
            }
        }
    }

    /// Resolves like [`resolve`](Self::resolve), but blocks the calling thread.
    pub(crate) fn resolve_blocking(&self) -> Result<Vec<SocketAddr>> {
        match self.host()? {
            (Host::Ip { ip, scope }, port) => Ok(vec![with_scope(*ip, port, *scope)]),
            (Host::Name(name), port) => {
                self.checked((&**name, port).to_socket_addrs().map(Vec::from_iter))
            }
        }
    }

    /// Converts to the kernel's form: all addresses of a host, in the resolver's order, or that of
    /// a Unix socket. A name is looked up on the calling thread, which blocks.
    ///
    /// # Errors
    /// [`is_address`](Error::is_address) when a name does not resolve or the kernel does not accept
    /// the path.
    pub fn to_sock_addrs(&self) -> Result<Vec<SockAddr>> {
        match self {
            Self::Unix(path) => Ok(vec![unix_sock_addr(path)?]),
            _ => Ok(self.resolve_blocking()?.into_iter().map(SockAddr::from).collect()),
        }
    }

    fn host(&self) -> Result<(&Host, u16)> {
        match self.authority() {
            Some(Authority { host, port }) => Ok((host, *port)),
            None => Err(self.error("a Unix socket has no internet address")),
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
    /// Makes an authority of a host, by name or by IP address, and a port.
    ///
    /// # Errors
    /// [`is_address`](Error::is_address) when the host is empty, too long or contains a character
    /// that is not allowed in host names.
    pub fn new(host: &str, port: u16) -> Result<Self> {
        let text = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(ip) = text.parse() {
            return Ok(Self { host: Host::Ip { ip, scope: 0 }, port });
        }
        if let Ok(scoped) = format!("[{text}]:{port}").parse::<SocketAddrV6>() {
            return Ok(SocketAddr::V6(scoped).into());
        }
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
        if host.is_empty() || host.len() > limits::HOST_LEN_MAX || !host.chars().all(is_plain) {
            return Err(Error::new(Kind::Address, format!("`{host}` is not a host name")));
        }
        Ok(Self { host: Host::Name(host.to_owned()), port })
    }

    /// Returns the host, without brackets and without the scope of a link-local address.
    pub fn host(&self) -> String {
        match &self.host {
            Host::Ip { ip, .. } => ip.to_string(),
            Host::Name(name) => name.clone(),
        }
    }

    /// Returns the port; 0 asks the kernel for a free one.
    pub fn port(&self) -> u16 {
        self.port
    }
}

fn with_scope(ip: IpAddr, port: u16, scope: u32) -> SocketAddr {
    match ip {
        IpAddr::V4(_) => SocketAddr::new(ip, port),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, scope).into(),
    }
}

/// Converts a path to the kernel's form of a Unix address.
pub(crate) fn unix_sock_addr(path: &Path) -> Result<SockAddr> {
    let bad = |why: &str| Error::new(Kind::Address, format!("unix://{}: {why}", path.display()));
    if let Some(why) = no_unix_address(path.as_os_str().as_bytes()) {
        return Err(bad(why));
    }
    let made = match abstract_name(path) {
        Some(name) => SockAddr::unix(OsStr::from_bytes(&[b"\0", name].concat())),
        None => SockAddr::unix(path),
    };
    made.map_err(|error| bad(&error.to_string()))
}

/// Returns the name of a Unix socket that has no file; in text it has an `@` in front.
fn abstract_name(path: &Path) -> Option<&[u8]> {
    path.as_os_str().as_bytes().strip_prefix(b"@")
}

/// Returns why the kernel would refuse this path or read it as another one.
fn no_unix_address(path: &[u8]) -> Option<&'static str> {
    match path {
        b"" => Some("the path is missing"),
        b"@" => Some("the name is missing"),
        _ if path.len() > limits::UNIX_PATH_LEN_MAX => Some("the path is too long"),
        _ if path.contains(&0) => Some("the path has a zero byte"),
        _ => None,
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad =
            |why: &str| Error::new(Kind::Address, format!("`{text}` is not an address: {why}"));
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| bad("write tcp://host:port, udp://…, tls://… or unix:///path"))?;
        if scheme == "unix" {
            return match no_unix_address(rest.as_bytes()) {
                Some(why) => Err(bad(why)),
                None => Ok(Self::Unix(rest.into())),
            };
        }
        if let Some((_, host)) = rest.rsplit_once('@') {
            // What stands before it is not for logs.
            let what = format!("`{scheme}://…@{host}` is not an address");
            return Err(Error::new(Kind::Address, format!("{what}: it has a user or a password")));
        }
        let (host, port) = rest.rsplit_once(':').ok_or_else(|| bad("the port is missing"))?;
        if host.contains(':') && !host.starts_with('[') {
            return Err(bad("an IPv6 address must be in brackets, as in tcp://[::1]:7001"));
        }
        let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port
            .parse()
            .ok()
            .filter(|_| digits)
            .ok_or_else(|| bad("the port is not a number from 0 to 65535"))?;
        let authority = Authority::new(host, port).map_err(|error| bad(&error.to_string()))?;
        match scheme {
            "tcp" => Ok(Self::Tcp(authority)),
            "udp" => Ok(Self::Udp(authority)),
            "tls" => Ok(Self::Tls(authority)),
            _ => Err(bad("the scheme must be tcp, udp, tls or unix")),
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

/// Makes a TCP address, keeping the scope of a link-local one.
impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address.into())
    }
}

impl From<SocketAddr> for Authority {
    fn from(address: SocketAddr) -> Self {
        let scope = match address {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(address) => address.scope_id(),
        };
        Self { host: Host::Ip { ip: address.ip(), scope }, port: address.port() }
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
            Host::Ip { ip, scope } => with_scope(*ip, self.port, *scope).fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

impl Endpoint {
    /// Returns the internet address; `None` for a Unix socket.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            Self::Unix(_) | Self::Unnamed => None,
        }
    }

    /// Returns the IP address; `None` for a Unix socket.
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
            Some(name) => Self::Unix(OsString::from_vec([b"@", name].concat()).into()),
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
    fn addresses_are_parsed_and_printed() {
        let same = [
            "tcp://127.0.0.1:7001",
            "tcp://[::]:0",
            "udp://localhost:53",
            "tls://example.org:443",
            "tcp://[fe80::1%7]:80",
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
            ("http://a:1", "the scheme must be"),
            ("tcp://a", "the port is missing"),
            ("tcp://a:", "the port is not a number from 0 to 65535"),
            ("tcp://a:+1", "the port is not a number from 0 to 65535"),
            ("tcp://a:65536", "the port is not a number from 0 to 65535"),
            ("tcp://:1", "`` is not a host name"),
            ("tcp://::1:1", "must be in brackets"),
            ("tcp://me:secret@a:1", "`tcp://…@a:1` is not an address: it has a user or a password"),
            ("tcp://a b:1", "`a b` is not a host name"),
            ("tcp://[fe80::1%]:1", "not a host name"),
            ("unix://", "the path is missing"),
            ("unix://@", "the name is missing"),
            ("unix:///a\0b", "zero byte"),
        ];
        for (text, why) in cases {
            let error = text.parse::<Address>().expect_err(text);
            assert!(error.is_address() && error.to_string().contains(why), "{error}");
        }
        let long = format!("unix:///{}", "x".repeat(108));
        assert!(long.parse::<Address>().is_err());
    }

    #[test]
    fn names_and_ip_addresses_resolve() {
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
    fn the_scope_of_a_link_local_address_is_kept() {
        let socket: SocketAddr = "[fe80::1%7]:80".parse().expect("an address");
        let read: Address = "tcp://[fe80::1%7]:80".parse().expect("the same");
        assert_eq!(Address::from(socket), read);
        assert_ne!(read, "tcp://[fe80::1]:80".parse().expect("another"));
        assert_eq!(read.resolve_blocking().expect("a number"), [socket]);
        assert_eq!(read.authority().map(Authority::host).as_deref(), Some("fe80::1"));
    }

    #[test]
    fn unix_paths_and_abstract_names_are_distinguished() {
        let of = |text: &str| Endpoint::from(unix_sock_addr(Path::new(text)).expect("short"));
        assert_eq!(of("/run/x").to_string(), "/run/x");
        assert_eq!(of("@x").to_string(), "@x");
        let file = |text: &str| text.parse::<Address>().expect(text).unix_file().map(PathBuf::from);
        assert_eq!(file("unix:///run/x"), Some("/run/x".into()));
        assert_eq!(file("unix://@x"), None);
        assert_eq!(file("tcp://127.0.0.1:1"), None);
    }

    #[test]
    fn every_address_converts_to_the_kernels_form() {
        let of = |address: Address| address.to_sock_addrs().map(|found| found[0].clone());
        let named = of("unix://@x".parse().expect("a name")).expect("short");
        assert_eq!(named.as_abstract_namespace(), Some(&b"x"[..]));
        let number: SocketAddr = "127.0.0.1:7".parse().expect("an address");
        assert_eq!(of(number.into()).expect("a number").as_socket(), Some(number));
        // Made directly: parsing would have refused it.
        assert!(of(Address::Unix("/a\0b".into())).is_err_and(|error| error.is_address()));
    }
}
