//! Who asks, by MongoDB's specification "Authentication".

use std::fmt;

use super::InvalidUri;
use super::user_info::UserInfo;

/// How a client proves who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMechanism {
    /// SCRAM with SHA-1 (RFC 5802).
    ScramSha1,
    /// SCRAM with SHA-256 (RFC 7677).
    ScramSha256,
    /// The client certificate of the TLS connection.
    X509,
    /// The password in plain text, for servers that ask LDAP.
    Plain,
}

impl AuthMechanism {
    const ALL: [(&'static str, Self); 4] = [
        ("SCRAM-SHA-1", Self::ScramSha1),
        ("SCRAM-SHA-256", Self::ScramSha256),
        ("MONGODB-X509", Self::X509),
        ("PLAIN", Self::Plain),
    ];

    /// The name of the mechanism in connection strings and commands.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, mechanism)| *mechanism == self).map_or("", |(name, _)| name)
    }

    pub(super) fn parse(name: &str) -> Result<Self, InvalidUri> {
        let known = Self::ALL.iter().find(|(known, _)| *known == name);
        known.map(|(_, mechanism)| *mechanism).ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(", ");
            // Anything else may be a secret in a wrong place, so it is not repeated.
            let named = OTHERS.iter().find(|known| **known == name).unwrap_or(&"of this name");
            InvalidUri::new(format!("authMechanism {named} is not supported; these are: {names}"))
        })
    }
}

/// Mechanisms of servers that this client does not have.
const OTHERS: [&str; 4] = ["GSSAPI", "MONGODB-AWS", "MONGODB-CR", "MONGODB-OIDC"];

/// Who asks. Printing it for debugging hides the password.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credential {
    /// The name of the user; `None` lets the server take it from the certificate.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// The database that knows the user, or `$external`.
    pub source: String,
    /// The mechanism; `None` takes the best one of those that the server offers for the user.
    pub mechanism: Option<AuthMechanism>,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| "…");
        let mut f = f.debug_struct("Credential");
        f.field("user", &self.user).field("password", &password);
        f.field("source", &self.source).field("mechanism", &self.mechanism).finish()
    }
}

/// The options about authentication, as they stand in the string.
#[derive(Default)]
pub(super) struct AuthOptions {
    pub(super) mechanism: Option<AuthMechanism>,
    pub(super) source: Option<String>,
}

const EXTERNAL: &str = "$external";

impl AuthOptions {
    /// Makes the credential of `user`; `database` is the default one.
    pub(super) fn credential(
        self,
        user: Option<UserInfo>,
        database: Option<&str>,
    ) -> Result<Option<Credential>, InvalidUri> {
        let (name, password) = user.map(|user| (user.name, user.password)).unzip();
        let password = password.flatten();
        let source = self.source.as_deref().or(database);
        let source = match self.mechanism {
            None if name.is_none() => return Ok(None),
            Some(AuthMechanism::X509) => {
                self.check_x509(password.as_deref())?;
                EXTERNAL
            }
            Some(AuthMechanism::Plain) => {
                let texts = [name.as_deref(), password.as_deref()];
                // RFC 4616 separates them by it.
                if texts.into_iter().flatten().any(|text| text.contains('\0')) {
                    return Err(InvalidUri::new("authMechanism PLAIN takes no NUL character"));
                }
                source.unwrap_or(EXTERNAL)
            }
            None | Some(AuthMechanism::ScramSha1 | AuthMechanism::ScramSha256) => {
                source.unwrap_or("admin")
            }
        };
        let source = source.to_owned();
        if let Some(mechanism) =
            self.mechanism.filter(|mechanism| *mechanism != AuthMechanism::X509)
            && name.is_none()
        {
            return Err(InvalidUri::new(format!(
                "authMechanism {} needs a user name",
                mechanism.name()
            )));
        }
        Ok(Some(Credential { user: name, password, source, mechanism: self.mechanism }))
    }

    fn check_x509(&self, password: Option<&str>) -> Result<(), InvalidUri> {
        if password.is_some() {
            return Err(InvalidUri::new(
                "authMechanism MONGODB-X509 takes no password: the certificate proves the name",
            ));
        }
        if self.source.as_deref().is_some_and(|source| source != EXTERNAL) {
            return Err(InvalidUri::new(
                "authMechanism MONGODB-X509 takes no authSource but $external",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::ConnectionString;

    #[test]
    fn passwords_are_not_printed() {
        let parsed = ConnectionString::parse(
            "mongodb://ada:hunter2@localhost/?tlsCertificateKeyFilePassword=hunter3",
        );
        assert!(!format!("{parsed:?}").contains("hunter"));
        let odd = [
            "mongodb://ada:hunter2/x@localhost",
            "mongodb://ada:hunter2%@localhost",
            "mongodb://ada:hunter2@x@localhost",
            "mongodb://ada:hunter2?x@localhost",
            "mongodb://ada:hunter2@localhost:x",
            "mongodb://ada:hunter2@localhost/a/b",
            "mongodb://localhost/?tlsCertificateKeyFilePassword=hunter2%",
            "mongodb://localhost/?authMechanismProperties=AWS_SESSION_TOKEN:hunter2",
            "mongodb://localhost/?hunter2",
        ];
        for uri in odd {
            let told = match ConnectionString::parse(uri) {
                Ok(parsed) => format!("{parsed:?}"),
                Err(error) => error.to_string(),
            };
            assert!(!told.contains("hunter2"), "{told}");
        }
    }
}
