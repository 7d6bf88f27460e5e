//! The options about a SOCKS5 proxy. They are checked and remembered; a client cannot go through one.
//!
//! Specification: SOCKS5 Support.

use super::InvalidUri;

/// A proxy that a connection string names. Its password is not kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyOptions {
    /// Its name or address.
    pub host: Option<String>,
    /// Its port; 1080 if not set.
    pub port: Option<u16>,
    /// The user at the proxy.
    pub username: Option<String>,
    /// Whether there is a password of that user.
    pub has_password: bool,
}

impl ProxyOptions {
    pub(super) fn set_host(&mut self, host: String) -> Result<(), InvalidUri> {
        once(self.host.replace(host).is_none())
    }

    pub(super) fn set_port(&mut self, port: u16) -> Result<(), InvalidUri> {
        once(self.port.replace(port).is_none())
    }

    pub(super) fn set_username(&mut self, name: String) -> Result<(), InvalidUri> {
        once(self.username.replace(name).is_none())
    }

    pub(super) fn set_password(&mut self) -> Result<(), InvalidUri> {
        once(!std::mem::replace(&mut self.has_password, true))
    }

    /// Refuses parts of a proxy without the others that they need.
    pub(super) fn check(&self) -> Result<(), InvalidUri> {
        let has_user = self.username.is_some();
        let has_part = self.port.is_some() || has_user || self.has_password;
        match () {
            () if has_part && self.host.is_none() => {
                Err(InvalidUri::new("proxyPort, proxyUsername and proxyPassword need proxyHost"))
            }
            () if has_user != self.has_password => {
                Err(InvalidUri::new("proxyUsername and proxyPassword need each other"))
            }
            () => Ok(()),
        }
    }
}

fn once(is_first: bool) -> Result<(), InvalidUri> {
    match is_first {
        true => Ok(()),
        false => Err(InvalidUri::new("an option of the proxy is there more than once")),
    }
}
