//! `tracing` output of calls: their spans, and warnings about a blocked core.

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};

use bytes::Bytes;
use ringway_rpc::{Context, Server, Status, service};
use ringway_wire::native::MetaWriter;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::alone::alone;
use crate::support::caller::Caller;
use crate::support::echo::{Echo, serve};
use crate::support::{LIMIT, end, eventually, socket_addr, wait};

/// Records spans and events as text.
struct Listener {
    heard: mpsc::Sender<String>,
    spans: AtomicU64,
}

#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).expect("a string");
    }
}

impl Listener {
    fn tell(&self, what: &str, record: impl FnOnce(&mut Fields)) {
        let mut fields = Fields(what.to_owned());
        record(&mut fields);
        let _test_is_over = self.heard.send(fields.0);
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() || metadata.name() == "call"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let name = format!("new {}", span.metadata().name());
        self.tell(&name, |fields| span.record(fields));
        Id::from_u64(self.spans.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        self.tell(&format!("record {}", id.into_u64()), |fields| values.record(fields));
    }

    fn event(&self, event: &Event<'_>) {
        self.tell("event", |fields| event.record(fields));
    }

    fn enter(&self, id: &Id) {
        self.tell(&format!("enter {}", id.into_u64()), |_| {});
    }

    fn exit(&self, id: &Id) {
        self.tell(&format!("exit {}", id.into_u64()), |_| {});
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
}

#[service(package = "test.v1", crate = "ringway_rpc")]
trait Careless {
    async fn quick(&self, context: Context, request: Bytes) -> Result<Bytes, Status>;
    async fn stall(&self, context: Context, request: Bytes) -> Result<Bytes, Status>;
}

/// Blocks its core until the watchdog has reported it.
struct Careful(Mutex<mpsc::Receiver<String>>);

impl Careful {
    fn hear(&self, part: &str) -> String {
        let heard = self.0.lock().expect("no panic");
        loop {
            let next = heard.recv_timeout(LIMIT).expect("it is told");
            if next.contains(part) {
                return next;
            }
        }
    }
}

impl Careless for std::sync::Arc<Careful> {
    async fn quick(&self, _: Context, request: Bytes) -> Result<Bytes, Status> {
        tracing::info!("inside");
        ringway_runtime::yield_now().await;
        Ok(request)
    }

    async fn stall(&self, _: Context, _: Bytes) -> Result<Bytes, Status> {
        Ok(self.hear("holds up its core").into())
    }
}

#[test]
fn calls_have_spans_and_the_watchdog_names_the_method() {
    alone(|| {
        const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let (heard, hears) = mpsc::channel();
        let listener = Listener { heard, spans: AtomicU64::new(0) };
        tracing::subscriber::set_global_default(listener).expect("the only one");
        let careful = std::sync::Arc::new(Careful(Mutex::new(hears)));
        let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
        let service = CarelessServer::new(std::sync::Arc::clone(&careful));
        let server = server.service(service).start().expect("it starts");
        let mut caller = Caller::connect(socket_addr(&server));

        let parent = ringway_rpc::TraceContext::parse(PARENT).expect("a traceparent");
        let mut meta = Vec::new();
        MetaWriter::new(&mut meta).traceparent(&parent.to_bytes());
        let quick = "test.v1.Careless/Quick";
        let stream = caller.open_with(quick, Some(b"x"), true, |open| open.meta = &meta);
        assert_eq!(caller.answer(stream).ok(), "x");
        let span = careful.hear("new call");
        assert!(span.contains("method=\"test.v1.Careless/Quick\""), "{span}");
        assert!(span.contains(&format!("trace={PARENT}")) && span.contains("peer="), "{span}");
        let entered = careful.hear("enter");
        assert!(careful.hear("event").contains("inside"), "in the span");
        assert_eq!(careful.hear("exit")[4..], entered[5..]);
        assert_eq!(careful.hear("enter"), entered, "once more when it goes on");
        assert!(careful.hear("record").contains("code=OK"));

        let event = caller.call("test.v1.Careless/Stall", b"").ok();
        let event = String::from_utf8_lossy(&event).into_owned();
        assert!(event.contains("task=\"test.v1.Careless/Stall\""), "{event}");
        end(server);
    });
}

#[test]
fn the_log_names_the_methods_that_a_drain_waits_for() {
    alone(|| {
        let (heard, hears) = mpsc::channel();
        let listener = Listener { heard, spans: AtomicU64::new(0) };
        tracing::subscriber::set_global_default(listener).expect("the only one");
        let careful = Careful(Mutex::new(hears));
        let handle = serve(&Echo::default(), |server| server);
        let mut caller = Caller::connect(socket_addr(&handle));
        let calls = [(); 2].map(|()| caller.open("echo.Echo/Hang", b""));
        eventually("they run", || handle.stats().in_flight == 2);
        handle.shutdown();
        let told = careful.hear("the drain waits for calls to end");
        assert!(told.contains("echo.Echo/Hang (2)"), "{told}");
        calls.into_iter().for_each(|call| caller.cancel(call, "told"));
        caller.closed();
        wait(handle);
    });
}
