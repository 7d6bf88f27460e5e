//! User code that panics or re-enters in unusual places: it affects only its own call.

use std::cell::{Cell, RefCell};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::testing::{TestServer, simulate};
use ringway_rpc::{
    Call, Client, Codec, Context, IncomingReply, Kind, Method, NextCall, OutgoingCall, Server,
    ServerHandle, Sink, Status, Streaming, service,
};
use ringway_runtime::{block_on, sleep, spawn, timeout, yield_now};

use crate::support::alone::alone;

#[service(package = "odd.v1", crate = "ringway_rpc")]
trait Odd {
    async fn say(&self, text: String) -> Result<String, Status>;
    /// Waits until another call says `go`.
    async fn wait(&self, text: String) -> Result<String, Status>;
    async fn chat(&self, texts: Streaming<Bytes>, echoes: Sink<Bytes>) -> Result<(), Status>;
}

#[service(package = "lost.v1", crate = "ringway_rpc")]
trait Lost {
    async fn nap(&self) -> Result<(), Status>;
    async fn sink(&self) -> Result<(), Status>;
}

struct Naps;

impl Lost for Naps {
    async fn nap(&self) -> Result<(), Status> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(())
    }

    async fn sink(&self) -> Result<(), Status> {
        panic!("a secret")
    }
}

#[test]
fn a_handler_that_lacks_tokio_is_told_what_to_do() {
    let failures = simulate(1, async {
        let server = TestServer::start_with(|server| server.service(LostServer::new(Naps)))?;
        let client = LostClient::connect(server.address())?;
        Ok([client.nap().await.expect_err("no tokio"), client.sink().await.expect_err("a panic")])
    });
    let [lost, other] = failures.expect("a server").map(|failure| failure.message().to_owned());
    assert!(lost.contains("#[method(tokio)]"), "{lost}");
    assert_eq!(other, "the handler failed");
}

/// Panics when it is dropped, with a payload that panics as well.
struct Angry;

impl Drop for Angry {
    fn drop(&mut self) {
        std::panic::panic_any(StillAngry);
    }
}

struct StillAngry;

impl Drop for StillAngry {
    fn drop(&mut self) {
        panic!("a payload is dropped");
    }
}

#[derive(Default)]
struct OddOnes {
    waiting: RefCell<Vec<Waker>>,
    goes: Cell<bool>,
}

impl Odd for Rc<OddOnes> {
    async fn say(&self, text: String) -> Result<String, Status> {
        let context = Context::current().expect("a handler has a call");
        match &*text {
            "leave" => context.insert(Angry),
            "leave twice" => {
                context.insert(Angry);
                context.insert((Angry, 2));
            }
            "leave and wait" => {
                context.insert(Angry);
                yield_now().await;
            }
            "panic" => std::panic::panic_any(StillAngry),
            "panic late" => {
                yield_now().await;
                std::panic::panic_any(StillAngry);
            }
            "go" => {
                self.goes.set(true);
                self.waiting.take().into_iter().for_each(Waker::wake);
            }
            _ => {}
        }
        Ok(text)
    }

