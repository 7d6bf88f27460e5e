//! A server with our client: metadata, traces, threads, addresses, counters.

use std::sync::Mutex;
use std::sync::mpsc;

use bytes::Bytes;
use ringway_net::{ClientTls, ServerTls};
use ringway_rpc::{Client, Code, Context, Server, ServerHandle, Side, Sink, Status, service};
use ringway_runtime::{CoreHandle, spawn, timeout};
use ringway_wire::native::MetaWriter;

use crate::support;
use crate::support::caller::Caller;
use crate::support::{LIMIT, end, socket_addr};

#[service(package = "probe.v1", crate = "ringway_rpc")]
trait Probe {
    async fn annotated(&self, context: Context, request: Bytes) -> Result<Bytes, Status>;
    async fn counted(&self, context: Context, to: Bytes, out: Sink<Bytes>) -> Result<(), Status>;
    #[method(offload)]
    async fn offloaded(&self, context: Context, request: Bytes) -> Result<String, Status>;
    async fn trace(&self, context: Context, request: Bytes) -> Result<Bytes, Status>;
    async fn relay(&self, request: Bytes) -> Result<Bytes, Status>;
    async fn watched(&self, context: Context, request: Bytes) -> Result<Bytes, Status>;
    async fn core(&self, request: Bytes) -> Result<String, Status>;
}

#[derive(Default)]
struct Prober {
    /// The client that `relay` calls.
    next: Option<Client>,
    /// Lets an offloaded handler continue.
    gate: Option<Mutex<mpsc::Receiver<()>>>,
    /// Receives the ends of calls from tasks that handlers spawned.
    ends: Option<Mutex<mpsc::Sender<Option<Status>>>>,
}

impl Probe for Prober {
    async fn annotated(&self, context: Context, request: Bytes) -> Result<Bytes, Status> {
        context.set_initial_metadata("shard", "7")?;
        context.set_trailer("cost", "3")?;
        if request.starts_with(b"wait") {
            ringway_runtime::yield_now().await;
        }
        match request.ends_with(b"fail") {
            true => Err(Status::not_found("as the request wants")),
            false => Ok(request),
        }
    }

    async fn counted(
        &self,
        context: Context,
        to: Bytes,
        mut out: Sink<Bytes>,
    ) -> Result<(), Status> {
        context.set_initial_metadata("shard", "7")?;
        for number in 0..to.len() {
            out.send(Bytes::from(number.to_string())).await?;
            context.set_initial_metadata("late", "of no effect")?;
        }
        context.set_trailer("cost", "3")?;
        Ok(())
    }

    async fn offloaded(&self, context: Context, request: Bytes) -> Result<String, Status> {
        context.set_initial_metadata("shard", "7")?;
        context.set_trailer("cost", "3")?;
        if let Some(gate) = self.gate.as_ref().filter(|_| request == "block") {
            let gate = gate.lock().expect("no panic");
            gate.recv_timeout(LIMIT).expect("the test lets it go on");
        }
        Ok(CoreHandle::is_here().to_string())
    }

    async fn trace(&self, context: Context, _: Bytes) -> Result<Bytes, Status> {
        Ok(context.trace().map_or(String::new(), |trace| trace.to_string()).into())
    }

    async fn relay(&self, request: Bytes) -> Result<Bytes, Status> {
        let next = self.next.clone().expect("it is given one");
        ProbeClient::new(next).trace(request).await
    }

    async fn watched(&self, context: Context, request: Bytes) -> Result<Bytes, Status> {
        let ends = self.ends.as_ref().expect("it is given one");
        let ends = ends.lock().expect("no panic").clone();
        if request == "hold" {
            // Asks only after the call is over.
            spawn(async move { ends.send(context.done().await) });
            return Ok(request);
        }
        let done = context.done();
        spawn(async move { ends.send(done.await) });
        match &request[..] {
            b"wait" => ringway_runtime::yield_now().await,
            b"hang" => std::future::pending().await,
            b"panic" => panic!("as the request wants"),
            b"fail" => return Err(Status::not_found("as the request wants")),
            _ => {}
        }
        Ok(request)
    }

    async fn core(&self, _: Bytes) -> Result<String, Status> {
        Ok(format!("{:?}", std::thread::current().id()))
    }
}

fn serve(prober: Prober) -> ServerHandle {
    serve_at("tcp://127.0.0.1:0", prober, |server| server.threads(1))
}

fn serve_at(address: &str, prober: Prober, set: impl FnOnce(Server) -> Server) -> ServerHandle {
    let server = Server::bind(address).expect("the address is free");
    set(server).service(ProbeServer::new(prober)).start().expect("the server starts")
}

fn connect(server: &ServerHandle) -> ProbeClient {
    let client = Client::builder().address(server.addresses()[0].clone()).build();
    ProbeClient::new(client.expect("a good address"))
}

