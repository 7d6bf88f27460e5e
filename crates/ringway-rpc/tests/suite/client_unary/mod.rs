//! Unary calls, against a hand-made server.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{Call, CallOptions, Client, Code, Codec, Kind, Metadata, Method, Status};
use ringway_runtime::sim::SimConfig;
use ringway_runtime::{Builder, spawn, timeout};
use ringway_wire::native::{Body, Config, MetaWriter, Reply};

use crate::support::hand_server::{HandServer, Request};

mod ejection;
mod endings;
mod first_calls;
mod hosts;
mod repeats;
mod room;
mod stress;

static ECHO: Method = Method::new("test.Test/Echo", Kind::Unary);
static OTHER: Method = Method::new("test.Test/Other", Kind::Unary);

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_request_gets_its_reply() {
    run(async {
        let server = HandServer::echo();
        let client = connect(&server);
        assert_eq!(echo(&client, "hello").await?, "hello");
        for len in [0, 1, 47, 4_096, 4_097, 65_536, 1_000_000] {
            let request = Bytes::from(vec![7; len]);
            assert_eq!(echo(&client, request.clone()).await?, request);
        }
        assert_eq!(server.connections.borrow().len(), 1, "one connection does");
        Ok(())
    });
}

#[test]
fn each_call_in_flight_gets_its_own_reply() {
    run(async {
        let server = HandServer::echo();
        let client = connect(&server);
        let mut callers = Vec::new();
        for caller in 0..400_u32 {
            let client = client.clone();
            callers.push(spawn(async move {
                for turn in 0..50_u32 {
                    let request = format!("{caller}/{turn}");
                    assert_eq!(echo(&client, request.clone()).await?, request);
                }
                Ok::<_, Status>(())
            }));
        }
        for caller in callers {
            caller.await.expect("no panic")?;
        }
        assert_eq!(server.requests(), 400 * 50);
        Ok(())
    });
}

#[test]
fn replies_may_come_in_any_order() {
    run(async {
        let held = Rc::new(RefCell::new(Vec::new()));
        let server = HandServer::start(Config::default(), {
            let held = Rc::clone(&held);
            Rc::new(move |connection, request: Request| {
                held.borrow_mut().push(request);
                if held.borrow().len() == 5 {
                    for request in held.borrow_mut().drain(..).rev() {
                        connection.echo(request);
                    }
                }
            })
        });
        let client = connect(&server);
        let calls = (0..5).map(|n| spawn(echo(&client, format!("call {n}"))));
        let calls: Vec<_> = calls.collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.expect("no panic")?, format!("call {n}"));
        }
        Ok(())
    });
}

#[test]
fn the_server_sees_method_deadline_and_metadata() {
    run(async {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let server = HandServer::start(Config::default(), {
            let seen = Rc::clone(&seen);
            Rc::new(move |connection, request: Request| {
                let head = request.head.expect("a whole request");
                let seen_now = (request.method.clone(), head.timeout_us, request.meta.len());
                seen.borrow_mut().push(seen_now);
                connection.echo(request);
            })
        });
        let client = connect(&server);
        echo(&client, "1").await?;
        echo(&client, "2").no_timeout().await?;
        call(&client, &OTHER, "3").timeout(250 * MS).metadata("tenant", "blue").await?;
        let seen = seen.take();
        let methods: Vec<_> = seen.iter().map(|(method, ..)| method.as_str()).collect();
        assert_eq!(methods, ["test.Test/Echo", "test.Test/Echo", "test.Test/Other"]);
        assert!((9_000_000..=10_000_000).contains(&seen[0].1), "{} µs", seen[0].1);
        assert_eq!((seen[1].1, seen[1].2), (0, 0), "nothing said, nothing sent");
        assert!((200_000..=250_000).contains(&seen[2].1), "{} µs", seen[2].1);
        assert!(seen[2].2 > "tenantblue".len());

        let bad = echo(&client, "4").metadata("no key", "x").await.expect_err("a bad key");
        assert!(bad.is_invalid_argument(), "{bad}");
        Ok(())
    });
}