    async fn wait(&self, text: String) -> Result<String, Status> {
        if text == "angry" {
            Context::current().expect("a handler has a call").insert(Angry);
        }
        std::future::poll_fn(|cx| match self.goes.get() {
            true => Poll::Ready(()),
            false => {
                self.waiting.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await;
        Ok(text)
    }

    async fn chat(
        &self,
        mut texts: Streaming<Bytes>,
        mut echoes: Sink<Bytes>,
    ) -> Result<(), Status> {
        while let Some(text) = texts.next().await? {
            echoes.send(text).await?;
        }
        Ok(())
    }
}

fn serve() -> ServerHandle {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let service = OddServer::per_core(|| Rc::new(OddOnes::default()));
    server.service(service).start().expect("the server starts")
}

fn one_connection(server: &ServerHandle) -> Result<OddClient, Status> {
    let builder = Client::builder().address(server.addresses()[0].clone());
    Ok(OddClient::new(builder.connections_max(1).build()?))
}

#[test]
fn panicking_destructors_of_a_handler_affect_no_other_call() {
    let server = serve();
    run(async move {
        let client = one_connection(&server)?;
        let other = spawn(client.wait("other".into()));
        let mut panicked = 0;
        for text in ["leave", "leave twice", "leave and wait", "panic", "panic late"] {
            let outcome = client.say(text.into()).await;
            match text.starts_with("panic") {
                true => {
                    panicked += 1;
                    assert!(outcome.is_err_and(|status| status.is_internal()), "{text}");
                }
                false => assert_eq!(outcome?, text),
            }
        }
        // Dropped while it waits, with such a value in its context.
        let mut given_up = Box::pin(client.wait("angry".into()));
        assert!(poll_once(given_up.as_mut()).await.is_pending());
        client.say("behind it".into()).await?;
        drop(given_up);
        client.say("go".into()).await?;
        assert_eq!(other.await.expect("no panic")?, "other");
        assert_eq!(server.net().stats().accepted, 1);
        assert_eq!(server.stats().panicked, panicked);
        Ok(())
    });
}

#[test]
fn interceptor_whose_destructor_panics_ends_its_own_call() {
    async fn odd(call: OutgoingCall, next: NextCall) -> Result<IncomingReply, Status> {
        let _angry = call.metadata().get("angry").map(|_| Angry);
        next.run(call).await
    }
    let server = serve();
    let runtime = ringway_runtime::Runtime::builder().threads(1).start().expect("a core");
    let builder = Client::builder().address(server.addresses()[0].clone()).intercept(odd);
    let client = OddClient::new(builder.build().expect("an address"));
    // Calls that begin on a core and continue, or are dropped, on this thread.
    let begin = |is_angry: bool| -> Call<String> {
        let client = client.clone();
        #[expect(clippy::async_yields_async, reason = "the call goes on elsewhere")]
        let begun = runtime.cores()[0].spawn(async move || {
            let call = client.wait("text".into());
            let mut call = if is_angry { call.metadata("angry", "yes") } else { call };
            assert!(poll_once(Pin::new(&mut call)).await.is_pending());
            call
        });
        begun.expect("it runs").wait().expect("no panic")
    };
    for _ in 0..3 {
        drop(begin(true));
        let call = begin(false);
        client.say("go".into()).wait().expect("a reply");
        assert_eq!(call.wait().expect("a reply"), "text");
    }
}

/// Panics at the event about a panic.
struct AngrySubscriber(Arc<AtomicUsize>);

impl tracing::Subscriber for AngrySubscriber {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        if *event.metadata().level() == tracing::Level::ERROR {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("{}", event.metadata().name());
        }
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn panicking_subscriber_affects_no_call() {
    // A callsite that another thread has registered first may never reach this subscriber.
    alone(|| {
        let server = serve();
        run(async move {
            let heard = Arc::new(AtomicUsize::new(0));
            let builder = Client::builder().address(server.addresses()[0].clone());
            let builder = builder.intercept(async |_, _| panic!("an interceptor"));
            let client = OddClient::new(builder.build()?);
            let angry = tracing::subscriber::set_default(AngrySubscriber(Arc::clone(&heard)));
            let status = client.say("?".into()).await.expect_err("a panic");
            drop(angry);
            assert!(status.is_internal(), "{status}");
            assert!(heard.load(Ordering::SeqCst) > 0, "it was told");
            Ok(())
        });
    });
}

/// A waker of an executor that polls as soon as it is woken, and again when the waker is dropped.
struct Hasty {
    client: OddClient,
    looks: AtomicUsize,
}

impl Hasty {
    /// Uses streams and calls, and must find nothing borrowed.
    fn look(&self) {
        self.looks.fetch_add(1, Ordering::SeqCst);
        let (mut sink, mut echoes) = self.client.chat();
        let waker = Waker::noop();
        let mut cx = TaskContext::from_waker(waker);
        assert!(sink.try_send(Bytes::from_static(b"hasty")).is_ok());
        assert!(Box::pin(echoes.next()).as_mut().poll(&mut cx).is_pending());
        let mut call = self.client.say("hasty".into());
        assert!(Pin::new(&mut call).poll(&mut cx).is_pending());
    }
}

impl Wake for Hasty {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}

/// Polls when it is dropped as well.
struct HastyAtTheEnd(Arc<Hasty>);

impl Wake for HastyAtTheEnd {
    fn wake(self: Arc<Self>) {
        self.0.look();
    }
}

impl Drop for HastyAtTheEnd {
    fn drop(&mut self) {
        self.0.look();
    }
}

#[test]
fn executors_that_poll_inside_wake_find_nothing_borrowed() {
    let server = serve();
    run(async move {
        let client = one_connection(&server)?;
        client.say("connect".into()).await?;
        let hasty = Arc::new(Hasty { client: client.clone(), looks: AtomicUsize::new(0) });
        let waker = || Waker::from(Arc::new(HastyAtTheEnd(Arc::clone(&hasty))));
        let looks = || hasty.looks.load(Ordering::SeqCst);

        let (mut sink, mut echoes) = client.chat();
        let mut replaced = 0;
        for text in 0..4 {
            // Two wakers; the second replaces the first.
            for _ in 0..2 {
                let waker = waker();
                let mut cx = TaskContext::from_waker(&waker);
                assert!(Box::pin(echoes.next()).as_mut().poll(&mut cx).is_pending());
                replaced += 1;
            }
            sink.send(Bytes::from(text.to_string())).await?;
            while looks() < replaced {
                yield_now().await; // the reply wakes the second
            }
            assert_eq!(echoes.next().await?, Some(Bytes::from(text.to_string())));
        }
        let mut call = client.say("call".into());
        for _ in 0..3 {
            let waker = waker();
            let mut cx = TaskContext::from_waker(&waker);
            assert!(Pin::new(&mut call).poll(&mut cx).is_pending());
        }
        let before = looks();
        while looks() == before {
            yield_now().await; // the reply wakes the third
        }
        assert_eq!(call.await?, "call");
        client.say("others go on".into()).await?;
        assert_eq!(server.net().stats().accepted, 1);
        Ok(())
    });
}

static CHAT: Method = Method::new("odd.v1.Odd/Chat", Kind::Bidi);

#[test]
fn messages_whose_decoder_panics_return_their_credit() {
    let outcome = simulate(3, async {
        let server = TestServer::start(OddServer::per_core(|| Rc::new(OddOnes::default())))?;
        let client = Client::connect(server.address())?;
        let unreadable: Codec<u8> = Codec {
            id: 0,
            encode: |_, _| Ok(None),
            decode: |_| panic!("no such number"),
            json: None,
        };
        let (mut sink, mut numbers) = client.bidi(&CHAT, Codec::<Bytes>::raw(), unreadable);
        // Together more than a stream has credit for.
        for _ in 0..40 {
            sink.send(Bytes::from(vec![7; 100_000])).await?;
            let next = std::future::poll_fn(|cx| {
                let polled = || Pin::new(&mut numbers.next()).poll(cx).is_ready();
                match std::panic::catch_unwind(AssertUnwindSafe(polled)) {
                    Ok(is_ready) => {
                        if is_ready {
                            Poll::Ready(false)
                        } else {
                            Poll::Pending
                        }
                    }
                    Err(_panic) => Poll::Ready(true),
                }
            });
            let has_panicked = timeout(Duration::from_secs(1), next).await;
            assert_eq!(has_panicked.ok(), Some(true), "each message comes");
        }
        Ok(())
    });
    outcome.expect("success");
}

/// Polls another call when it is woken.
struct Relay(Arc<Mutex<Option<Call<String>>>>);

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        let mut next = self.0.lock().expect("no panic under it");
        let next = Pin::new(next.as_mut().expect("it waits"));
        assert!(next.poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
    }
}

#[test]
fn call_made_by_a_waker_is_sent_at_once() {
    let outcome = simulate(3, async {
        let server = TestServer::start(OddServer::per_core(|| Rc::new(OddOnes::default())))?;
        let client = Client::builder().address(server.address().clone()).connections_max(1);
        let client = OddClient::new(client.build()?);
        client.say("connect".into()).await?;
        let second = Arc::new(Mutex::new(Some(client.say("second".into()))));
        let mut first = client.say("first".into());
        let relay = Waker::from(Arc::new(Relay(Arc::clone(&second))));
        let mut cx = TaskContext::from_waker(&relay);
        assert!(Pin::new(&mut first).poll(&mut cx).is_pending());
        // The clock advances when all tasks wait, so a sent call is answered long before this.
        sleep(Duration::from_secs(1)).await;
        assert_eq!(first.await?, "first");
        let mut second = second.lock().expect("no panic under it").take().expect("it was polled");
        assert_eq!(
            poll_once(Pin::new(&mut second)).await.map(Result::ok),
            Poll::Ready(Some("second".into()))
        );
        Ok(())
    });
    outcome.expect("success");
}

async fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    let mut future = Some(future);
    std::future::poll_fn(|cx| Poll::Ready(future.take().expect("polled once").poll(cx))).await
}

fn run(test: impl Future<Output = Result<(), Status>> + 'static) {
    let limit = Duration::from_secs(20);
    let outcome = block_on(async move { timeout(limit, test).await });
    outcome.expect("a core").expect("in time").expect("success");
}
