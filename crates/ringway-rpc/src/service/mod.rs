//! What generated code tells a server about a service: its methods and how each is carried out.

mod in_place;
#[cfg(not(feature = "tokio"))]
mod no_tokio;
mod offload;
mod provider;
#[cfg(feature = "tokio")]
pub mod side_tokio;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task;

use bytes::Bytes;
use ringway_wire::native::Piece;

use self::in_place::{InPlace, Replied};
use self::offload::Offloaded;
use crate::call::codec::Codec;
use crate::call::context::Context;
use crate::call::json_shape::Shape;
use crate::call::method::Method;
use crate::call::status::Status;
use crate::stream::remote::{OpenedStream, StreamAt};
use crate::stream::sink::Sink;
use crate::stream::streaming::Streaming;

pub use provider::{Instance, Provider};

/// A service that a server can serve. The [`service`](crate::service) attribute writes it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a service as servers take it",
    note = "give the server what `#[service]` has made for it: `…Server::new({Self})`, or `…Server::per_core(…)`"
)]
pub trait Service: Send + Sync + 'static {
    /// What is known of the service.
    fn descriptor(&self) -> &'static ServiceDescriptor;

    /// Adds the methods to the table of the calling core.
    fn register(&self, methods: &mut Methods);
}

/// A service's name, methods and description.
#[derive(Clone, Copy, Debug)]
pub struct ServiceDescriptor {
    /// `package.Service`.
    pub name: &'static str,
    /// In the order of the trait.
    pub methods: &'static [Method],
    /// A serialized `google.protobuf.FileDescriptorSet`, where the service came from a `.proto`.
    pub file_descriptor_set: Option<&'static [u8]>,
}

/// The methods of one core, each with what carries it out.
#[derive(Default)]
pub struct Methods {
    entries: Vec<Registered>,
}

/// A method of one core.
pub(crate) struct Registered {
    pub(crate) method: &'static Method,
    /// Of requests.
    pub(crate) codec_in: u8,
    /// Of replies.
    pub(crate) codec_out: u8,
    /// The well-known message that a request is, or nothing.
    pub(crate) message_in: &'static str,
    /// The same of a reply.
    pub(crate) message_out: &'static str,
    /// What a request is as JSON, where it can be read so.
    pub(crate) json_in: Option<Shape>,
    /// Whether a reply can be written as JSON.
    pub(crate) json_out: bool,
    pub(crate) handler: Box<dyn Handler>,
}

/// Carries out a method.
///
/// Whoever starts it, or polls what waits, does so inside of [`Context::enter`], and stands its
/// panics: the call is over then, and the handler is as good as before.
pub(crate) trait Handler {
    /// Decodes the request and runs the method until it is done or has to wait. A message is
    /// encoded into `out`, which is empty.
    fn start(&self, begin: Begin<'_>, out: &mut Vec<u8>) -> Started;
}

/// A call that begins.
pub(crate) struct Begin<'a> {
    pub(crate) context: Context,
    /// The request, where the method takes one that is no stream.
    pub(crate) message: Option<Piece<'a>>,
    /// The stream, where the method has one; its table knows which handles there will be.
    pub(crate) stream: Option<OpenedStream>,
    /// What belongs to the work, to be dropped when that is done, be it after the call's end.
    pub(crate) held: Option<Box<dyn Any>>,
    /// Messages are JSON, whatever the method's own form is.
    pub(crate) is_json: bool,
}

/// How far a call came at once.
pub(crate) enum Started {
    Done(Outcome),
    /// It did not begin, since there is no room for it: another server may carry it out.
    Refused(&'static str),
    /// Nobody will be woken for what it waits for: it has to be polled again at once, as a task.
    Waiting(Pin<Box<dyn Waiting>>),
}

/// The rest of a call.
pub(crate) trait Waiting {
    /// Goes on. When it is ready, the message is in `out`, which is empty before.
    fn poll(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        out: &mut Vec<u8>,
    ) -> task::Poll<Outcome>;
}

/// How a handler ends.
pub(crate) type Outcome = Result<Encoded, Status>;

/// The message of a reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Encoded {
    /// It is in the vector that was lent for it.
    InScratch,
    /// It is these bytes.
    Shared(Bytes),
    /// There is none: the method answers with a stream.
    Nothing,
}