#[test]
fn failure_has_all_that_the_server_sent() {
    run(async {
        let server = HandServer::start(
            Config::default(),
            Rc::new(|connection, request: Request| {
                let mut meta = Vec::new();
                let mut writer = MetaWriter::new(&mut meta);
                writer.status_message("no such user").status_details(b"42").entry("shard", b"7");
                let status = if request.message.as_deref() == Some(b"ok") { 0 } else { 5 };
                let message = request.message.map(Body::Shared).filter(|_| status == 0);
                connection.respond(request.stream, Reply { status, meta: &meta, message });
            }),
        );
        let client = connect(&server);
        let status = echo(&client, "?").await.expect_err("NOT_FOUND");
        assert_eq!((status.code(), status.message()), (Code::NotFound, "no such user"));
        assert_eq!(&status.details()[..], b"42");
        assert_eq!(status.metadata().get("shard"), Some("7"));
        let reply = echo(&client, "ok").full().await?;
        assert_eq!((&reply.message[..], reply.trailers.get("shard")), (&b"ok"[..], Some("7")));
        assert_eq!(reply.metadata, Metadata::new());
        Ok(())
    });
}

#[test]
fn client_options_apply_to_its_calls() {
    run(async {
        let server = HandServer::start(Config::default(), Rc::new(|_, _| {}));
        let client = connect(&server).with(CallOptions::new().timeout(5 * MS));
        let status = echo(&client, "?").await.expect_err("no reply");
        assert!(status.is_deadline_exceeded(), "{status}");
        let bad = connect(&server).with(CallOptions::new().metadata("Bad Key", "x"));
        assert!(echo(&bad, "?").await.expect_err("a bad key").is_invalid_argument());
        Ok(())
    });
}

#[test]
fn client_needs_valid_addresses() {
    for (client, why) in [
        (Client::connect("127.0.0.1:1"), "tcp://"),
        (Client::connect("udp://127.0.0.1:1"), "UDP has no connections"),
        (Client::builder().build(), "needs the address"),
        (Client::builder().weighted_address("tcp://127.0.0.1:1", 0).build(), "is 0, not 1 to 100"),
        (Client::builder().weighted_address("tcp://127.0.0.1:1", 101).build(), "is 101, not 1"),
        (Client::builder().weighted_address("127.0.0.1:1", 1).build(), "tcp://"),
    ] {
        let status = client.expect_err(why);
        assert!(status.is_invalid_argument() && status.message().contains(why), "{status}");
    }
}

pub(crate) fn connect(server: &HandServer) -> Client {
    Client::connect(&*server.url()).expect("an address")
}

pub(crate) fn echo(client: &Client, request: impl Into<Bytes>) -> Call<Bytes> {
    call(client, &ECHO, request)
}

pub(crate) fn call(
    client: &Client,
    method: &'static Method,
    request: impl Into<Bytes>,
) -> Call<Bytes> {
    client.unary(method, Codec::raw(), Codec::raw(), request.into())
}

pub(crate) async fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    let mut future = Some(future);
    poll_fn(|cx| Poll::Ready(future.take().expect("polled once").poll(cx))).await
}

/// Counts wake-ups.
#[derive(Default)]
pub(crate) struct Wakes(Arc<Woken>);

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wakes {
    pub(crate) fn count(&self) -> usize {
        self.0.0.load(Ordering::SeqCst)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) fn poll_with<F: Future>(wakes: &Wakes, future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(&wakes.0))))
}

/// Runs a test on one core, with a time limit.
pub(crate) fn run(test: impl Future<Output = Result<(), Box<dyn std::error::Error>>> + 'static) {
    let ended = ringway_runtime::block_on(timeout(Duration::from_secs(20), test));
    ended.expect("a core").expect("no hang").unwrap_or_else(|error| panic!("{error}"));
}

/// Runs a test on simulated networks with a virtual clock, reproducible for each seed.
pub(crate) fn simulate<F>(test: impl Fn() -> F)
where
    F: Future<Output = Result<(), Box<dyn std::error::Error>>> + 'static,
{
    (0..5).for_each(|seed| simulate_seed(seed, test()));
}

/// Runs the test on the network of one seed.
pub(crate) fn simulate_seed<F>(seed: u64, test: F)
where
    F: Future<Output = Result<(), Box<dyn std::error::Error>>> + 'static,
{
    let ended = Builder::simulate(SimConfig::new(seed), test);
    let ended = ended.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    ended.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
}
