//! The addresses of servers.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;

use super::InvalidUri;
use super::percent::decode;

const PORT_DEFAULT: u16 = 27017;

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostAddress {
    /// A host name or an IP address, in lower case and without brackets, with its port.
    Tcp {
        /// The name or address.
        host: String,
        /// The port; 27017 if the connection string has none.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl std::str::FromStr for HostAddress {
    type Err = InvalidUri;

    /// Parses `host`, `host:port`, `[address]:port` or the percent-encoded path of a Unix socket.
    fn from_str(text: &str) -> Result<Self, InvalidUri> {
        parse(text).map(|(address, _)| address)
    }
}

/// A host, and whether it came with a port.
pub(super) type Parsed = (HostAddress, bool);

pub(super) fn parse_all(text: &str) -> Result<Vec<Parsed>, InvalidUri> {
    text.split(',').map(parse).collect()
}

/// Returns the one name of a `mongodb+srv://` string.
pub(super) fn srv_name(hosts: Vec<Parsed>) -> Result<String, InvalidUri> {
    match <[Parsed; 1]>::try_from(hosts) {
        Ok([(HostAddress::Tcp { host, .. }, false)])
            if host.parse::<std::net::IpAddr>().is_err() =>
        {
            Ok(host)
        }
        _ => Err(InvalidUri::new("mongodb+srv:// takes exactly one host name, without a port")),
    }
}

fn parse(text: &str) -> Result<Parsed, InvalidUri> {
    if text.is_empty() {
        return Err(InvalidUri::new("a host is missing"));
    }
    if let Some(rest) = text.strip_prefix('[') {
        return parse_ip_literal(rest);
    }
    let name = decode(text, "a host")?;
    if name.contains('/') {
        return Ok((HostAddress::Unix(name.into()), false));
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(parse_port(port)?)),
        None => (text, None),
    };
    if host.is_empty() {
        return Err(InvalidUri::new("a port has no host before it"));
    }
    let host = decode(host, "a host")?.to_lowercase();
    Ok((HostAddress::Tcp { host, port: port.unwrap_or(PORT_DEFAULT) }, port.is_some()))
}

fn parse_ip_literal(rest: &str) -> Result<Parsed, InvalidUri> {
    // It may be a part of a password, so it is not repeated.
    let wrong = || {
        InvalidUri::new("a host that begins with [ is no IPv6 address such as [::1] or [::1]:27017")
    };
    let (address, port) = rest.split_once(']').ok_or_else(wrong)?;
    let port = match port.strip_prefix(':') {
        Some(port) => Some(parse_port(port)?),
        None if port.is_empty() => None,
        None => return Err(wrong()),
    };
    let address: Ipv6Addr = address.parse().map_err(|_| wrong())?;
    Ok((
        HostAddress::Tcp { host: address.to_string(), port: port.unwrap_or(PORT_DEFAULT) },
        port.is_some(),
    ))
}

fn parse_port(text: &str) -> Result<u16, InvalidUri> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| is_number && *port > 0);
    port.ok_or_else(|| {
        // What stands here may be a part of a password with a slash in it, so it is not repeated.
        InvalidUri::new("what follows the colon of a host is not a port from 1 to 65535")
    })
}

#[cfg(test)]
mod tests {
    use super::HostAddress;

    #[test]
    fn an_address_is_printed_as_it_is_parsed() {
        for text in ["db.example.com:27017", "[::1]:1", "127.0.0.1:65535"] {
            assert_eq!(text.parse::<HostAddress>().expect(text).to_string(), text);
        }
        let socket = "%2Ftmp%2Fmongodb.sock".parse::<HostAddress>().expect("a path");
        assert_eq!(socket.to_string(), "/tmp/mongodb.sock");
    }
}
