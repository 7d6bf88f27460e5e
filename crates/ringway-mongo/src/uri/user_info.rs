//! The user name and password before the hosts.

use super::InvalidUri;
use super::percent::decode;

/// The user name and password of a connection string.
pub(super) struct UserInfo {
    pub(super) name: String,
    pub(super) password: Option<String>,
}

impl UserInfo {
    /// Splits what stands before the database into the user, if there is one, and the hosts.
    pub(super) fn split(authority: &str) -> Result<(Option<Self>, &str), InvalidUri> {
        match authority.rsplit_once('@') {
            Some((user, hosts)) => Ok((Some(Self::parse(user)?), hosts)),
            None => Ok((None, authority)),
        }
    }

    fn parse(text: &str) -> Result<Self, InvalidUri> {
        let (name, password) = match text.split_once(':') {
            Some((name, password)) => (name, Some(password)),
            None => (text, None),
        };
        if text.contains('@') || password.is_some_and(|password| password.contains(':')) {
            let message = "a colon or an at-sign in the user name or the password must be written as %3A or %40";
            return Err(InvalidUri::new(message));
        }
        if name.is_empty() {
            return Err(InvalidUri::new("there is an at-sign but no user name before it"));
        }
        let password = password.map(|password| decode(password, "the password")).transpose()?;
        Ok(Self { name: decode(name, "the user name")?, password })
    }
}
