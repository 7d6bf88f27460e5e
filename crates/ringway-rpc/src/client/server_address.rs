//! The address of a server, with its protocol.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use ringway_net::{Address, Authority};

use super::resolve::source_of;
use crate::call::status::Status;

/// The address of a server and the protocol to speak to it.
///
/// | address | protocol |
/// |---|---|
/// | `tcp://host:port`, `tls://host:port`, `unix:///path` | the native one |
/// | `grpc://host:port` | gRPC without encryption |
/// | `grpcs://host:port` | gRPC over TLS |
/// | `grpc+unix:///path` | gRPC over a Unix socket |
/// | `jsonrpc+tcp://host:port`, `jsonrpc+tls://host:port`, `jsonrpc+unix:///path` | JSON-RPC on lines |
/// | `http://host[:port][/path]`, `https://host[:port][/path]` | JSON-RPC by POST |
/// | `ws://host[:port][/path]`, `wss://host[:port][/path]` | JSON-RPC over a WebSocket |
///
/// ```
/// use ringway_rpc::ServerAddress;
///
/// let address: ServerAddress = "grpc://127.0.0.1:50051".parse()?;
/// assert_eq!(address.to_string(), "grpc://127.0.0.1:50051");
/// assert!("ftp://127.0.0.1:50051".parse::<ServerAddress>().is_err());
/// # Ok::<(), ringway_rpc::Status>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ServerAddress {
    pub(super) protocol: Protocol,
    /// The address to connect to.
    pub(super) at: Address,
    /// The path and query of its URL, where the protocol has one.
    path: Box<str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Protocol {
    Native,
    Grpc,
    /// JSON-RPC, a text on each line.
    JsonLines,
    /// JSON-RPC by POST over HTTP/1.1.
    JsonPost,
    /// JSON-RPC, a text in each message of a WebSocket.
    JsonSocket,
}

impl Protocol {
    pub(super) fn is_json(self) -> bool {
        matches!(self, Self::JsonLines | Self::JsonPost | Self::JsonSocket)
    }

    /// Whether a server's address is a URL, with a path and a usual port.
    fn has_path(self) -> bool {
        matches!(self, Self::JsonPost | Self::JsonSocket)
    }
}

impl ServerAddress {
    /// Whether the server says something before it is called. One of HTTP/1.1 does not.
    pub(super) fn is_greeting(&self) -> bool {
        self.protocol != Protocol::JsonPost
    }

    /// The path of requests by HTTP.
    pub(super) fn path(&self) -> &str {
        if self.path.is_empty() { "/" } else { &self.path }
    }

    /// The authority of requests by HTTP to this server.
    pub(super) fn authority(&self) -> String {
        self.at.authority().map_or_else(|| String::from("localhost"), Authority::to_string)
    }

    /// Checks an address that a resolver has found.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when it cannot be connected to, or when its server speaks JSON-RPC.
    pub(super) fn check_resolved(&self) -> Result<(), Status> {
        if self.protocol.is_json() {
            let why =
                format!("{self} speaks JSON-RPC, whose servers are given to a client as addresses");
            return Err(Status::invalid_argument(why));
        }
        let dial = ringway_net::Client::new(self.at.clone());
        dial.map(drop).map_err(|error| Status::invalid_argument(error.to_string()))
    }

    /// Whether the server speaks gRPC.
    pub(super) fn is_grpc(&self) -> bool {
        self.protocol == Protocol::Grpc
    }

    /// Whether connections are encrypted.
    pub(super) fn is_secure(&self) -> bool {
        matches!(self.at, Address::Tls(_))
    }

    /// The address scheme of the same protocol with or without TLS.
    pub(super) fn scheme(&self, is_secure: bool) -> &'static str {
        match (self.protocol, is_secure) {
            (Protocol::Native, false) => "tcp",
            (Protocol::Native, true) => "tls",
            (Protocol::Grpc, false) => "grpc",
            (Protocol::Grpc, true) => "grpcs",
            (Protocol::JsonLines, false) => "jsonrpc+tcp",
            (Protocol::JsonLines, true) => "jsonrpc+tls",
            (Protocol::JsonPost, false) => "http",
            (Protocol::JsonPost, true) => "https",
            (Protocol::JsonSocket, false) => "ws",
            (Protocol::JsonSocket, true) => "wss",
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.protocol, self.at.authority()) {
            (Protocol::Native, _) => self.at.fmt(f),
            (Protocol::Grpc, None) => write!(f, "grpc+{}", self.at),
            (_, Some(at)) => write!(f, "{}://{at}{}", self.scheme(self.is_secure()), self.path),
            (Protocol::JsonLines | Protocol::JsonPost | Protocol::JsonSocket, None) => {
                write!(f, "jsonrpc+{}", self.at)
            }
        }
    }
}

impl FromStr for ServerAddress {
    type Err = Status;

