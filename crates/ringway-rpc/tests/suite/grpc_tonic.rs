//! Tonic's client, which most Rust services use, calls our server.

use std::sync::atomic::Ordering;

use bytes::{Buf, BufMut, Bytes};
use ringway_rpc::{Compression, Server, ServerHandle};
use tonic::client::Grpc;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};

use crate::support::echo::{Echo, serve};
use crate::support::{LIMIT, end, eventually, socket_addr};

/// A codec of raw messages.
#[derive(Default)]
pub(crate) struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(source.copy_to_bytes(source.remaining())))
    }
}

/// Runs a test against a server, with a channel to it.
fn run(echo: &Echo, test: impl AsyncFnOnce(Grpc<Channel>, &ServerHandle)) {
    run_with(echo, |server| server, test);
}

fn run_with(
    echo: &Echo,
    set: impl FnOnce(Server) -> Server,
    test: impl AsyncFnOnce(Grpc<Channel>, &ServerHandle),
) {
    let handle = serve(echo, set);
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let uri = format!("http://{}", socket_addr(&handle));
    let test = async {
        let channel = Endpoint::new(uri).expect("an address").connect().await.expect("it listens");
        let grpc = Grpc::new(channel).max_decoding_message_size(8 << 20);
        test(grpc.max_encoding_message_size(8 << 20), &handle).await;
    };
    let tokio = tokio.expect("a runtime");
    tokio.block_on(async { tokio::time::timeout(LIMIT, test).await }).expect("no hang");
    drop(tokio);
    end(handle);
}

fn path(name: &'static str) -> PathAndQuery {
    PathAndQuery::from_static(name)
}

pub(crate) async fn say(
    grpc: &mut Grpc<Channel>,
    name: &'static str,
    message: &[u8],
) -> Result<Bytes, Status> {
    grpc.ready().await.expect("the server is there");
    let request = Request::new(Bytes::copy_from_slice(message));
    grpc.unary(request, path(name), Raw).await.map(tonic::Response::into_inner)
}

async fn all(mut replies: Streaming<Bytes>) -> Result<Vec<Bytes>, Status> {
    let mut all = Vec::new();
    while let Some(message) = replies.message().await? {
        all.push(message);
    }
    Ok(all)
}

#[test]
fn calls_of_all_kinds_are_answered() {
    run(&Echo::default(), async |mut grpc, _| {
        for len in [0, 1, 20_000, 4 << 20] {
            let message = vec![7; len];
            assert_eq!(say(&mut grpc, "/echo.Echo/Say", &message).await.expect("echoed"), message);
        }
        let parts = || tokio_stream::iter([&b"a"[..], b"", b"c"].map(Bytes::from_static));
        grpc.ready().await.expect("the server is there");
        let collected =
            grpc.client_streaming(Request::new(parts()), path("/echo.Echo/Collect"), Raw).await;
        assert_eq!(collected.expect("collected").into_inner(), "ac");

        grpc.ready().await.expect("the server is there");
        let request = Request::new(Bytes::from_static(&[100, 1]));
        let repeated = grpc.server_streaming(request, path("/echo.Echo/Repeat"), Raw).await;
        let repeated = all(repeated.expect("a stream").into_inner()).await.expect("all");
        assert_eq!(repeated, vec![&[100, 1][..]; 100]);

        grpc.ready().await.expect("the server is there");
        let chat = grpc.streaming(Request::new(parts()), path("/echo.Echo/Chat"), Raw).await;
        let chat = all(chat.expect("a stream").into_inner()).await.expect("all");
        assert_eq!(chat, ["a", "", "c"]);
    });
}

#[test]
fn messages_are_compressed_if_both_sides_want_it() {
    let services = [Compression::of_all_services(), Compression::of_services(["echo.Echo"])];
    for compression in services {
        let on = |server: Server| server.compression(compression);
        run_with(&Echo::default(), on, async |grpc, _| {
            for (by, name) in
                [(CompressionEncoding::Gzip, "gzip"), (CompressionEncoding::Zstd, "zstd")]
            {
                let mut grpc = grpc.clone().send_compressed(by).accept_compressed(by);
                for len in [0, 1_000, 20_000, 4 << 20] {
                    let message = vec![7; len];
                    grpc.ready().await.expect("the server is there");
                    let request = Request::new(Bytes::from(message.clone()));
                    let reply = grpc.unary(request, path("/echo.Echo/Say"), Raw).await;
                    let reply = reply.expect("it is served");
                    assert_eq!(reply.metadata().get("grpc-encoding").expect("it is said"), name);
                    assert_eq!(reply.into_inner(), message);
                }
                let parts = [vec![1; 30_000], vec![], vec![2; 70_000]].map(Bytes::from);
                grpc.ready().await.expect("the server is there");
                let request = Request::new(tonic::codegen::tokio_stream::iter(parts.clone()));
                let chat = grpc.streaming(request, path("/echo.Echo/Chat"), Raw).await;
                let chat = all(chat.expect("a stream").into_inner()).await.expect("all");
                assert_eq!(chat, parts);
            }
        });
    }
}

#[test]
fn compressed_messages_are_refused_unless_enabled() {
    run(&Echo::default(), async |grpc, _| {
        let mut grpc = grpc.send_compressed(CompressionEncoding::Gzip);
        let refused = say(&mut grpc, "/echo.Echo/Say", &[7; 5_000]).await.expect_err("refused");
        assert_eq!(refused.code(), Code::Unimplemented);
        assert_eq!(refused.metadata().get("grpc-accept-encoding").expect("it is said"), "identity");
    });
    let wrong = Server::bind("tcp://127.0.0.1:0").expect("a free port");
    let wrong = wrong.compression(Compression::of_services(["echo.Echo"])).start();
    let wrong = wrong.expect_err("there is no such service").to_string();
    assert!(wrong.contains("echo.Echo"), "{wrong}");
}

#[test]
fn statuses_arrive_unchanged() {
    run(&Echo::default(), async |mut grpc, _| {
        let failed = say(&mut grpc, "/echo.Echo/Fail", "größer".as_bytes()).await;
        let failed = failed.expect_err("as it wants");
        assert_eq!((failed.code(), failed.message()), (Code::NotFound, "größer"));
        assert_eq!(failed.metadata().get("shard").expect("a trailer"), "7");
        for (name, message, code) in [
            ("/echo.Echo/Unknown", &b""[..], Code::Unimplemented),
            ("/echo.Echo/Panic", b"so", Code::Internal),
            ("/echo.Echo/Say", &vec![0; (4 << 20) + 1], Code::ResourceExhausted),
        ] {
            let failed = say(&mut grpc, name, message).await.expect_err("it cannot be");
            assert_eq!(failed.code(), code, "{name}: {failed}");
        }
        assert_eq!(say(&mut grpc, "/echo.Echo/Say", b"on").await.expect("echoed"), "on");
    });
}

#[test]
fn dropped_call_drops_its_handler() {
    let echo = Echo::default();
    run(&echo, async |mut grpc, handle| {
        let hangs = say(&mut grpc, "/echo.Echo/Hang", b"");
        let begun = async {
            while echo.seen.begun.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            ended = hangs => panic!("{ended:?}"),
            () = begun => {}
        }
        // A drop is sent when its connection is driven again.
        assert_eq!(say(&mut grpc, "/echo.Echo/Say", b"on").await.expect("echoed"), "on");
        eventually("it is dropped", || echo.seen.dropped.load(Ordering::SeqCst) == 1);
        eventually("it is counted", || handle.stats().cancelled == 1);
    });
}
