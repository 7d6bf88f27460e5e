//! Calls over HTTP/1.1: the Connect protocol and gRPC-Web, told apart by content type.
//!
//! ```text
//! request ─► origin ─► verb, content type ─┬► unary: one body each way
//!                                          └► exchange: frames in ─► handler ─► replies: frames out
//! ```

mod coder;
mod envelopes;
mod exchange;
mod failure;
mod fields;
mod frames;
mod protocol;
mod refusal;
mod replies;
mod request;
mod unary;

use std::rc::Rc;

use ringway_http::http::Method as Verb;
use ringway_http::http::StatusCode;
use ringway_http::http::header::{HOST, HeaderMap, HeaderValue, ORIGIN};
use ringway_http::{PeerWatch, Request, Response};

use self::protocol::Spoken;
use self::refusal::Refusal;
use super::core::ServerCore;
use super::direct::DirectCalls;
use crate::call::method::Kind;

/// Answers a call of the method at `method_index` of the core's table.
pub(super) async fn call(
    core: &Rc<ServerCore>,
    calls: &DirectCalls,
    method_index: usize,
    request: Request,
) -> Response {
    match call_by(core, calls, method_index, request).await {
        Ok(response) => response,
        Err(refusal) => refusal.into(),
    }
}

async fn call_by(
    core: &Rc<ServerCore>,
    calls: &DirectCalls,
    method_index: usize,
    request: Request,
) -> Result<Response, Refusal> {
    let method = core.entry(method_index).method();
    if is_foreign_page(request.headers()) {
        let message = "a page of another origin may not call this server";
        return Err(Refusal::plain(StatusCode::FORBIDDEN, message));
    }
    let is_unary = method.kind == Kind::Unary;
    if is_unary && method.has_no_side_effects() {
        match *request.method() {
            Verb::GET => return unary::get(core, calls, method_index, request).await,
            Verb::POST => {}
            _ => return Err(Refusal::verb("GET, POST")),
        }
    } else if request.method() != Verb::POST {
        return Err(Refusal::verb("POST"));
    }
    match Spoken::of(request.headers()) {
        Some(Spoken::Unary(label)) if is_unary => {
            unary::post(core, calls, method_index, label, request).await
        }
        // Envelopes of Connect are for streams alone.
        Some(Spoken::Framed(framed)) if !(is_unary && framed.is_connect()) => {
            if let Some(watch) = request.extensions().get::<PeerWatch>() {
                watch.start(); // a stream may have no end but that of its client
            }
            Ok(replies::call(core, calls, method_index, framed, request).await)
        }
        _ => Err(Refusal::media_type()),
    }
}

/// Browsers say from which page a request comes. Others say nothing, or what they like.
fn is_foreign_page(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let own = headers.get(HOST).map(HeaderValue::as_bytes);
    let authority = origin.as_bytes().splitn(3, |byte| *byte == b'/').nth(2);
    authority.is_none() || authority != own
}

#[cfg(test)]
mod tests {
    use ringway_http::http::header::HeaderName;

    use super::*;

    #[test]
    fn a_page_of_another_origin_is_told_from_our_own_and_from_no_page() {
        let field = |&(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let is_foreign = |fields: &[(&'static str, &'static str)]| {
            is_foreign_page(&fields.iter().map(field).collect())
        };
        assert!(!is_foreign(&[("host", "a:1")]));
        assert!(!is_foreign(&[("host", "a:1"), ("origin", "http://a:1")]));
        assert!(is_foreign(&[("host", "a:1"), ("origin", "http://b:1")]));
        assert!(is_foreign(&[("host", "a:1"), ("origin", "http://a:2")]));
        assert!(is_foreign(&[("host", "a:1"), ("origin", "null")]));
    }
}
