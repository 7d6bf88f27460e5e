//! Why no code was generated.

use std::fmt;

/// The reason why no code was generated.
pub struct Error {
    what: String,
}

impl Error {
    pub(crate) fn new(what: impl fmt::Display) -> Self {
        Self { what: what.to_string() }
    }
}

/// Prints the message, since a build script that returns an error prints it in this form.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Error {}
