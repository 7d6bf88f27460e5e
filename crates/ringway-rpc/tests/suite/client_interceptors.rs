//! Interceptors of a client, against a hand-made server.

use std::cell::RefCell;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{
    Call, CallOptions, Client, ClientBuilder, Code, Codec, IncomingReply, Kind, Method, NextCall,
    OutgoingCall, Side, Status,
};
use ringway_runtime::{Runtime, spawn, timeout};
use ringway_wire::native::{Config, MetaReader, MetaWriter, Reply, Tag};

use crate::support::hand_server::{HandConnection, HandServer, Request};

static ECHO: Method = Method::new("test.Test/Echo", Kind::Unary);
static HOLD: Method = Method::new("test.Test/Hold", Kind::Unary);
static COUNT: Method = Method::new("test.Test/Count", Kind::ServerStream);
static SUM: Method = Method::new("test.Test/Sum", Kind::ClientStream);
static TALK: Method = Method::new("test.Test/Talk", Kind::Bidi);

const MS: Duration = Duration::from_millis(1);

/// The longest wait for another thread.
const PATIENCE: Duration = Duration::from_secs(20);

type Answer = Result<IncomingReply, Status>;

/// What interceptors have done, recorded from any thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, what: impl Into<String>) {
        self.0.lock().expect("no panic").push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }

    /// Waits for the next record.
    async fn next(&self) -> String {
        loop {
            match &self.take()[..] {
                [] => ringway_runtime::yield_now().await,
                [one] => return one.clone(),
                more => panic!("{more:?}"),
            }
        }
    }
}

/// Counts drops.
struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn interceptors_run_in_order_and_add_metadata() {
    run(async {
        let (server, seen) = recording();
        let log = Log::default();
        let around = |name: &'static str| {
            let log = log.clone();
            async move |mut call: OutgoingCall, next: NextCall| {
                let before: Vec<_> =
                    call.metadata().iter().map(|(key, _)| key.to_owned()).collect();
                log.add(format!("{name}: {} {}", call.method().name(), before.join(",")));
                call.metadata_mut().append(name, "1")?;
                let outcome = next.run(call).await;
                let said = outcome.as_ref().map(|reply| reply.metadata().or(reply.trailers()));
                assert_eq!(said.ok().flatten(), None, "the server said nothing beside its reply");
                log.add(format!("{name}: {:?}", outcome.as_ref().map(IncomingReply::message)));
                outcome
            }
        };
        let builder = Client::builder().address(server.url());
        let client = builder.intercept(around("outer")).intercept(around("inner")).build()?;
        assert_eq!(echo(&client, "hello").metadata("own", "0").await?, "hello");
        let expected = [
            "outer: test.Test/Echo own",
            "inner: test.Test/Echo own,outer",
            "inner: Ok(Some(b\"hello\"))",
            "outer: Ok(Some(b\"hello\"))",
        ];
        assert_eq!(log.take(), expected);
        assert_eq!(seen.take(), ["own,outer,inner"]);
        Ok(())
    });
}

#[test]
fn interceptors_answer_early_and_replace_replies() {
    run(async {
        let (server, _) = recording();
        let client = with_one(&server, async |call: OutgoingCall, next: NextCall| {
            match call.metadata().get("do") {
                Some("refuse") => Err(Status::permission_denied("not you")),
                Some("cached") => Ok(IncomingReply::new("from the cache")),
                Some("spoil") => {
                    let reply = next.run(call).await?;
                    Err(Status::data_loss(format!(
                        "{} bytes",
                        reply.message().map_or(0, Bytes::len)
                    )))
                }
                Some("mend") => match next.run(call).await {
                    Err(status) if status.is_not_found() => Ok(IncomingReply::new("by default")),
                    outcome => outcome,
                },
                _ => next.run(call).await,
            }
        })?;
        let refused = echo(&client, "?").metadata("do", "refuse").await.expect_err("refused");
        assert!(refused.is_permission_denied() && refused.message() == "not you", "{refused}");
        assert_eq!(echo(&client, "?").metadata("do", "cached").await?, "from the cache");
        assert_eq!(server.requests(), 0, "neither was sent");
        let spoilt = echo(&client, "12345").metadata("do", "spoil").await.expect_err("spoilt");
        assert!(spoilt.is_data_loss() && spoilt.message() == "5 bytes", "{spoilt}");
        assert_eq!(echo(&client, "missing").metadata("do", "mend").await?, "by default");
        assert!(echo(&client, "missing").await.expect_err("as it is").is_not_found());
        assert_eq!(server.requests(), 3);
        Ok(())
    });
}

