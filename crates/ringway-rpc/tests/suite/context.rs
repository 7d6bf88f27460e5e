//! The context of handlers, and interceptors of one service.

use std::cell::Cell;
use std::collections::HashSet;
use std::future::pending;
use std::sync::Mutex;
use std::time::Duration;

use ringway_rpc::testing::{TestServer, simulate};
use ringway_rpc::{
    CallOptions, Client, Context, Next, NextCall, OutgoingCall, Reply, Server, ServerHandle, Sink,
    Status, Streaming, TraceContext, service,
};
use ringway_runtime::{block_on, timeout};

use crate::support::{LIMIT, eventually, wait};

#[service(crate = "ringway_rpc")]
trait Room {
    /// Returns the number and the thread of the core.
    async fn place(&self, context: Context, _: ()) -> Result<String, Status>;
    /// Opens a stream without an end of its own.
    async fn stay(&self, context: Context, name: String, said: Sink<String>) -> Result<(), Status>;
    /// Returns the trace of the call, and that of a call which the handler makes to `address`.
    async fn trace(&self, context: Context, address: String) -> Result<String, Status>;
    /// Blocks until the server drains.
    #[method(offload)]
    async fn sit(&self, context: Context, _: ()) -> Result<bool, Status>;
}

#[derive(Default)]
struct Hall {
    threads: Mutex<HashSet<String>>,
}

impl Room for Hall {
    async fn place(&self, context: Context, _: ()) -> Result<String, Status> {
        let place = format!("{} {:?}", context.core(), std::thread::current().id());
        self.threads.lock().expect("no panic").insert(place.clone());
        Ok(place)
    }

    async fn stay(
        &self,
        context: Context,
        name: String,
        mut said: Sink<String>,
    ) -> Result<(), Status> {
        said.send(format!("{name} is here, draining: {}", context.is_draining())).await?;
        assert!(context.until_draining(pending::<()>()).await.is_none());
        context.draining().await; // ready at once
        said.send(format!("{name} leaves, draining: {}", context.is_draining())).await
    }

    async fn trace(&self, context: Context, address: String) -> Result<String, Status> {
        let own = context.trace().map(|trace| trace.to_string()).unwrap_or_default();
        if address.is_empty() {
            return Ok(own);
        }
        let inner = RoomClient::connect(address)?.trace(String::new()).await?;
        Ok(format!("{own} {inner}"))
    }

    async fn sit(&self, context: Context, _: ()) -> Result<bool, Status> {
        context.draining().await;
        Ok(context.is_draining())
    }
}

fn server(addresses: &[&str], threads: usize) -> ServerHandle {
    let addresses: Vec<String> = addresses.iter().map(|&address| address.to_owned()).collect();
    let server = Server::bind(addresses).expect("free addresses").threads(threads);
    server.service(RoomServer::new(Hall::default())).start().expect("it starts")
}

/// Runs `test` on a core, with a time limit.
fn run<F: Future<Output = Result<(), Status>> + 'static>(test: F) {
    block_on(timeout(LIMIT, test)).expect("a core").expect("in time").expect("success");
}

#[test]
fn handler_ends_its_endless_stream_when_the_server_drains() {
    let server = server(&["tcp://127.0.0.1:0"], 1);
    let room = RoomClient::connect(server.addresses()).expect("an address");
    let asked = server.clone();
    run(async move {
        let mut said = room.stay("Ann".into());
        let seated = ringway_runtime::spawn(room.sit(()));
        assert_eq!(said.next().await?.as_deref(), Some("Ann is here, draining: false"));
        while asked.metrics().methods.iter().map(|of| of.started).sum::<u64>() < 2 {
            ringway_runtime::yield_now().await; // until the other stream is open as well
        }
        asked.shutdown();
        assert_eq!(said.next().await?.as_deref(), Some("Ann leaves, draining: true"));
        assert_eq!(said.next().await?, None);
        assert!(seated.await.expect("no panic")?);
        asked.ended().await.expect("in order");
        Ok(())
    });
    assert_eq!(server.stats().cut_off, 0);
}

#[test]
fn cores_are_reached_by_their_numbers() {
    let server = server(&["tcp://127.0.0.1:0"], 2);
    let thread = |core: usize| {
        let id = server.cores()[core].spawn(async || std::thread::current().id());
        id.expect("the core runs").wait().expect("no panic")
    };
    let expected: HashSet<String> =
        (0..2).map(|core| format!("{core} {:?}", thread(core))).collect();
    let room = RoomClient::connect(server.addresses()).expect("an address");
    let place = room.place(()).wait().expect("an answer");
    assert!(expected.contains(&place), "{place} is none of {expected:?}");
    server.shutdown();
    wait(server);
}

