//! Why an exchange ends.

use std::fmt;

/// Why a server, or a password, is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScramFault {
    /// A message of the server is not built as RFC 5802 says.
    Malformed,
    /// The server's nonce does not begin with ours.
    Nonce,
    /// The server asks for fewer iterations than are safe, or more than are affordable.
    Iterations(u32),
    /// The server refuses, with a word of RFC 5802.
    Refused(String),
    /// The signature of the server is wrong: it does not know the password.
    Signature,
    /// The password has characters that SASLprep forbids.
    Password,
    /// The exchange goes on although it should have ended, or ends too early.
    Unfinished,
}

impl fmt::Display for ScramFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Malformed => "a message of the server is not one of SCRAM",
            Self::Nonce => "the server's nonce does not continue ours",
            Self::Iterations(count) => {
                return write!(f, "the server asks for {count} iterations, which is out of bounds");
            }
            Self::Refused(why) => return write!(f, "the server refuses: {why}"),
            Self::Signature => "the server does not know the password: its signature is wrong",
            Self::Password => "the password has characters that SASLprep (RFC 4013) forbids",
            Self::Unfinished => "the server does not end the exchange where it must",
        };
        f.write_str(text)
    }
}

impl std::error::Error for ScramFault {}
