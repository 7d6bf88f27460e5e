//! Messages as they are sent.
//!
//! Their members stand in the order of the specification's examples, without white space. Each function asks
//! its target for the room of the whole message at once. JSON that it is given is trusted to be JSON (see
//! [`is_json`](super::is_json)), and gets on one line: line feeds in it, which can only be white space, become
//! blanks. So a message never has a line feed.
//!
//! Parameters and results can be written in place: [`open_request`] or [`open_result`], then the JSON by
//! whoever has it, then [`close`] or [`close_notification`]. If that fails, truncate the target to where the
//! message began.

use memchr::memchr_iter;

use super::code::ErrorNumber;
use super::context::CallContext;
use super::digits::Digits;
use super::id::Id;
use super::request::Refusal;
use super::target::Target;
use super::text::{escaped_len, put_escaped};

const METHOD: &[u8] = br#"{"jsonrpc":"2.0","method":""#;
const PARAMS: &[u8] = br#"","params":"#;
const RESULT: &[u8] = br#"{"jsonrpc":"2.0","result":"#;
const ERROR: &[u8] = br#"{"jsonrpc":"2.0","error":{"code":"#;
const MESSAGE: &[u8] = br#","message":""#;
const DATA: &[u8] = br#"","data":"#;
const SUBSCRIPTION: &[u8] = br#"{"subscription":"#;
const SUBSCRIPTION_RESULT: &[u8] = br#","result":"#;
const ID: &[u8] = br#","id":"#;

/// Room for the fixed parts of any message.
const FIXED: usize = 96;

/// Appends a request, with its parameters as JSON: an array or an object.
///
/// # Examples
///
/// ```
/// use ringway_wire::jsonrpc::{NumberedId, put_request};
///
/// let mut out = Vec::new();
/// put_request("subtract", Some("[42,23]"), NumberedId::new(1).id(), &mut out);
/// assert_eq!(out, br#"{"jsonrpc":"2.0","method":"subtract","params":[42,23],"id":1}"#);
/// ```
#[inline]
pub fn put_request(method: &str, params: Option<&str>, id: Id<'_>, out: &mut impl Target) {
    put_call(method, params, id.as_str().len(), out);
    close(id, out);
}

/// Appends a notification, with its parameters as JSON: an array or an object.
#[inline]
pub fn put_notification(method: &str, params: Option<&str>, out: &mut impl Target) {
    put_call(method, params, 0, out);
    close_notification(out);
}

/// Appends the beginning of a request or notification with parameters, which are to be appended next.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ringway_wire::jsonrpc::{CallContext, NumberedId, close, open_request, put_context};
///
/// let mut out = Vec::new();
/// open_request("search", &mut out);
/// out.extend_from_slice(br#"{"text":"ring"}"#); // as by `serde_json::to_writer(&mut out, …)`
/// put_context(&CallContext { timeout: Some(Duration::from_millis(250)), traceparent: None }, &mut out);
/// close(NumberedId::new(1).id(), &mut out);
/// assert_eq!(
///     out,
///     br#"{"jsonrpc":"2.0","method":"search","params":{"text":"ring"},"ringway":{"timeout_ms":250},"id":1}"#
/// );
/// ```
#[inline]
pub fn open_request(method: &str, out: &mut impl Target) {
    out.reserve(FIXED + escaped_len(method));
    out.put(METHOD);
    put_escaped(method, |part| out.put(part));
    out.put(PARAMS);
}

/// Appends the beginning of a response, whose result is to be appended next.
#[inline]
pub fn open_result(out: &mut impl Target) {
    out.reserve(FIXED);
    out.put(RESULT);
}

/// Appends the id of a request or response, and its end.
#[inline]
pub fn close(id: Id<'_>, out: &mut impl Target) {
    out.put(ID);
    out.put(id.as_str().as_bytes());
    out.put(b"}");
}

/// Appends the end of a notification.
#[inline]
pub fn close_notification(out: &mut impl Target) {
    out.put(b"}");
}

