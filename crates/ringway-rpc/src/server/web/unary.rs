//! Unary calls of the Connect protocol: the body of a request is its message, and so is that of the reply,
//! or an error as JSON (connectrpc.com/docs/protocol, "Unary-Request" to "Unary-Response").

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_http::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, VARY};
use ringway_http::{Body, PeerWatch, Request, RequestBody, Response};
use ringway_runtime::{now, timeout};
use ringway_wire::web::GetQuery;

use super::coder::Coder;
use super::envelopes::not_whole;
use super::failure::{error_json, http_status};
use super::fields::put_fields;
use super::protocol::{CompressionFields, Label};
use super::refusal::Refusal;
use super::request::{CallStart, too_late};
use crate::call::metadata::Metadata;
use crate::call::status::Status;
use crate::server::core::ServerCore;
use crate::server::direct::{DirectCalls, DirectReply, DirectRequest};

/// Answers a call by POST.
pub(super) async fn post(
    core: &Rc<ServerCore>,
    calls: &DirectCalls,
    method_index: usize,
    label: Label,
    request: Request,
) -> Result<Response, Refusal> {
    let (coder, reply) = called(core, calls, method_index, label, request).await?;
    answer(&coder, reply)
}

/// Makes a call whose message is the body.
pub(super) async fn called(
    core: &Rc<ServerCore>,
    calls: &DirectCalls,
    method_index: usize,
    label: Label,
    request: Request,
) -> Result<(Rc<Coder>, DirectReply), Refusal> {
    let headers = request.headers();
    let start = CallStart::read(headers, method_index)?;
    let coder = Rc::new(Coder::new(core, method_index, label, headers, CompressionFields::UNARY)?);
    let watch = request.body().watch().cloned();
    let is_compressed = coder.is_compressed();
    let (began, message) = (now(), whole(&start, request.into_body()).await?);
    let (head, meta) = start.begin(coder.codec(None), now().saturating_duration_since(began))?;
    let translation = coder.translation(is_compressed);
    let request = DirectRequest { head, meta, message, translation };
    let reply = reply_to(calls, request, watch).await;
    Ok((coder, reply))
}

/// The body of a call, once it is whole.
pub(super) async fn whole(start: &CallStart, body: RequestBody) -> Result<Bytes, Status> {
    let body = match start.timeout() {
        None => body.bytes().await,
        Some(left) => timeout(left, body.bytes()).await.map_err(|_elapsed| too_late())?,
    };
    body.map_err(|error| not_whole(&error))
}

/// Answers a call whose message is in the query of a GET.
pub(super) async fn get(
    core: &Rc<ServerCore>,
    calls: &DirectCalls,
    method_index: usize,
    request: Request,
) -> Result<Response, Refusal> {
    let query = request.uri().query().unwrap_or_default();
    let query = GetQuery::parse(query.as_bytes());
    let query = query.map_err(|error| Status::invalid_argument(error.to_string()))?;
    if query.version.is_some_and(|version| version != "v1") {
        return Err(Status::invalid_argument("the parameter `connect` has to be v1").into());
    }
    let label = Label::of_encoding(&query.encoding).ok_or_else(Refusal::media_type)?;
    let headers = request.headers();
    let start = CallStart::read(headers, method_index)?;
    let accepted = headers.get(CompressionFields::UNARY.accept).map(HeaderValue::as_bytes);
    let compression = query.compression.as_deref().map(str::as_bytes);
    let coder = Rc::new(Coder::with(core, method_index, label, compression, accepted)?);
    let is_compressed = coder.is_compressed();
    let (head, meta) = start.begin(coder.codec(None), Duration::ZERO)?;
    let watch = request.body().watch().cloned();
    let translation = coder.translation(is_compressed);
    let request = DirectRequest { head, meta, message: query.message.into(), translation };
    let reply = reply_to(calls, request, watch).await;
    let mut response = answer(&coder, reply)?;
    if core.compression().is_some() {
        // A cache may keep the answer to a GET, and is not to give it to who cannot decompress it.
        response.headers_mut().append(VARY, HeaderValue::from_static("accept-encoding"));
    }
    Ok(response)
}

/// Makes a call, which is cancelled when its client has gone. What is answered at once is sent even to a
/// client that has closed its half.
async fn reply_to(
    calls: &DirectCalls,
    request: DirectRequest,
    watch: Option<PeerWatch>,
) -> DirectReply {
    if let Some(watch) = &watch {
        watch.start();
    }
    let reply = calls.call(request).await;
    if let Some(watch) = &watch {
        watch.stop();
    }
    reply
}

fn answer(coder: &Coder, reply: DirectReply) -> Result<Response, Refusal> {
    let DirectReply { status, meta, message, initial } = reply;
    let initial = Metadata::of_wire(&initial).unwrap_or_default();
    let trailers = match Status::of_response(status, &meta) {
        Ok(trailers) => trailers,
        Err(status) => {
            let mut response = failure(&status);
            put_fields(&initial, "", response.headers_mut());
            return Ok(response);
        }
    };
    let (message, label) = coder.encode(message)?;
    let mut response = success(coder, message, label);
    put_fields(&initial, "", response.headers_mut());
    put_fields(&trailers, "trailer-", response.headers_mut());
    Ok(response)
}

fn success(coder: &Coder, message: Bytes, label: Label) -> Response {
    let shorter = coder.compress(&message);
    let encoding = coder.reply_encoding().filter(|_| shorter.is_some());
    let mut response = Response::new(Body::from(shorter.unwrap_or(message)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(label.content_type()));
    if let Some(encoding) = encoding {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response
}

/// A failed call: its code decides about the status of HTTP.
pub(super) fn failure(status: &Status) -> Response {
    let mut response = Response::new(Body::from(error_json(status).to_string()));
    *response.status_mut() = http_status(status.code());
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    // There is only one message, so trailers are headers with a prefix.
    put_fields(status.metadata(), "trailer-", response.headers_mut());
    response
}
