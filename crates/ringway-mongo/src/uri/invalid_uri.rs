//! The error of connection strings.

use std::fmt;

/// A connection string that cannot be used. Its text says what is wrong and what to write instead, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidUri {
    message: String,
}

impl InvalidUri {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for InvalidUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid connection string: {}", self.message)
    }
}

impl std::error::Error for InvalidUri {}