fn run<T: 'static>(test: impl Future<Output = Result<T, Status>> + 'static) -> T {
    let ended = ringway_runtime::block_on(timeout(LIMIT, test));
    ended.expect("a core").expect("no hang").unwrap_or_else(|status| panic!("{status}"))
}

#[test]
fn metadata_comes_before_and_after_a_reply() {
    let server = serve(Prober::default());
    let client = connect(&server);
    run(async move {
        for request in ["at once", "wait"] {
            let reply = client.annotated(request.into()).full().await?;
            assert_eq!(reply.message, request);
            assert_eq!(reply.metadata.get("shard"), Some("7"), "{request}");
            assert_eq!(reply.trailers.get("cost"), Some("3"), "{request}");
            assert_eq!((reply.metadata.len(), reply.trailers.len()), (1, 1));
        }
        let reply = client.offloaded("x".into()).full().await?;
        assert_eq!(
            (reply.metadata.get("shard"), reply.trailers.get("cost")),
            (Some("7"), Some("3"))
        );
        let failure = client.annotated("wait and fail".into()).await.expect_err("as it wants");
        assert_eq!((failure.code(), failure.metadata().get("cost")), (Code::NotFound, Some("3")));
        Ok(())
    });
    end(server);
}

#[test]
fn metadata_comes_before_and_after_a_stream() {
    let server = serve(Prober::default());
    let client = connect(&server);
    run(async move {
        for count in [0, 1, 3] {
            let mut numbers = client.counted(vec![0; count].into());
            let metadata = numbers.metadata().await?;
            assert_eq!((metadata.get("shard"), metadata.len()), (Some("7"), 1), "{count}");
            for number in 0..count {
                assert_eq!(numbers.next().await?.expect("one more"), number.to_string());
            }
            assert_eq!(numbers.next().await?, None);
            let trailers = numbers.trailers().expect("the stream has ended");
            assert_eq!((trailers.get("cost"), trailers.len()), (Some("3"), 1), "{count}");
        }
        Ok(())
    });
    end(server);
}

#[test]
fn nested_calls_have_the_callers_trace() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let last = serve(Prober::default());
    let next = Client::builder().address(last.addresses()[0].clone()).build();
    let first = serve(Prober { next: Some(next.expect("a good address")), ..Prober::default() });
    let mut caller = Caller::connect(socket_addr(&first));
    let parent = ringway_rpc::TraceContext::parse(PARENT).expect("a traceparent");
    let mut meta = Vec::new();
    MetaWriter::new(&mut meta).traceparent(&parent.to_bytes());
    let mut call = |name| {
        let stream = caller.open_with(name, Some(b""), true, |open| open.meta = &meta);
        let answer = caller.answer(stream).ok();
        String::from_utf8(answer.to_vec()).expect("text")
    };
    assert_eq!(call("probe.v1.Probe/Trace"), PARENT, "it arrives");
    let inherited = call("probe.v1.Probe/Relay");
    let inherited = ringway_rpc::TraceContext::parse(&inherited).expect("a traceparent");
    assert_eq!((inherited.trace_id(), inherited.is_sampled()), (parent.trace_id(), true));
    assert_ne!(inherited.span_id(), parent.span_id(), "a span of its own");
    end(first);
    end(last);
}

#[test]
fn offloaded_handler_blocks_a_thread_and_no_core() {
    let (open, gate) = mpsc::channel();
    let server = serve(Prober { gate: Some(Mutex::new(gate)), ..Prober::default() });
    let client = connect(&server);
    run(async move {
        let blocked = spawn(client.offloaded("block".into()));
        for turn in 0..100_u8 {
            let request = Bytes::from(vec![turn]);
            assert_eq!(client.annotated(request.clone()).await?, request);
        }
        assert!(!blocked.is_finished());
        open.send(()).expect("it waits");
        assert_eq!(blocked.await.expect("no panic")?, "false", "on a thread that is no core");
        Ok(())
    });
    end(server);
}

#[test]
fn spawned_task_learns_why_its_call_was_cancelled() {
    let (sender, ends) = mpsc::channel();
    let server = serve(Prober { ends: Some(Mutex::new(sender)), ..Prober::default() });
    let heard = || ends.recv_timeout(LIMIT).expect("it is told").expect("why");
    let mut caller = Caller::connect(socket_addr(&server));
    let stream = caller.open("probe.v1.Probe/Watched", b"hang");
    support::eventually("it runs", || server.stats().in_flight == 1);
    caller.cancel(stream, "changed my mind");
    assert_eq!(heard().to_string(), "CANCELLED: changed my mind");
    caller.open_with("probe.v1.Probe/Watched", Some(b"hang"), true, |open| {
        open.timeout = Some(std::time::Duration::from_millis(20));
    });
    assert_eq!(heard().code(), Code::DeadlineExceeded);
    caller.open("probe.v1.Probe/Watched", b"hang");
    support::eventually("it runs", || server.stats().in_flight == 1);
    drop(caller);
    let lost = heard().to_string();
    assert!(lost.starts_with("CANCELLED: the connection from 127.0.0.1:"), "{lost}");
    end(server);
}

