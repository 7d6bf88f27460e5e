//! The configuration of `ringway call`, resolved.

use std::path::PathBuf;
use std::time::Duration;

use super::access_flags::AccessFlags;
use super::flags::CallFlags;
use super::serve::TlsFiles;
use super::values::{Scheme, Uri, ValueError};

/// The server to call, with all settings resolved.
#[derive(Debug, PartialEq)]
pub(crate) struct CallConfig {
    pub(crate) access: Access,
    pub(crate) ask: Ask,
}

/// The server's address, and the options of each call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Access {
    /// Any but `udp://`.
    pub(crate) addr: Uri,
    /// The time limit of a call, if given.
    pub(crate) timeout: Option<Duration>,
    /// Metadata of every request.
    pub(crate) metadata: Vec<(String, String)>,
    /// The certificate authority to trust, PEM; by default the machine's.
    pub(crate) ca: Option<PathBuf>,
    /// The identity for servers that ask for a certificate.
    pub(crate) identity: Option<TlsFiles>,
}

/// The task of `ringway call`.
#[derive(Debug, PartialEq)]
pub(crate) enum Ask {
    /// Lists the services.
    List,
    Call {
        /// `package.Service/Method`.
        method: String,
        /// The request as written; `-` stands for standard input.
        message: String,
        /// Whether messages are read and printed as raw bytes.
        is_binary: bool,
    },
}

/// # Errors
/// The method has no service, or the address is for datagrams.
pub(super) fn resolve(raw: CallFlags) -> Result<CallConfig, ValueError> {
    let CallFlags { addr, method, message, list: _, binary, access } = raw;
    let access = resolve_access(addr, access)?;
    if access.addr.scheme().is_json_rpc() && (method.is_none() || binary) {
        let why = "JSON-RPC has neither a list of methods nor messages that are not JSON";
        return Err(ValueError::new(format!("{}: {why}", access.addr)));
    }
    let ask = match method {
        None => Ask::List,
        Some(method) => {
            let method = with_service(method, &access.addr)?;
            Ask::Call { method, message, is_binary: binary }
        }
    };
    Ok(CallConfig { access, ask })
}

/// # Errors
/// The address is for datagrams.
pub(super) fn resolve_access(addr: Uri, flags: AccessFlags) -> Result<Access, ValueError> {
    if addr.scheme() == Scheme::Udp {
        return Err(ValueError::new(format!("{addr}: calls need a stream, and udp:// has none")));
    }
    let AccessFlags { timeout, metadata, ca, cert, key } = flags;
    let identity = cert.zip(key).map(|(cert, key)| TlsFiles { cert, key });
    Ok(Access { addr, timeout, metadata, ca, identity })
}

/// # Errors
/// The method has no service.
pub(super) fn with_service(method: String, addr: &Uri) -> Result<String, ValueError> {
    match method.split_once('/') {
        // JSON-RPC has no services.
        _ if addr.scheme().is_json_rpc() => Ok(method),
        Some((service, name)) if !service.is_empty() && !name.is_empty() => Ok(method),
        _ => Err(ValueError::new(format!(
            "{method} names no service; write Service/Method, as `ringway call {addr} --list` shows it"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, tests::parse_words};
    use super::*;

    fn config(words: &str) -> CallConfig {
        match parse_words(words).expect(words) {
            Config::Call(config) => config,
            other => panic!("{words}: {other:?}"),
        }
    }

    #[test]
    fn a_list() {
        let config = config("call unix:///tmp/rpc --list");
        assert_eq!((config.ask, config.access.timeout), (Ask::List, None));
    }

    #[test]
    fn a_call_with_everything() {
        let config = config(
            "call tls://example.org:9000 a.B/C {} --timeout 500ms -H x=1 --metadata y=2=3 --ca ca.pem --cert c.pem --key k.pem --binary",
        );
        let metadata = [("x", "1"), ("y", "2=3")].map(|(key, value)| (key.into(), value.into()));
        let ask = Ask::Call { method: "a.B/C".into(), message: "{}".into(), is_binary: true };
        assert_eq!((config.ask, config.access.timeout), (ask, Some(Duration::from_millis(500))));
        assert_eq!(config.access.metadata, metadata);
        assert_eq!(config.access.ca, Some(PathBuf::from("ca.pem")));
        assert_eq!(config.access.identity.map(|it| it.key), Some(PathBuf::from("k.pem")));
    }
}
