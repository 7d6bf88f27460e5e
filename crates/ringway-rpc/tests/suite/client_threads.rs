//! Calls and streams from threads without a core: tokio's tasks, plain threads, other cores.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Barrier, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_rpc::{
    Call, CallOptions, Client, Codec, Kind, Method, NextCall, OutgoingCall, Server, Sink, Status,
    service,
};
use ringway_runtime::{Runtime, sleep, timeout};

use crate::support::hand_server::HandServer;

static ECHO: Method = Method::new("test.Test/Echo", Kind::Unary);
static CHAT: Method = Method::new("test.Test/Chat", Kind::Bidi);
static HOLD: Method = Method::new("test.Test/Hold", Kind::Unary);

/// The longest wait for another thread.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_plain_thread_waits_for_its_call() {
    with_server(|url, _| {
        let client = Client::connect(url)?;
        assert_eq!(echo(&client, "hello").wait()?, "hello");
        let reply = echo(&client, "full").full().wait()?;
        assert_eq!((&reply.message[..], reply.trailers.len()), (&b"full"[..], 0));
        let status = hold(&client).timeout(Duration::from_millis(5)).wait().expect_err("held");
        assert!(status.is_deadline_exceeded(), "{status}");
        Ok(())
    });
}

#[test]
fn many_threads_share_a_client() {
    with_server(|url, _| {
        let client = Client::connect(url)?;
        thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| {
                    let client = client.clone();
                    scope.spawn(move || {
                        for turn in 0..200 {
                            let request = format!("{thread}/{turn}");
                            assert_eq!(echo(&client, request.clone()).wait()?, request);
                        }
                        Ok::<_, Status>(())
                    })
                })
                .collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })
    });
}

#[test]
fn stream_read_on_another_thread_keeps_its_credit() {
    const MESSAGES: usize = 5_000; // of 1,000 bytes each: several windows
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let server = server.service(FloodServer::new(Flooding)).start().expect("it starts");
    let client = Client::connect(server.addresses()[0].clone()).expect("an address");
    let client = FloodClient::new(client);
    let runtime = Runtime::builder().threads(1).start().expect("a core");
    let begun = runtime.cores()[0].spawn(async move || {
        let mut messages = client.flood(MESSAGES as u64);
        // The first message is in hand, and so are those received after it.
        for _ in 0..2 {
            messages.next().await?.expect("a message");
        }
        Ok::<_, Status>(messages)
    });
    let mut messages = begun.expect("it runs").wait().expect("no panic").expect("a stream");
    let (tell_read, read) = mpsc::channel();
    thread::spawn(move || {
        let tokio = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let rest = tokio.block_on(async move {
            let mut count = 2;
            while messages.next().await?.is_some() {
                count += 1;
            }
            Ok::<_, Status>(count)
        });
        tell_read.send(rest)
    });
    let count = read.recv_timeout(PATIENCE).expect("the stream goes on").expect("no failure");
    assert_eq!(count, MESSAGES);
}

#[service(package = "flood.v1", crate = "ringway_rpc")]
trait Flood {
    async fn flood(&self, count: u64, out: Sink<Bytes>) -> Result<(), Status>;
}

struct Flooding;

impl Flood for Flooding {
    async fn flood(&self, count: u64, mut out: Sink<Bytes>) -> Result<(), Status> {
        for _ in 0..count {
            out.send(Bytes::from_static(&[7; 1_000])).await?;
        }
        Ok(())
    }
}

/// Makes a call and opens a stream when its thread ends.
struct LastWord(Client, mpsc::Sender<Result<Bytes, Status>>);

impl Drop for LastWord {
    fn drop(&mut self) {
        let (mut sink, _replies) = self.0.bidi(&CHAT, Codec::raw(), Codec::raw());
        let _open_or_not = sink.try_send(Bytes::new());
        self.1.send(echo(&self.0, "last").wait()).expect("the test waits");
    }
}

thread_local! {
    static EARLY: RefCell<Option<LastWord>> = const { RefCell::new(None) };
    static LATE: RefCell<Option<LastWord>> = const { RefCell::new(None) };
}

#[test]
fn destructors_of_a_former_core_thread_may_make_calls() {
    with_server(|url, _| {
        let client = Client::connect(url)?;
        let (tell, told) = mpsc::channel();
        let ends = thread::spawn(move || {
            let last_word = || Some(LastWord(client.clone(), tell.clone()));
            // Destroyed before and after the library's own thread-locals.
            EARLY.replace(last_word());
            let first = ringway_runtime::block_on(echo(&client, "first")).expect("a core");
            assert_eq!(first.expect("a reply"), "first");
            LATE.replace(last_word());
        });
        for _ in 0..2 {
            let outcome = told.recv_timeout(PATIENCE).expect("the call ends");
            assert_eq!(outcome?, "last");
        }
        ends.join().expect("no panic");
        Ok(())
    });
}