#[test]
fn interceptors_run_around_all_attempts() {
    run(async {
        let server = HandServer::start(
            Config::default(),
            Rc::new(|connection, request: Request| match request.head.expect("whole").attempt {
                2 => connection.echo(request),
                _ => fail(connection, &request, Code::Unavailable),
            }),
        );
        let calls = Arc::new(AtomicUsize::new(0));
        let client = with_one(&server, {
            let calls = Arc::clone(&calls);
            async move |call: OutgoingCall, next: NextCall| {
                calls.fetch_add(1, Ordering::SeqCst);
                next.run(call).await
            }
        })?;
        assert_eq!(echo(&client, "third time").idempotent().await?, "third time");
        assert_eq!((calls.load(Ordering::SeqCst), server.requests()), (1, 3));
        assert_eq!(echo(&client, "again").idempotent().hedge().await?, "again");
        assert_eq!((calls.load(Ordering::SeqCst), server.requests()), (2, 6));
        Ok(())
    });
}

#[test]
fn deadline_covers_interceptors() {
    run(async {
        let (server, _) = recording();
        let log = Log::default();
        let dropped = Arc::new(AtomicUsize::new(0));
        let client = with_one(&server, {
            let (log, dropped) = (log.clone(), Arc::clone(&dropped));
            async move |call: OutgoingCall, next: NextCall| {
                let _dropped = CountDrop(Arc::clone(&dropped));
                let left = call.remaining().expect("a deadline");
                assert!(left <= 200 * MS, "{left:?}");
                let when = call.metadata().get("stall").unwrap_or_default().to_owned();
                if when == "before" {
                    pending::<()>().await;
                }
                let mut inner = Box::pin(next.run(call));
                if when == "beside" {
                    let _begun = poll_once(inner.as_mut()).await;
                    pending::<()>().await;
                }
                let outcome = inner.await;
                log.add(format!("{:?}", outcome.as_ref().map_err(Status::code).err()));
                if when == "after" {
                    pending::<()>().await;
                }
                outcome
            }
        })?;
        for (method, stall, limit, told) in [
            (&HOLD, "never", 20, "Some(DeadlineExceeded)"),
            (&ECHO, "before", 20, ""),
            (&ECHO, "after", 200, "None"),
            (&HOLD, "after", 20, "Some(DeadlineExceeded)"),
            (&HOLD, "beside", 20, ""),
            (&ECHO, "beside", 200, ""),
        ] {
            let call = call(&client, method, "?").timeout(limit * MS).metadata("stall", stall);
            let status = call.await.expect_err("no time for it");
            assert!(status.is_deadline_exceeded(), "{status}");
            assert_eq!(log.take().join(","), told, "{stall}");
        }
        assert_eq!(dropped.load(Ordering::SeqCst), 6);
        Ok(())
    });
}

