//! Our client calls grpc-go's interoperability server: the same cases in the other direction.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use bytes::Bytes;
use ringway::rpc::{CallOptions, Client, Codec, Kind, Method, Status};
use ringway::runtime::{block_on, timeout};
use ringway_interop::testing::{
    EchoStatus, Empty, Payload, ResponseParameters, SimpleRequest, StreamingInputCallRequest,
    StreamingOutputCallRequest, TestServiceClient,
};

use crate::go;

/// A guard against hanging: nothing in these tests takes this long.
const LIMIT: Duration = Duration::from_secs(60);

/// Ends the process when the test does.
struct GoServer(Child);

impl GoServer {
    /// A server and its address.
    fn start() -> (Self, String) {
        let mut command = go::program("server");
        command.args(["--port", "0"]).env("GRPC_GO_LOG_SEVERITY_LEVEL", "info");
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let server = Self(child);
        let told = lines.by_ref().map(|line| line.expect("text"));
        let line = told.into_iter().find(|line| line.contains("listening on ")).expect("a port");
        let (_, port) = line.rsplit_once(':').expect("a port");
        let address = format!("grpc://127.0.0.1:{port}");
        std::thread::spawn(move || lines.for_each(drop)); // it may go on writing
        (server, address)
    }
}

impl Drop for GoServer {
    fn drop(&mut self) {
        // `timeout` passes SIGTERM on, but not SIGKILL.
        let id = self.0.id().to_string();
        let _is_ended = std::process::Command::new("kill").arg(id).status();
        let _status = self.0.wait();
    }
}

fn run(test: impl AsyncFnOnce(TestServiceClient, Client) -> Result<(), Status> + 'static) {
    let (_server, address) = GoServer::start();
    let ended = block_on(timeout(LIMIT, async move {
        let client = Client::connect(&*address)?;
        test(TestServiceClient::new(client.clone()), client).await
    }));
    ended.expect("a core").expect("no hang").unwrap_or_else(|status| panic!("{status}"));
}

fn payload(len: usize) -> Option<Payload> {
    Some(Payload { body: Bytes::from(vec![0; len]) })
}

fn asks_for(sizes: &[i32], sent: usize) -> StreamingOutputCallRequest {
    let wanted = sizes.iter().map(|&size| ResponseParameters { size, interval_us: 0 });
    let payload = payload(sent);
    StreamingOutputCallRequest {
        response_parameters: wanted.collect(),
        payload,
        ..Default::default()
    }
}

fn len(payload: Option<Payload>) -> usize {
    payload.expect("a payload").body.len()
}

/// The messages that are sent, and those that come back.
const PING_PONG: [(usize, i32); 4] = [(27182, 31415), (8, 9), (1828, 2653), (45904, 58979)];

#[test]
fn unary_calls() {
    run(async |service, _| {
        service.empty_call(Empty {}).await?;
        let request = SimpleRequest {
            response_size: 314_159,
            payload: payload(271_828),
            ..Default::default()
        };
        for _ in 0..100 {
            assert_eq!(len(service.unary_call(request.clone()).await?.payload), 314_159);
        }
        Ok(())
    });
}

#[test]
fn a_stream_of_requests() {
    run(async |service, _| {
        let (mut requests, reply) = service.streaming_input_call();
        for (size, _) in PING_PONG {
            requests.send(StreamingInputCallRequest { payload: payload(size) }).await?;
        }
        requests.finish();
        assert_eq!(reply.await?.aggregated_payload_size, 74_922);
        Ok(())
    });
}

#[test]
fn a_stream_of_replies() {
    run(async |service, _| {
        let sizes = PING_PONG.map(|(_, size)| size);
        let mut replies = service.streaming_output_call(asks_for(&sizes, 0));
        for size in sizes {
            let reply = replies.next().await?.expect("one for each size");
            assert_eq!(len(reply.payload), size as usize);
        }
        assert!(replies.next().await?.is_none());
        Ok(())
    });
}

#[test]
fn streams_both_ways() {
    run(async |service, _| {
        let (mut requests, mut replies) = service.full_duplex_call();
        for (sent, size) in PING_PONG {
            requests.send(asks_for(&[size], sent)).await?;
            let reply = replies.next().await?.expect("an answer to each");
            assert_eq!(len(reply.payload), size as usize);
        }
        requests.finish();
        assert!(replies.next().await?.is_none());

        let (requests, mut replies) = service.full_duplex_call();
        requests.finish();
        assert!(replies.next().await?.is_none(), "nothing for nothing");
        Ok(())
    });
}