#[test]
fn spawned_task_learns_that_its_call_was_answered() {
    let (sender, ends) = mpsc::channel();
    let server = serve(Prober { ends: Some(Mutex::new(sender)), ..Prober::default() });
    let mut caller = Caller::connect(socket_addr(&server));
    for (request, code) in [
        ("", Code::Ok),
        ("wait", Code::Ok),
        ("hold", Code::Ok),
        ("fail", Code::NotFound),
        ("panic", Code::Internal),
    ] {
        let answer = caller.call("probe.v1.Probe/Watched", request.as_bytes());
        assert_eq!(answer.code, code, "{request}");
        let end = ends.recv_timeout(LIMIT).expect("it is told");
        assert!(end.is_none(), "{request}: {end:?}");
    }
    end(server);
}

#[test]
fn calls_work_over_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("ringway-rpc-{}.sock", std::process::id()));
    let address = format!("unix://{}", path.display());
    let server = serve_at(&address, Prober::default(), |server| server.threads(1));
    let client = connect(&server);
    run(async move {
        assert_eq!(client.annotated("over a file".into()).await?, "over a file");
        Ok(())
    });
    end(server);
}

#[test]
fn calls_work_over_tls() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let tls = ServerTls::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
    let tls = tls.expect("they belong together");
    let server =
        serve_at("tls://localhost:0", Prober::default(), |server| server.threads(1).tls(tls));
    let address = || server.addresses()[0].clone();
    let port = address().to_string().rsplit_once(':').expect("a port").1.to_owned();
    let trusting = ClientTls::new().roots_pem(made.cert.pem()).expect("a certificate");
    let builder = Client::builder().address(format!("tls://localhost:{port}")).tls(trusting);
    let client = ProbeClient::new(builder.build().expect("a good address"));
    let stranger = Client::builder().address(format!("tls://localhost:{port}")).build();
    let stranger = ProbeClient::new(stranger.expect("a good address"));
    run(async move {
        let request = Bytes::from(vec![7; 100_000]);
        assert_eq!(client.annotated(request.clone()).await?, request);
        let failure = stranger.annotated(request).await.expect_err("whom it does not trust");
        assert!(failure.is_unavailable() && failure.is_not_executed(), "{failure}");
        Ok(())
    });
    end(server);
}

#[test]
fn two_cores_serve_and_are_counted_together() {
    let server = serve_at("tcp://127.0.0.1:0", Prober::default(), |server| server.threads(2));
    let address = socket_addr(&server);
    let mut cores = std::collections::HashSet::new();
    let mut callers = Vec::new();
    let mut calls = 0;
    // The kernel distributes connections by their ports, so it takes a few to reach both cores.
    while cores.len() < 2 && callers.len() < 100 {
        let mut caller = Caller::connect(address);
        cores.insert(caller.call("probe.v1.Probe/Core", b"").ok());
        callers.push(caller);
        calls += 1;
    }
    assert_eq!(cores.len(), 2, "after {calls} connections");
    let metrics = server.metrics();
    let method = metrics.method(Side::Server, "probe.v1.Probe/Core").expect("it was called");
    assert_eq!((method.started, method.with_code(Code::Ok)), (calls, calls));
    end(server);
}

#[test]
fn metrics_count_calls_and_messages_of_streams() {
    let server = serve(Prober::default());
    let client = connect(&server);
    run(async move {
        let mut numbers = client.counted(vec![0; 5].into());
        while numbers.next().await?.is_some() {}
        client.annotated("12345".into()).await?;
        client.annotated("fail".into()).await.expect_err("as it wants");
        Ok(())
    });
    let metrics = server.metrics();
    let stream = metrics.method(Side::Server, "probe.v1.Probe/Counted").expect("it was called");
    assert_eq!((stream.started, stream.messages_out, stream.messages_in), (1, 5, 0));
    assert_eq!((stream.bytes_in, stream.bytes_out), (5, 5));
    let text = metrics.prometheus();
    let labels = "service=\"probe.v1.Probe\",method=\"Annotated\"";
    for expected in [
        format!("ringway_server_calls_total{{{labels},status=\"OK\"}} 1"),
        format!("ringway_server_calls_total{{{labels},status=\"NOT_FOUND\"}} 1"),
        format!("ringway_server_request_bytes_total{{{labels}}} 9"),
        format!("ringway_server_latency_seconds_count{{{labels}}} 2"),
        "ringway_server_stream_replies_total{service=\"probe.v1.Probe\",method=\"Counted\"} 5"
            .into(),
    ] {
        assert!(text.lines().any(|line| line == expected), "{expected} is not in\n{text}");
    }
    end(server);
}