/// Appends the member `ringway` to a request that is open, behind its parameters. Time is rounded up to whole
/// milliseconds.
pub fn put_context(context: &CallContext<'_>, out: &mut impl Target) {
    let traceparent = context.traceparent.as_deref();
    out.reserve(FIXED + traceparent.map_or(0, escaped_len));
    out.put(br#","ringway":{"#);
    if let Some(timeout) = context.timeout {
        // Rounded up, so that the server does not give up the call before us.
        let millis = timeout.as_nanos().div_ceil(1_000_000);
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        out.put(br#""timeout_ms":"#);
        out.put(Digits::new(millis).as_str().as_bytes());
    }
    if let Some(traceparent) = traceparent {
        out.put(if context.timeout.is_some() { br#",""# } else { br#"""# });
        out.put(br#"traceparent":""#);
        put_escaped(traceparent, |part| out.put(part));
        out.put(b"\"");
    }
    out.put(b"}");
}

/// Appends a response with its result as JSON.
#[inline]
pub fn put_result(result: &str, id: Id<'_>, out: &mut impl Target) {
    out.reserve(FIXED + result.len() + id.as_str().len());
    out.put(RESULT);
    put_json(result, out);
    close(id, out);
}

/// Appends a response with an error; `data` is JSON.
///
/// # Examples
///
/// ```
/// use ringway_wire::jsonrpc::{ErrorNumber, Id, put_error};
///
/// let mut out = Vec::new();
/// put_error(ErrorNumber::INVALID_PARAMS, "no \"text\"", Some("[1]"), Id::NULL, &mut out);
/// assert_eq!(
///     out,
///     br#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"no \"text\"","data":[1]},"id":null}"#
/// );
/// ```
#[inline]
pub fn put_error(
    code: ErrorNumber,
    message: &str,
    data: Option<&str>,
    id: Id<'_>,
    out: &mut impl Target,
) {
    let data_len = data.map_or(0, str::len);
    out.reserve(FIXED + escaped_len(message) + data_len + id.as_str().len());
    out.put(ERROR);
    out.put(Digits::signed(code.0).as_str().as_bytes());
    out.put(MESSAGE);
    put_escaped(message, |part| out.put(part));
    match data {
        Some(data) => {
            out.put(DATA);
            put_json(data, out);
            out.put(b"}");
        }
        None => out.put(b"\"}"),
    }
    close(id, out);
}

/// Appends the answer to a message that is no request, or to a text that has none.
pub fn put_refusal(refusal: &Refusal<'_>, out: &mut impl Target) {
    let code = refusal.fault.code();
    put_error(code, code.text(), None, refusal.id, out);
}

/// Appends the notification of a subscription with its id and a result as JSON.
///
/// # Examples
///
/// ```
/// use ringway_wire::jsonrpc::{NumberedId, put_subscription};
///
/// let mut out = Vec::new();
/// put_subscription("ticks", NumberedId::new(3).id(), "[1,2]", &mut out);
/// assert_eq!(
///     out,
///     br#"{"jsonrpc":"2.0","method":"ticks","params":{"subscription":3,"result":[1,2]}}"#
/// );
/// ```
#[inline]
pub fn put_subscription(method: &str, id: Id<'_>, result: &str, out: &mut impl Target) {
    out.reserve(FIXED + escaped_len(method) + id.as_str().len() + result.len());
    open_subscription(method, id, out);
    put_json(result, out);
    close_subscription(out);
}

/// Appends the beginning of the notification of a subscription, whose result is to be appended next.
#[inline]
pub fn open_subscription(method: &str, id: Id<'_>, out: &mut impl Target) {
    open_request(method, out);
    out.put(SUBSCRIPTION);
    out.put(id.as_str().as_bytes());
    out.put(SUBSCRIPTION_RESULT);
}

/// Appends the end of the notification of a subscription.
#[inline]
pub fn close_subscription(out: &mut impl Target) {
    out.put(b"}}");
}

/// Appends a request or notification up to the end of its parameters.
#[inline]
fn put_call(method: &str, params: Option<&str>, id_len: usize, out: &mut impl Target) {
    let params_len = params.map_or(0, str::len);
    out.reserve(FIXED + escaped_len(method) + params_len + id_len);
    out.put(METHOD);
    put_escaped(method, |part| out.put(part));
    match params {
        Some(params) => {
            out.put(PARAMS);
            put_json(params, out);
        }
        None => out.put(b"\""),
    }
}

/// Appends JSON on one line.
#[inline]
fn put_json(json: &str, out: &mut impl Target) {
    let bytes = json.as_bytes();
    let mut from = 0;
    for at in memchr_iter(b'\n', bytes) {
        out.put(&bytes[from..at]);
        out.put(b" ");
        from = at + 1;
    }
    out.put(&bytes[from..]);
}
