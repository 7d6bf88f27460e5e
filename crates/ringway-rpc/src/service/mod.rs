//! The interface between generated code and the server: methods and their handlers.

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

/// A service that a server can serve. The [`service`](crate::service) attribute implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be served as it is",
    note = "pass the server type that `#[service]` generated: `…Server::new({Self})`, or `…Server::per_core(…)`"
)]
pub trait Service: Send + Sync + 'static {
    /// Returns the description of the service.
    fn descriptor(&self) -> &'static ServiceDescriptor;

    /// Adds the methods to the table of the calling core.
    fn register(&self, methods: &mut Methods);
}

/// The name, methods and descriptors of a service.
#[derive(Clone, Copy, Debug)]
pub struct ServiceDescriptor {
    /// The full name, `package.Service`.
    pub name: &'static str,
    /// The methods in the order of the trait.
    pub methods: &'static [Method],
    /// A serialized `google.protobuf.FileDescriptorSet`, if the service was made from a `.proto`
    /// file.
    pub file_descriptor_set: Option<&'static [u8]>,
}

/// The methods of one core, each with its handler. A method that is added again replaces the former one.
#[derive(Default)]
pub struct Methods {
    entries: Vec<Registered>,
}

/// A method of one core.
pub(crate) struct Registered {
    pub(crate) method: &'static Method,
    /// The number of the codec of requests.
    pub(crate) codec_in: u8,
    /// The number of the codec of replies.
    pub(crate) codec_out: u8,
    /// The well-known protobuf message of requests, or empty.
    pub(crate) message_in: &'static str,
    /// The well-known protobuf message of replies, or empty.
    pub(crate) message_out: &'static str,
    /// The shape of a request in JSON, if it has a JSON form.
    pub(crate) json_in: Option<Shape>,
    /// The JSON Schemas of requests and replies that have a JSON form. They run code of the messages' types.
    pub(crate) schemas: [Option<fn() -> serde_json::Value>; 2],
    /// Whether a reply can be written as JSON.
    pub(crate) json_out: bool,
    pub(crate) handler: Box<dyn Handler>,
}

/// Executes a method.
///
/// Callers start and poll inside of [`Context::enter`] and contain panics. A panic ends the call,
/// and the handler stays usable.
pub(crate) trait Handler {
    /// Decodes the request and runs the method until it is done or has to wait. The reply is
    /// encoded into `out`, which is empty before.
    fn start(&self, begin: Begin<'_>, out: &mut Vec<u8>) -> Started;
}

/// The inputs of a call that begins.
pub(crate) struct Begin<'a> {
    pub(crate) context: Context,
    /// The request, if the method takes a single one.
    pub(crate) message: Option<Piece<'a>>,
    /// The call's stream, if the method has one; its table knows which handles exist.
    pub(crate) stream: Option<OpenedStream>,
    /// A guard that is dropped when the work is done, even if that is after the call's end.
    pub(crate) held: Option<Box<dyn Any>>,
    /// Whether messages are in JSON, whatever the method's codecs are.
    pub(crate) is_json: bool,
}

/// The result of starting a call.
pub(crate) enum Started {
    Done(Outcome),
    /// The call did not begin, for lack of room; another server may execute it.
    Refused(&'static str),
    /// The handler waits. It was polled without a waker, so it has to be polled again at once, as a
    /// task.
    Waiting(Pin<Box<dyn Waiting>>),
}

/// The rest of a call whose handler waits.
pub(crate) trait Waiting {
    /// Polls the handler. When it is ready, the reply is in `out`, which is empty before.
    fn poll(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        out: &mut Vec<u8>,
    ) -> task::Poll<Outcome>;
}

/// The outcome of a handler.
pub(crate) type Outcome = Result<Encoded, Status>;

/// The encoded message of a reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Encoded {
    /// The message is in the buffer that the caller has lent.
    InScratch,
    /// The message is in these bytes.
    Shared(Bytes),
    /// There is no message: the method replies with a stream.
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
        let start = move |begin: Begin<'_>, mut slot: Pin<&mut Option<_>>| {
            let codec = codec_out.in_form(begin.is_json);
            let request = decode_request(&codec_in.in_form(begin.is_json), begin.message)?;
            let reply = handler(begin.context, request);
            slot.set(Some(async move { Replied { reply: reply.await, codec } }));
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
        let start = move |begin: Begin<'_>, mut slot: Pin<&mut Option<_>>| {
            let codec = codec_out.in_form(begin.is_json);
            let codec_in = codec_in.in_form(begin.is_json);
            let requests = Streaming::new(stream_of(begin.stream), codec_in);
            let (handler, context) = (Rc::clone(&handler), begin.context);
            slot.set(Some(async move {
                // The handler's future is made here, inside of the slot's future, so that it is not copied.
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
        let start = move |begin: Begin<'_>, mut slot: Pin<&mut Option<Fut>>| {
            let is_json = begin.is_json;
            let replies = Sink::new(stream_of(begin.stream), codec_out.in_form(is_json));
            let request = decode_request(&codec_in.in_form(is_json), begin.message)?;
            slot.set(Some(handler(begin.context, request, replies)));
            Ok(())
        };
        self.add(method, &codec_in, &codec_out, InPlace::boxed(start));
    }

    /// Adds a method with a stream in each direction.
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
        let start = move |begin: Begin<'_>, mut slot: Pin<&mut Option<Fut>>| {
            let at = stream_of(begin.stream);
            let is_json = begin.is_json;
            let requests = Streaming::new(at, codec_in.in_form(is_json));
            let replies = Sink::new(at, codec_out.in_form(is_json));
            slot.set(Some(handler(begin.context, requests, replies)));
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
        let entry = Registered {
            method,
            codec_in: codec_in.id,
            codec_out: codec_out.id,
            message_in: codec_in.well_known(),
            message_out: codec_out.well_known(),
            json_in: codec_in.json.map(|json| (json.shape)()),
            schemas: [codec_in.json.map(|it| it.schema), codec_out.json.map(|it| it.schema)],
            json_out: codec_out.json.is_some(),
            handler,
        };
        match self.entries.iter_mut().find(|known| known.method.name == method.name) {
            Some(known) => *known = entry,
            None => self.entries.push(entry),
        }
    }
}

/// Decodes the request of a method that takes exactly one.
fn decode_request<T>(codec: &Codec<T>, message: Option<Piece<'_>>) -> Result<T, Status> {
    match message {
        Some(message) => (codec.decode)(message),
        None => Err(Status::unimplemented("the method takes one request, but the call has none")),
    }
}

/// Returns the location of a call's stream, for its handles.
fn stream_of(stream: Option<OpenedStream>) -> StreamAt {
    let opened = stream.expect("the server opens a stream for each call of a streaming method");
    opened.take()
}

impl fmt::Debug for Methods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|entry| entry.method)).finish()
    }
}
