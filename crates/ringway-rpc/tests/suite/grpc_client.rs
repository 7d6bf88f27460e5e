//! Our client calls our server over gRPC.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use ringway_net::{ClientTls, ServerTls};
use ringway_rpc::{Client, Codec, Kind, Method, Status};
use ringway_runtime::{block_on, timeout};

use crate::support::echo::{Echo, serve, serve_at};
use crate::support::{LIMIT, end, eventually, socket_addr};

static SAY: Method = Method::new("echo.Echo/Say", Kind::Unary);
static LATE: Method = Method::new("echo.Echo/Late", Kind::Unary);
static HANG: Method = Method::new("echo.Echo/Hang", Kind::Unary);
static FAIL: Method = Method::new("echo.Echo/Fail", Kind::Unary);
static NONE: Method = Method::new("echo.Echo/None", Kind::Unary);
static COLLECT: Method = Method::new("echo.Echo/Collect", Kind::ClientStream);
static REPEAT: Method = Method::new("echo.Echo/Repeat", Kind::ServerStream);
static CHAT: Method = Method::new("echo.Echo/Chat", Kind::Bidi);

const RAW: Codec<Bytes> = Codec::raw();

/// Runs a test on a core, with a client of such a server.
fn run(echo: &Echo, test: impl AsyncFnOnce(Client) -> Result<(), Status> + 'static) {
    let server = serve(echo, |server| server);
    let url = format!("grpc://{}", socket_addr(&server));
    let test = async move { test(Client::connect(&*url)?).await };
    let outcome = block_on(timeout(LIMIT, test));
    outcome.expect("a core").expect("no hang").expect("success");
    end(server);
}

#[test]
fn requests_of_all_lengths_are_answered() {
    let echo = Echo::default();
    run(&echo, async |client| {
        for len in [0, 1, 47, 4_096, 16_384, 65_536, 3_000_000] {
            let request = Bytes::from(vec![7; len]);
            let reply = client.unary(&SAY, RAW, RAW, request.clone()).await?;
            assert!(reply == request, "{len} bytes");
        }
        Ok(())
    });
    assert_eq!(echo.seen.begun.load(Ordering::SeqCst), 7);
}

#[test]
fn statuses_have_their_texts_and_trailers() {
    run(&Echo::default(), async |client| {
        let text = Bytes::from("no such thing: ü %");
        let status = client.unary(&FAIL, RAW, RAW, text).await.expect_err("it fails");
        assert!(status.is_not_found(), "{status:?}");
        assert!(status.message().ends_with("no such thing: ü %"), "{status}");
        assert_eq!(status.metadata().get("shard"), Some("7"));
        let status = client.unary(&NONE, RAW, RAW, Bytes::new()).await.expect_err("no method");
        assert!(status.is_unimplemented(), "{status:?}");
        Ok(())
    });
}

#[test]
fn deadlines_end_calls_at_client_and_server() {
    let echo = Echo::default();
    let seen = std::sync::Arc::clone(&echo.seen);
    run(&echo, async move |client| {
        let call = client.unary(&LATE, RAW, RAW, Bytes::from_static(b"60000"));
        let status = call.timeout(Duration::from_millis(20)).await.expect_err("too late");
        assert!(status.is_deadline_exceeded(), "{status:?}");
        let call = client.unary(&HANG, RAW, RAW, Bytes::new()).no_timeout();
        let hung = ringway_runtime::spawn(call);
        while seen.begun.load(Ordering::SeqCst) == 0 {
            ringway_runtime::yield_now().await;
        }
        hung.abort();
        while seen.dropped.load(Ordering::SeqCst) == 0 {
            ringway_runtime::sleep(Duration::from_millis(1)).await;
        }
        // The connection still works.
        assert_eq!(client.unary(&SAY, RAW, RAW, Bytes::from_static(b"!")).await?, "!");
        Ok(())
    });
}

#[test]
fn streams_of_all_kinds() {
    run(&Echo::default(), async |client| {
        let (mut sink, reply) = client.client_stream(&COLLECT, RAW, RAW);
        for part in ["a", "b", "", "c"] {
            sink.send(Bytes::from(part)).await?;
        }
        sink.finish();
        assert_eq!(reply.await?, "abc");

        let mut replies = client.server_stream(&REPEAT, RAW, RAW, Bytes::from_static(&[200, 1]));
        let mut count = 0;
        while let Some(reply) = replies.next().await? {
            assert_eq!(reply, &[200, 1][..]);
            count += 1;
        }
        assert_eq!(count, 200);

        let (mut sink, mut replies) = client.bidi(&CHAT, RAW, RAW);
        for len in [1, 47, 300_000] {
            let message = Bytes::from(vec![3; len]);
            sink.send(message.clone()).await?;
            assert!(replies.next().await? == Some(message));
        }
        sink.finish();
        assert_eq!(replies.next().await?, None::<Bytes>);

        let (mut sink, mut replies) = client.bidi(&CHAT, RAW, RAW);
        sink.send(Bytes::from_static(b"fail")).await?;
        let status = replies.next().await.expect_err("as the message wants");
        assert!(status.is_aborted(), "{status:?}");
        Ok(())
    });
}

#[test]
fn calls_work_from_tokio_tasks_and_plain_threads() {
    let server = serve(&Echo::default(), |server| server);
    let url = format!("grpc://{}", socket_addr(&server));
    let client = Client::connect(&*url).expect("an address");
    let reply = client.unary(&SAY, RAW, RAW, Bytes::from_static(b"a thread")).wait();
    assert_eq!(reply.expect("success"), "a thread");
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let reply = tokio.expect("a runtime").block_on(client.unary(
        &SAY,
        RAW,
        RAW,
        Bytes::from_static(b"tokio"),
    ));
    assert_eq!(reply.expect("success"), "tokio");
    drop(client);
    end(server);
}

#[test]
fn tls_server_is_verified_and_agrees_on_h2() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let tls = ServerTls::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
    let tls = tls.expect("they belong together");
    let address = "tls://localhost:0".parse().expect("an address");
    let echo = Echo::default();
    let server = serve_at(address, &echo, |server| server.tls(tls));
    let url = server.addresses()[0].to_string().replace("tls:", "grpcs:");
    let trusting = ClientTls::new().roots_pem(made.cert.pem()).expect("a certificate");
    let say = |client: &Client| client.unary(&SAY, RAW, RAW, Bytes::from_static(b"?")).wait();
    let client = Client::builder().address(&*url).tls(trusting).build().expect("an address");
    assert_eq!(say(&client).expect("success"), "?");
    let stranger = Client::connect(&*url).expect("an address");
    let status = say(&stranger).expect_err("it is not trusted");
    assert!(status.is_unavailable() && status.message().contains("certificate"), "{status}");
    drop((client, stranger));
    eventually("one call has run", || echo.seen.begun.load(Ordering::SeqCst) == 1);
    end(server);
}
