//! Who a client is, and how it proves it.

use std::fmt;

use ringway_wire::mongo::ScramMechanism;

use crate::error::{Error, Fate, Kind, Result};
use crate::uri::{AuthMechanism, Credential};

/// Who a client is.
#[derive(Clone, Debug)]
pub(crate) enum Identity {
    /// A user whose password the server knows, which is never sent.
    Scram(Login),
    /// The user of the certificate of its TLS connections; `None` lets the server read the name there.
    X509(Option<String>),
    /// A user whose password the server asks somebody else about.
    Plain(PlainLogin),
}

/// A user whose password a server knows.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
    /// The database that knows the user.
    pub(crate) source: String,
    pub(crate) mechanism: Option<ScramMechanism>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .field("source", &self.source)
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}

/// A user whose password is sent as it is.
#[derive(Clone)]
pub(crate) struct PlainLogin {
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) source: String,
}

impl fmt::Debug for PlainLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("PlainLogin");
        f.field("user", &self.user).field("source", &self.source).finish_non_exhaustive()
    }
}

impl Identity {
    /// # Errors
    /// [`Kind::Options`]: what the mechanism needs is not there.
    pub(crate) fn of(credential: &Credential) -> Result<Self> {
        credential.check().map_err(wrong)?;
        let source = credential.source.clone();
        let mechanism = match credential.mechanism {
            None => None,
            Some(AuthMechanism::ScramSha1) => Some(ScramMechanism::Sha1),
            Some(AuthMechanism::ScramSha256) => Some(ScramMechanism::Sha256),
            Some(AuthMechanism::X509) => return Ok(Self::X509(credential.user.clone())),
            Some(AuthMechanism::Plain) => {
                let (user, password) = user(credential, "PLAIN")?;
                return Ok(Self::Plain(PlainLogin { user, password, source }));
            }
        };
        let (user, password) = user(credential, "SCRAM")?;
        Ok(Self::Scram(Login { user, password, source, mechanism }))
    }

    /// Checks that connections can show what it needs.
    ///
    /// # Errors
    /// [`Kind::Options`]: a certificate is shown over TLS only.
    pub(crate) fn check(&self, is_tls: bool) -> Result {
        match self {
            Self::X509(_) if !is_tls => {
                Err(wrong("MONGODB-X509 shows the certificate of a TLS connection: add tls=true"))
            }
            _ => Ok(()),
        }
    }
}

fn user(credential: &Credential, mechanism: &str) -> Result<(String, String)> {
    match (&credential.user, &credential.password) {
        (Some(user), Some(password)) => Ok((user.clone(), password.clone())),
        _ => {
            Err(wrong(&format!("{mechanism} needs a user and a password: write both before the @")))
        }
    }
}

fn wrong(what: &str) -> Error {
    Error::new(Kind::Options, Fate::NotSent, what)
}
