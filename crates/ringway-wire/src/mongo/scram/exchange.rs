//! The messages of an exchange.
//!
//! ```text
//!   ScramClient ── client-first ──►        the state before each answer of the server is a type,
//!   ScramChallenge ◄── server-first ──     and the answer consumes it
//!   ScramVerifier ── client-final ──►
//!   done ◄── server-final ──
//! ```

use std::fmt;
use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bson::RawDocumentBuf;
use ring::{digest, hmac};

use super::fault::ScramFault;
use super::keys::{ScramKeys, ScramMechanism};
use crate::mongo::command::CommandWriter;
use crate::mongo::limits::{
    SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, SCRAM_MESSAGE_MAX, SCRAM_SALT_MAX,
};

/// "n,,": no channel binding, no other identity.
const GS2_HEADER: &str = "n,,";

/// A client that has said who it is.
///
/// ```
/// use ringway_wire::mongo::{ScramClient, ScramKeys, ScramMechanism, scram_password};
///
/// // The example of RFC 7677, section 3.
/// let client = ScramClient::new(ScramMechanism::Sha256, "user", "rOprNGfwEbeRWgbNEkqO");
/// assert_eq!(client.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
///
/// let challenge = client.challenge(
///     b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
/// )?;
/// let password = scram_password(ScramMechanism::Sha256, "user", "pencil")?;
/// let keys = ScramKeys::derive(
///     ScramMechanism::Sha256, &password, challenge.salt(), challenge.iterations(),
/// );
/// let (last, verifier) = challenge.answer(&keys);
/// assert!(last.ends_with(",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="));
/// verifier.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")?;
/// # Ok::<(), ringway_wire::mongo::ScramFault>(())
/// ```
#[derive(Debug, Clone)]
pub struct ScramClient {
    mechanism: ScramMechanism,
    /// The first message without its header.
    first_bare: String,
    nonce: String,
}

impl ScramClient {
    /// Begins an exchange. `nonce` is random: at least 18 bytes of a secure source, as printable
    /// characters without a comma.
    ///
    /// # Panics
    /// Panics if `nonce` is empty or has other characters.
    #[must_use]
    pub fn new(mechanism: ScramMechanism, user: &str, nonce: &str) -> Self {
        let is_printable = |byte: u8| byte.is_ascii_graphic() && byte != b',';
        assert!(!nonce.is_empty() && nonce.bytes().all(is_printable), "not a nonce");
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let first_bare = format!("n={user},r={nonce}");
        Self { mechanism, first_bare, nonce: nonce.to_owned() }
    }

    /// The first message.
    #[must_use]
    pub fn first(&self) -> String {
        format!("{GS2_HEADER}{}", self.first_bare)
    }

    /// The mechanism.
    #[must_use]
    pub fn mechanism(&self) -> ScramMechanism {
        self.mechanism
    }

    /// The command that carries the first message, without its database. In `hello` it stands with a
    /// field `db` as `speculativeAuthenticate`.
    pub fn start(&self, writer: &mut CommandWriter<'_>) {
        writer.i32("saslStart", 1);
        writer.str("mechanism", self.mechanism.name());
        writer.binary("payload", self.first().as_bytes());
        writer.nested("options", |options| options.bool("skipEmptyExchange", true));
    }

    /// The beginning of the exchange as `hello` carries it.
    #[must_use]
    pub fn speculate(&self, database: &str) -> RawDocumentBuf {
        CommandWriter::document_of(|writer| {
            self.start(writer);
            writer.str("db", database);
        })
    }

