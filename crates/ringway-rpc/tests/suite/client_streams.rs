//! Calls with streams, against a hand-made server.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{CallOptions, Client, Codec, Kind, Method, Status};
use ringway_runtime::timeout;
use ringway_wire::native::{Config, MetaWriter, Reply};

use crate::support::alone::NoForks;
use crate::support::hand_server::{HandConnection, HandServer, Request};

static COUNT: Method = Method::new("test.Test/Count", Kind::ServerStream);
static SUM: Method = Method::new("test.Test/Sum", Kind::ClientStream);
static TALK: Method = Method::new("test.Test/Talk", Kind::Bidi);

const MS: Duration = Duration::from_millis(1);
const END: Reply<'static> = Reply { status: 0, meta: &[], message: None };

#[test]
fn a_stream_of_replies_is_read_to_its_trailers() {
    run(async {
        let server = HandServer::start(Config::default(), Rc::new(count));
        let client = connect(&server);
        for messages in [0, 1, 3, 1_000] {
            let mut replies = client.server_stream(&COUNT, RAW, RAW, number(messages));
            if messages > 0 {
                let metadata = replies.metadata().await?;
                assert_eq!(metadata.get("kind"), Some("numbers"));
            }
            let mut got = 0;
            while let Some(message) = replies.next().await? {
                assert_eq!(message, number(got));
                got += 1;
            }
            assert_eq!(got, messages);
            let trailers = replies.trailers().expect("it has ended");
            assert_eq!(trailers.get("sent"), Some("all"));
        }
        Ok(())
    });
}

#[test]
fn a_stream_of_requests_gets_one_reply() {
    run(async {
        let server = HandServer::start(Config::default(), Rc::new(sum));
        let client = connect(&server);
        for messages in [0, 1, 500] {
            let (mut sink, reply) = client.client_stream(&SUM, RAW, RAW);
            for n in 0..messages {
                sink.send(number(n)).await?;
            }
            sink.finish();
            assert_eq!(reply.await?, "done");
        }
        // Options are set on the client, because the stream opens before its reply is awaited.
        let (sink, reply) = client.client_stream::<Bytes, Bytes>(&SUM, RAW, RAW);
        let status = reply.timeout(MS).await.expect_err("too late for options");
        assert!(status.is_failed_precondition(), "{status}");
        drop(sink);
        Ok(())
    });
}

#[test]
fn both_sides_alternate() {
    run(async {
        let server = HandServer::start(Config::default(), Rc::new(talk));
        let client = connect(&server);
        let (mut sink, mut replies) = client.bidi(&TALK, RAW, RAW);
        for n in 0..200 {
            sink.send(number(n)).await?;
            assert_eq!(replies.next().await?, Some(number(n)));
        }
        sink.finish();
        assert_eq!(replies.next().await?, None::<Bytes>);
        Ok(())
    });
}

#[test]
fn large_messages_flow_in_both_directions() {
    run(async {
        let server = HandServer::start(Config::default(), Rc::new(talk));
        let client = connect(&server);
        let (mut sink, mut replies) = client.bidi(&TALK, RAW, RAW);
        let message = Bytes::from(vec![3; 700_000]);
        let sent = message.clone();
        let sending = ringway_runtime::spawn(async move {
            for _ in 0..20 {
                sink.send(sent.clone()).await?;
            }
            sink.finish();
            Ok::<_, Status>(())
        });
        let mut got = 0;
        while let Some(reply) = replies.next().await? {
            assert!(reply == message);
            got += 1;
        }
        assert_eq!(got, 20);
        sending.await.expect("no panic")?;
        Ok(())
    });
}

#[test]
fn dropping_either_handle_cancels_the_call() {
    run(async {
        let server = HandServer::start(Config::default(), Rc::new(talk));
        let client = connect(&server);
        let (mut sink, mut replies) = client.bidi(&TALK, RAW, RAW);
        sink.send(number(0)).await?;
        assert_eq!(replies.next().await?, Some(number(0)));
        drop(replies);
        server.until(|server| server.connection(0).cancelled.borrow().len() == 1).await;
        let over = sink.send(number(1)).await.expect_err("its call is over");
        assert!(over.is_cancelled(), "{over}");

        let (mut sink, mut replies) = client.bidi(&TALK, RAW, RAW);
        sink.send(number(0)).await?;
        assert_eq!(replies.next().await?, Some(number(0)));
        drop(sink);
        let status = replies.next().await.map(|message: Option<Bytes>| message);
        assert!(status.expect_err("half a stream").is_cancelled());
        server.until(|server| server.connection(0).cancelled.borrow().len() == 2).await;

        let (sink, replies) = client.bidi::<Bytes, Bytes>(&TALK, RAW, RAW);
        sink.cancel("enough of it");
        server.until(|server| server.connection(0).cancelled.borrow().len() == 3).await;
        assert_eq!(server.connection(0).cancelled.borrow()[2].2, "enough of it");
        drop(replies);
        Ok(())
    });
}

#[test]
fn lost_connection_ends_its_streams() {
    run(async {
        let server = HandServer::start(Config::default(), Rc::new(talk));
        let client = connect(&server);
        let (mut sink, mut replies) = client.bidi(&TALK, RAW, RAW);
        sink.send(number(0)).await?;
        server.until(|server| server.requests() == 1).await;
        assert_eq!(replies.next().await?, Some(number(0)));
        server.connection(0).kill();
        for _ in 0..2 {
            let status = replies.next().await.expect_err("the connection is gone");
            assert!(status.is_unavailable(), "{status:?}");
        }
        let status = sink.send(number(1)).await.expect_err("the connection is gone");
        assert!(status.is_unavailable(), "{status:?}");
        Ok(())
    });
}

