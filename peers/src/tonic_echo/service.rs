//! The service, written by hand in the form that tonic's generator gives it, so that no build needs
//! a compiler of `.proto` files:
//!
//! ```proto
//! service Echo {
//!   rpc Unary(Payload) returns (Payload);
//!   rpc ClientStream(stream Payload) returns (Payload);
//!   rpc ServerStream(Payload) returns (stream Payload);
//!   rpc Bidi(stream Payload) returns (stream Payload);
//! }
//! ```

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use tokio_stream::Stream;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{
    ClientStreamingService, Grpc, ServerStreamingService, StreamingService, UnaryService,
};
use tonic::{Request, Response, Status, Streaming};

use super::{EchoCodec, Payload};
use crate::limits::{MESSAGE_BYTES_MAX, RPC_MESSAGE_BYTES_MAX};
use crate::message::FloodPattern;

/// Answers with the request's payload.
pub(crate) const UNARY: &str = "/ringway.peers.Echo/Unary";
/// Answers with the last message at the end, with an empty one if there was none.
pub(crate) const CLIENT_STREAM: &str = "/ringway.peers.Echo/ClientStream";
/// Answers with the request's payload once, or with a flood if it is a [`flood_request`].
pub(crate) const SERVER_STREAM: &str = "/ringway.peers.Echo/ServerStream";
/// Answers each message with itself.
pub(crate) const BIDI: &str = "/ringway.peers.Echo/Bidi";

/// A payload of this many bytes, and only such a one, asks [`SERVER_STREAM`] for a flood.
pub(crate) const FLOOD_REQUEST_BYTES: usize = 8;

/// Asks for `count` messages of `message_bytes`: two little-endian numbers.
pub(crate) fn flood_request(count: u32, message_bytes: u32) -> Bytes {
    let mut request = Vec::with_capacity(FLOOD_REQUEST_BYTES);
    request.put_u32_le(count);
    request.put_u32_le(message_bytes);
    request.into()
}

/// The service.
#[derive(Clone, Copy)]
pub(super) struct EchoService;

impl Service<http::Request<Body>> for EchoService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc =
                Grpc::new(EchoCodec::default()).max_decoding_message_size(RPC_MESSAGE_BYTES_MAX);
            Ok(match request.uri().path() {
                UNARY => grpc.unary(EchoService, request).await,
                CLIENT_STREAM => grpc.client_streaming(LastOf, request).await,
                SERVER_STREAM => grpc.server_streaming(OnceOrFlood, request).await,
                BIDI => grpc.streaming(EchoService, request).await,
                path => Status::unimplemented(path).into_http(),
            })
        })
    }
}

impl UnaryService<Payload> for EchoService {
    type Response = Payload;
    type Future = Ready<Result<Response<Payload>, Status>>;

    fn call(&mut self, request: Request<Payload>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}

/// Requests as they come are the replies.
impl StreamingService<Payload> for EchoService {
    type Response = Payload;
    type ResponseStream = Streaming<Payload>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, requests: Request<Streaming<Payload>>) -> Self::Future {
        ready(Ok(Response::new(requests.into_inner())))
    }
}

struct LastOf;

impl ClientStreamingService<Payload> for LastOf {
    type Response = Payload;
    type Future = BoxFuture<Response<Payload>, Status>;

    fn call(&mut self, requests: Request<Streaming<Payload>>) -> Self::Future {
        Box::pin(async move {
            let mut requests = requests.into_inner();
            let mut last = Payload::default();
            while let Some(request) = requests.message().await? {
                last = request;
            }
            Ok(Response::new(last))
        })
    }
}

struct OnceOrFlood;

impl ServerStreamingService<Payload> for OnceOrFlood {
    type Response = Payload;
    type ResponseStream = Replies;
    type Future = Ready<Result<Response<Replies>, Status>>;

    fn call(&mut self, request: Request<Payload>) -> Self::Future {
        ready(Replies::to(request.into_inner()).map(Response::new))
    }
}

/// Replies to a request of [`SERVER_STREAM`].
enum Replies {
    Once(Option<Payload>),
    Flood { flood: FloodPattern, next: u64, count: u64 },
}

impl Replies {
    fn to(request: Payload) -> Result<Self, Status> {
        if request.payload.len() != FLOOD_REQUEST_BYTES {
            return Ok(Self::Once(Some(request)));
        }
        let mut numbers = request.payload;
        let (count, message_bytes) = (numbers.get_u32_le(), numbers.get_u32_le() as usize);
        if message_bytes > MESSAGE_BYTES_MAX {
            return Err(Status::invalid_argument("a message of a flood is too large"));
        }
        Ok(Self::Flood { flood: FloodPattern::new(message_bytes), next: 0, count: count.into() })
    }
}

