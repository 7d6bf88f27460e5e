//! Our client calls tonic's server, which most Rust services use.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{Client, ClientBuilder, ClientCompression, Codec, Kind, Method};
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::codegen::{Service, http, tokio_stream};
use tonic::metadata::MetadataValue;
use tonic::server::Grpc;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::grpc_tonic::Raw;
use crate::support::LIMIT;

static SAY: Method = Method::new("echo.Echo/Say", Kind::Unary);
static FAIL: Method = Method::new("echo.Echo/Fail", Kind::Unary);
static HANG: Method = Method::new("echo.Echo/Hang", Kind::Unary);
static NONE: Method = Method::new("echo.Echo/None", Kind::Unary);
static COLLECT: Method = Method::new("echo.Echo/Collect", Kind::ClientStream);
static REPEAT: Method = Method::new("echo.Echo/Repeat", Kind::ServerStream);
static CHAT: Method = Method::new("echo.Echo/Chat", Kind::Bidi);

const RAW: Codec<Bytes> = Codec::raw();

/// The service on tonic's side. Clones share the counters.
#[derive(Clone, Default)]
pub(crate) struct Echo {
    said: Arc<AtomicUsize>,
    begun: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
}

impl Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let echo = self.clone();
        Box::pin(async move { Ok(echo.answer(request).await) })
    }
}

impl Echo {
    /// The number of calls of `Say`.
    pub(crate) fn said(&self) -> usize {
        self.said.load(Ordering::SeqCst)
    }

    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        let mut grpc = Grpc::new(Raw).max_decoding_message_size(8 << 20);
        for by in [CompressionEncoding::Gzip, CompressionEncoding::Zstd] {
            grpc = grpc.accept_compressed(by).send_compressed(by);
        }
        match request.uri().path() {
            "/echo.Echo/Say" => {
                self.said.fetch_add(1, Ordering::SeqCst);
                grpc.unary(Handler(say), request).await
            }
            "/echo.Echo/Fail" => grpc.unary(Handler(fail), request).await,
            "/echo.Echo/Hang" => {
                let hang = move |_: Request<Bytes>| {
                    self.begun.fetch_add(1, Ordering::SeqCst);
                    let counted = CountDrop(Arc::clone(&self.dropped));
                    async move {
                        let _counted = counted;
                        std::future::pending::<Result<Response<Bytes>, Status>>().await
                    }
                };
                grpc.unary(Handler(hang), request).await
            }
            "/echo.Echo/Collect" => grpc.client_streaming(Handler(collect), request).await,
            "/echo.Echo/Repeat" => grpc.server_streaming(Handler(repeat), request).await,
            "/echo.Echo/Chat" => grpc.streaming(Handler(chat), request).await,
            _ => Status::unimplemented("no such method").into_http(),
        }
    }
}

/// A function as tonic's service trait.
struct Handler<F>(F);

impl<F, Q, P, Fut> Service<Request<Q>> for Handler<F>
where
    F: FnMut(Request<Q>) -> Fut,
    Fut: Future<Output = Result<Response<P>, Status>>,
{
    type Response = Response<P>;
    type Error = Status;
    type Future = Fut;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> Fut {
        self.0(request)
    }
}

/// Replies with the request and some of its metadata.
async fn say(request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
    let (metadata, _, message) = request.into_parts();
    let mut response = Response::new(message);
    for name in ["tenant", "user-agent"] {
        if let Some(value) = metadata.get(name) {
            response.metadata_mut().insert("seen", value.clone());
        }
        if metadata.contains_key("tenant") {
            break;
        }
    }
    for (name, seen) in [("grpc-encoding", "by"), ("grpc-accept-encoding", "takes")] {
        if let Some(value) = metadata.get(name) {
            response.metadata_mut().insert(seen, value.clone());
        }
    }
    if let Some(value) = metadata.get_bin("key-bin") {
        response.metadata_mut().insert_bin("seen-bin", value.clone());
    }
    Ok(response)
}

