//! Which pages of other origins may call a server.

use std::time::Duration;

use ringway_http::http::header::{HeaderName, HeaderValue};

use crate::limits;

/// The pages of other origins that may call a server over HTTP, for [`Server::cors`](crate::Server::cors).
///
/// A browser lets a page call another origin only if that allows it. Without this setting none is allowed,
/// and their calls are refused before a handler runs. Pages may send what Connect and gRPC-Web need, and
/// read what those answer; other headers, `authorization` among them, have to be named.
///
/// ```
/// use ringway_rpc::{Cors, Server};
///
/// # fn main() -> ringway_net::Result {
/// let cors = Cors::of_origins(["https://app.example.org"]).allow_headers(["authorization"]);
/// let server = Server::bind("tcp://127.0.0.1:0")?.cors(cors);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Cors {
    /// `None` means all origins.
    origins: Option<Vec<String>>,
    headers: Vec<String>,
    exposed: Vec<String>,
    max_age: Duration,
    credentials: bool,
}

impl Cors {
    /// Allows the pages of these origins: scheme, host and port, as browsers write them, such as
    /// `https://app.example.org` or `http://localhost:8080`.
    #[must_use]
    pub fn of_origins<S: Into<String>>(origins: impl IntoIterator<Item = S>) -> Self {
        Self { origins: Some(origins.into_iter().map(Into::into).collect()), ..Self::any_origin() }
    }

    /// Allows all pages, without credentials. Every page that somebody in reach of the server opens may call it
    /// then.
    #[must_use]
    pub fn any_origin() -> Self {
        let (headers, exposed) = (Vec::new(), Vec::new());
        let max_age = limits::CORS_MAX_AGE;
        Self { origins: None, headers, exposed, max_age, credentials: false }
    }

    /// Allows more request headers, such as `authorization` and metadata of calls.
    #[must_use]
    pub fn allow_headers<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.headers.extend(names.into_iter().map(Into::into));
        self
    }

    /// Lets pages read more response headers: metadata by its name, and trailers of unary calls of Connect
    /// with `trailer-` before it.
    #[must_use]
    pub fn expose_headers<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.exposed.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets how long browsers may remember what is allowed. The default is two hours, Chromium's maximum.
    #[must_use]
    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = max_age;
        self
    }

    /// Lets browsers send cookies and client certificates. It cannot be combined with
    /// [`any_origin`](Self::any_origin).
    #[must_use]
    pub fn allow_credentials(mut self) -> Self {
        self.credentials = true;
        self
    }

    /// Checks the settings, and writes what answers say.
    pub(super) fn compile(&self) -> Result<CorsFields, String> {
        if self.credentials && self.origins.is_none() {
            return Err("CORS with credentials has to name its origins".to_owned());
        }
        let origins = self.origins.as_ref().map(|origins| origins.iter().map(|it| origin(it)));
        let origins = origins.map(Iterator::collect::<Result<Vec<_>, _>>).transpose()?;
        Ok(CorsFields {
            origins,
            headers: list(&ALLOWED, &self.headers)?,
            exposed: list(&EXPOSED, &self.exposed)?,
            max_age: HeaderValue::from(self.max_age.as_secs()),
            credentials: self.credentials,
        })
    }
}

/// Request headers of Connect and gRPC-Web.
const ALLOWED: [&str; 10] = [
    "content-type",
    "connect-protocol-version",
    "connect-timeout-ms",
    "connect-content-encoding",
    "connect-accept-encoding",
    "grpc-timeout",
    "grpc-encoding",
    "grpc-accept-encoding",
    "x-grpc-web",
    "x-user-agent",
];

/// Response headers of theirs that pages read.
const EXPOSED: [&str; 5] = [
    "connect-content-encoding",
    "grpc-encoding",
    "grpc-message",
    "grpc-status",
    "grpc-status-details-bin",
];

/// The settings as header fields.
#[derive(Debug)]
pub(super) struct CorsFields {
    /// `None` means all origins.
    pub(super) origins: Option<Vec<HeaderValue>>,
    pub(super) headers: HeaderValue,
    pub(super) exposed: HeaderValue,
    pub(super) max_age: HeaderValue,
    pub(super) credentials: bool,
}

/// An origin as browsers write it: no path, no blank, in small letters.
fn origin(text: &str) -> Result<HeaderValue, String> {
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_good = authority.is_some_and(|authority| {
        let is_legal = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase();
        !authority.is_empty()
            && !authority.contains(['/', '*', '@'])
            && authority.bytes().all(is_legal)
    });
    let value = HeaderValue::try_from(text).ok().filter(|_| is_good);
    value.ok_or_else(|| {
        format!("{text:?} is not an origin: write https://host or http://host:port, in lower case")
    })
}

fn list(own: &[&str], more: &[String]) -> Result<HeaderValue, String> {
    for name in more {
        if HeaderName::try_from(name.as_str()).is_err() {
            return Err(format!("{name:?} is not a valid header name for CORS"));
        }
    }
    let names: Vec<&str> = own.iter().copied().chain(more.iter().map(String::as_str)).collect();
    Ok(HeaderValue::try_from(names.join(", ")).expect("names of headers are ASCII"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_and_headers_are_checked() {
        assert!(Cors::of_origins(["https://a.example", "http://[::1]:80"]).compile().is_ok());
        for wrong in
            ["a.example", "https://", "https://a/", "https://A", "https://*.a", "null", "*"]
        {
            let error = Cors::of_origins([wrong]).compile().expect_err(wrong);
            assert!(error.contains("is not an origin"), "{error}");
        }
        assert!(Cors::any_origin().allow_credentials().compile().is_err());
        assert!(Cors::any_origin().allow_headers(["a b"]).compile().is_err());
        let fields = Cors::any_origin().expose_headers(["trailer-cost"]).compile().expect("good");
        assert!(fields.exposed.to_str().expect("ASCII").ends_with(", trailer-cost"));
    }
}
