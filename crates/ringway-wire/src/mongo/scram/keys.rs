//! Mechanisms, passwords, and the keys made from them.

use std::fmt;
use std::num::NonZeroU32;

use md5::{Digest, Md5};
use ring::{digest, hmac, pbkdf2};

use super::fault::ScramFault;

/// The two mechanisms that servers have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScramMechanism {
    /// SCRAM-SHA-1, with MongoDB's digest of the password.
    Sha1,
    /// SCRAM-SHA-256, RFC 7677.
    Sha256,
}

impl ScramMechanism {
    /// The name by which servers and connection strings call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "SCRAM-SHA-1",
            Self::Sha256 => "SCRAM-SHA-256",
        }
    }

    pub(super) fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => hmac::HMAC_SHA256,
        }
    }

    pub(super) fn digest(self) -> &'static digest::Algorithm {
        self.hmac().digest_algorithm()
    }

    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Self::Sha1 => pbkdf2::PBKDF2_HMAC_SHA1,
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
        }
    }
}

/// The password as the mechanism uses it: prepared by SASLprep for SHA-256; for SHA-1 MongoDB's digest of
/// user and password.
///
/// # Errors
/// [`ScramFault::Password`].
pub fn scram_password(
    mechanism: ScramMechanism,
    user: &str,
    password: &str,
) -> Result<Vec<u8>, ScramFault> {
    match mechanism {
        ScramMechanism::Sha256 => {
            let prepared = stringprep::saslprep(password).map_err(|_| ScramFault::Password)?;
            Ok(prepared.into_owned().into_bytes())
        }
        ScramMechanism::Sha1 => {
            let hash = Md5::new().chain_update(user).chain_update(":mongo:").chain_update(password);
            let hex = |byte: &u8| format!("{byte:02x}").into_bytes();
            Ok(hash.finalize().iter().flat_map(hex).collect())
        }
    }
}

/// What is left of a password: two keys for one user, salt and number of iterations. Who keeps them need
/// not derive them again, and cannot learn the password from them.
#[derive(Clone)]
pub struct ScramKeys {
    mechanism: ScramMechanism,
    pub(super) client_key: hmac::Tag,
    pub(super) server_key: hmac::Tag,
}

impl ScramKeys {
    /// Derives the keys from a password as [`scram_password`] gives it. This takes milliseconds, on
    /// purpose: keep it off threads that serve connections.
    #[must_use]
    pub fn derive(
        mechanism: ScramMechanism,
        password: &[u8],
        salt: &[u8],
        iterations: NonZeroU32,
    ) -> Self {
        let mut salted = [0; digest::SHA256_OUTPUT_LEN];
        let salted = &mut salted[..mechanism.digest().output_len()];
        pbkdf2::derive(mechanism.pbkdf2(), iterations, salt, password, salted);
        let salted = hmac::Key::new(mechanism.hmac(), salted);
        Self {
            mechanism,
            client_key: hmac::sign(&salted, b"Client Key"),
            server_key: hmac::sign(&salted, b"Server Key"),
        }
    }

    /// The mechanism that they belong to.
    #[must_use]
    pub fn mechanism(&self) -> ScramMechanism {
        self.mechanism
    }
}

impl fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramKeys").field("mechanism", &self.mechanism).finish_non_exhaustive()
    }
}
