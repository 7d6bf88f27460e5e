//! The service of `ringway serve rpc`, with raw bytes as messages, so that either side may be
//! exchanged. It is written by hand in the form of tonic's generated code. Floods are requested in a form
//! of its own.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use tokio_stream::{Once, Stream, once};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{
    ClientStreamingService, Grpc, ServerStreamingService, StreamingService, UnaryService,
};
use tonic::{Request, Response, Status, Streaming};

use super::EchoCodec;
use crate::limits::{MESSAGE_BYTES_MAX, RPC_MESSAGE_BYTES_MAX};
use crate::message::FloodPattern;

/// Answers with the request.
pub(crate) const UNARY: &str = "/ringway.bench.Echo/Say";
/// Answers with the last message at the end, with an empty one if there was none.
pub(crate) const CLIENT_STREAM: &str = "/ringway.bench.Echo/Collect";
/// Answers with the request, as a stream of one message.
pub(crate) const SERVER_STREAM: &str = "/ringway.bench.Echo/Repeat";
/// Answers each message with itself.
pub(crate) const BIDI: &str = "/ringway.bench.Echo/Chat";
/// Answers a [`flood_request`] with its messages.
pub(crate) const FLOOD: &str = "/ringway.peers.Echo/Flood";

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
            let mut grpc = Grpc::new(EchoCodec).max_decoding_message_size(RPC_MESSAGE_BYTES_MAX);
            Ok(match request.uri().path() {
                UNARY => grpc.unary(EchoService, request).await,
                CLIENT_STREAM => grpc.client_streaming(LastOf, request).await,
                SERVER_STREAM => grpc.server_streaming(EchoService, request).await,
                FLOOD => grpc.server_streaming(Floods, request).await,
                BIDI => grpc.streaming(EchoService, request).await,
                path => Status::unimplemented(path).into_http(),
            })
        })
    }
}

impl UnaryService<Bytes> for EchoService {
    type Response = Bytes;
    type Future = Ready<Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}

/// Requests as they come are the replies.
impl StreamingService<Bytes> for EchoService {
    type Response = Bytes;
    type ResponseStream = Streaming<Bytes>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, requests: Request<Streaming<Bytes>>) -> Self::Future {
        ready(Ok(Response::new(requests.into_inner())))
    }
}

struct LastOf;

impl ClientStreamingService<Bytes> for LastOf {
    type Response = Bytes;
    type Future = BoxFuture<Response<Bytes>, Status>;

    fn call(&mut self, requests: Request<Streaming<Bytes>>) -> Self::Future {
        Box::pin(async move {
            let mut requests = requests.into_inner();
            let mut last = Bytes::new();
            while let Some(request) = requests.message().await? {
                last = request;
            }
            Ok(Response::new(last))
        })
    }
}

impl ServerStreamingService<Bytes> for EchoService {
    type Response = Bytes;
    type ResponseStream = Once<Result<Bytes, Status>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        ready(Ok(Response::new(once(Ok(request.into_inner())))))
    }
}

struct Floods;

impl ServerStreamingService<Bytes> for Floods {
    type Response = Bytes;
    type ResponseStream = Flood;
    type Future = Ready<Result<Response<Flood>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        ready(Flood::asked_for_by(request.into_inner()).map(Response::new))
    }
}

struct Flood {
    pattern: FloodPattern,
    next: u64,
    count: u64,
}

impl Flood {
    fn asked_for_by(mut request: Bytes) -> Result<Self, Status> {
        if request.len() != FLOOD_REQUEST_BYTES {
            return Err(Status::invalid_argument("a flood is asked for by two numbers"));
        }
        let (count, message_bytes) = (request.get_u32_le(), request.get_u32_le() as usize);
        if message_bytes > MESSAGE_BYTES_MAX {
            return Err(Status::invalid_argument("a message of a flood is too large"));
        }
        Ok(Self { pattern: FloodPattern::new(message_bytes), next: 0, count: count.into() })
    }
}

impl Stream for Flood {
    type Item = Result<Bytes, Status>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { pattern, next, count } = self.get_mut();
        if next == count {
            return Poll::Ready(None);
        }
        let message = Bytes::from_static(pattern.message(*next));
        *next += 1;
        Poll::Ready(Some(Ok(message)))
    }
}

const FLOOD_REQUEST_BYTES: usize = 8;

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

    use super::{CLIENT_STREAM, EchoCodec, FLOOD, SERVER_STREAM, flood_request};
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

    fn payloads(words: &[&'static str]) -> Vec<Bytes> {
        words.iter().map(|word| Bytes::from_static(word.as_bytes())).collect()
    }

    async fn ask(
        grpc: &mut Grpc,
        path: &'static str,
        request: Bytes,
    ) -> Result<Vec<Bytes>, tonic::Status> {
        let (request, path) = (Request::new(request), PathAndQuery::from_static(path));
        let mut replies = grpc.server_streaming(request, path, EchoCodec).await?.into_inner();
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
                let reply = grpc.client_streaming(requests, path, EchoCodec).await;
                let reply = reply.expect("a reply").into_inner();
                assert_eq!(reply, words.last().unwrap_or(&""));
            }
        });
    }

    #[test]
    fn a_flood_has_as_many_messages_as_asked_for() {
        with_server(async |mut grpc| {
            let flood = FloodPattern::new(100);
            let replies = ask(&mut grpc, FLOOD, flood_request(1000, 100)).await.expect("a flood");
            assert_eq!(replies.len(), 1000);
            for (number, reply) in replies.iter().enumerate() {
                assert!(flood.is_message(number as u64, reply), "message {number}");
            }
        });
    }

    #[test]
    fn a_request_is_answered_by_a_stream_of_itself() {
        with_server(async |mut grpc| {
            for word in ["", "seven b", "8 bytes.", "nine byte"] {
                let request = Bytes::from_static(word.as_bytes());
                let replies = ask(&mut grpc, SERVER_STREAM, request).await;
                assert_eq!(replies.expect("a stream"), payloads(&[word]));
                grpc.ready().await.expect("connected");
            }
        });
    }

    #[test]
    fn a_flood_of_messages_too_large_is_refused() {
        with_server(async |mut grpc| {
            let too_large = flood_request(1, MESSAGE_BYTES_MAX as u32 + 1);
            for request in [too_large, Bytes::from_static(b"1 x 10")] {
                let status = ask(&mut grpc, FLOOD, request).await.expect_err("refused");
                assert_eq!(status.code(), Code::InvalidArgument);
                grpc.ready().await.expect("connected");
            }
        });
    }
}
