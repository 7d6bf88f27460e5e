//! Deadlines as seen by handlers that compute.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_rpc::{Client, Code, Codec, Context, Kind, Method, Server, Status};
use ringway_wire::native::MetaWriter;

use crate::support::caller::Caller;
use crate::support::echo::{Echo, serve};
use crate::support::grpc_caller::{GrpcCaller, framed};
use crate::support::{LIMIT, end, socket_addr};

static HANG: Method = Method::new("echo.Echo/Hang", Kind::Unary);

const RAW: Codec<Bytes> = Codec::raw();

/// What a handler saw when its call was over.
struct Seen {
    remaining: Option<Duration>,
    reason: Option<Code>,
    /// The result of `done`.
    done: Option<Code>,
}

#[ringway_rpc::service(crate = "ringway_rpc")]
trait Cruncher {
    /// Blocks its core until its call is over.
    async fn crunch(&self, context: Context, of: u64) -> Result<u64, Status>;
}

struct Counting(Sender<Option<Seen>>);

impl Cruncher for Counting {
    async fn crunch(&self, context: Context, of: u64) -> Result<u64, Status> {
        let begun = Instant::now();
        while !context.is_cancelled() {
            if begun.elapsed() > LIMIT / 2 {
                self.0.send(None).expect("the test waits");
                return Ok(of);
            }
            std::hint::spin_loop();
        }
        let reason = context.cancel_reason().map(|status| status.code());
        let remaining = context.remaining();
        let done = context.done().await.map(|status| status.code());
        self.0.send(Some(Seen { remaining, reason, done })).expect("the test waits");
        Err(Status::deadline_exceeded("nobody waits"))
    }
}

#[test]
fn handler_that_blocks_its_core_sees_its_deadline_pass() {
    let (tell, told) = mpsc::channel();
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let service = CruncherServer::per_core(move || Counting(tell.clone()));
    let server = server.service(service).start().expect("the server starts");
    let client = Client::connect(server.addresses()[0].clone()).expect("a good address");
    let client = CruncherClient::new(client);
    let call = client.crunch(1).timeout(Duration::from_millis(200));
    assert!(call.wait().expect_err("too late").is_deadline_exceeded());
    let seen = told.recv_timeout(LIMIT).expect("the handler ends");
    let seen = seen.expect("the handler has seen it");
    assert_eq!(seen.remaining, Some(Duration::ZERO));
    assert_eq!(
        (seen.reason, seen.done),
        (Some(Code::DeadlineExceeded), Some(Code::DeadlineExceeded))
    );
    end(server);
}

#[test]
fn a_call_that_comes_without_any_time_does_not_reach_its_handler() {
    const SAY: &str = "echo.Echo/Say";
    let echo = Echo::default();
    let server = serve(&echo, |server| server);
    let mut grpc = GrpcCaller::connect(socket_addr(&server));
    for timeout in ["0n", "0H"] {
        let stream = grpc.open_with(SAY, &[("grpc-timeout", timeout)], &framed(b"x"), true);
        assert_eq!(grpc.answer(stream).status().0, Code::DeadlineExceeded as u8, "{timeout}");
    }
    let mut meta = Vec::new();
    MetaWriter::new(&mut meta).timeout_us(0);
    let mut native = Caller::connect(socket_addr(&server));
    let stream = native.open_with(SAY, Some(b"x"), true, |open| open.meta = &meta);
    assert_eq!(native.answer(stream).code, Code::DeadlineExceeded);
    assert_eq!(echo.seen.begun.load(Ordering::SeqCst), 0);
    assert_eq!(server.stats().expired, 3);
    assert_eq!(grpc.call(SAY, b"x").status().0, 0);
    end(server);
}

#[test]
fn a_call_that_is_made_without_any_time_is_not_sent() {
    static SAY: Method = Method::new("echo.Echo/Say", Kind::Unary);
    let echo = Echo::default();
    let server = serve(&echo, |server| server);
    let tcp = server.addresses()[0].to_string();
    for address in [tcp.clone(), tcp.replace("tcp:", "grpc:")] {
        let client = Client::connect(&*address).expect("an address");
        client.unary(&SAY, RAW, RAW, Bytes::new()).wait().expect("an echo");
        let before = echo.seen.begun.load(Ordering::SeqCst);
        for _ in 0..20 {
            let call = client.unary(&SAY, RAW, RAW, Bytes::new()).timeout(Duration::ZERO);
            let status = call.wait().expect_err("it has no time");
            assert!(status.is_deadline_exceeded(), "{status:?}");
        }
        client.unary(&SAY, RAW, RAW, Bytes::new()).wait().expect("an echo");
        assert_eq!(echo.seen.begun.load(Ordering::SeqCst), before + 1, "{address}");
    }
    end(server);
}

/// Calls of a handler that never answers, many at once; how many were told that their time was over before it was.
async fn told_early(client: &Client, timeouts: impl Iterator<Item = Duration>) -> usize {
    let calls = timeouts.map(|timeout| {
        let client = client.clone();
        ringway_runtime::spawn(async move {
            let begun = Instant::now();
            let call = client.unary(&HANG, RAW, RAW, Bytes::new()).timeout(timeout);
            let status = call.await.expect_err("nobody answers");
            assert!(status.is_deadline_exceeded(), "{status:?}");
            (begun.elapsed() < timeout).then(|| (timeout, begun.elapsed(), status))
        })
    });
    let calls: Vec<_> = calls.collect();
    let mut early = 0;
    for call in calls {
        if let Some(told) = call.await.expect("no panic") {
            early += 1;
            println!("{told:?}");
        }
    }
    early
}

#[test]
fn nobody_is_told_that_the_deadline_has_passed_before_it_has() {
    let server = serve(&Echo::default(), |server| server.in_flight_max(100_000));
    let tcp = server.addresses()[0].to_string();
    for address in [tcp.clone(), tcp.replace("tcp:", "grpc:")] {
        let test = async move {
            let client = Client::builder().address(&*address).connections_max(1).build();
            let client = client.expect("an address");
            let micros = |number: u64| Duration::from_micros(1_000 + number * 7_919 % 60_000);
            let short = told_early(&client, (0..1_000).map(micros)).await;
            let long = (0..1_000).map(|number| Duration::from_secs(1) + micros(number));
            let long = told_early(&client, long).await;
            (short, long)
        };
        let early = ringway_runtime::block_on(ringway_runtime::timeout(LIMIT, test));
        assert_eq!(early.expect("a core").expect("no hang"), (0, 0));
    }
    end(server);
}
