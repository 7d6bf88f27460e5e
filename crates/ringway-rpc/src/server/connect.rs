//! Unary calls of the Connect protocol: a POST whose body is the message, and an answer whose body is the
//! reply, or an error as JSON (connectrpc.com/docs/protocol, "Unary-Request" and "Unary-Response").

use bytes::Bytes;
use ringway_http::http::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN,
};
use ringway_http::http::{Method as Verb, StatusCode};
use ringway_http::{Body, Request, Response};
use ringway_wire::native::{MetaWriter, RequestHead};

use super::core::ServerCore;
use super::direct::{DirectCalls, DirectReply, DirectRequest};
use crate::call::codec;
use crate::call::metadata::Metadata;
use crate::call::method::Kind;
use crate::call::status::{Code, Status};
use crate::call::trace::TraceContext;

/// Answers a call of the method at `method_index` of the core's table.
pub(super) async fn call(
    core: &ServerCore,
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
    core: &ServerCore,
    calls: &DirectCalls,
    method_index: usize,
    request: Request,
) -> Result<Response, Refusal> {
    let (mut head, meta) = prepare(core, method_index, &request)?;
    let mut message = request.into_body().bytes().await.map_err(Refusal::Http)?;
    let entry = core.entry(method_index);
    let is_json = head.codec == codec::JSON;
    let json_forms = || entry.json_forms(core.shared().service(entry.method().service()));
    if is_json {
        message = json_forms().request(message).map_err(Refusal::Status)?;
        head.codec = entry.codec_in();
    }
    let reply = calls.call(DirectRequest { head, meta, message }).await;
    let DirectReply { status, meta, message } = reply;
    let trailers = Status::of_response(status, &meta).map_err(Refusal::Status)?;
    let (message, codec) = match is_json {
        true => json_forms().reply(message).map_err(Refusal::Status)?,
        false => (message, entry.codec_out()),
    };
    Ok(answer(codec, message, &trailers))
}

/// What a request says beside its message, or why it is not served.
fn prepare(
    core: &ServerCore,
    method_index: usize,
    request: &Request,
) -> Result<(RequestHead, Vec<u8>), Refusal> {
    let method = core.entry(method_index).method();
    let headers = request.headers();
    if request.method() != Verb::POST {
        return Err(Refusal::plain(StatusCode::METHOD_NOT_ALLOWED, "calls are made by POST"));
    }
    if is_foreign_page(headers) {
        let message = "a page of another origin may not call this server";
        return Err(Refusal::plain(StatusCode::FORBIDDEN, message));
    }
    if method.kind != Kind::Unary {
        let message = format!("{} is a stream, which plain HTTP cannot call", method.name);
        return Err(Refusal::Status(Status::unimplemented(message)));
    }
    let codec = codec_of(headers).ok_or_else(|| {
        let types = "application/json, application/proto or application/octet-stream";
        Refusal::plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("a message comes as {types}"))
    })?;
    if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        let message = "compressed messages are not taken over HTTP";
        return Err(Refusal::Status(Status::unimplemented(message)));
    }
    let mut head = RequestHead { method: method_index as u32 + 1, codec, ..RequestHead::default() };
    let mut meta = Vec::new();
    if let Some(timeout_us) = timeout_us(headers).map_err(Refusal::Status)? {
        match u32::try_from(timeout_us) {
            Ok(timeout) => head.timeout_us = timeout,
            Err(_) => _ = MetaWriter::new(&mut meta).timeout_us(timeout_us),
        }
    }
    write_metadata(headers, &mut meta)?;
    Ok((head, meta))
}

/// A request that never becomes a call.
enum Refusal {
    Http(ringway_http::Error),
    Status(Status),
}

impl Refusal {
    fn plain(status: StatusCode, message: impl Into<String>) -> Self {
        Self::Http(ringway_http::Error::new(status, message.into()))
    }
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Http(error) => error.into(),
            Refusal::Status(status) => failure(&status),
        }
    }
}

/// Browsers say from which page a request comes. Others say nothing, or what they like.
fn is_foreign_page(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let own = headers.get(HOST).map(HeaderValue::as_bytes);
    let authority = origin.as_bytes().splitn(3, |byte| *byte == b'/').nth(2);
    authority.is_none() || authority != own
}

fn codec_of(headers: &HeaderMap) -> Option<u8> {
    let text = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let (kind, parameters) = text.split_once(';').unwrap_or((text, ""));
    let parameters = parameters.trim();
    if !(parameters.is_empty() || parameters.eq_ignore_ascii_case("charset=utf-8")) {
        return None;
    }
    match kind.trim().to_ascii_lowercase().as_str() {
        "application/json" => Some(codec::JSON),
        "application/proto" => Some(codec::PROTOBUF),
        "application/octet-stream" => Some(codec::RAW),
        _ => None,
    }
}

fn content_type(codec: u8) -> &'static str {
    match codec {
        codec::JSON => "application/json",
        codec::PROTOBUF => "application/proto",
        _ => "application/octet-stream",
    }
}

/// `Connect-Timeout-Ms`: at most ten digits.
fn timeout_us(headers: &HeaderMap) -> Result<Option<u64>, Status> {
    let Some(value) = headers.get("connect-timeout-ms") else { return Ok(None) };
    let digits = value.to_str().ok().filter(|text| {
        !text.is_empty() && text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_digit())
    });
    let milliseconds = digits.and_then(|digits| digits.parse::<u64>().ok());
    let bad = || Status::invalid_argument("Connect-Timeout-Ms is a number of at most ten digits");
    // Zero would stand for none.
    milliseconds.map(|ms| Some((ms * 1_000).max(1))).ok_or_else(bad)
}