#[test]
fn dropping_the_call_drops_waiting_interceptors() {
    run(async {
        let (server, _) = recording();
        let dropped = Arc::new(AtomicUsize::new(0));
        let client = with_one(&server, {
            let dropped = Arc::clone(&dropped);
            async move |call: OutgoingCall, next: NextCall| {
                let _dropped = CountDrop(Arc::clone(&dropped));
                if call.metadata().get("stall").is_some() {
                    pending::<()>().await;
                }
                next.run(call).await
            }
        })?;
        assert_eq!(echo(&client, "connect").await?, "connect");
        dropped.store(0, Ordering::SeqCst);
        let mut waits = Box::pin(echo(&client, "?").metadata("stall", "1"));
        assert!(poll_once(waits.as_mut()).await.is_pending());
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
        drop(waits);
        assert_eq!((dropped.load(Ordering::SeqCst), server.requests()), (1, 1));

        let mut flies = Box::pin(call(&client, &HOLD, "?"));
        assert!(poll_once(flies.as_mut()).await.is_pending());
        server.until(|server| server.requests() == 2).await;
        drop(flies);
        assert_eq!(dropped.load(Ordering::SeqCst), 2);
        server.until(|server| server.connection(0).cancelled.borrow().len() == 1).await;

        // Its slot is reused.
        for n in 0..100 {
            let mut dropped = Box::pin(call(&client, &HOLD, "?"));
            assert!(poll_once(dropped.as_mut()).await.is_pending());
            let calls: Vec<_> = (0..5).map(|_| spawn(echo(&client, n.to_string()))).collect();
            for call in calls {
                assert_eq!(call.await.expect("no panic")?, n.to_string());
            }
        }
        Ok(())
    });
}

#[test]
fn panic_of_an_interceptor_ends_only_its_call() {
    run(async {
        let held = Rc::new(RefCell::new(Vec::new()));
        let server = HandServer::start(Config::default(), {
            let held = Rc::clone(&held);
            Rc::new(move |connection, request: Request| match request.method.ends_with("/Hold") {
                true => held.borrow_mut().push((Rc::clone(connection), request)),
                false => connection.echo(request),
            })
        });
        let client = with_one(&server, async |call: OutgoingCall, next: NextCall| {
            let when = call.metadata().get("panic").unwrap_or_default().to_owned();
            assert_ne!(when, "before");
            let outcome = next.run(call).await;
            assert_ne!(when, "after");
            outcome
        })?;
        let other = spawn(call(&client, &HOLD, "other"));
        server.until(|server| server.requests() == 1).await;
        for (when, requests) in [("before", 1), ("after", 2)] {
            let status = echo(&client, "?").metadata("panic", when).await.expect_err("a panic");
            assert!(status.is_internal() && !status.message().contains(when), "{status}");
            assert_eq!(server.requests(), requests);
        }
        assert_eq!(echo(&client, "goes on").await?, "goes on");
        held.borrow_mut().drain(..).for_each(|(connection, request)| connection.echo(request));
        assert_eq!(other.await.expect("no panic of it")?, "other");
        assert_eq!(server.connections.borrow().len(), 1);
        Ok(())
    });
}

#[test]
fn interceptors_may_make_calls() {
    run(async {
        let (server, seen) = recording();
        let tokens = Client::connect(server.url())?;
        let client = with_one(&server, async move |mut call: OutgoingCall, next: NextCall| {
            let token = echo(&tokens, "token").await?;
            call.metadata_mut().insert(str::from_utf8(&token).expect("text"), "1")?;
            next.run(call).await
        })?;
        let calls: Vec<_> = (0..20).map(|n| spawn(echo(&client, n.to_string()))).collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.expect("no panic")?, n.to_string());
        }
        assert_eq!(seen.take().iter().filter(|keys| *keys == "token").count(), 20);
        Ok(())
    });
}

