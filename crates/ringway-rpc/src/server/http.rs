//! HTTP on the port of calls: calls as the Connect protocol has them, JSON-RPC by POST, and the side doors
//! `/metrics`, `/healthz` and `/readyz`.

mod metrics_form;

use std::rc::Rc;

use ringway_http::http::{Method, StatusCode};
use ringway_http::{Error, HttpLimits, Request, Response, http, status, text};
use ringway_net::{Connection, Result, View};

use super::console;
use super::core::ServerCore;
use super::direct::DirectCalls;
use super::jsonrpc::{JsonDoor, is_web_socket};
use super::web;
use crate::builtin::health::{Health, ServingStatus};

/// Serves a connection that speaks HTTP/1.1.
pub(super) async fn serve(core: Rc<ServerCore>, connection: Connection, first: View) -> Result {
    let mut limits = HttpLimits::default();
    limits.body_bytes_max = body_bytes_max(&core);
    let doors = Doors::of(DirectCalls::open(Rc::clone(&core), &connection), core);
    let respond = async |request: Request| {
        let mut response = doors.answer(request).await;
        // A connection that becomes a WebSocket has no next request, and says in this field what it becomes.
        if doors.calls.is_over() && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let close = http::HeaderValue::from_static("close");
            response.headers_mut().insert(http::header::CONNECTION, close);
        }
        response
    };
    let serving = ringway_http::serve_connection(connection, Some(first), limits, respond);
    doors.calls.carry(serving).await
}

/// Bytes of a request's body that a handler may read.
pub(super) fn body_bytes_max(core: &ServerCore) -> usize {
    core.settings().native.settings.max_message as usize
}

/// All that answers requests of HTTP, one at a time, whichever version they come by.
pub(super) struct Doors {
    core: Rc<ServerCore>,
    calls: DirectCalls,
    json: JsonDoor,
}

impl Doors {
    pub(super) fn of(calls: DirectCalls, core: Rc<ServerCore>) -> Self {
        let json = JsonDoor::new(Rc::clone(&core), Rc::clone(calls.site()));
        Self { core, calls, json }
    }

    pub(super) fn calls(&self) -> &DirectCalls {
        &self.calls
    }

    pub(super) async fn answer(&self, request: Request) -> Response {
        let Self { core, calls, json } = self;
        calls.count(&request);
        match console_for(core, calls, &request).await {
            Some(response) => response,
            None if json.is_for(&request) => json.answer(request).await,
            None => respond(core, calls, request).await,
        }
    }
}

async fn respond(core: &Rc<ServerCore>, calls: &DirectCalls, mut request: Request) -> Response {
    let path = request.uri().path();
    if let Some(method_index) = core.method_index(path.strip_prefix('/').unwrap_or(path)) {
        return web::call(core, calls, method_index, request).await;
    }
    let side_doors = core.shared().side_doors();
    let called = side_doors.gateway.get(path).and_then(|method| core.method_index(method));
    if let Some(method_index) = called {
        return web::gateway::call(core, calls, method_index, request).await;
    }
    if is_web_socket(request.headers())
        && let Some(page) = web::known_page(core, calls.site(), &request)
    {
        request.extensions_mut().insert(page);
    }
    let path = request.uri().path();
    match (request.method(), path) {
        (&Method::GET | &Method::HEAD, "/metrics") if !side_doors.has_no_metrics => {
            metrics(core, &request)
        }
        (&Method::GET | &Method::HEAD, "/healthz") => text("ok\n"),
        (&Method::GET | &Method::HEAD, "/readyz") => ready(core, &side_doors.health),
        (&Method::OPTIONS, "*") => status(StatusCode::NO_CONTENT), // RFC 9110, section 9.3.7: a "ping"
        (_, "/metrics") if !side_doors.has_no_metrics => reads_only(),
        (_, "/healthz" | "/readyz") => reads_only(),
        _ => match (&side_doors.routes, &side_doors.pages) {
            (Some(routes), _) if routes.has(path) => routes.respond(request).await,
            (_, pages) if pages.has(path) => pages.respond(request).await,
            _ if may_be_call(&request) => web::no_method(core, calls, request).await,
            (Some(routes), _) => routes.respond(request).await,
            _ => nothing(path),
        },
    }
}

/// The console's answer, unless the program or a library has something else there.
async fn console_for(
    core: &Rc<ServerCore>,
    calls: &DirectCalls,
    request: &Request,
) -> Option<Response> {
    let side_doors = core.shared().side_doors();
    if side_doors.has_page(request.uri().path()) || is_web_socket(request.headers()) {
        return None;
    }
    console::respond(core, calls, request).await
}

fn metrics(core: &ServerCore, request: &Request) -> Response {
    let (shared, form) = (core.shared(), metrics_form::wanted(request.headers()));
    let all = shared.metrics.snapshot().text(form) + &shared.stats().text(form) + form.end();
    let mut response = text(all);
    let kind = http::HeaderValue::from_static(form.content_type());
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    let vary = http::HeaderValue::from_static("accept");
    response.headers_mut().insert(http::header::VARY, vary);
    response
}

/// Whether load balancers are to send anybody here.
fn ready(core: &ServerCore, health: &Health) -> Response {
    let is_serving = health.of("") == Some(ServingStatus::Serving) && core.draining().is_none();
    let mut response = text(if is_serving { "ready\n" } else { "not ready\n" });
    if !is_serving {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

fn reads_only() -> Response {
    let error = Error::new(StatusCode::METHOD_NOT_ALLOWED, "this path answers GET");
    let mut response = Response::from(error);
    let allowed = http::HeaderValue::from_static("GET, HEAD");
    response.headers_mut().insert(http::header::ALLOW, allowed);
    response
}

/// Whether a request is a call, or a question before one, of a method that there is not.
fn may_be_call(request: &Request) -> bool {
    let is_verb = matches!(*request.method(), Method::POST | Method::OPTIONS);
    is_verb && request.uri().path().matches('/').count() == 2
}

fn nothing(path: &str) -> Response {
    let hint = match path.matches('/').count() {
        2 => "no method of this server has this name\n",
        _ => "calls are made by POST to /package.Service/Method\n",
    };
    let mut response = text(hint);
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