async fn fail(_: Request<Bytes>) -> Result<Response<Bytes>, Status> {
    let details = Bytes::from_static(b"\x08\x05 details");
    let mut status = Status::with_details(Code::NotFound, "größer als 50 %", details);
    status.metadata_mut().insert("shard", MetadataValue::from_static("7"));
    Err(status)
}

async fn collect(request: Request<Streaming<Bytes>>) -> Result<Response<Bytes>, Status> {
    let (mut messages, mut sum) = (request.into_inner(), Vec::new());
    while let Some(message) = messages.message().await? {
        sum.extend_from_slice(&message);
    }
    Ok(Response::new(sum.into()))
}

type Replies = Pin<Box<dyn tokio_stream::Stream<Item = Result<Bytes, Status>> + Send>>;

async fn repeat(request: Request<Bytes>) -> Result<Response<Replies>, Status> {
    let message = request.into_inner();
    let times = usize::from(message[0]);
    let replies = std::iter::repeat_with(move || Ok(message.clone())).take(times);
    Ok(Response::new(Box::pin(tokio_stream::iter(replies))))
}

async fn chat(request: Request<Streaming<Bytes>>) -> Result<Response<Replies>, Status> {
    Ok(Response::new(Box::pin(request.into_inner())))
}

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Runs a test as a tokio task, beside the server.
fn run(test: impl AsyncFnOnce(Client, Echo)) {
    run_with(|client| client, test);
}

fn run_with(
    set: impl FnOnce(ClientBuilder) -> ClientBuilder,
    test: impl AsyncFnOnce(Client, Echo),
) {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
    tokio.expect("a runtime").block_on(async {
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse().expect("an address"));
        let incoming = incoming.expect("a free port");
        let address = incoming.local_addr().expect("it is bound");
        let echo = Echo::default();
        let serving = Server::builder().serve_with_incoming(echo.clone(), incoming);
        let serving = tokio::spawn(serving);
        let client = set(Client::builder().address(format!("grpc://{address}")));
        let client = client.build().expect("an address");
        tokio::time::timeout(LIMIT, test(client, echo)).await.expect("no hang");
        serving.abort();
    });
}

async fn until(counter: &AtomicUsize, count: usize) {
    while counter.load(Ordering::SeqCst) < count {
        tokio::task::yield_now().await;
    }
}

#[test]
fn calls_of_all_kinds_are_answered() {
    run(async |client, _| {
        for len in [0, 1, 47, 20_000, 3_000_000] {
            let message = Bytes::from(vec![7; len]);
            let reply = client.unary(&SAY, RAW, RAW, message.clone()).await;
            assert!(reply.expect("echoed") == message, "{len} bytes");
        }
        let (mut sink, reply) = client.client_stream(&COLLECT, RAW, RAW);
        for part in ["a", "", "c"] {
            sink.send(Bytes::from(part)).await.expect("it goes on");
        }
        sink.finish();
        assert_eq!(reply.await.expect("collected"), "ac");

        let mut replies = client.server_stream(&REPEAT, RAW, RAW, Bytes::from_static(&[100, 1]));
        let mut count = 0;
        while let Some(reply) = replies.next().await.expect("it goes on") {
            assert_eq!(reply, &[100, 1][..]);
            count += 1;
        }
        assert_eq!(count, 100);

        let (mut sink, mut replies) = client.bidi(&CHAT, RAW, RAW);
        for len in [0, 47, 1_000_000] {
            let message = Bytes::from(vec![3; len]);
            sink.send(message.clone()).await.expect("it goes on");
            assert!(replies.next().await.expect("it goes on") == Some(message), "{len} bytes");
        }
        sink.finish();
        assert_eq!(replies.next().await.expect("its end"), None::<Bytes>);
    });
}