#[test]
fn interceptors_refuse_or_open_streams() {
    run(async {
        let (server, seen) = recording();
        let client = with_one(&server, async |mut call: OutgoingCall, next: NextCall| {
            match call.metadata().get("do") {
                Some("refuse") => return Err(Status::permission_denied("not you")),
                Some("answer") => return Ok(IncomingReply::new("early")),
                Some("panic") => panic!("before it is open"),
                _ => {}
            }
            call.metadata_mut().insert("added", "1")?;
            next.run(call).await
        })?;
        let doing = |what| client.with(CallOptions::new().metadata("do", what));
        for (what, code) in [
            ("refuse", Code::PermissionDenied),
            ("answer", Code::Internal),
            ("panic", Code::Internal),
        ] {
            let mut replies = doing(what).server_stream(&COUNT, RAW, RAW, Bytes::new());
            assert_eq!(replies.next().await.expect_err(what).code(), code);
            let (mut sink, reply) = doing(what).client_stream::<Bytes, Bytes>(&SUM, RAW, RAW);
            assert_eq!(reply.await.expect_err(what).code(), code);
            assert_eq!(sink.send(Bytes::new()).await.expect_err(what).code(), code);
        }
        assert_eq!(server.requests(), 0);

        let mut replies = client.server_stream(&COUNT, RAW, RAW, Bytes::from_static(b"3"));
        let mut got = 0;
        while replies.next().await?.is_some() {
            got += 1;
        }
        assert_eq!(got, 3);
        let (mut sink, mut replies) = client.bidi(&TALK, RAW, RAW);
        for n in 0..10 {
            sink.send(Bytes::from(n.to_string())).await?;
            assert_eq!(replies.next().await?, Some(Bytes::from(n.to_string())));
        }
        assert_eq!(seen.take(), ["added", "added"]);
        Ok(())
    });
}

#[test]
fn interceptors_see_how_streams_end_and_cannot_change_it() {
    run(async {
        let (server, _) = recording();
        let log = Log::default();
        let client = with_one(&server, {
            let log = log.clone();
            async move |call: OutgoingCall, next: NextCall| {
                let name = call.method().short_name();
                let outcome = next.run(call).await.map(drop).map_err(|status| status.code());
                log.add(format!("{name} {outcome:?}"));
                Err(Status::aborted("after the end"))
            }
        })?;
        let mut replies = client.server_stream(&COUNT, RAW, RAW, Bytes::from_static(b"2"));
        for n in ["0", "1"] {
            assert_eq!(replies.next().await?, Some(Bytes::from(n)));
        }
        assert_eq!(replies.next().await?, None);
        assert_eq!(log.next().await, "Count Ok(())");

        let mut replies = client.server_stream(&COUNT, RAW, RAW, Bytes::from_static(b"missing"));
        assert!(replies.next().await.expect_err("none").is_not_found());
        assert_eq!(log.next().await, "Count Err(NotFound)");

        let (mut sink, reply) = client.client_stream::<Bytes, Bytes>(&SUM, RAW, RAW);
        sink.send(Bytes::new()).await?;
        assert!(log.take().is_empty(), "it goes on");
        drop(reply);
        assert_eq!(log.next().await, "Sum Err(Cancelled)");

        let hasty = client.with(CallOptions::new().timeout(30 * MS));
        let (sink, mut replies) = hasty.bidi::<Bytes, Bytes>(&TALK, RAW, RAW);
        assert!(replies.next().await.expect_err("silence").is_deadline_exceeded());
        assert_eq!(log.next().await, "Talk Err(DeadlineExceeded)");
        drop(sink);

        let (mut sink, mut replies) = client.bidi(&TALK, RAW, RAW);
        sink.send(Bytes::from_static(b"1")).await?;
        assert_eq!(replies.next().await?, Some(Bytes::from_static(b"1")));
        server.connection(0).kill();
        assert!(replies.next().await.expect_err("lost").is_unavailable());
        assert_eq!(log.next().await, "Talk Err(Unavailable)");
        Ok(())
    });
}

#[test]
fn abandoned_stream_drops_its_interceptors() {
    run(async {
        let (server, _) = recording();
        let begun = Arc::new(AtomicUsize::new(0));
        let dropped = Arc::new(AtomicUsize::new(0));
        let client = with_one(&server, {
            let (begun, dropped) = (Arc::clone(&begun), Arc::clone(&dropped));
            async move |call: OutgoingCall, next: NextCall| {
                let _dropped = CountDrop(Arc::clone(&dropped));
                begun.fetch_add(1, Ordering::SeqCst);
                pending::<()>().await;
                next.run(call).await
            }
        })?;
        let replies = client.server_stream::<Bytes, Bytes>(&COUNT, RAW, RAW, Bytes::new());
        while begun.load(Ordering::SeqCst) == 0 {
            ringway_runtime::yield_now().await;
        }
        drop(replies);
        while dropped.load(Ordering::SeqCst) == 0 {
            ringway_runtime::yield_now().await;
        }
        assert_eq!(server.requests(), 0);
        Ok(())
    });
}

