//! The addresses `tcp://host:port` and `unix://path`.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The address at which a server listens or to which a client connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    /// Parses an address. It accepts IP addresses only, since a benchmark should not wait for a resolver.
    pub(crate) fn parse(text: &str) -> Result<Self, Box<dyn Error>> {
        if let Some(path) = text.strip_prefix("unix://") {
            if path.is_empty() {
                return Err("unix:// needs a path, as in unix:///tmp/echo.sock".into());
            }
            return Ok(Self::Unix(path.into()));
        }
        let host_port = text
            .strip_prefix("tcp://")
            .ok_or_else(|| format!("address `{text}` begins with neither tcp:// nor unix://"))?;
        let address = host_port
            .parse()
            .map_err(|_| format!("`{host_port}` is no IP address with port, as 127.0.0.1:7001"))?;
        Ok(Self::Tcp(address))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn good_addresses_print_as_they_were_read() {
        for text in ["tcp://127.0.0.1:0", "tcp://[::1]:7001", "unix:///tmp/a.sock", "unix://a"] {
            assert_eq!(Address::parse(text).expect(text).to_string(), text);
        }
    }

    #[test]
    fn bad_addresses_are_refused() {
        for text in ["", "127.0.0.1:1", "tcp://", "tcp://127.0.0.1", "unix://", "udp://1.1.1.1:1"] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }
}
