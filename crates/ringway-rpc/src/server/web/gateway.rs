//! Calls by JSON at paths of a service's own, answered as grpc-gateway answers them: names as in the .proto file, members
//! that have their default left out, and each message of a stream on a line, as `{"result":…}`.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use ringway_http::http::header::{CONTENT_TYPE, HeaderValue};
use ringway_http::http::{Method as Verb, StatusCode};
use ringway_http::{Body, PeerWatch, Request, Response};
use ringway_runtime::now;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::coder::Coder;
use super::exchange::Exchange;
use super::failure::http_status;
use super::fields::put_fields;
use super::from_page;
use super::protocol::{CompressionFields, Label};
use super::refusal::{Refusal, RefusalForm};
use super::request::CallStart;
use super::unary;
use crate::call::json::mark_len;
use crate::call::metadata::Metadata;
use crate::call::method::Kind;
use crate::call::status::{Code, Status};
use crate::server::core::ServerCore;
use crate::server::direct::{DirectCalls, DirectReply, DirectRequest};
use crate::server::direct_stream::DirectEvent;
use crate::server::dispatch::takes_one_message;

/// Answers a request that calls the method at `method_index`.
pub(crate) async fn call(
    core: &Rc<ServerCore>,
    calls: &DirectCalls,
    method_index: usize,
    request: Request,
) -> Response {
    from_page(core, calls.site(), request, async |request| {
        if request.method() != Verb::POST {
            return Refusal::verb("POST").into_response(RefusalForm::Text);
        }
        let answer = match core.entry(method_index).method().kind {
            Kind::Unary => one_reply(core, calls, method_index, request).await,
            Kind::ClientStream => reply_to_all(core, calls, method_index, request).await,
            Kind::ServerStream | Kind::Bidi => lines(core, calls, method_index, request).await,
        };
        answer.unwrap_or_else(|refusal| match refusal {
            Refusal::Status(status) => failed(&status, unary_error(&status)),
            refusal => refusal.into_response(RefusalForm::Text),
        })
    })
    .await
}

async fn one_reply(
    core: &Rc<ServerCore>,
    calls: &DirectCalls,
    method_index: usize,
    request: Request,
) -> Result<Response, Refusal> {
    let (coder, reply) = unary::called(core, calls, method_index, Label::Json, request).await?;
    answer(&coder, reply)
}

/// Answers a call of a stream of requests, by the one reply to them.
async fn reply_to_all(
    core: &Rc<ServerCore>,
    calls: &DirectCalls,
    method_index: usize,
    request: Request,
) -> Result<Response, Refusal> {
    let watch = request.body().watch().cloned();
    let (mut exchange, coder) = begin(core, calls, method_index, request).await?;
    let mut before = Vec::new();
    let reply = poll_fn(|cx| {
        loop {
            match ready!(exchange.poll_event(cx)) {
                DirectEvent::Initial(initial) => before = initial,
                DirectEvent::Message(_) => {} // which such a method does not send
                DirectEvent::Done(reply) => return Poll::Ready(reply),
            }
        }
    });
    let reply = reply.await;
    watch.iter().for_each(PeerWatch::stop); // what is answered is sent even to a client that has closed its half
    answer(&coder, DirectReply { initial: before, ..reply })
}

fn answer(coder: &Coder, reply: DirectReply) -> Result<Response, Refusal> {
    let DirectReply { status, meta, message, initial } = reply;
    let trailers = Status::of_response(status, &meta)?;
    let mut response = json_response(coder.encode_as_named(message)?.into());
    let initial = Metadata::of_wire(&initial).unwrap_or_default();
    put_fields(&initial, "grpc-metadata-", response.headers_mut());
    put_fields(&trailers, "grpc-trailer-", response.headers_mut());
    Ok(response)
}

/// Answers a call of a stream of replies.
async fn lines(
    core: &Rc<ServerCore>,
    calls: &DirectCalls,
    method_index: usize,
    request: Request,
) -> Result<Response, Refusal> {
    let (exchange, coder) = begin(core, calls, method_index, request).await?;
    let mut lines = Lines { exchange: Some(exchange), coder };
    // A call that fails at once has its failure in the status as well.
    let first = poll_fn(|cx| lines.poll_line(cx)).await;
    if let Some(Line::Failed(status)) = &first {
        return Ok(failed(status, stream_error(status)));
    }
    let first = first.map(Line::into_bytes);
    Ok(json_response(Body::stream(BegunLines { first, rest: lines })))
}

/// Begins a call of a stream, whose requests are the whole body: one JSON text behind the other.
async fn begin(
    core: &Rc<ServerCore>,
    calls: &DirectCalls,
    method_index: usize,
    request: Request,
) -> Result<(Exchange, Rc<Coder>), Refusal> {
    let headers = request.headers();
    let start = CallStart::read(headers, method_index)?;
    let fields = CompressionFields::UNARY;
    let coder = Rc::new(Coder::new(core, method_index, Label::Json, headers, fields)?);
    let watch = request.body().watch().cloned();
    let (began, body) = (now(), unary::whole(&start, request.into_body()).await?);
    if let Some(watch) = watch {
        watch.start(); // the stream may have no end but that of its client
    }
    let mut texts = texts(body.slice(mark_len(&body)..));
    let first = texts.next().transpose()?;
    let (head, meta) = start.begin(coder.codec(None), now().saturating_duration_since(began))?;
    if takes_one_message(core.entry(method_index).method().kind) {
        if texts.next().is_some() {
            return Err(Status::unimplemented(TWO_MESSAGES).into());
        }
        let (message, translation) = (first.unwrap_or_default(), coder.translation(false));
        let request = DirectRequest { head, meta, message, translation };
        return Ok((Exchange::of_whole(calls.open_single(request)), coder));
    }
    let first = first.map(|text| coder.decode(false, text)).transpose()?;
    let (call, of) = (calls.open_stream(head, meta), Rc::clone(&coder));
    let others = texts.map(move |text| of.decode(false, text?));
    Ok((Exchange::of_messages(call, first.map(Ok).into_iter().chain(others)), coder))
}