    fn from_str(text: &str) -> Result<Self, Status> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("tcp", text));
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        if let Some((_, host)) = authority.rsplit_once('@').filter(|_| !scheme.contains("unix")) {
            // What stands before it is not for logs.
            let advice = "give the user and the password as metadata of calls, `authorization`";
            let what = format!("`{scheme}://…@{host}` is not an address: {advice}");
            return Err(Status::invalid_argument(what));
        }
        let (protocol, carrier) = match scheme {
            "grpc" => (Protocol::Grpc, "tcp"),
            "grpcs" => (Protocol::Grpc, "tls"),
            "grpc+unix" => (Protocol::Grpc, "unix"),
            "tcp" | "tls" | "unix" | "udp" => (Protocol::Native, scheme),
            "jsonrpc+tcp" => (Protocol::JsonLines, "tcp"),
            "jsonrpc+tls" => (Protocol::JsonLines, "tls"),
            "jsonrpc+unix" => (Protocol::JsonLines, "unix"),
            "http" => (Protocol::JsonPost, "tcp"),
            "https" => (Protocol::JsonPost, "tls"),
            "ws" => (Protocol::JsonSocket, "tcp"),
            "wss" => (Protocol::JsonSocket, "tls"),
            _ if source_of(text).is_some() => {
                let why = "it names a service: give it alone to `Client::connect`, or to `ClientBuilder::source`";
                return Err(Status::invalid_argument(format!("`{text}` is not a server: {why}")));
            }
            _ => {
                let why = "the scheme is none of tcp, tls, unix, grpc, grpcs, grpc+unix, http, https, ws, wss and jsonrpc+tcp, +tls or +unix";
                return Err(Status::invalid_argument(format!("`{text}` is not an address: {why}")));
            }
        };
        let (mut rest, mut path) = (rest.to_owned(), "");
        if protocol.has_path() {
            path = text.split_once("://").map_or("", |(_, rest)| rest);
            path = path.find('/').map_or("", |at| &path[at..]);
            rest.truncate(rest.len() - path.len());
            let has_port = rest.rsplit(']').next().is_some_and(|end| end.contains(':'));
            if !has_port {
                rest += if carrier == "tls" { ":443" } else { ":80" };
            }
            if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
                let why = format!("`{text}` is not an address: its path is not that of a URL");
                return Err(Status::invalid_argument(why));
            }
        }
        let at = match protocol {
            Protocol::Native => text.parse(),
            _ => format!("{carrier}://{rest}").parse(),
        };
        let at = at.map_err(|error: ringway_net::Error| {
            let why = error.to_string();
            let said = format!("`{carrier}://{rest}`");
            Status::invalid_argument(why.replace(&said, &format!("`{text}`"))).with_source(error)
        })?;
        Ok(Self { protocol, at, path: path.into() })
    }
}

impl TryFrom<&str> for ServerAddress {
    type Error = Status;

    fn try_from(text: &str) -> Result<Self, Status> {
        text.parse()
    }
}

impl TryFrom<String> for ServerAddress {
    type Error = Status;

    fn try_from(text: String) -> Result<Self, Status> {
        text.parse()
    }
}

/// A server that speaks the native protocol.
impl From<Address> for ServerAddress {
    fn from(at: Address) -> Self {
        Self { protocol: Protocol::Native, at, path: "".into() }
    }
}

/// A server that speaks the native protocol.
impl From<&Address> for ServerAddress {
    fn from(at: &Address) -> Self {
        at.clone().into()
    }
}

/// A server that speaks the native protocol over TCP.
impl From<SocketAddr> for ServerAddress {
    fn from(at: SocketAddr) -> Self {
        Address::from(at).into()
    }
}

impl From<&Self> for ServerAddress {
    fn from(address: &Self) -> Self {
        address.clone()
    }
}

/// One server address or several, or the address of a [source](crate::register_scheme) of servers: a string, a [`ServerAddress`], an [`Address`] or a [`SocketAddr`] (both
/// of which mean the native protocol), or an array, a `Vec` or a slice of these.
///
/// ```
/// use ringway_rpc::Client;
///
/// Client::connect("tcp://10.0.0.1:9000")?;
/// Client::connect(["grpc://10.0.0.1:50051", "grpc://10.0.0.2:50051"])?;
/// # Ok::<(), ringway_rpc::Status>(())
/// ```
pub trait ToServerAddresses {
    /// Parses the addresses, in order.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when an address is malformed.
    fn to_server_addresses(self) -> Result<Vec<ServerAddress>, Status>;

    /// The address of a source of servers, such as `dns://market:9000`, if it is one instead.
    fn source(&self) -> Option<String> {
        None
    }
}

macro_rules! one_address {
    ($($kind:ty),*) => {
        $(
            impl ToServerAddresses for $kind {
                fn to_server_addresses(self) -> Result<Vec<ServerAddress>, Status> {
                    Ok(vec![ServerAddress::try_from(self)?])
                }
            }
        )*
    };
}

one_address!(ServerAddress, &ServerAddress, Address, &Address, SocketAddr);

macro_rules! text {
    ($($kind:ty),*) => {
        $(
            impl ToServerAddresses for $kind {
                fn to_server_addresses(self) -> Result<Vec<ServerAddress>, Status> {
                    Ok(vec![self.parse()?])
                }

                fn source(&self) -> Option<String> {
                    source_of(self).map(str::to_owned)
                }
            }
        )*
    };
}