#[test]
fn stream_opened_too_late_by_an_interceptor_is_cancelled() {
    run(async {
        let server = HandServer::start(Config::default(), Rc::new(|_, _| {}));
        let log = Log::default();
        let client = with_one(&server, {
            let log = log.clone();
            async move |call: OutgoingCall, next: NextCall| {
                let log = log.clone();
                drop(spawn(async move {
                    let outcome = next.run(call).await.map(drop).map_err(|status| status.code());
                    log.add(format!("{outcome:?}"));
                }));
                Err(Status::aborted("without waiting for it"))
            }
        })?;
        let mut replies = client.server_stream::<Bytes, Bytes>(&COUNT, RAW, RAW, Bytes::new());
        assert!(replies.next().await.expect_err("answered early").is_aborted());
        assert_eq!(log.next().await, "Err(Cancelled)");
        let count =
            client.metrics().method(Side::Client, COUNT.name()).expect("it was opened").in_flight();
        assert_eq!(count, 0);
        Ok(())
    });
}

#[test]
fn interceptors_run_for_callers_on_any_thread() {
    let runtime = Runtime::builder().threads(2).start().expect("two cores");
    let (tell, url) = mpsc::channel();
    let server = runtime.cores()[0].spawn(async move || {
        let (server, seen) = recording();
        tell.send(server.url()).expect("the test waits for it");
        server.until(|server| server.requests() == 6).await;
        seen.take()
    });
    let url = url.recv_timeout(PATIENCE).expect("the server has started");
    let (tell, told) = mpsc::channel();
    let interceptor = async move |mut call: OutgoingCall, next: NextCall| {
        let _told = Tell(tell.clone());
        call.metadata_mut().insert("added", "1")?;
        if call.metadata().get("stall").is_some() {
            drop(Tell(tell.clone())); // tells that it waits
            pending::<()>().await;
        }
        ringway_runtime::yield_now().await; // it runs on a core, whichever thread calls
        next.run(call).await
    };
    let client = Client::builder().address(&*url).intercept(interceptor).build().expect("good");
    let told = || told.recv_timeout(PATIENCE).expect("an interceptor ends");

    assert_eq!(echo(&client, "plain").wait().expect("an echo"), "plain");
    let full = echo(&client, "full").full().wait().expect("an echo");
    assert_eq!((&full.message[..], full.trailers.len()), (&b"full"[..], 0));
    let tokio = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let spawned = tokio.block_on(async { tokio::spawn(echo(&client, "tokio")).await });
    assert_eq!(spawned.expect("no panic").expect("an echo"), "tokio");
    let moved = echo(&client, "moved");
    let moved = thread::spawn(move || moved.wait()).join().expect("no panic");
    assert_eq!(moved.expect("an echo"), "moved");
    let mut replies = client.server_stream(&COUNT, RAW, RAW, Bytes::from_static(b"1"));
    let first = tokio.block_on(replies.next()).expect("a stream");
    assert_eq!(first.as_deref(), Some(&b"0"[..]));
    (0..5).for_each(|_| told());

    // Begun on a core and awaited on a plain thread.
    #[expect(clippy::async_yields_async, reason = "the call continues on another thread")]
    let begin = {
        let client = client.clone();
        async move || {
            let mut call = Box::pin(echo(&client, "core to tokio"));
            assert!(poll_once(call.as_mut()).await.is_pending());
            call
        }
    };
    let begun = runtime.cores()[1].spawn(begin).expect("room").wait().expect("no panic");
    assert_eq!(tokio.block_on(begun).expect("an echo"), "core to tokio");
    told();

    // Dropped on another thread than the core where its interceptor waits.
    let mut stalled = Box::pin(echo(&client, "?").metadata("stall", "1"));
    tokio.block_on(async { assert!(poll_once(stalled.as_mut()).await.is_pending()) });
    told();
    drop(stalled);
    told();

    let seen = server.expect("room").wait().expect("no panic");
    assert_eq!(seen, ["added"; 6]);
}

