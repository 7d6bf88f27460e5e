//! Requests that never become a call.

use ringway_http::http::StatusCode;
use ringway_http::http::header::{ALLOW, HeaderName, HeaderValue};
use ringway_http::{Error, Response};

use super::unary::failure;
use crate::call::status::Status;

/// Why a request is not served, as its answer.
pub(super) enum Refusal {
    /// By HTTP, with one more header field.
    Http(Error, Option<(HeaderName, &'static str)>),
    /// By a status of calls.
    Status(Status),
}

/// The content types of calls, for those who have sent another.
const TYPES: &str = "application/json, application/proto, application/octet-stream, \
                     application/connect+json, application/connect+proto, application/grpc-web, \
                     application/grpc-web-text";

impl Refusal {
    pub(super) fn plain(status: StatusCode, message: &'static str) -> Self {
        Self::Http(Error::new(status, message), None)
    }

    /// The method is called by other verbs of HTTP.
    pub(super) fn verb(allowed: &'static str) -> Self {
        let message = match allowed {
            "POST" => "calls are made by POST",
            _ => "calls of this method are made by POST or GET",
        };
        Self::Http(Error::new(StatusCode::METHOD_NOT_ALLOWED, message), Some((ALLOW, allowed)))
    }

    /// The content type is that of no call of this kind.
    pub(super) fn media_type() -> Self {
        let message = format!("a message comes as one of {TYPES}");
        let error = Error::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message);
        Self::Http(error, Some((HeaderName::from_static("accept-post"), TYPES)))
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Http(error, None)
    }
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        let (error, field) = match refusal {
            Refusal::Http(error, field) => (error, field),
            Refusal::Status(status) => return failure(&status),
        };
        let mut response = Response::from(error);
        if let Some((name, value)) = field {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
