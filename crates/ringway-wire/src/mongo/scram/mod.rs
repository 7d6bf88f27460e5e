//! SCRAM, by which a client and a server show each other that they know a password (RFC 5802, RFC 7677).

mod exchange;
mod fault;
mod keys;

pub use exchange::{ScramChallenge, ScramClient, ScramVerifier};
pub use fault::ScramFault;
pub use keys::{ScramKeys, ScramMechanism, scram_password};
