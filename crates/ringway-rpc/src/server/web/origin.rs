//! The pages that requests come from, and what browsers are told about them (the Fetch standard, "CORS
//! protocol").

use ringway_http::http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_METHOD, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, VARY,
};
use ringway_http::http::{Method as Verb, StatusCode};
use ringway_http::{Request, Response, status};

use crate::server::cors::CorsFields;
use crate::server::hosts::Hosts;

/// Where a request comes from. Browsers say it; others say nothing, or what they like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Page {
    /// From our own pages, or from no page.
    Own,
    /// From a page that may call us.
    Allowed(HeaderValue),
    Foreign,
}

impl Page {
    /// The page of a request. If the name of its host `may_be_rebound`, the page is foreign even if it has that
    /// name, and so is one that does not say its origin in a GET, as browsers do for a page's own host. Pages of the hosts
    /// `own` are our own, by whatever `Host` a proxy passes their requests on.
    pub(super) fn of(
        request: (&Verb, &HeaderMap),
        cors: Option<&CorsFields>,
        own_hosts: Option<&Hosts>,
        may_be_rebound: bool,
    ) -> Self {
        let (verb, headers) = request;
        let own = headers.get(HOST).map(HeaderValue::as_bytes);
        let Some(origin) = headers.get(ORIGIN) else {
            let may_be_page = may_be_rebound && matches!(*verb, Verb::GET | Verb::HEAD);
            let is_known = cors.is_some_and(|cors| cors.allows_host(own));
            return if may_be_page && !is_known { Self::Foreign } else { Self::Own };
        };
        let authority = authority(origin);
        let is_same = || authority.is_some() && authority == own || is_same_origin(headers);
        let named = || str::from_utf8(authority?).ok();
        let is_listed = own_hosts.zip(named()).is_some_and(|(own, host)| own.has(host));
        if is_listed || !may_be_rebound && is_same() {
            return Self::Own;
        }
        let allows = |cors: &CorsFields| {
            cors.origins.as_ref().is_none_or(|origins| origins.contains(origin))
        };
        match cors.is_some_and(allows) {
            true => Self::Allowed(origin.clone()),
            false => Self::Foreign,
        }
    }
}

impl CorsFields {
    /// Whether pages of this host may call, over http or https.
    fn allows_host(&self, host: Option<&[u8]>) -> bool {
        let is_host = |origin: &HeaderValue| authority(origin) == host;
        self.origins.as_ref().is_none_or(|origins| origins.iter().any(is_host))
    }
}

/// Whether the browser says that the page is of the origin that it has sent the request to, whatever proxies have made of
/// `Host` (the standard "Fetch Metadata"). No page can set this field.
fn is_same_origin(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site == "same-origin")
}

/// Host and port of an origin.
fn authority(origin: &HeaderValue) -> Option<&[u8]> {
    origin.as_bytes().splitn(3, |byte| *byte == b'/').nth(2)
}

/// Whether a browser asks if it may send a request.
pub(super) fn is_preflight(request: &Request) -> bool {
    request.method() == Verb::OPTIONS
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to that question, for a page that may.
pub(super) fn preflight(headers: &HeaderMap, origin: HeaderValue, cors: &CorsFields) -> Response {
    let mut response = status(StatusCode::NO_CONTENT);
    let fields = response.headers_mut();
    fields.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    fields.insert(ACCESS_CONTROL_ALLOW_HEADERS, cors.headers.clone());
    fields.insert(ACCESS_CONTROL_MAX_AGE, cors.max_age.clone());
    // Chromium asks this of addresses that are not public.
    const ASKS: HeaderName = HeaderName::from_static("access-control-request-private-network");
    if headers.contains_key(ASKS) {
        const GRANTS: HeaderName = HeaderName::from_static("access-control-allow-private-network");
        fields.insert(GRANTS, HeaderValue::from_static("true"));
    }
    allow(&mut response, origin, cors);
    response
}

/// Lets the page of `origin` read a response.
pub(super) fn allow(response: &mut Response, origin: HeaderValue, cors: &CorsFields) {
    let fields = response.headers_mut();
    let origin = if cors.origins.is_some() { origin } else { HeaderValue::from_static("*") };
    fields.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    fields.insert(ACCESS_CONTROL_EXPOSE_HEADERS, cors.exposed.clone());
    if cors.credentials {
        fields.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
}

/// Tells caches that answers differ by the page that asks.
pub(super) fn vary(response: &mut Response) {
    response.headers_mut().append(VARY, HeaderValue::from_static("origin"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::cors::Cors;

    fn page(host: &'static str, origin: Option<&'static str>, cors: Option<&Cors>) -> Page {
        let fields = [(HOST, Some(host)), (ORIGIN, origin)];
        let present = fields
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| (name, HeaderValue::from_static(value))));
        let cors = cors.map(|cors| cors.compile().expect("good settings"));
        Page::of((&Verb::POST, &present.collect()), cors.as_ref(), None, false)
    }

    #[test]
    fn pages_of_other_origins_are_foreign_unless_they_are_allowed() {
        assert_eq!(page("a:1", None, None), Page::Own);
        assert_eq!(page("a:1", Some("http://a:1"), None), Page::Own);
        for foreign in ["http://b:1", "http://a:2", "http://a", "null", "", "file://"] {
            assert_eq!(page("a:1", Some(foreign), None), Page::Foreign, "{foreign}");
        }
        let cors = Cors::of_origins(["https://b", "http://c:8"]);
        let allowed = |origin| page("a:1", Some(origin), Some(&cors));
        assert_eq!(allowed("https://b"), Page::Allowed(HeaderValue::from_static("https://b")));
        for foreign in ["http://b", "https://b:8", "https://b.c", "http://c:80", "https://bb"] {
            assert_eq!(allowed(foreign), Page::Foreign, "{foreign}");
        }
        let any = page("a:1", Some("null"), Some(&Cors::any_origin()));
        assert_eq!(any, Page::Allowed(HeaderValue::from_static("null")));
    }
}
