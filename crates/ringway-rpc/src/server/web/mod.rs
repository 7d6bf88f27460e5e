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
use ringway_http::{Request, Response};

pub(super) use self::fields::write_metadata;
use self::named_host::may_be_rebound;
use self::origin::{Page, allow, is_preflight, preflight, vary};
use self::protocol::Spoken;
use self::refusal::Refusal;
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
    from_page(core, calls.site(), request, async |request| {
        call_by(core, calls, method_index, request).await.unwrap_or_else(Response::from)
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
    let cors = core.shared().side_doors().cors.as_ref();
    let may_be_rebound = may_be_rebound(site.peer(), request.headers());
    let page = Page::of((request.method(), request.headers()), cors, may_be_rebound);
    let mut response = match &page {
        Page::Foreign => {
            let message = match may_be_rebound {
                false => "a page of another origin may not call this server",
                true => {
                    "over loopback, pages call this server by localhost or an address; a name with a dot \
                     may be another's, unless Server::cors lists its origin"
                }
            };
            Refusal::plain(StatusCode::FORBIDDEN, message).into()
        }
        Page::Allowed(origin) if is_preflight(&request) => match cors {
            Some(cors) => preflight(request.headers(), origin.clone(), cors),
            None => Refusal::verb("POST").into(),
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
            if let Some(watch) = request.body().watch() {
                watch.start(); // a stream may have no end but that of its client
            }
            Ok(replies::call(core, calls, method_index, framed, request).await)
        }
        _ => Err(Refusal::media_type()),
    }
}
