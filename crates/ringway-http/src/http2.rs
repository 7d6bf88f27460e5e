//! Requests and responses of HTTP/2 (RFC 9113, section 8), for a server with its own HTTP/2 machine.

use std::time::SystemTime;

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, DATE, HOST, HeaderMap, HeaderName, HeaderValue,
    TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{PathAndQuery, Uri};
use http::{Method, StatusCode, Version};
use http_body::Body as _;

use crate::body::{Request, RequestBody, Response};
use crate::error::{Error, Result};
use crate::feed::BodyFeed;
use crate::serve::{check_target, is_awaited, is_host};

/// Makes a request from its well-formed fields, pseudo-fields first. Its URI is the
/// path and its `Host` the authority, as over HTTP/1.1. A handler may read `body_bytes_max` of its body, which
/// the feed fills.
///
/// # Errors
/// The response to a request that no handler may see: 400, 414, or 501 for CONNECT.
pub fn http2_request<'f>(
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    body_bytes_max: usize,
) -> Result<(Request, BodyFeed)> {
    let mut head = Head::default();
    for (name, value) in fields {
        head.add(name, value)?;
    }
    let (method, uri, headers) = head.checked()?;
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let (body, feed) = RequestBody::fed(length, body_bytes_max, is_awaited(&headers));
    let mut request = Request::new(body);
    (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, uri, headers);
    *request.version_mut() = Version::HTTP_2;
    check_target(&request)?;
    Ok((request, feed))
}

/// The parts of a request's fields.
#[derive(Default)]
struct Head {
    method: Option<Method>,
    path: Vec<u8>,
    authority: Option<Vec<u8>>,
    headers: HeaderMap,
    cookie: Vec<u8>,
}

impl Head {
    fn add(&mut self, name: &[u8], value: &[u8]) -> Result<()> {
        match name {
            b":method" => {
                let method = Method::from_bytes(value);
                self.method =
                    Some(method.map_err(|_| Error::bad_request("the method is no token"))?);
            }
            b":path" => self.path = value.to_vec(),
            b":authority" => self.authority = Some(value.to_vec()),
            b":scheme" => {}
            // Section 8.2.3: "If there are multiple Cookie header fields after decompression, these MUST
            // be concatenated into a single octet string using the two-octet delimiter of 0x3b, 0x20".
            b"cookie" => {
                if !self.cookie.is_empty() {
                    self.cookie.extend_from_slice(b"; ");
                }
                self.cookie.extend_from_slice(value);
            }
            _ => {
                let bad = || Error::bad_request("a header field is malformed");
                let name = HeaderName::from_bytes(name).map_err(|_| bad())?;
                let value = HeaderValue::from_bytes(value).map_err(|_| bad())?;
                let appended = self.headers.try_append(name, value);
                appended.map_err(|_| Error::bad_request("there are too many header fields"))?;
            }
        }
        Ok(())
    }

    fn checked(mut self) -> Result<(Method, Uri, HeaderMap)> {
        let method = self.method.take().ok_or_else(|| Error::bad_request("there is no :method"))?;
        if method == Method::CONNECT {
            let message = "CONNECT is not served here: neither tunnels nor WebSockets over HTTP/2";
            return Err(Error::new(StatusCode::NOT_IMPLEMENTED, message));
        }
        let uri = target(&method, &self.path)?;
        self.set_host()?;
        if !self.cookie.is_empty() {
            let cookie = HeaderValue::from_bytes(&self.cookie);
            let cookie = cookie.map_err(|_| Error::bad_request("a cookie is malformed"))?;
            self.headers.insert(COOKIE, cookie);
        }
        Ok((method, uri, self.headers))
    }

    /// Makes the authority the `Host`, where handlers look for it.
    fn set_host(&mut self) -> Result<()> {
        let mut hosts = self.headers.get_all(HOST).iter();
        let host = hosts.next().map(|host| host.as_bytes().to_vec());
        if hosts.next().is_some() {
            return Err(Error::bad_request("a request names exactly one Host"));
        }
        // Section 8.3.1: "the request MUST contain either an ":authority" pseudo-header field or a "Host"
        // header field. If these fields are present, they MUST NOT be empty." And: "A server SHOULD treat a
        // request as malformed if it contains a Host header field that identifies an entity that differs
        // from the entity in the ":authority" pseudo-header field."
        if let (Some(authority), Some(host)) = (&self.authority, &host)
            && !authority.eq_ignore_ascii_case(host)
        {
            return Err(Error::bad_request("Host and :authority are not the same"));
        }
        let host = self.authority.take().or(host).filter(|host| !host.is_empty());
        let host =
            host.ok_or_else(|| Error::bad_request("a request names its :authority or Host"))?;
        // "":authority" MUST NOT include the deprecated userinfo subcomponent".
        let value = HeaderValue::from_bytes(&host).ok().filter(|_| is_host(&host));
        let value = value.ok_or_else(|| Error::bad_request("the :authority is malformed"))?;
        self.headers.insert(HOST, value);
        Ok(())
    }
}