    /// Takes the server's first message.
    ///
    /// # Errors
    /// [`ScramFault::Malformed`], [`ScramFault::Nonce`], [`ScramFault::Iterations`].
    pub fn challenge(self, server_first: &[u8]) -> Result<ScramChallenge, ScramFault> {
        if server_first.len() > SCRAM_MESSAGE_MAX {
            return Err(ScramFault::Malformed);
        }
        let text = std::str::from_utf8(server_first).map_err(|_| ScramFault::Malformed)?;
        let mut parts = text.split(',');
        let mut part = |name: &str| {
            parts.next().and_then(|part| part.strip_prefix(name)).ok_or(ScramFault::Malformed)
        };
        let (nonce, salt, iterations) = (part("r=")?, part("s=")?, part("i=")?);
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(ScramFault::Nonce);
        }
        let salt = STANDARD.decode(salt).map_err(|_| ScramFault::Malformed)?;
        if salt.is_empty() || salt.len() > SCRAM_SALT_MAX {
            return Err(ScramFault::Malformed);
        }
        let iterations: NonZeroU32 = iterations.parse().map_err(|_| ScramFault::Malformed)?;
        if !(SCRAM_ITERATIONS_MIN..=SCRAM_ITERATIONS_MAX).contains(&iterations.get()) {
            return Err(ScramFault::Iterations(iterations.get()));
        }
        let without_proof = format!("c=biws,r={nonce}"); // "biws" is the header above in base64
        let auth_message = format!("{},{text},{without_proof}", self.first_bare);
        Ok(ScramChallenge {
            mechanism: self.mechanism,
            salt,
            iterations,
            without_proof,
            auth_message,
        })
    }
}

/// A client that knows for what it has to derive keys.
#[derive(Debug, Clone)]
pub struct ScramChallenge {
    mechanism: ScramMechanism,
    salt: Vec<u8>,
    iterations: NonZeroU32,
    without_proof: String,
    auth_message: String,
}

impl ScramChallenge {
    /// The salt.
    #[must_use]
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }

    /// The number of iterations, within bounds.
    #[must_use]
    pub fn iterations(&self) -> NonZeroU32 {
        self.iterations
    }

    /// Makes the client's last message, by keys of this salt and number of iterations.
    ///
    /// # Panics
    /// Panics if the keys are of another mechanism.
    #[must_use]
    pub fn answer(self, keys: &ScramKeys) -> (String, ScramVerifier) {
        assert_eq!(keys.mechanism(), self.mechanism, "keys of another mechanism");
        let stored_key = digest::digest(self.mechanism.digest(), keys.client_key.as_ref());
        let stored_key = hmac::Key::new(self.mechanism.hmac(), stored_key.as_ref());
        let signature = hmac::sign(&stored_key, self.auth_message.as_bytes());
        let pairs = keys.client_key.as_ref().iter().zip(signature.as_ref());
        let proof: Vec<u8> = pairs.map(|(key, signature)| key ^ signature).collect();
        let last = format!("{},p={}", self.without_proof, STANDARD.encode(proof));
        let server_key = hmac::Key::new(self.mechanism.hmac(), keys.server_key.as_ref());
        (last, ScramVerifier { server_key, auth_message: self.auth_message })
    }
}

/// A client that waits for the server's proof.
pub struct ScramVerifier {
    server_key: hmac::Key,
    auth_message: String,
}

impl ScramVerifier {
    /// Takes the server's last message. The signature is compared in constant time.
    ///
    /// # Errors
    /// [`ScramFault::Refused`], [`ScramFault::Signature`], [`ScramFault::Malformed`].
    pub fn verify(self, server_final: &[u8]) -> Result<(), ScramFault> {
        if server_final.len() > SCRAM_MESSAGE_MAX {
            return Err(ScramFault::Malformed);
        }
        let text = std::str::from_utf8(server_final).map_err(|_| ScramFault::Malformed)?;
        let first = text.split(',').next().unwrap_or("");
        if let Some(why) = first.strip_prefix("e=") {
            return Err(ScramFault::Refused(why.to_owned()));
        }
        let signature = first.strip_prefix("v=").ok_or(ScramFault::Malformed)?;
        let signature = STANDARD.decode(signature).map_err(|_| ScramFault::Malformed)?;
        hmac::verify(&self.server_key, self.auth_message.as_bytes(), &signature)
            .map_err(|_| ScramFault::Signature)
    }
}

impl fmt::Debug for ScramVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramVerifier").finish_non_exhaustive()
    }
}
