//! A page for people who look at a running server: what it serves and how fast, its connections, its cores,
//! its slowest calls, and a form to call a method; and, in a second view, the process, its machine and its threads.
//!
//! The page is one file and holds no data. It asks for those once a second while it is visible; they are read
//! from counters that exist anyway, and nothing is collected for a page that nobody has open.

mod data;
mod example;
mod guard;
mod process;
mod profile;
mod services;
mod table;
mod viewers;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::rc::Rc;

use ringway_http::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use ringway_http::http::{Method, StatusCode};
use ringway_http::{Error, Request, Response, html, json};

use self::guard::{may_know, may_see};
pub(super) use self::profile::Profile;
pub(super) use self::table::ConsoleTable;
pub(super) use self::viewers::Viewers;
use super::core::ServerCore;
use super::direct::DirectCalls;

/// Answers a request for the console or its data; `None` if it is for something else, or the client may not
/// know of it.
pub(super) async fn respond(
    core: &Rc<ServerCore>,
    calls: &DirectCalls,
    request: &Request,
) -> Option<Response> {
    let path = request.uri().path();
    if !matches!(path, "/" | DATA | PROCESS | SERVICES) || request.method() != Method::GET {
        return None;
    }
    let side_doors = core.shared().side_doors();
    let access = &side_doors.console;
    let peer = calls.connection().site().peer().clone();
    if !may_know(access, &peer, request.headers()) {
        return None;
    }
    if path == "/" {
        return Some(page());
    }
    if !may_see(access, request.headers()) {
        let message = "the console's data need its token";
        let mut response = Response::from(Error::new(StatusCode::UNAUTHORIZED, message));
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return Some(response);
    }
    side_doors.viewers.note(calls.site().id());
    let data = match path {
        DATA => data::of(core).await,
        PROCESS => process::of(core).await,
        _ => services::of(core),
    };
    let mut response = json(&data).unwrap_or_else(Response::from);
    guard(&mut response);
    Some(response)
}

const DATA: &str = "/console/data";
const PROCESS: &str = "/console/process";
const SERVICES: &str = "/console/services";

const PAGE: &str = include_str!("page.html");

fn page() -> Response {
    let nonce = nonce();
    let mut response = html(PAGE.replace("{nonce}", &nonce));
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let policy = HeaderValue::try_from(policy).expect("ASCII");
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    guard(&mut response);
    response
}

fn guard(response: &mut Response) {
    let fields = [
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fields {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
}

/// Text that nobody can guess: the keys of std's hashers come from the kernel.
fn nonce() -> String {
    let random = || RandomState::new().hash_one(0);
    format!("{:016x}{:016x}", random(), random())
}