#[test]
fn statuses_arrive_unchanged() {
    run(async |client, _| {
        let status = client.unary(&FAIL, RAW, RAW, Bytes::new()).await.expect_err("it fails");
        assert!(status.is_not_found(), "{status:?}");
        assert!(status.message().ends_with("größer als 50 %"), "{status}");
        assert_eq!(&status.details()[..], b"\x08\x05 details");
        assert_eq!(status.metadata().get("shard"), Some("7"));
        let status = client.unary(&NONE, RAW, RAW, Bytes::new()).await.expect_err("no method");
        assert!(status.is_unimplemented(), "{status:?}");
        let large = Bytes::from(vec![0; (8 << 20) + 1]);
        let status = client.unary(&SAY, RAW, RAW, large).await.expect_err("too large");
        assert!(status.is_out_of_range(), "as tonic has it: {status:?}");
        let long = Bytes::from(vec![0; 5 << 20]);
        let status = client.unary(&SAY, RAW, RAW, long).await.expect_err("too large a reply");
        assert!(status.is_resource_exhausted(), "{status:?}");
        let reply = client.unary(&SAY, RAW, RAW, Bytes::from_static(b"on")).await;
        assert_eq!(reply.expect("echoed"), "on");
    });
}

#[test]
fn metadata_goes_both_ways() {
    run(async |client, _| {
        let call = client.unary(&SAY, RAW, RAW, Bytes::from_static(b"?"));
        let call = call.metadata("tenant", "blue").metadata("key-bin", b"\x00\xff\x01");
        let response = call.full().await.expect("echoed");
        assert_eq!(response.metadata.get("seen"), Some("blue"));
        assert_eq!(response.metadata.get_bin("seen-bin"), Some(&b"\x00\xff\x01"[..]));
        let response = client.unary(&SAY, RAW, RAW, Bytes::new()).full().await.expect("echoed");
        let agent = response.metadata.get("seen").expect("it is said");
        assert!(agent.starts_with("ringway/"), "{agent}");
    });
}

#[test]
fn messages_are_compressed_if_both_sides_want_it() {
    let replies = ClientCompression::of_replies;
    for (compression, by) in [
        (None, None),
        (Some(replies()), None),
        (Some(replies().gzip_requests()), Some("gzip")),
        (Some(replies().zstd_requests().request_bytes_min(0)), Some("zstd")),
    ] {
        let set = |client| compression.into_iter().fold(client, ClientBuilder::compression);
        run_with(set, async |client, _| {
            for len in [0, 1_000, 20_000, 3_000_000] {
                let message = Bytes::from(vec![7; len]);
                let call = client.unary(&SAY, RAW, RAW, message.clone());
                let response = call.full().await.expect("echoed");
                assert!(response.message == message, "{len} bytes, {by:?}");
                assert_eq!(response.metadata.get("by"), by);
                let takes = compression.map(|_| "identity,zstd,gzip");
                assert_eq!(response.metadata.get("takes"), takes);
            }
            let (mut sink, mut replies) = client.bidi(&CHAT, RAW, RAW);
            for len in [30_000, 0, 70_000] {
                let message = Bytes::from(vec![3; len]);
                sink.send(message.clone()).await.expect("it goes on");
                assert!(replies.next().await.expect("it goes on") == Some(message));
            }
        });
    }
}

#[test]
fn ended_call_ends_at_the_server() {
    run(async |client, echo| {
        // On a busy machine the deadline may pass before the call has reached the handler.
        while echo.begun.load(Ordering::SeqCst) == 0 {
            let call = client.unary(&HANG, RAW, RAW, Bytes::new());
            let status = call.timeout(Duration::from_millis(30)).await.expect_err("too late");
            assert!(status.is_deadline_exceeded(), "{status:?}");
        }
        let begun = echo.begun.load(Ordering::SeqCst);
        until(&echo.dropped, begun).await;
        let hangs = client.unary(&HANG, RAW, RAW, Bytes::new()).no_timeout();
        tokio::select! {
            ended = hangs => panic!("{ended:?}"),
            () = until(&echo.begun, begun + 1) => {}
        }
        until(&echo.dropped, begun + 1).await;
        let reply = client.unary(&SAY, RAW, RAW, Bytes::from_static(b"on")).await;
        assert_eq!(reply.expect("echoed"), "on");
    });
}