#[test]
fn a_server_serves_until_a_future_is_ready() {
    let (stop, stopped) = ringway_runtime::sync::oneshot::channel::<()>();
    let bound = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let bound = bound.service(RoomServer::new(Hall::default()));
    let room = RoomClient::connect(bound.addresses().as_slice()).expect("an address");
    run(async move {
        let until = async move { stopped.await.expect("it is told") };
        let served = ringway_runtime::spawn(bound.serve_until(until));
        let options = CallOptions::new().wait_for_ready(true).timeout(LIMIT);
        room.with(options).place(()).await?;
        stop.send(()).expect("it is waited for");
        served.await.expect("no panic").expect("in order");
        Ok(())
    });
}

#[test]
fn dropping_serve_until_ends_the_server() {
    let bound = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let address = bound.addresses();
    run(async move {
        let served = bound.serve_until(pending());
        timeout(Duration::ZERO, served).await.expect_err("it goes on");
        Ok(())
    });
    eventually("its address is free", || Server::bind(address.as_slice()).is_ok());
}

#[service(crate = "ringway_rpc")]
trait Yard {
    async fn cross(&self, context: Context, _: ()) -> Result<String, Status>;
    /// Sends `count` replies.
    async fn laps(&self, context: Context, count: u32, laps: Sink<u32>) -> Result<(), Status>;
}

struct Grass;

impl Yard for Grass {
    async fn cross(&self, context: Context, _: ()) -> Result<String, Status> {
        Ok(context.extension::<String>().map_or(String::new(), |seen| seen.to_string()))
    }

    async fn laps(&self, context: Context, count: u32, mut laps: Sink<u32>) -> Result<(), Status> {
        assert!(context.extension::<String>().is_some());
        for lap in 0..count {
            laps.send(lap).await?;
        }
        Ok(())
    }
}

/// Records in the context that the call has passed here; metadata may end it.
async fn pass(name: &str, context: Context, next: Next) -> Result<Reply, Status> {
    if context.metadata().get("stop") == Some(name) {
        return Err(Status::permission_denied(format!("stopped by {name}")));
    }
    let before = context.extension::<String>().map_or(String::new(), |seen| seen.to_string());
    context.insert(format!("{before}{name} "));
    ringway_runtime::yield_now().await; // so that the call becomes a task
    next.run(context).await
}

#[test]
fn service_interceptors_run_inside_the_servers_and_only_for_their_service() {
    let yard = YardServer::new(Grass)
        .intercept(async |context: Context, next: Next| pass("gate", context, next).await)
        .intercept(async |context: Context, next: Next| pass("dog", context, next).await);
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let server = server
        .intercept(async |context: Context, next: Next| pass("street", context, next).await)
        .service(RoomServer::new(Hall::default()))
        .service(yard)
        .start()
        .expect("it starts");
    let client = Client::connect(server.addresses()).expect("an address");
    run(async move {
        let yard = YardClient::new(client.clone());
        assert_eq!(yard.cross(()).await?, "street gate dog ");
        let mut laps = yard.laps(3);
        for lap in 0..3 {
            assert_eq!(laps.next().await?, Some(lap));
        }
        assert_eq!(laps.next().await?, None);
        for name in ["street", "gate", "dog"] {
            let stopped = yard.cross(()).metadata("stop", name).await.expect_err("not served");
            assert!(
                stopped.is_permission_denied() && stopped.message().contains(name),
                "{stopped}"
            );
        }
        let gate = CallOptions::new().metadata("stop", "gate");
        assert!(RoomClient::new(client.with(gate.clone())).place(()).await.is_ok());
        let mut stopped = YardClient::new(client.with(gate)).laps(1);
        assert!(stopped.next().await.expect_err("not served").is_permission_denied());
        Ok(())
    });
    server.shutdown();
    wait(server);
}

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

thread_local! {
    static SPAN: Cell<Option<TraceContext>> = const { Cell::new(None) };
}

