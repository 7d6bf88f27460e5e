//! The reply of a call of framed messages: its head, then its frames as the handler sends them.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use ringway_http::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use ringway_http::{Body, Request, Response};
use ringway_wire::grpc::accepted_names;

use super::coder::Coder;
use super::exchange::Exchange;
use super::fields::put_fields;
use super::frames::{Frames, trailer_fields};
use super::protocol::{CompressionFields, Framed, Framing};
use crate::call::metadata::Metadata;
use crate::call::status::Status;
use crate::limits;
use crate::server::core::ServerCore;
use crate::server::direct::{DirectCalls, DirectReply};
use crate::server::direct_stream::DirectEvent;

/// Answers a call whose messages are framed.
pub(super) async fn call(
    core: &Rc<ServerCore>,
    calls: &DirectCalls,
    method_index: usize,
    framed: Framed,
    request: Request,
) -> Response {
    let begun = Exchange::begin(core, calls, method_index, framed, request).await;
    let (mut exchange, coder) = match begun {
        Ok(begun) => begun,
        Err(status) => return failed(framed, status, &Metadata::new()),
    };
    let mut event = poll_fn(|cx| exchange.poll_event(cx)).await;
    let mut initial = Metadata::new();
    if let DirectEvent::Initial(meta) = &event {
        initial = Metadata::of_wire(meta).unwrap_or_default();
        event = poll_fn(|cx| exchange.poll_event(cx)).await;
    }
    if let DirectEvent::Done(reply) = &event {
        if !reply.initial.is_empty() {
            initial = Metadata::of_wire(&reply.initial).unwrap_or_default();
        }
        if let Err(status) = Status::of_response(reply.status, &reply.meta) {
            return failed(framed, status, &initial);
        }
    }
    let mut response = head(framed, &initial);
    put_encodings(core, framed, &coder, &mut response);
    let has_one_reply = !core.entry(method_index).method().kind.streams_out();
    let frames = Frames::new(framed.framing);
    let mut replies = Replies { exchange: Some(exchange), coder, frames, has_one_reply };
    replies.put(event);
    // What the handler sends at once leaves with the head.
    poll_fn(|cx| {
        replies.fill(cx);
        Poll::Ready(())
    })
    .await;
    *response.body_mut() = replies.into_body();
    response
}

fn head(framed: Framed, initial: &Metadata) -> Response {
    let mut response = Response::new(Body::empty());
    let kind = HeaderValue::from_static(framed.content_type);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    put_fields(initial, "", response.headers_mut());
    response
}

/// The whole answer to a call that has failed before its first message. gRPC-Web has the status in the
/// head then.
pub(super) fn failed(framed: Framed, status: Status, initial: &Metadata) -> Response {
    let mut response = head(framed, initial);
    let outcome = Err(status);
    match framed.framing {
        Framing::Connect => {
            let mut frames = Frames::new(framed.framing);
            frames.put_end(&outcome);
            *response.body_mut() = frames.take_chunk().unwrap_or_default().into();
        }
        Framing::GrpcWeb | Framing::GrpcWebText => {
            for (name, value) in trailer_fields(&outcome) {
                put(&name, value, &mut response);
            }
        }
    }
    response
}

fn put_encodings(core: &ServerCore, framed: Framed, coder: &Coder, response: &mut Response) {
    let fields = CompressionFields::of(framed.framing);
    if let Some(encoding) = coder.reply_encoding() {
        put(fields.encoding, encoding.to_owned(), response);
    }
    if core.compression().is_some() {
        let names = String::from_utf8_lossy(&accepted_names(true)).into_owned();
        put(fields.accept, names, response);
    }
}

fn put(name: &str, value: String, response: &mut Response) {
    if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
        response.headers_mut().append(name, value);
    }
}

/// The frames of a reply, written as they are asked for.
struct Replies {
    /// Until the call has ended.
    exchange: Option<Exchange>,
    coder: Rc<Coder>,
    frames: Frames,
    /// Whether the end has the method's one message.
    has_one_reply: bool,
}

impl Replies {
    /// Takes what the handler has said, as far as it fits one chunk.
    fn fill(&mut self, cx: &mut Context<'_>) {
        while self.frames.len() < limits::WEB_CHUNK_BYTES
            && let Some(exchange) = &mut self.exchange
            && let Poll::Ready(event) = exchange.poll_event(cx)
        {
            self.put(event);
        }
    }

    fn put(&mut self, event: DirectEvent) {
        match event {
            DirectEvent::Initial(_) => {} // too late: the head has left
            DirectEvent::Message(message) => {
                if let Err(status) = self.put_message(message) {
                    self.end(Err(status));
                }
            }
            DirectEvent::Done(reply) => {
                let outcome = self.put_reply(reply);
                self.end(outcome);
            }
        }
    }

    fn put_reply(&mut self, reply: DirectReply) -> Result<Metadata, Status> {
        let trailers = Status::of_response(reply.status, &reply.meta)?;
        if self.has_one_reply {
            self.put_message(reply.message)?;
        }
        Ok(trailers)
    }

    fn put_message(&mut self, message: Bytes) -> Result<(), Status> {
        let (message, _) = self.coder.encode(message)?;
        let shorter = self.coder.compress(&message);
        let is_compressed = shorter.is_some();
        self.frames.put_message(shorter.unwrap_or(message), is_compressed);
        Ok(())
    }

    /// Ends the reply, and with it the call, if that goes on.
    fn end(&mut self, outcome: Result<Metadata, Status>) {
        self.frames.put_end(&outcome);
        self.exchange = None;
    }

    fn into_body(mut self) -> Body {
        if self.exchange.is_none() && self.frames.is_one_chunk() {
            return self.frames.take_chunk().unwrap_or_default().into();
        }
        Body::stream(self)
    }
}

impl Stream for Replies {
    type Item = ringway_http::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.frames.len() == 0 {
            self.fill(cx);
        }
        match self.frames.take_chunk() {
            Some(chunk) => Poll::Ready(Some(Ok(chunk))),
            None if self.exchange.is_none() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}
