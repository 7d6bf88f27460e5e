//! The error of a handler and of a client.

use std::borrow::Cow;
use std::fmt;

use http::StatusCode;

/// The result type of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// A failure, written as a response: a status and a text.
///
/// A handler that returns it sends both. A client gets it when there was no response at all.
///
/// # Examples
///
/// ```
/// use ringway_http::Error;
///
/// let error = Error::not_found("there is no user 7");
/// assert_eq!(error.to_string(), "404 Not Found: there is no user 7");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    status: StatusCode,
    message: Cow<'static, str>,
}

impl Error {
    /// Makes an error with any status.
    pub fn new(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, message: message.into() }
    }

    /// Makes a 400: the request is invalid.
    pub fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// Makes a 404: there is nothing at this path.
    pub fn not_found(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// Makes a 500: the server failed. The text is sent, so it must not contain a secret.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// Makes a 503: nobody can answer now. A client reports a lost connection with it.
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// Makes a 504: no reply came in time.
    pub fn timeout(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, message)
    }

    /// Returns the status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the text.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.message)
    }
}

impl std::error::Error for Error {}