/// Headers of the transfer, of browsers and of the protocol itself; the others are metadata of the call.
const NOT_METADATA: [&str; 10] = [
    "host",
    "connection",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "keep-alive",
    "expect",
    "origin",
    "traceparent",
];

fn write_metadata(headers: &HeaderMap, meta: &mut Vec<u8>) -> Result<(), Refusal> {
    let mut writer = MetaWriter::new(meta);
    for (name, value) in headers {
        let name = name.as_str();
        let prefixes = ["content-", "accept", "connect-", "grpc-", "ringway-", "sec-", "proxy-"];
        if NOT_METADATA.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        match name {
            "authorization" => _ = writer.authorization(value.as_bytes()),
            _ => match Metadata::new().append(name, value.as_bytes()) {
                Ok(()) => _ = writer.entry(name, value.as_bytes()),
                Err(_) => {
                    let message = format!("the header {name} is no metadata of a call");
                    return Err(Refusal::Status(Status::invalid_argument(message)));
                }
            },
        }
    }
    let trace = headers.get("traceparent").and_then(|value| value.to_str().ok());
    if let Some(trace) = trace.and_then(TraceContext::parse) {
        writer.traceparent(&trace.to_bytes());
    }
    Ok(())
}

fn answer(codec: u8, message: Bytes, trailers: &Metadata) -> Response {
    let mut response = Response::new(Body::from(message));
    let kind = HeaderValue::from_static(content_type(codec));
    response.headers_mut().insert(CONTENT_TYPE, kind);
    write_trailers(trailers, response.headers_mut());
    response
}

/// Trailers are headers with a prefix here, since there is only one message.
fn write_trailers(trailers: &Metadata, headers: &mut HeaderMap) {
    for (key, value) in trailers.iter() {
        let name = HeaderName::try_from(format!("trailer-{key}"));
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
}

fn failure(status: &Status) -> Response {
    let error = serde_json::json!({
        "code": code_name(status.code()),
        "message": status.message(),
    });
    let mut response = Response::new(Body::from(error.to_string()));
    *response.status_mut() = http_status(status.code());
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    write_trailers(status.metadata(), response.headers_mut());
    response
}

/// "Error Codes" of the protocol.
fn http_status(code: Code) -> StatusCode {
    let number = match code {
        Code::Ok => 200,
        Code::Cancelled => 499,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
        Code::DeadlineExceeded => 504,
        Code::NotFound => 404,
        Code::AlreadyExists | Code::Aborted => 409,
        Code::PermissionDenied => 403,
        Code::ResourceExhausted => 429,
        Code::Unimplemented => 501,
        Code::Unavailable => 503,
        Code::Unauthenticated => 401,
        _ => 500,
    };
    StatusCode::from_u16(number).expect("all of them are")
}

fn code_name(code: Code) -> String {
    match code {
        Code::Cancelled => "canceled".to_owned(), // the protocol's spelling
        code => code.name().to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let field =
            |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        fields.iter().map(field).collect()
    }

    #[test]
    fn codes_have_the_names_and_statuses_of_the_protocol() {
        let known = [
            (1, "canceled", 499),
            (2, "unknown", 500),
            (3, "invalid_argument", 400),
            (4, "deadline_exceeded", 504),
            (5, "not_found", 404),
            (6, "already_exists", 409),
            (7, "permission_denied", 403),
            (8, "resource_exhausted", 429),
            (9, "failed_precondition", 400),
            (10, "aborted", 409),
            (11, "out_of_range", 400),
            (12, "unimplemented", 501),
            (13, "internal", 500),
            (14, "unavailable", 503),
            (15, "data_loss", 500),
            (16, "unauthenticated", 401),
        ];
        for (number, name, status) in known {
            let code = Code::from_wire(number);
            assert_eq!((&*code_name(code), http_status(code).as_u16()), (name, status));
        }
    }

    #[test]
    fn a_page_of_another_origin_is_told_from_our_own_and_from_no_page() {
        let is_foreign = |fields: &[_]| is_foreign_page(&headers(fields));
        assert!(!is_foreign(&[("host", "a:1")]));
        assert!(!is_foreign(&[("host", "a:1"), ("origin", "http://a:1")]));
        assert!(is_foreign(&[("host", "a:1"), ("origin", "http://b:1")]));
        assert!(is_foreign(&[("host", "a:1"), ("origin", "http://a:2")]));
        assert!(is_foreign(&[("host", "a:1"), ("origin", "null")]));
    }

    #[test]
    fn timeouts_and_types_are_read_strictly() {
        let timeout = |value| timeout_us(&headers(&[("connect-timeout-ms", value)])).ok();
        assert_eq!(timeout("5"), Some(Some(5_000)));
        assert_eq!(timeout("9999999999"), Some(Some(9_999_999_999_000)));
        assert_eq!((timeout("12345678901"), timeout("-1"), timeout("1.5")), (None, None, None));
        let codec = |value| codec_of(&headers(&[("content-type", value)]));
        assert_eq!(codec("application/JSON; charset=utf-8"), Some(codec::JSON));
        assert_eq!(
            (codec("application/proto"), codec("text/plain")),
            (Some(codec::PROTOBUF), None)
        );
        assert_eq!(codec("application/json; charset=latin1"), None);
    }
}