#[test]
fn stream_to_an_absent_server_fails() {
    let _no_forks = NoForks::begin();
    run(async {
        let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let client = Client::connect(format!("tcp://{address}").as_str())?;
        let mut replies = client.server_stream::<Bytes, Bytes>(&COUNT, RAW, RAW, number(1));
        let status = replies.next().await.expect_err("nobody listens");
        assert!(status.is_unavailable(), "{status:?}");
        let what = format!("test.Test/Count: cannot connect to tcp://{address} ");
        assert!(status.message().starts_with(&what), "{status}");
        Ok(())
    });
}

#[test]
fn deadline_ends_a_stream() {
    run(async {
        let server = HandServer::start(Config::default(), Rc::new(talk));
        let client = connect(&server);
        let hasty = client.with(CallOptions::new().timeout(20 * MS));
        // Twice: before there is a connection, and with one. A slow machine sends fewer of them.
        let mut sent = 0;
        for _ in 0..2 {
            let (_sink, mut replies) = hasty.bidi::<Bytes, Bytes>(&TALK, RAW, RAW);
            let status = replies.next().await.expect_err("no message before the deadline");
            assert!(status.is_deadline_exceeded(), "{status:?}");
            assert!(status.message().starts_with("test.Test/Talk: no "), "{status}");
            assert!(status.message().contains(&server.url()), "{status}");
            sent += usize::from(!status.is_not_executed());
        }
        server
            .until(|server| sent == 0 || server.connection(0).cancelled.borrow().len() == sent)
            .await;
        Ok(())
    });
}

#[test]
fn a_stream_waits_for_a_connection_until_its_deadline() {
    run(async {
        let server = HandServer::start(Config::default(), Rc::new(count));
        let url = server.url();
        server.kill();
        let client = Client::connect(&*url)?;
        let options = CallOptions::new().wait_for_ready(true).timeout(20 * MS);
        let mut replies = client.with(options).server_stream(&COUNT, RAW, RAW, number(1));
        let status = replies.next().await.expect_err("nobody listens");
        assert!(status.is_deadline_exceeded() && status.is_not_executed(), "{status:?}");
        Ok(())
    });
}

#[test]
fn a_plain_thread_uses_streams() {
    let runtime = ringway_runtime::Runtime::builder().threads(1).start().expect("a core");
    let (tell, url) = std::sync::mpsc::channel();
    let _server = runtime.cores()[0].spawn(async move || {
        let server = HandServer::start(Config::default(), Rc::new(talk));
        tell.send(server.url()).expect("the test waits for it");
        std::future::pending::<()>().await;
    });
    let url = url.recv_timeout(Duration::from_secs(20)).expect("the server has started");
    let tokio = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let ended: Result<(), Status> = tokio.block_on(async {
        let client = Client::connect(&*url)?;
        let (mut sink, mut replies) = client.bidi(&TALK, RAW, RAW);
        for n in 0..50 {
            sink.send(number(n)).await?;
            assert_eq!(replies.next().await?, Some(number(n)));
        }
        sink.finish();
        assert_eq!(replies.next().await?, None::<Bytes>);
        let (sink, reply) = client.client_stream::<Bytes, Bytes>(&TALK, RAW, RAW);
        sink.finish();
        assert!(reply.await.expect_err("no message").is_unimplemented());
        Ok(())
    });
    ended.unwrap_or_else(|status| panic!("{status:?}"));
}

const RAW: Codec<Bytes> = Codec::raw();

/// Sends as many messages as the request says.
fn count(connection: &Rc<HandConnection>, request: Request) {
    let message = request.message.expect("a request");
    let messages = u32::from_le_bytes((&*message).try_into().expect("a number"));
    let mut meta = Vec::new();
    MetaWriter::new(&mut meta).entry("kind", b"numbers");
    for n in 0..messages {
        connection.send(request.stream, if n == 0 { &meta } else { &[] }, &number(n));
    }
    let mut meta = Vec::new();
    MetaWriter::new(&mut meta).entry("sent", b"all");
    connection.respond(request.stream, Reply { meta: &meta, ..END });
}

/// Answers when the requests have ended.
fn sum(connection: &Rc<HandConnection>, request: Request) {
    if request.end {
        connection.answer(request.stream, Bytes::from_static(b"done"));
    }
}

/// Echoes each message.
fn talk(connection: &Rc<HandConnection>, request: Request) {
    if let Some(message) = &request.message {
        connection.send(request.stream, &[], message);
    }
    if request.end {
        connection.respond(request.stream, END);
    }
}

fn number(n: u32) -> Bytes {
    Bytes::copy_from_slice(&n.to_le_bytes())
}

fn connect(server: &HandServer) -> Client {
    Client::connect(&*server.url()).expect("an address")
}

/// Runs a test on one core, with a time limit.
fn run(test: impl Future<Output = Result<(), Box<dyn std::error::Error>>> + 'static) {
    let ended = ringway_runtime::block_on(timeout(Duration::from_secs(20), test));
    ended.expect("a core").expect("no hang").unwrap_or_else(|error| panic!("{error}"));
}
