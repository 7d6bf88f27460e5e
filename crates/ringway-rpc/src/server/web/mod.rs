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
pub(super) mod gateway;
pub(super) mod named_host;
mod origin;
mod protocol;
mod refusal;
mod replies;
mod request;
mod unary;

use std::rc::Rc;

use ringway_http::http::Method as Verb;
use ringway_http::http::StatusCode;
use ringway_http::http::header::{
    HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, X_CONTENT_TYPE_OPTIONS,
};
use ringway_http::{Request, RequestPage, Response};

pub(super) use self::fields::write_metadata;
use self::named_host::may_be_rebound;
use self::origin::{Page, allow, is_preflight, preflight, vary};
use self::protocol::Spoken;
use self::refusal::{Refusal, RefusalForm};
use super::core::ServerCore;
use super::direct::DirectCalls;
use crate::call::context::Site;
use crate::call::method::Kind;

/// Answers a call of the method at `method_index` of the core's table.
pub(super) async fn call(
    core: &Rc<ServerCore>,
    calls: &DirectCalls,
    method_index: usize,
    request: Request,
) -> Response {
    let form = RefusalForm::of(request.headers());
    let is_read = matches!(*request.method(), Verb::GET | Verb::HEAD);
    let mut response = guarded(core, calls.site(), form, request, async |request| {
        let answered = call_by(core, calls, method_index, request).await;
        answered.unwrap_or_else(|refusal| refusal.into_response(form))
    })
    .await;
    if is_read {
        // A page that embeds the answer is not to take it for a script.
        let value = HeaderValue::from_static("nosniff");
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, value);
    }
    response
}

/// Answers a call of a method that there is not.
pub(super) async fn no_method(
    core: &Rc<ServerCore>,
    calls: &DirectCalls,
    request: Request,
) -> Response {
    let form = RefusalForm::of(request.headers());
    guarded(core, calls.site(), form, request, async |request| {
        let message = format!("the server has no method {}", request.uri().path());
        Refusal::plain(StatusCode::NOT_FOUND, message).into_response(form)
    })
    .await
}

/// Answers a request if it does not come from a page that may not call the server.
pub(super) async fn from_page(
    core: &Rc<ServerCore>,
    site: &Site,
    request: Request,
    answer: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    guarded(core, site, RefusalForm::Text, request, answer).await
}

async fn guarded(
    core: &Rc<ServerCore>,
    site: &Site,
    form: RefusalForm,
    request: Request,
    answer: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let side_doors = core.shared().side_doors();
    let (cors, hosts) = (side_doors.cors.as_ref(), side_doors.hosts.as_ref());
    let may_be_rebound = may_be_rebound(site.peer(), request.headers(), hosts);
    let page = Page::of((request.method(), request.headers()), cors, hosts, may_be_rebound);
    let mut response = match &page {
        Page::Foreign => foreign(request.headers(), may_be_rebound).into_response(form),
        Page::Allowed(origin) if is_preflight(&request) => match cors {
            Some(cors) => preflight(request.headers(), origin.clone(), cors),
            None => Refusal::verb("POST").into_response(form),
        },
        Page::Own | Page::Allowed(_) => answer(request).await,
    };
    if let Some(cors) = cors {
        vary(&mut response);
        if let Page::Allowed(origin) = page {
            allow(&mut response, origin, cors);
        }
    }
    response
}

/// What is known of the page that has sent a request, if one has, for programs that ask where it comes from.
pub(super) fn known_page(core: &ServerCore, site: &Site, request: &Request) -> Option<RequestPage> {
    let headers = request.headers();
    if !headers.contains_key(ORIGIN) {
        return None;
    }
    let hosts = core.shared().side_doors().hosts.as_ref();
    let may_be_rebound = may_be_rebound(site.peer(), headers, hosts);
    match Page::of((request.method(), headers), None, hosts, may_be_rebound) {
        Page::Own => Some(RequestPage::Own),
        _ => may_be_rebound.then_some(RequestPage::Rebound),
    }
}

/// Why a page may not call, and what its owner can do.
fn foreign(headers: &HeaderMap, may_be_rebound: bool) -> Refusal {
    let said = |name: HeaderName| {
        let value = headers.get(name).map_or(&b"none"[..], HeaderValue::as_bytes);
        String::from_utf8_lossy(value).into_owned()
    };
    let (origin, host) = (said(ORIGIN), said(HOST));
    let message = match may_be_rebound {
        true => format!(
            "pages call this server by localhost or an address: the name {host} may be another's \
             (the page's origin is {origin}). Server::hosts lists the server's own names"
        ),
        false => format!(
            "a page of another origin may not call this server: its origin is {origin}, and the \
             request is for {host}. Server::cors allows other origins; behind a proxy that changes Host, \
             Server::hosts lists the server's own names"
        ),
    };
    Refusal::plain(StatusCode::FORBIDDEN, message)
}

async fn call_by(
    core: &Rc<ServerCore>,
    calls: &DirectCalls,
    method_index: usize,
    request: Request,
) -> Result<Response, Refusal> {
    let method = core.entry(method_index).method();
    let is_unary = method.kind == Kind::Unary;
    if is_unary && method.has_no_side_effects() {
        match *request.method() {
            Verb::GET | Verb::HEAD => return unary::get(core, calls, method_index, request).await,
            Verb::POST => {}
            _ => return Err(Refusal::verb("GET, HEAD, POST")),
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
            if let Some(watch) = request.body().watch() {
                watch.start(); // a stream may have no end but that of its client
            }
            Ok(replies::call(core, calls, method_index, framed, request).await)
        }
        _ => Err(Refusal::media_type()),
    }
}