text!(&str, String, &String);

impl<A: ToServerAddresses, const N: usize> ToServerAddresses for [A; N] {
    fn to_server_addresses(self) -> Result<Vec<ServerAddress>, Status> {
        all(self)
    }
}

impl<A: ToServerAddresses> ToServerAddresses for Vec<A> {
    fn to_server_addresses(self) -> Result<Vec<ServerAddress>, Status> {
        all(self)
    }
}

impl<'a, A> ToServerAddresses for &'a [A]
where
    &'a A: ToServerAddresses,
{
    fn to_server_addresses(self) -> Result<Vec<ServerAddress>, Status> {
        all(self)
    }
}

fn all<A: ToServerAddresses>(
    list: impl IntoIterator<Item = A>,
) -> Result<Vec<ServerAddress>, Status> {
    let mut addresses = Vec::new();
    for one in list {
        addresses.extend(one.to_server_addresses()?);
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_place_and_a_protocol() {
        for (text, protocol, at) in [
            ("tcp://a:1", Protocol::Native, "tcp://a:1"),
            ("tls://[::1]:2", Protocol::Native, "tls://[::1]:2"),
            ("unix:///run/a", Protocol::Native, "unix:///run/a"),
            ("grpc://a:3", Protocol::Grpc, "tcp://a:3"),
            ("grpcs://[::1]:4", Protocol::Grpc, "tls://[::1]:4"),
            ("jsonrpc+tcp://a:5", Protocol::JsonLines, "tcp://a:5"),
            ("jsonrpc+tls://a:6", Protocol::JsonLines, "tls://a:6"),
            ("http://a:7", Protocol::JsonPost, "tcp://a:7"),
            ("https://[::1]:8/rpc?x=1", Protocol::JsonPost, "tls://[::1]:8"),
            ("ws://a:7/rpc", Protocol::JsonSocket, "tcp://a:7"),
            ("wss://a:8", Protocol::JsonSocket, "tls://a:8"),
            ("jsonrpc+unix:///run/a", Protocol::JsonLines, "unix:///run/a"),
            ("grpc+unix:///run/a", Protocol::Grpc, "unix:///run/a"),
        ] {
            let address: ServerAddress = text.parse().expect(text);
            assert_eq!((address.protocol, &*address.at.to_string()), (protocol, at));
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn url_has_a_port_and_a_path_of_its_own_or_the_usual_one() {
        for (text, at, path) in [
            ("http://a", "tcp://a:80", "/"),
            ("https://a/b", "tls://a:443", "/b"),
            ("http://[::1]/", "tcp://[::1]:80", "/"),
            ("ws://a", "tcp://a:80", "/"),
            ("wss://a/b", "tls://a:443", "/b"),
        ] {
            let address: ServerAddress = text.parse().expect(text);
            assert_eq!((&*address.at.to_string(), address.path()), (at, path));
        }
        assert!("http://a/b c".parse::<ServerAddress>().is_err());
    }

    #[test]
    fn a_password_in_an_address_is_not_shown() {
        for text in [
            "http://me:secret@a",
            "https://me:secret@a:7/rpc?x=1",
            "ws://secret@a/@b",
            "grpc://me:secret@a:1",
            "tcp://me:secret@[::1]:1",
            "ftp://me:secret@a",
            "me:secret@a:1",
        ] {
            let status = text.parse::<ServerAddress>().expect_err(text);
            assert!(!format!("{status:?}").contains("secret"), "{status:?}");
            assert!(status.message().contains("://…@") && status.is_invalid_argument(), "{status}");
        }
        assert!("http://a/@b:c".parse::<ServerAddress>().is_ok());
    }

    #[test]
    fn a_wrong_address_is_named_as_it_was_written() {
        for (text, why) in [
            (
                "ftp://a:1",
                "none of tcp, tls, unix, grpc, grpcs, grpc+unix, http, https, ws, wss and jsonrpc+tcp",
            ),
            ("jsonrpc+tcp://a", "`jsonrpc+tcp://a` is not an address: the port is missing"),
            ("grpc://a", "`grpc://a` is not an address: the port is missing"),
            ("grpcs://a:x", "`grpcs://a:x` is not an address: the port is not a number"),
            ("a:1", "`a:1` is not an address: write tcp://"),
        ] {
            let status = text.parse::<ServerAddress>().expect_err(text);
            assert!(status.is_invalid_argument() && status.message().contains(why), "{status}");
        }
    }

    #[test]
    fn one_address_or_several() {
        let listed = vec![String::from("tcp://a:1"), String::from("grpc://a:1")];
        let read = listed.as_slice().to_server_addresses().expect("two addresses");
        assert_eq!(read, listed.to_server_addresses().expect("two addresses"));
        assert_ne!(read[0], read[1]);
        let wrong = ["tcp://a:1", "ftp://a:1"].to_server_addresses().expect_err("a wrong one");
        assert!(wrong.message().contains("ftp://a:1"), "{wrong}");
    }
}