#[test]
fn cancelled_calls_leave_the_connection_as_it_was() {
    run(async |service, _| {
        let (requests, reply) = service.streaming_input_call();
        drop((requests, reply));
        let (mut requests, mut replies) = service.full_duplex_call();
        requests.send(asks_for(&[31_415], 27_182)).await?;
        assert_eq!(len(replies.next().await?.expect("an answer").payload), 31_415);
        replies.cancel("no more is wanted");
        let status = requests.send(asks_for(&[1], 1)).await.expect_err("it is over");
        assert!(status.is_cancelled(), "{status}");
        service.empty_call(Empty {}).await?;
        Ok(())
    });
}

#[test]
fn deadlines_end_calls() {
    run(async |service, _| {
        let hurried = service.with(CallOptions::new().timeout(Duration::from_millis(1)));
        let (mut requests, mut replies) = hurried.full_duplex_call();
        let mut wanted = asks_for(&[31_415], 27_182);
        wanted.response_parameters[0].interval_us = 60_000_000;
        let _may_be_over = requests.send(wanted).await;
        let status = replies.next().await.expect_err("too late");
        assert!(status.is_deadline_exceeded(), "{status}");
        Ok(())
    });
}

#[test]
fn statuses_come_with_their_texts() {
    run(async |service, _| {
        for text in [
            "test status message",
            "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n",
        ] {
            let wanted = Some(EchoStatus { code: 2, message: text.into() });
            let request = SimpleRequest { response_status: wanted.clone(), ..Default::default() };
            let status = service.unary_call(request).await.expect_err("as asked");
            assert!(status.is_unknown() && status.message().ends_with(text), "{status:?}");
            let (mut requests, mut replies) = service.full_duplex_call();
            let request =
                StreamingOutputCallRequest { response_status: wanted, ..Default::default() };
            requests.send(request).await?;
            requests.finish();
            let status = replies.next().await.expect_err("as asked");
            assert!(status.is_unknown() && status.message().ends_with(text), "{status:?}");
        }
        Ok(())
    });
}

#[test]
fn metadata_comes_back() {
    const INITIAL: (&str, &str) = ("x-grpc-test-echo-initial", "test_initial_metadata_value");
    const TRAILING: (&str, &[u8]) = ("x-grpc-test-echo-trailing-bin", b"\x0a\x0b\x0a\x0b\x0a\x0b");
    run(async |service, _| {
        let options = CallOptions::new().metadata(INITIAL.0, INITIAL.1);
        let service = service.with(options.metadata(TRAILING.0, TRAILING.1));
        let request = SimpleRequest { response_size: 1, payload: payload(1), ..Default::default() };
        let response = service.unary_call(request).full().await?;
        assert_eq!(response.metadata.get(INITIAL.0), Some(INITIAL.1));
        assert_eq!(response.trailers.get_bin(TRAILING.0), Some(TRAILING.1));

        let (mut requests, mut replies) = service.full_duplex_call();
        requests.send(asks_for(&[1], 1)).await?;
        assert_eq!(replies.metadata().await?.get(INITIAL.0), Some(INITIAL.1));
        assert!(replies.next().await?.is_some());
        requests.finish();
        assert!(replies.next().await?.is_none());
        let trailers = replies.trailers().expect("the stream has ended");
        assert_eq!(trailers.get_bin(TRAILING.0), Some(TRAILING.1));
        Ok(())
    });
}

#[test]
fn what_is_not_implemented_says_so() {
    static NO_SERVICE: Method =
        Method::new("grpc.testing.UnimplementedService/UnimplementedCall", Kind::Unary);
    run(async |service, client| {
        let status = service.unimplemented_call(Empty {}).await.expect_err("no such method");
        assert!(status.is_unimplemented(), "{status}");
        let codec = Codec::<Empty>::protobuf();
        let call = client.unary(&NO_SERVICE, codec, codec, Empty {});
        let status = call.await.expect_err("no such service");
        assert!(status.is_unimplemented(), "{status}");
        Ok(())
    });
}