const TWO_MESSAGES: &str = "the method takes one message, and more were sent";

/// The JSON texts of a body, as far as they are well-formed.
fn texts(mut body: Bytes) -> impl Iterator<Item = Result<Bytes, Status>> {
    std::iter::from_fn(move || {
        let mut texts = serde_json::Deserializer::from_slice(&body).into_iter::<IgnoredAny>();
        let text = texts.next()?;
        let end = texts.byte_offset();
        if let Err(error) = text {
            body.clear();
            return Some(Err(Status::invalid_argument(error.to_string())));
        }
        Some(Ok(body.split_to(end)))
    })
}

/// The replies of a stream.
struct Lines {
    /// Until the call has ended.
    exchange: Option<Exchange>,
    coder: Rc<Coder>,
}

enum Line {
    Message(Bytes),
    Failed(Status),
}

impl Line {
    fn into_bytes(self) -> Bytes {
        match self {
            Self::Message(line) => line,
            Self::Failed(status) => (stream_error(&status).to_string() + "\n").into(),
        }
    }
}

impl Lines {
    fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<Option<Line>> {
        while let Some(exchange) = &mut self.exchange {
            match ready!(exchange.poll_event(cx)) {
                DirectEvent::Initial(_) => {} // the head may have left
                DirectEvent::Message(message) => match self.coder.encode_as_named(message) {
                    Ok(message) => return Poll::Ready(Some(Line::Message(result(&message)))),
                    Err(status) => return Poll::Ready(Some(self.end(status))),
                },
                DirectEvent::Done(reply) => {
                    let outcome = Status::of_response(reply.status, &reply.meta);
                    self.exchange = None;
                    if let Err(status) = outcome {
                        return Poll::Ready(Some(self.end(status)));
                    }
                }
            }
        }
        Poll::Ready(None)
    }

    /// Ends the call, if it goes on.
    fn end(&mut self, status: Status) -> Line {
        self.exchange = None;
        Line::Failed(status)
    }
}

/// A message of a stream, as clients read it: each in a chunk of its own.
fn result(message: &[u8]) -> Bytes {
    [b"{\"result\":", message, b"}\n"].concat().into()
}

/// The lines of a stream whose first has come.
struct BegunLines {
    first: Option<Bytes>,
    rest: Lines,
}

impl Stream for BegunLines {
    type Item = ringway_http::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        self.rest.poll_line(cx).map(|line| line.map(|line| Ok(line.into_bytes())))
    }
}

fn json_response(body: Body) -> Response {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn failed(status: &Status, error: Value) -> Response {
    let mut response = json_response((error.to_string() + "\n").into());
    *response.status_mut() = status_of(status.code());
    response
}

fn unary_error(status: &Status) -> Value {
    let message = status.message();
    json!({ "error": message, "message": message, "code": status.code().number() })
}

fn stream_error(status: &Status) -> Value {
    let http = status_of(status.code());
    json!({ "error": {
        "grpc_code": status.code().number(),
        "http_code": http.as_u16(),
        "message": status.message(),
        "http_status": http.canonical_reason().unwrap_or_default(),
    } })
}

/// As Connect has it, but for two codes.
fn status_of(code: Code) -> StatusCode {
    match code {
        Code::Cancelled => StatusCode::REQUEST_TIMEOUT,
        Code::FailedPrecondition => StatusCode::PRECONDITION_FAILED,
        code => http_status(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_one_text_behind_the_other() {
        let read = |body: &'static str| {
            let texts = texts(Bytes::from_static(body.as_bytes()))
                .map(|text| text.map(|text| text.trim_ascii().to_vec()));
            texts.collect::<Result<Vec<_>, _>>().map_err(|status| status.code())
        };
        assert_eq!(read(""), Ok(Vec::new()));
        let expected = vec![b"{\"a\":[1]}".to_vec(), b"{}".to_vec()];
        assert_eq!(read(" {\"a\":[1]}\n{} "), Ok(expected));
        assert_eq!(read("1 2"), Ok(vec![b"1".to_vec(), b"2".to_vec()]));
        for malformed in ["{\"a\"", "{} {", "{}}"] {
            assert_eq!(read(malformed), Err(Code::InvalidArgument), "{malformed}");
        }
    }

    #[test]
    fn failures_are_those_of_the_gateway() {
        let status = Status::failed_precondition("etcdserver: lease already exists");
        let said = "etcdserver: lease already exists";
        let expected = json!({ "error": said, "message": said, "code": 9 });
        assert_eq!((unary_error(&status), status_of(status.code()).as_u16()), (expected, 412));
        let error = &stream_error(&status)["error"];
        assert_eq!(
            (&error["http_code"], &error["http_status"]),
            (&json!(412), &json!("Precondition Failed"))
        );
    }
}
