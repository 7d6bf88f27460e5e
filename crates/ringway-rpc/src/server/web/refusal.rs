//! Requests that never become a call.

use ringway_http::http::StatusCode;
use ringway_http::http::header::{ALLOW, HeaderMap, HeaderName, HeaderValue};
use ringway_http::{Error, Response};

use super::protocol::{Framed, Spoken};
use super::replies::failed;
use super::unary::failure;
use crate::call::metadata::Metadata;
use crate::call::status::{Code, Status};

/// Why a request is not served.
pub(super) enum Refusal {
    /// By HTTP, with one more header field.
    Http(Error, Option<(HeaderName, &'static str)>),
    /// By a status of calls.
    Status(Status),
}

/// How a client reads why it is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RefusalForm {
    /// As text, by the status of HTTP.
    Text,
    /// As an error of Connect.
    Connect,
    /// As a status of gRPC-Web in the head of an answer. Its clients read no other answers.
    GrpcWeb(Framed),
}

impl RefusalForm {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        match (Framed::of_refused_web(headers), Spoken::of(headers)) {
            (Some(framed), _) => Self::GrpcWeb(framed),
            (None, Some(Spoken::Unary(_))) => Self::Connect,
            _ => Self::Text,
        }
    }
}

/// The content types of calls, for those who have sent another.
const TYPES: &str = "application/json, application/proto, application/octet-stream, \
                     application/connect+json, application/connect+proto, application/grpc-web, \
                     application/grpc-web-text";

impl Refusal {
    pub(super) fn plain(status: StatusCode, message: impl Into<String>) -> Self {
        Self::Http(Error::new(status, message.into()), None)
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

    /// The answer.
    pub(super) fn into_response(self, form: RefusalForm) -> Response {
        let (error, field) = match (self, form) {
            (Self::Status(status), RefusalForm::GrpcWeb(framed)) => return by_web(framed, status),
            (Self::Status(status), _) => return failure(&status),
            (Self::Http(error, _), RefusalForm::GrpcWeb(framed)) => {
                return by_web(framed, status_of(&error));
            }
            (Self::Http(error, field), _) => (error, field),
        };
        let http_status = error.status();
        let mut response = match form {
            // Clients know 405 by itself; a code would tell them more than there is to say.
            RefusalForm::Connect if http_status != StatusCode::METHOD_NOT_ALLOWED => {
                failure(&status_of(&error))
            }
            _ => error.into(),
        };
        *response.status_mut() = http_status;
        if let Some((name, value)) = field {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

fn by_web(framed: Framed, status: Status) -> Response {
    failed(framed, status, &Metadata::new())
}

fn status_of(error: &Error) -> Status {
    let code = match error.status() {
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::Unimplemented,
        _ => Code::Unknown,
    };
    Status::new(code, error.message().to_owned())
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}