impl Methods {
    /// Adds a method with one request and one reply.
    pub fn unary<Req, Rep, F, Fut>(
        &mut self,
        method: &'static Method,
        codec_in: Codec<Req>,
        codec_out: Codec<Rep>,
        handler: F,
    ) where
        Req: 'static,
        Rep: 'static,
        F: Fn(Context, Req) -> Fut + 'static,
        Fut: Future<Output = Result<Rep, Status>> + 'static,
    {
        let start = move |begin: Begin<'_>, mut place: Pin<&mut Option<_>>| {
            let codec = codec_out.in_form(begin.is_json);
            let request = decode_request(&codec_in.in_form(begin.is_json), begin.message)?;
            let reply = handler(begin.context, request);
            place.set(Some(async move { Replied { reply: reply.await, codec } }));
            Ok(())
        };
        self.add(method, &codec_in, &codec_out, InPlace::boxed(start));
    }

    /// Adds a method with one request and one reply, which runs on the blocking pool.
    pub fn unary_offloaded<Req, Rep, F, Fut>(
        &mut self,
        method: &'static Method,
        codec_in: Codec<Req>,
        codec_out: Codec<Rep>,
        handler: F,
    ) where
        Req: 'static,
        Rep: 'static,
        F: Fn(Context, Req) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Rep, Status>> + 'static,
    {
        let handler = Offloaded::new(codec_in, codec_out, handler);
        self.add(method, &codec_in, &codec_out, Box::new(handler));
    }

    /// Adds a method with a stream of requests and one reply.
    pub fn client_stream<Req, Rep, F, Fut>(
        &mut self,
        method: &'static Method,
        codec_in: Codec<Req>,
        codec_out: Codec<Rep>,
        handler: F,
    ) where
        Req: 'static,
        Rep: 'static,
        F: Fn(Context, Streaming<Req>) -> Fut + 'static,
        Fut: Future<Output = Result<Rep, Status>> + 'static,
    {
        let handler = Rc::new(handler);
        let start = move |begin: Begin<'_>, mut place: Pin<&mut Option<_>>| {
            let codec = codec_out.in_form(begin.is_json);
            let codec_in = codec_in.in_form(begin.is_json);
            let requests = Streaming::new(stream_of(begin.stream), codec_in);
            let (handler, context) = (Rc::clone(&handler), begin.context);
            place.set(Some(async move {
                // Made here, the handler's future is in its place at once, and not a second time besides.
                Replied { reply: handler(context, requests).await, codec }
            }));
            Ok(())
        };
        self.add(method, &codec_in, &codec_out, InPlace::boxed(start));
    }

    /// Adds a method with one request and a stream of replies.
    pub fn server_stream<Req, Rep, F, Fut>(
        &mut self,
        method: &'static Method,
        codec_in: Codec<Req>,
        codec_out: Codec<Rep>,
        handler: F,
    ) where
        Req: 'static,
        Rep: 'static,
        F: Fn(Context, Req, Sink<Rep>) -> Fut + 'static,
        Fut: Future<Output = Result<(), Status>> + 'static,
    {
        let start = move |begin: Begin<'_>, mut place: Pin<&mut Option<Fut>>| {
            let is_json = begin.is_json;
            let replies = Sink::new(stream_of(begin.stream), codec_out.in_form(is_json));
            let request = decode_request(&codec_in.in_form(is_json), begin.message)?;
            place.set(Some(handler(begin.context, request, replies)));
            Ok(())
        };
        self.add(method, &codec_in, &codec_out, InPlace::boxed(start));
    }

    /// Adds a method with a stream each way.
    pub fn bidi<Req, Rep, F, Fut>(
        &mut self,
        method: &'static Method,
        codec_in: Codec<Req>,
        codec_out: Codec<Rep>,
        handler: F,
    ) where
        Req: 'static,
        Rep: 'static,
        F: Fn(Context, Streaming<Req>, Sink<Rep>) -> Fut + 'static,
        Fut: Future<Output = Result<(), Status>> + 'static,
    {
        let start = move |begin: Begin<'_>, mut place: Pin<&mut Option<Fut>>| {
            let at = stream_of(begin.stream);
            let is_json = begin.is_json;
            let requests = Streaming::new(at, codec_in.in_form(is_json));
            let replies = Sink::new(at, codec_out.in_form(is_json));
            place.set(Some(handler(begin.context, requests, replies)));
            Ok(())
        };
        self.add(method, &codec_in, &codec_out, InPlace::boxed(start));
    }

    pub(crate) fn push(&mut self, entry: Registered) {
        self.entries.push(entry);
    }

    pub(crate) fn into_entries(self) -> Vec<Registered> {
        self.entries
    }

    fn add<Req: 'static, Rep: 'static>(
        &mut self,
        method: &'static Method,
        codec_in: &Codec<Req>,
        codec_out: &Codec<Rep>,
        handler: Box<dyn Handler>,
    ) {
        self.entries.push(Registered {
            method,
            codec_in: codec_in.id,
            codec_out: codec_out.id,
            message_in: codec_in.well_known(),
            message_out: codec_out.well_known(),
            json_in: codec_in.json.map(|json| (json.shape)()),
            json_out: codec_out.json.is_some(),
            handler,
        });
    }
}

/// The request of a method that takes exactly one.
fn decode_request<T>(codec: &Codec<T>, message: Option<Piece<'_>>) -> Result<T, Status> {
    match message {
        Some(message) => (codec.decode)(message),
        None => Err(Status::unimplemented("the method takes one request, and there is none")),
    }
}

/// Where the handles of a call's stream are to be made.
fn stream_of(stream: Option<OpenedStream>) -> StreamAt {
    let opened = stream.expect("the server opens a stream for each call of a method that has one");
    opened.take()
}

impl fmt::Debug for Methods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|entry| entry.method)).finish()
    }
}
