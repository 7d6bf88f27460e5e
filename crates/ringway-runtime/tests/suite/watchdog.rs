//! The stall watchdog: a task that blocks its core is counted and named.

use std::fmt;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use ringway_runtime::io::Next;
use ringway_runtime::{Backend, Builder, CoreHandle, PollLabel, Runtime, spawn_named, yield_now};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::{alone, pair};

/// Passes every event on, as its fields.
struct Listener {
    events: Mutex<mpsc::Sender<Fields>>,
}

/// What the subscriber ends when it receives a stall.
static ENDED_BY_THE_LOG: Mutex<Option<Runtime>> = Mutex::new(None);

const ENDED: &str = "ended by the log";

#[derive(Default, Debug)]
struct Fields(Vec<(&'static str, String)>);

impl Fields {
    fn of(&self, name: &str) -> Option<&str> {
        let mut fields = self.0.iter();
        fields.find(|(field, _)| *field == name).map(|(_, value)| value.as_str())
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name(), format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), value.to_owned()));
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let tell = |fields| self.events.lock().expect("no panic").send(fields);
        let ends = fields.of("message").is_some_and(|text| text.contains("holds up its core"));
        let _nobody_listens_any_more = tell(fields);
        if ends && let Some(runtime) = ENDED_BY_THE_LOG.lock().expect("no panic").take() {
            drop(runtime);
            let _nobody_listens_any_more = tell(Fields(vec![("message", ENDED.to_owned())]));
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The time that the watchdog may take. If it takes longer, the test has failed.
const REPORT_TIME_MAX: Duration = Duration::from_secs(20);

/// The next event whose text contains `message`.
fn await_event(events: &mpsc::Receiver<Fields>, message: &str) -> Fields {
    loop {
        let event = events.recv_timeout(REPORT_TIME_MAX).expect("the watchdog reports");
        if event.of("message").is_some_and(|text| text.contains(message)) {
            return event;
        }
    }
}

/// Watchdogs have their own threads, so the subscriber belongs to the whole process.
#[test]
fn a_task_that_blocks_its_core_is_named_and_counted() {
    alone(|| {
        let (sender, events) = mpsc::channel();
        let listener = Listener { events: Mutex::new(sender) };
        tracing::subscriber::set_global_default(listener).expect("the only one");
        let events = blocks_a_runtime(Backend::Uring, events);
        let events = blocks_a_runtime(Backend::Epoll, events);
        let events = blocks_its_own_thread(events);
        let events = names_what_it_works_on(events);
        let events = is_seen_after_a_callback(events);
        may_end_the_runtime(&events);
    });
}

fn blocks_a_runtime(backend: Backend, events: mpsc::Receiver<Fields>) -> mpsc::Receiver<Fields> {
    let builder = Runtime::builder().threads(2).backend(backend);
    let runtime = builder.stall_threshold(Duration::ZERO).start().expect("a runtime");
    let [idle, blocked] = runtime.cores() else { panic!("two cores") };
    assert_eq!(blocked.counters().stalls, 0);
    let stalled = blocked.spawn(async move || {
        let task = spawn_named("the careless one", async move {
            let event = await_event(&events, "holds up its core"); // which blocks the core
            (event, events)
        });
        task.await.expect("no panic")
    });
    let (event, events) = stalled.expect("room").wait().expect("no panic");
    assert_eq!(event.of("task"), Some("the careless one"));
    let held_for: u64 = event.of("held_for_ms").expect("its duration").parse().expect("a number");
    assert!(held_for >= 2, "the finest threshold is 2 ms, not {held_for}");
    let afterwards = await_event(&events, "lets its core go on");
    assert_eq!(afterwards.of("task"), Some("the careless one"));
    assert_eq!(blocked.counters().stalls, 1, "one poll, one stall");
    let stall = blocked.latest_stall().expect("a stall");
    assert_eq!((stall.task, stall.is_over), (Some("the careless one"), true));
    assert!(stall.held_for >= Duration::from_millis(held_for));
    assert_eq!(idle.counters().stalls, 0);
    assert!(idle.latest_stall().is_none());
    runtime.shutdown().expect("no core failed");
    events
}

fn blocks_its_own_thread(events: mpsc::Receiver<Fields>) -> mpsc::Receiver<Fields> {
    let builder = Builder::default().threads(1).stall_threshold(Duration::from_millis(2));
    let main = async move {
        let task = spawn_named("on the borrowed thread", async move {
            let event = await_event(&events, "holds up its core");
            (event, events)
        });
        let event = task.await.expect("no panic");
        yield_now().await;
        (event, CoreHandle::current().counters().stalls)
    };
    let ((event, events), stalls) = builder.block_on(main).expect("a core");
    assert_eq!(event.of("task"), Some("on the borrowed thread"));
    assert_eq!(stalls, 1);
    events
}

/// A task that polls several futures, one of which takes long.
fn names_what_it_works_on(events: mpsc::Receiver<Fields>) -> mpsc::Receiver<Fields> {
    let builder = Builder::default().threads(1).stall_threshold(Duration::from_millis(2));
    let main = async move {
        let task = spawn_named("a connection", async move {
            PollLabel::new("the quick call").put();
            PollLabel::new("the slow call").put();
            (await_event(&events, "holds up its core"), events)
        });
        let event = task.await.expect("no panic");
        PollLabel::new("of a task that is over").put();
        event
    };
    let (event, events) = builder.block_on(main).expect("a core");
    assert_eq!(event.of("task"), Some("the slow call"));
    events
}

/// A task that calls a stream, which calls the stream's callback, which takes long.
fn is_seen_after_a_callback(events: mpsc::Receiver<Fields>) -> mpsc::Receiver<Fields> {
    let builder = Builder::default().threads(1).stall_threshold(Duration::from_millis(2));
    let main = async move {
        let (client, server) = pair().await;
        client.shutdown();
        assert!(server.recv().await.expect("a clean end").is_none());
        let task = spawn_named("calls back", async move {
            server.on_incoming(|_, _| Next::Close); // told of the end at once
            (await_event(&events, "holds up its core"), events)
        });
        task.await.expect("no panic")
    };
    let (event, events) = builder.block_on(main).expect("a core");
    assert_eq!(event.of("task"), Some("calls back"));
    events
}

/// A subscriber of the log may do anything. Here it ends the runtime that the event names.
fn may_end_the_runtime(events: &mpsc::Receiver<Fields>) {
    let runtime = Runtime::builder().threads(1).stall_threshold(Duration::ZERO).start();
    let runtime = runtime.expect("a runtime");
    let (failed, core) = (runtime.failed(), runtime.cores()[0].clone());
    *ENDED_BY_THE_LOG.lock().expect("no panic") = Some(runtime);
    let (release, gate) = mpsc::channel::<()>();
    drop(core.spawn(async move || gate.recv().is_err()).expect("room"));
    drop(await_event(events, "holds up its core"));
    drop(release);
    assert!(failed.wait().is_none());
    let ended = events.recv_timeout(REPORT_TIME_MAX).expect("the watchdog goes on");
    assert_eq!(ended.of("message"), Some(ENDED));
}