impl Stream for Replies {
    type Item = Result<Payload, Status>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(match self.get_mut() {
            Self::Once(reply) => reply.take().map(Ok),
            Self::Flood { next, count, .. } if next == count => None,
            Self::Flood { flood, next, .. } => {
                let payload = flood.message(*next);
                *next += 1;
                Some(Ok(Payload { payload }))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use tokio::runtime::Builder;
    use tokio::time::timeout;
    use tokio_stream::iter;
    use tonic::client;
    use tonic::codegen::http::uri::PathAndQuery;
    use tonic::transport::{Channel, Endpoint};
    use tonic::{Code, Request};

    use super::{CLIENT_STREAM, EchoCodec, Payload, SERVER_STREAM, flood_request};
    use crate::address::Address;
    use crate::limits::MESSAGE_BYTES_MAX;
    use crate::listener::Listener;
    use crate::message::FloodPattern;

    type Grpc = client::Grpc<Channel>;

    /// Runs a test against a server, for ten seconds at most.
    fn with_server(test: impl AsyncFnOnce(Grpc)) {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let within = Duration::from_secs(10);
        let done = async {
            let any = Address::parse("tcp://127.0.0.1:0").expect("an address");
            let Listener::Tcp(listener) = Listener::bind(&any).expect("a free port") else {
                panic!("{any} is TCP")
            };
            let uri = format!("http://{}", listener.local_addr().expect("bound"));
            tokio::spawn(async { super::super::accept(Listener::Tcp(listener)).await });
            let endpoint = Endpoint::new(uri).expect("a URI");
            let mut grpc = Grpc::new(endpoint.connect().await.expect("the server listens"));
            grpc.ready().await.expect("connected");
            test(grpc).await;
        };
        runtime.block_on(async { timeout(within, done).await }).expect("ended in time");
    }

    fn payloads(words: &[&'static str]) -> Vec<Payload> {
        words.iter().map(|word| Payload { payload: Bytes::from_static(word.as_bytes()) }).collect()
    }

    async fn ask(grpc: &mut Grpc, payload: Bytes) -> Result<Vec<Payload>, tonic::Status> {
        let (request, path) = (Request::new(Payload { payload }), SERVER_STREAM);
        let path = PathAndQuery::from_static(path);
        let mut replies =
            grpc.server_streaming(request, path, EchoCodec::default()).await?.into_inner();
        let mut all = Vec::new();
        while let Some(reply) = replies.message().await? {
            all.push(reply);
        }
        Ok(all)
    }

    #[test]
    fn a_stream_of_requests_is_answered_with_the_last() {
        with_server(async |mut grpc| {
            for words in [&["one", "two", "three"][..], &["one"], &[]] {
                let requests = Request::new(iter(payloads(words)));
                let path = PathAndQuery::from_static(CLIENT_STREAM);
                grpc.ready().await.expect("connected");
                let reply = grpc.client_streaming(requests, path, EchoCodec::default()).await;
                let payload = reply.expect("a reply").into_inner().payload;
                assert_eq!(payload, words.last().unwrap_or(&""));
            }
        });
    }

    #[test]
    fn a_flood_has_as_many_messages_as_asked_for() {
        with_server(async |mut grpc| {
            let flood = FloodPattern::new(100);
            let replies = ask(&mut grpc, flood_request(1000, 100)).await.expect("a flood");
            assert_eq!(replies.len(), 1000);
            for (number, reply) in replies.iter().enumerate() {
                assert!(flood.is_message(number as u64, &reply.payload), "message {number}");
            }
        });
    }

    #[test]
    fn another_request_for_a_stream_is_answered_once() {
        with_server(async |mut grpc| {
            for word in ["", "seven b", "nine byte"] {
                let replies = ask(&mut grpc, Bytes::from_static(word.as_bytes())).await;
                assert_eq!(replies.expect("a stream"), payloads(&[word]));
                grpc.ready().await.expect("connected");
            }
        });
    }

    #[test]
    fn a_flood_of_messages_too_large_is_refused() {
        with_server(async |mut grpc| {
            let request = flood_request(1, MESSAGE_BYTES_MAX as u32 + 1);
            let status = ask(&mut grpc, request).await.expect_err("refused");
            assert_eq!(status.code(), Code::InvalidArgument);
        });
    }
}
