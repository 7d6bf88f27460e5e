//! The setting of who may see the console.

use std::fmt;
use std::fs::File;
use std::io::Read;

use ringway_net::Address;

/// Who may see the console of a server, for [`Server::console`](crate::Server::console): the page at `/` on its port.
///
/// By default, whoever is on the same machine and knows the token that the server makes up at its start, which is a part of
/// [`ServerHandle::console_link`](crate::ServerHandle::console_link).
#[derive(Clone, Default, Debug)]
pub struct Console(Setting);

#[derive(Clone, Default)]
enum Setting {
    Off,
    Local,
    Token(String),
    #[default]
    Link,
}

/// Without the token.
impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "Off",
            Self::Local => "Local",
            Self::Token(_) => "Token",
            Self::Link => "Link",
        })
    }
}

/// The setting in force.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) enum Access {
    #[default]
    Off,
    Local,
    /// From anywhere.
    Token(String),
    /// On this machine.
    Link(String),
}

impl Console {
    /// Nobody may see it.
    #[must_use]
    pub fn off() -> Self {
        Self(Setting::Off)
    }

    /// Whoever connects over a loopback address or a Unix socket and names this machine in `Host` may see it, without a
    /// token. It is for development: a proxy on the machine, such as nginx with a plain `proxy_pass`, makes everybody local.
    #[must_use]
    pub fn local() -> Self {
        Self(Setting::Local)
    }

    /// Whoever knows `token` may see it, from anywhere: at `http://host/#token`, where browsers keep the token
    /// to themselves. Use it with TLS, or a network that you trust.
    #[must_use]
    pub fn with_token(token: impl Into<String>) -> Self {
        Self(Setting::Token(token.into()))
    }

    /// Checks the setting, and makes up a token if it needs one.
    pub(super) fn access(self) -> Result<Access, String> {
        match self.0 {
            Setting::Off => Ok(Access::Off),
            Setting::Local => Ok(Access::Local),
            Setting::Token(token) if token.len() < TOKEN_LEN_MIN => {
                Err(format!("the token of the console is shorter than {TOKEN_LEN_MIN} bytes"))
            }
            Setting::Token(token) => Ok(Access::Token(token)),
            Setting::Link => Ok(made_up().map_or(Access::Off, Access::Link)),
        }
    }
}

/// Shorter tokens can be guessed.
const TOKEN_LEN_MIN: usize = 16;

/// A token that nobody can guess; `None` on a machine that has no random numbers.
fn made_up() -> Option<String> {
    let mut random = [0; TOKEN_LEN_MIN];
    File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut random)).ok()?;
    Some(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Access {
    /// The URL at which a browser on this machine sees the console of a server that listens on `addresses`.
    pub(super) fn link(&self, addresses: &[Address]) -> Option<String> {
        let (token, is_local) = match self {
            Self::Off => return None,
            Self::Local => (None, true),
            Self::Link(token) => (Some(token), true),
            Self::Token(token) => (Some(token), false),
        };
        let base = addresses.iter().find_map(|address| base_url(address, is_local))?;
        Some(token.map_or(base.clone(), |token| format!("{base}#{}", escaped(token))))
    }
}

/// The URL of an address; `None` if it is none that a browser can ask, or a client on this machine does not come over
/// loopback.
fn base_url(address: &Address, is_local: bool) -> Option<String> {
    let scheme = match address {
        Address::Tcp(_) => "http",
        Address::Tls(_) => "https",
        _ => return None,
    };
    let authority = address.authority()?;
    let (host, port) = (authority.host(), authority.port());
    let ip = host.parse::<std::net::IpAddr>().ok();
    let is_loopback = host == "localhost" || ip.is_some_and(|ip| ip.is_loopback());
    let host = match ip {
        Some(ip) if ip.is_unspecified() => "localhost".to_owned(),
        _ if is_local && !is_loopback => return None,
        Some(std::net::IpAddr::V6(ip)) => format!("[{ip}]"),
        _ => host,
    };
    Some(format!("{scheme}://{host}:{port}/"))
}

/// A token as the fragment of a URL.
fn escaped(token: &str) -> String {
    let mut fragment = String::new();
    for byte in token.bytes() {
        match byte.is_ascii_alphanumeric() {
            true => fragment.push(byte.into()),
            false => fragment.push_str(&format!("%{byte:02X}")),
        }
    }
    fragment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_where_the_console_is_seen() {
        let link = |access: &Access, address: &str| {
            access.link(&["unix:///tmp/x", address].map(|it| it.parse().expect("an address")))
        };
        let own = Access::Link("0a1b".into());
        for (address, expected) in [
            ("tcp://127.0.0.1:9000", Some("http://127.0.0.1:9000/#0a1b")),
            ("tcp://0.0.0.0:9000", Some("http://localhost:9000/#0a1b")),
            ("tls://[::1]:9000", Some("https://[::1]:9000/#0a1b")),
            ("tcp://10.0.0.1:9000", None),
        ] {
            assert_eq!(link(&own, address).as_deref(), expected, "{address}");
        }
        let token = Access::Token("50 %".into());
        let expected = "http://10.0.0.1:9000/#50%20%25";
        assert_eq!(link(&token, "tcp://10.0.0.1:9000").as_deref(), Some(expected));
        let local = link(&Access::Local, "tcp://[::]:9");
        assert_eq!(local.as_deref(), Some("http://localhost:9/"));
        assert_eq!(link(&Access::Off, "tcp://127.0.0.1:9000"), None);
    }

    #[test]
    fn no_token_is_shown_to_those_who_debug() {
        let shown = format!("{:?}", Console::with_token("a token of somebody"));
        assert_eq!(shown, "Console(Token)");
    }

    #[test]
    fn tokens_that_are_made_up_differ() {
        let tokens = [(); 2].map(|()| Console::default().access().expect("no mistake"));
        assert!(tokens[0] != tokens[1]);
        for token in tokens {
            assert!(matches!(token, Access::Link(token) if token.len() == 2 * TOKEN_LEN_MIN));
        }
    }
}
