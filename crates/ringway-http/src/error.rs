//! The error of a handler and of a client.

use std::borrow::Cow;
use std::fmt;

use http::StatusCode;

/// The result of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// Why there is no answer, as an answer: a status and a text for whoever asked.
///
/// A handler that returns it answers with both. A client gets it when there was no answer at all.
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
    /// An error with any status.
    pub fn new(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, message: message.into() }
    }

    /// 400: the request makes no sense.
    pub fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 404: there is nothing here.
    pub fn not_found(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// 500: the server failed. The text is sent: it is to hold no secret.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// 503: nobody answers at the moment. Clients report lost connections so.
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// 504: there was no answer in time.
    pub fn timeout(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, message)
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The text.
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