/// Reports its drop.
struct Tell(mpsc::Sender<()>);

impl Drop for Tell {
    fn drop(&mut self) {
        _ = self.0.send(());
    }
}

const RAW: Codec<Bytes> = Codec::raw();

/// Makes a server that records the metadata keys of every call and acts by the method's name.
fn recording() -> (HandServer, Rc<RefCell<Vec<String>>>) {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let server = HandServer::start(Config::default(), {
        let seen = Rc::clone(&seen);
        Rc::new(move |connection, request: Request| {
            if request.head.is_some() {
                seen.borrow_mut().push(keys(&request.meta));
            }
            behave(connection, request);
        })
    });
    (server, seen)
}

fn behave(connection: &Rc<HandConnection>, request: Request) {
    let message = request.message.clone().unwrap_or_default();
    match request.method.as_str() {
        "test.Test/Hold" | "test.Test/Talk" => {}
        "test.Test/Echo" | "test.Test/Count" if message == "missing" => {
            fail(connection, &request, Code::NotFound)
        }
        "test.Test/Count" => {
            let count: usize =
                str::from_utf8(&message).ok().and_then(|n| n.parse().ok()).unwrap_or(0);
            for n in 0..count {
                connection.send(request.stream, &[], n.to_string().as_bytes());
            }
            connection.respond(request.stream, Reply { status: 0, meta: &[], message: None });
        }
        "test.Test/Echo" => connection.echo(request),
        _ if !request.end => connection.send(request.stream, &[], &message),
        _ => {}
    }
}

fn fail(connection: &HandConnection, request: &Request, code: Code) {
    let mut meta = Vec::new();
    MetaWriter::new(&mut meta).status_message("as the test wants");
    let reply = Reply { status: code.number(), meta: &meta, message: None };
    connection.respond(request.stream, reply);
}

/// Returns the keys of the caller's metadata, in order.
fn keys(meta: &[u8]) -> String {
    let pieces = MetaReader::new(meta).map(|piece| piece.expect("whole metadata"));
    let entries = pieces.filter(|(tag, _)| *tag == Tag::Entry);
    let keys = entries.map(|(_, entry)| {
        let (key, _) = MetaReader::entry(entry).expect("a key and a value");
        String::from_utf8_lossy(key).into_owned()
    });
    keys.collect::<Vec<_>>().join(",")
}

fn with_one<F>(server: &HandServer, interceptor: F) -> Result<Client, Status>
where
    F: AsyncFn(OutgoingCall, NextCall) -> Answer + Clone + Send + Sync + 'static,
{
    let builder: ClientBuilder = Client::builder().address(server.url());
    builder.intercept(interceptor).build()
}

fn echo(client: &Client, request: impl Into<Bytes>) -> Call<Bytes> {
    call(client, &ECHO, request)
}

fn call(client: &Client, method: &'static Method, request: impl Into<Bytes>) -> Call<Bytes> {
    client.unary(method, RAW, RAW, request.into())
}

async fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    let mut future = Some(future);
    poll_fn(|cx| Poll::Ready(future.take().expect("polled once").poll(cx))).await
}

/// Runs a test on one core, with a time limit.
fn run(test: impl Future<Output = Result<(), Box<dyn std::error::Error>>> + 'static) {
    let ended = ringway_runtime::block_on(timeout(PATIENCE, test));
    ended.expect("a core").expect("no hang").unwrap_or_else(|error| panic!("{error}"));
}
