//! Short ways to make responses.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response as Reply, StatusCode};
use serde::Serialize;

use crate::body::{Body, Response};
use crate::error::{Error, Result};

/// Makes a 200 with a text.
pub fn text(text: impl Into<Bytes>) -> Response {
    of_type("text/plain; charset=utf-8", text.into())
}

/// Makes a 200 with a page.
pub fn html(page: impl Into<Bytes>) -> Response {
    of_type("text/html; charset=utf-8", page.into())
}

/// Makes a 200 with a value as JSON.
///
/// # Errors
/// 500 if the value cannot be written as JSON, such as a map whose keys are not strings.
pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Response> {
    let json = serde_json::to_vec(value).map_err(|error| {
        Error::internal(format!("the reply cannot be encoded as JSON: {error}"))
    })?;
    Ok(of_type("application/json", json.into()))
}

/// Makes a response with a status and no body.
pub fn status(status: StatusCode) -> Response {
    let mut response = Reply::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn of_type(content_type: &'static str, bytes: Bytes) -> Response {
    let mut response = Reply::new(Body::from(bytes));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

impl From<Error> for Response {
    fn from(error: Error) -> Self {
        let mut response = text(format!("{}\n", error.message()));
        *response.status_mut() = error.status();
        response
    }
}
