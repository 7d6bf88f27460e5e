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

impl Credential {
    /// A user with a password. The database `admin` knows the user, and the mechanism is the best one that the server has. No
    /// character has to be encoded.
    ///
    /// ```
    /// use ringway_mongo::{ClientOptions, Credential};
    ///
    /// let options = ClientOptions::parse("mongodb://db.internal/shop")?
    ///     .credential(Credential::new("ada", "p@ss:/%w0rd").source("shop"))?;
    /// # Ok::<(), ringway_mongo::Error>(())
    /// ```
    #[must_use]
    pub fn new(user: &str, password: &str) -> Self {
        let (user, password) = (Some(user.to_owned()), Some(password.to_owned()));
        Self { user, password, source: ADMIN.to_owned(), mechanism: None }
    }

    /// The user of the certificate of TLS connections (MONGODB-X509).
    #[must_use]
    pub fn x509() -> Self {
        let mechanism = Some(AuthMechanism::X509);
        Self { user: None, password: None, source: EXTERNAL.to_owned(), mechanism }
    }

    /// Sets the database that knows the user.
    #[must_use]
    pub fn source(mut self, database: &str) -> Self {
        self.source = database.to_owned();
        self
    }

    /// Sets the mechanism. Unless another database was set, that of the user becomes the usual one of the mechanism: `admin`,
    /// or `$external` for PLAIN. No mechanism that this client has takes properties.
    #[must_use]
    pub fn mechanism(mut self, mechanism: AuthMechanism) -> Self {
        if self.source == usual_source(self.mechanism) {
            self.source = usual_source(Some(mechanism)).to_owned();
        }
        self.mechanism = Some(mechanism);
        self
    }

    /// Checks that it is one of its mechanism. The error does not contain the password.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let has = |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains('\0'));
        match self.mechanism {
            Some(AuthMechanism::X509) if self.password.is_some() => {
                Err("authMechanism MONGODB-X509 takes no password: the certificate proves the name")
            }
            Some(AuthMechanism::X509) if self.source != EXTERNAL => {
                Err("authMechanism MONGODB-X509 takes no authSource but $external")
            }
            // RFC 4616 separates them by it.
            Some(AuthMechanism::Plain) if has(&self.user) || has(&self.password) => {
                Err("authMechanism PLAIN takes no NUL character")
            }
            _ => Ok(()),
        }
    }
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
const ADMIN: &str = "admin";

/// The database that knows a user of whom nothing else is said.
fn usual_source(mechanism: Option<AuthMechanism>) -> &'static str {
    match mechanism {
        Some(AuthMechanism::X509 | AuthMechanism::Plain) => EXTERNAL,
        None | Some(AuthMechanism::ScramSha1 | AuthMechanism::ScramSha256) => ADMIN,
    }
}

impl AuthOptions {
    /// Makes the credential of `user`; `database` is the default one.
    pub(super) fn credential(
        self,
        user: Option<UserInfo>,
        database: Option<&str>,
    ) -> Result<Option<Credential>, InvalidUri> {
        let (name, password) = user.map(|user| (user.name, user.password)).unzip();
        let password = password.flatten();
        let named = self.source.as_deref();
        let source = match self.mechanism {
            None if name.is_none() => return Ok(None),
            // The database that the string names is none of certificates.
            Some(AuthMechanism::X509) => named,
            _ => named.or(database),
        };
        let source = source.unwrap_or(usual_source(self.mechanism)).to_owned();
        if let Some(mechanism) =
            self.mechanism.filter(|mechanism| *mechanism != AuthMechanism::X509)
            && name.is_none()
        {
            return Err(InvalidUri::new(format!(
                "authMechanism {} needs a user name",
                mechanism.name()
            )));
        }
        let credential = Credential { user: name, password, source, mechanism: self.mechanism };
        credential.check().map_err(InvalidUri::new)?;
        Ok(Some(credential))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConnectionString;

    #[test]
    fn a_credential_has_the_database_of_its_mechanism_unless_one_is_set() {
        let ada = || Credential::new("ada", "hunter2");
        let source = |credential: Credential| credential.source;
        assert_eq!(source(ada()), "admin");
        assert_eq!(source(ada().mechanism(AuthMechanism::Plain)), "$external");
        assert_eq!(source(ada().source("shop").mechanism(AuthMechanism::Plain)), "shop");
        assert_eq!(source(ada().mechanism(AuthMechanism::Plain).source("shop")), "shop");
        assert!(ada().mechanism(AuthMechanism::X509).check().is_err(), "it has a password");
        assert!(Credential::x509().check().is_ok());
        assert!(Credential::x509().source("admin").check().is_err());
        let zero = Credential::new("a\0b", "c").mechanism(AuthMechanism::Plain);
        assert!(zero.check().is_err());
        assert!(!format!("{:?}", ada()).contains("hunter2"));
    }

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