#[test]
fn trace_begins_at_a_client_and_continues_through_handlers() {
    let server = server(&["tcp://127.0.0.1:0"], 1);
    let client = Client::connect(server.addresses()).expect("an address");
    let room = RoomClient::new(client.clone());
    let parent = TraceContext::parse(PARENT).expect("a traceparent");
    let none = String::new;
    assert_eq!(room.trace(none()).wait().expect("an answer"), "", "nobody has begun one");
    assert_eq!(room.trace(none()).trace(parent).wait().expect("an answer"), PARENT);

    let through = room.trace(server.addresses()[0].to_string()).trace(parent).wait();
    let through = through.expect("an answer");
    let (outer, inner) = through.split_once(' ').expect("two traces");
    let inner = TraceContext::parse(inner).expect("a traceparent");
    assert_eq!((outer, inner.trace_id()), (PARENT, parent.trace_id()));
    assert_ne!(inner.span_id(), parent.span_id(), "the handler is a span of its own");

    let traced = room.with(CallOptions::new().trace_from(|| SPAN.get()));
    assert_eq!(traced.trace(none()).wait().expect("an answer"), "");
    SPAN.set(Some(parent));
    assert_eq!(traced.trace(none()).wait().expect("an answer"), PARENT, "where the call is made");
    let other = TraceContext::root(false);
    let said = traced.trace(none()).trace(other).wait().expect("an answer");
    assert_eq!(said, other.to_string(), "what the call says goes first");

    let sets = async move |mut call: OutgoingCall, next: NextCall| {
        assert_eq!(call.trace(), Some(parent));
        call.set_trace(parent.child());
        next.run(call).await
    };
    let built = Client::builder().address(&server.addresses()[0]).intercept(sets).build();
    let room = RoomClient::new(built.expect("an address"));
    let child = room.trace(none()).trace(parent).wait().expect("an answer");
    let child = TraceContext::parse(&child).expect("a traceparent");
    assert_eq!(child.trace_id(), parent.trace_id());
    assert_ne!(child.span_id(), parent.span_id());
    server.shutdown();
    wait(server);
}

#[test]
fn simulated_server_drains_and_its_stream_ends_in_order() {
    let ended = simulate(11, async {
        let server = TestServer::start(RoomServer::new(Hall::default()))?;
        let room = RoomClient::connect(server.address())?;
        let mut said = room.stay("Bob".into());
        assert_eq!(said.next().await?.as_deref(), Some("Bob is here, draining: false"));
        server.shutdown();
        assert_eq!(said.next().await?.as_deref(), Some("Bob leaves, draining: true"));
        assert_eq!(said.next().await?, None);
        let refused = room.place(()).await.expect_err("nobody serves");
        assert!(refused.is_unavailable() && refused.is_not_executed(), "{refused}");
        Ok(())
    });
    ended.expect("a test that ends");
}

#[test]
fn stalled_simulation_fails_with_its_seed() {
    let stuck = simulate(12, pending::<Result<(), Status>>()).expect_err("it never ends");
    assert!(stuck.message().contains("seed 12"), "{stuck}");
}

#[service(crate = "ringway_rpc")]
trait Scale {
    async fn total(&self, weights: Streaming<u32>) -> Result<u32, Status>;
    async fn halves(&self, weights: Streaming<u32>, halves: Sink<u32>) -> Result<(), Status>;
}

struct Exact;

impl Scale for Exact {
    async fn total(&self, mut weights: Streaming<u32>) -> Result<u32, Status> {
        let mut total = 0;
        while let Some(weight) = weights.next().await? {
            total += weight;
        }
        Ok(total)
    }

    async fn halves(
        &self,
        mut weights: Streaming<u32>,
        mut halves: Sink<u32>,
    ) -> Result<(), Status> {
        while let Some(weight) = weights.next().await? {
            halves.send(weight / 2).await?;
        }
        Ok(())
    }
}

#[test]
fn plain_threads_wait_for_streams() {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let server = server.service(ScaleServer::new(Exact)).start().expect("it starts");
    let scale = ScaleClient::connect(server.addresses()).expect("an address");
    let (mut weights, total) = scale.total();
    for weight in 0..1_000 {
        weights.send(weight).wait().expect("it is taken");
    }
    weights.finish();
    assert_eq!(total.wait().expect("an answer"), 499_500);

    let (mut weights, mut halves) = scale.halves();
    for weight in [2, 4, 6] {
        weights.send(weight).wait().expect("it is taken");
        assert_eq!(halves.next().wait().expect("an answer"), Some(weight / 2));
    }
    weights.finish();
    assert_eq!(halves.next().wait().expect("an end"), None);

    for is_open in [false, true] {
        let (mut weights, total) = scale.total();
        if is_open {
            weights.send(1).wait().expect("it is taken");
        }
        drop(weights);
        let forgotten = total.wait().expect_err("half of it is no total");
        assert!(
            forgotten.is_cancelled() && forgotten.message().contains("finish()"),
            "{forgotten}"
        );
    }

    run(async move {
        let (mut weights, _) = scale.total();
        let refused = weights.send(1).wait().expect_err("a core does not block");
        assert!(refused.is_failed_precondition(), "{refused}");
        Ok(())
    });
    server.shutdown();
    wait(server);
}