#[test]
fn tokio_tasks_await_calls() {
    with_server(|url, _| {
        let client = Client::connect(url)?;
        let tokio = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        tokio.block_on(async {
            let calls: Vec<_> =
                (0..50).map(|n: u32| tokio::spawn(echo(&client, n.to_string()))).collect();
            for (n, call) in calls.into_iter().enumerate() {
                assert_eq!(call.await.expect("no panic")?, n.to_string());
            }
            Ok(())
        })
    });
}

#[test]
fn a_call_may_move_before_its_first_poll_and_after() {
    with_server(|url, _| {
        let client = Client::connect(url)?;
        let moved = echo(&client, "made here");
        let reply = thread::spawn(move || moved.wait()).join().expect("no panic")?;
        assert_eq!(reply, "made here");

        // Begun on one core and awaited on another one, and on a plain thread.
        let runtime = Runtime::builder().threads(2).start().expect("two cores");
        #[expect(clippy::async_yields_async, reason = "the call goes on elsewhere")]
        let begun = |request: &'static str| {
            let client = client.clone();
            let begin = async move || {
                let mut call = Box::pin(echo(&client, request));
                assert!(poll_once(call.as_mut()).await.is_pending());
                call
            };
            runtime.cores()[0].spawn(begin).expect("room").wait().expect("no panic")
        };
        let call = begun("core to core");
        let there = runtime.cores()[1].spawn(async move || call.await).expect("room");
        assert_eq!(there.wait().expect("no panic")?, "core to core");
        let tokio = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        assert_eq!(tokio.block_on(begun("core to tokio"))?, "core to tokio");
        drop(begun("dropped elsewhere"));

        // A call whose core has ended fails.
        let orphan = begun("orphan");
        drop(runtime);
        let status = tokio.block_on(orphan).expect_err("its core has ended");
        assert!(status.is_unavailable(), "{status:?}");
        Ok(())
    });
}

#[test]
fn dropping_a_call_on_another_thread_cancels_it() {
    with_server(|url, cancelled| {
        let client = Client::connect(url)?;
        let tokio = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        tokio.block_on(async {
            let mut held = Box::pin(hold(&client));
            assert!(poll_once(held.as_mut()).await.is_pending());
            // A second call on the same connection shows that the held one was sent.
            assert_eq!(echo(&client, "behind").await?, "behind");
            drop(held);
            Ok::<_, Status>(())
        })?;
        cancelled.recv_timeout(PATIENCE).expect("the server is told");
        Ok(())
    });
}

#[test]
fn a_core_does_not_block() {
    let status = ringway_runtime::block_on(async {
        let client = Client::connect("tcp://127.0.0.1:9").expect("an address");
        echo(&client, "?").wait().expect_err("it must not wait")
    });
    assert!(status.expect("a core").is_failed_precondition());
}

#[test]
fn a_task_of_tokio_does_not_block() {
    with_server(|url, _| {
        let client = Client::connect(url)?;
        let tokio = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        tokio.block_on(async {
            let (mut sink, mut replies) = client.bidi::<Bytes, Bytes>(&CHAT, RAW, RAW);
            let refusals = [
                echo(&client, "?").wait().expect_err("a call"),
                echo(&client, "?").full().wait().expect_err("a call"),
                sink.send(Bytes::new()).wait().expect_err("a sink"),
                replies.next().wait().expect_err("a stream"),
            ];
            for status in refusals {
                assert!(status.is_failed_precondition(), "{status}");
                assert!(status.message().contains("a task of tokio must not block"), "{status}");
            }
        });
        // A thread that tokio keeps for what blocks may block.
        let blocking = tokio.spawn_blocking(move || echo(&client, "blocking").wait());
        assert_eq!(tokio.block_on(blocking).expect("no panic")?, "blocking");
        Ok(())
    });
}

const RAW: Codec<Bytes> = Codec::raw();

fn echo(client: &Client, request: impl Into<Bytes>) -> Call<Bytes> {
    client.unary(&ECHO, Codec::raw(), Codec::raw(), request.into())
}

/// Makes a call that the server does not answer.
fn hold(client: &Client) -> Call<Bytes> {
    client.unary(&HOLD, Codec::raw(), Codec::raw(), Bytes::new())
}

/// Runs `test` on this thread, with a server on its own core. The channel reports cancelled calls.
fn with_server(test: impl FnOnce(&str, mpsc::Receiver<()>) -> Result<(), Status>) {
    let runtime = Runtime::builder().threads(1).start().expect("a core");
    let (tell_url, url) = mpsc::channel();
    let (tell_cancelled, cancelled) = mpsc::channel();
    let server = runtime.cores()[0].spawn(async move || {
        let server = HandServer::start(
            Default::default(),
            std::rc::Rc::new(|connection, request| {
                if request.method.ends_with("/Echo") {
                    connection.echo(request);
                }
            }),
        );
        tell_url.send(server.url()).expect("the test waits for it");
        let mut told = 0;
        loop {
            let connections = server.connections.borrow().len();
            let count = |at| server.connection(at).cancelled.borrow().len();
            let all: usize = (0..connections).map(count).sum();
            for _ in told..all {
                _ = tell_cancelled.send(());
            }
            told = all;
            server.changed.notified().await;
        }
    });
    let url = url.recv_timeout(PATIENCE).expect("the server has started");
    test(&url, cancelled).unwrap_or_else(|status| panic!("{status:?}"));
    drop(server);
}

async fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    let mut future = Some(future);
    poll_fn(|cx| Poll::Ready(future.take().expect("polled once").poll(cx))).await
}

static ECHOES: Method = Method::new("test.Test/Echo", Kind::ServerStream);

#[test]
fn timeout_of_a_threads_stream_counts_from_its_start() {
    with_server(|url, _| {
        // The background core handles the stream only when the test lets it.
        let gate = Arc::new(Barrier::new(2));
        let blocks = {
            let gate = Arc::clone(&gate);
            async move |call: OutgoingCall, next: NextCall| {
                gate.wait();
                gate.wait();
                next.run(call).await
            }
        };
        let blocking = Client::builder().address(url).intercept(blocks).build()?;
        let call = thread::spawn(move || echo(&blocking, "it goes on").wait());
        gate.wait();
        let limit = Duration::from_millis(300);
        let timed = Client::connect(url)?.with(CallOptions::new().timeout(limit));
        let begun = Instant::now();
        let raw = Codec::<Bytes>::raw;
        let mut replies = timed.server_stream(&ECHOES, raw(), raw(), Bytes::from_static(b"late"));
        let (_silent, nothing) = mpsc::channel::<()>();
        while begun.elapsed() <= limit {
            let _time_passes = nothing.recv_timeout(limit);
        }
        gate.wait();
        let outcome = replies.next().wait();
        assert!(outcome.is_err_and(|status| status.is_deadline_exceeded()), "its time was over");
        assert_eq!(call.join().expect("no panic")?, "it goes on");
        Ok(())
    });
}

#[test]
fn client_that_reuses_a_slot_closes_the_remains_of_the_former_one() {
    with_server(|url, _| {
        let runtime = Runtime::builder().threads(1).start().expect("a core");
        let (url, token) = (url.to_owned(), Arc::new(()));
        let (left, kept) = (Arc::clone(&token), Arc::clone(&token));
        let used = runtime.cores()[0].spawn(async move || {
            let left = async move |call: OutgoingCall, next: NextCall| {
                let _held_by_the_pool = &left;
                next.run(call).await
            };
            let first = Client::builder().address(&*url).intercept(left).build()?;
            assert_eq!(echo(&first, "first").await?, "first");
            // This core closes its pool only after the next client has got the slot.
            thread::spawn(move || drop(first)).join().expect("no panic");
            let second = Client::connect(&*url)?;
            assert_eq!(echo(&second, "second").await?, "second");
            let closed = async {
                while Arc::strong_count(&kept) > 2 {
                    sleep(Duration::from_millis(1)).await;
                }
            };
            assert!(timeout(PATIENCE, closed).await.is_ok(), "the pool is not closed");
            Ok::<_, Status>(())
        });
        used.expect("it runs").wait().expect("no panic")?;
        assert_eq!(Arc::strong_count(&token), 1);
        Ok(())
    });
}

/// Makes a call and opens a stream when its task is dropped, and passes the call on.
struct LastWish(Client, mpsc::Sender<Call<Bytes>>);

impl Drop for LastWish {
    fn drop(&mut self) {
        let (_sink, _replies) = self.0.bidi(&CHAT, Codec::raw(), Codec::<Bytes>::raw());
        let mut call = echo(&self.0, "wish");
        let mut cx = Context::from_waker(Waker::noop());
        let _ended_or_not = Pin::new(&mut call).poll(&mut cx);
        let mut later = echo(&self.0, "wish");
        let _ended_or_not = Pin::new(&mut later).poll(&mut cx);
        drop(later);
        self.1.send(echo(&self.0, "handed on")).expect("the test waits");
    }
}

#[test]
fn destructors_of_tasks_may_make_calls_while_their_core_ends() {
    with_server(|url, _| {
        for (is_client_known, tasks) in [(false, 1), (false, 3), (true, 1), (true, 3)] {
            let client = Client::connect(url)?;
            let (tell, told) = mpsc::channel();
            let _kept = client.clone();
            let ended = thread::spawn(move || {
                ringway_runtime::block_on(async move {
                    let wish = || LastWish(client.clone(), tell.clone());
                    let spawn_wish = || {
                        let wish = wish();
                        ringway_runtime::spawn(async move {
                            let _wish = wish;
                            std::future::pending::<()>().await;
                        })
                    };
                    drop(spawn_wish());
                    if is_client_known {
                        assert_eq!(echo(&client, "first").await.expect("a reply"), "first");
                    }
                    (1..tasks).for_each(|_| drop(spawn_wish()));
                    ringway_runtime::yield_now().await;
                })
            });
            for _ in 0..tasks {
                let call = told.recv_timeout(PATIENCE).expect("the core ends");
                assert_eq!(call.wait()?, "handed on");
            }
            ended.join().expect("no panic").expect("a core");
        }
        Ok(())
    });
}