/// Section 8.3.1: "the ":path" pseudo-header field [...] MUST start with '/'", but for "an OPTIONS request for
/// an "http" or "https" URI that does not include a path component; these MUST include a ":path"
/// pseudo-header field with a value of '*'".
fn target(method: &Method, path: &[u8]) -> Result<Uri> {
    let is_asterisk = path == b"*" && *method == Method::OPTIONS;
    let path = PathAndQuery::try_from(path).ok();
    let path = path.filter(|path| is_asterisk || path.as_str().starts_with('/'));
    path.map(Uri::from).ok_or_else(|| Error::bad_request("the :path is malformed"))
}

/// Converts the head of a response to a request with `method` for HTTP/2. Returns whether the body is
/// sent.
pub fn http2_response(response: &mut Response, method: &Method) -> bool {
    let is_upgrade = response.body_mut().take_upgrade().is_some();
    if is_upgrade || response.status().is_informational() {
        let message = "the connection of HTTP/2 cannot be used for something else";
        *response = Error::new(StatusCode::NOT_IMPLEMENTED, message).into();
    }
    let (status, exact) = (response.status(), response.body().size_hint().exact());
    let headers = response.headers_mut();
    // Section 8.2.2: "An endpoint MUST NOT generate an HTTP/2 message containing connection-specific header
    // fields."
    for name in [CONNECTION, KEEP_ALIVE, PROXY_CONNECTION, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
    if !headers.contains_key(DATE)
        && let Ok(date) = HeaderValue::try_from(httpdate::fmt_http_date(SystemTime::now()))
    {
        headers.insert(DATE, date);
    }
    // RFC 9110, section 8.6.
    let has_content = !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let is_head = *method == Method::HEAD;
    if status == StatusCode::NO_CONTENT {
        headers.remove(CONTENT_LENGTH);
    } else if has_content
        && let Some(length) = exact
        && (!is_head || length > 0)
    {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    has_content && !is_head && exact != Some(0)
}

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Body;

    type Fields<'f> = &'f [(&'f str, &'f str)];

    const GET: [(&str, &str); 3] = [(":method", "GET"), (":scheme", "http"), (":path", "/a?b=c")];

    fn request(fields: Fields<'_>) -> Result<Request> {
        let fields = GET.iter().chain(fields);
        let fields = fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        http2_request(fields, 10).map(|(request, _)| request)
    }

    #[test]
    fn a_request_is_as_it_would_be_over_http_1() {
        let fields = [
            (":authority", "here:1"),
            ("cookie", "a=b"),
            ("x", "1"),
            ("cookie", "c=d"),
            ("x", "2"),
        ];
        let request = request(&fields).expect("well-formed");
        assert_eq!((request.method(), request.uri().to_string()), (&Method::GET, "/a?b=c".into()));
        assert_eq!(request.headers()[HOST], "here:1");
        assert_eq!(request.headers()[COOKIE], "a=b; c=d");
        assert_eq!(request.headers().get_all("x").iter().count(), 2);
        assert_eq!((request.headers().len(), request.version()), (4, Version::HTTP_2));
    }

    #[test]
    fn requests_that_are_malformed_are_refused() {
        let long = format!("/{}", "x".repeat(9_000));
        let refused: [(Fields<'_>, u16); 11] = [
            (&[], 400),
            (&[(":authority", "")], 400),
            (&[(":authority", "a@b")], 400),
            (&[(":authority", "a b")], 400),
            (&[(":authority", "a"), ("host", "b")], 400),
            (&[("host", "a"), ("host", "a")], 400),
            (&[("host", "")], 400),
            (&[(":authority", "a"), (":path", "a")], 400),
            (&[(":authority", "a"), (":path", "*")], 400),
            (&[(":authority", "a"), (":path", &long)], 414),
            (&[(":authority", "a"), (":method", "CONNECT")], 501),
        ];
        for (fields, status) in refused {
            let error = request(fields).map(|_| ()).expect_err("malformed");
            assert_eq!(error.status(), status, "{fields:?}");
        }
        for fields in [
            &[("host", "a")][..],
            &[(":authority", "A"), ("host", "a")],
            &[(":authority", "[::1]:80")],
            &[(":authority", "a"), (":method", "OPTIONS"), (":path", "*")],
        ] {
            assert!(request(fields).is_ok(), "{fields:?}");
        }
    }

    #[test]
    fn an_answer_has_no_fields_of_connections_and_tells_its_length() {
        let mut response = crate::text("hello");
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response.headers_mut().insert(UPGRADE, HeaderValue::from_static("x"));
        assert!(http2_response(&mut response, &Method::GET));
        assert_eq!(response.headers()[CONTENT_LENGTH], "5");
        assert!(response.headers().contains_key(DATE) && response.headers().len() == 3);
        assert!(!http2_response(&mut response, &Method::HEAD));
        assert_eq!(response.headers()[CONTENT_LENGTH], "5");

        let mut nothing = crate::reply::status(StatusCode::NO_CONTENT);
        assert!(!http2_response(&mut nothing, &Method::GET));
        assert!(!nothing.headers().contains_key(CONTENT_LENGTH));
        let mut upgraded = Response::new(Body::upgrade(Box::new(|_| Box::pin(async {}))));
        *upgraded.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        assert!(http2_response(&mut upgraded, &Method::GET));
        assert_eq!(upgraded.status(), StatusCode::NOT_IMPLEMENTED);
    }
}
