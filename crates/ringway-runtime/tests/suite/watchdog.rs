//! The stall watchdog: a task that blocks its core is counted and named.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use ringway_runtime::io::Next;
use ringway_runtime::{Backend, Builder, CoreHandle, PollLabel, Runtime, spawn_named};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::{alone, pair};

/// Passes every event on, as its fields.
///
/// It holds the watchdog up with the end of the careless task's stall, until the test has looked:
/// on a busy machine any poll may be a stall, and a later one would take the place of this one.
struct Listener {
    events: Mutex<mpsc::Sender<Told>>,
}

/// An event, and what lets the watchdog go on when it is dropped.
type Told = (Fields, Option<mpsc::Sender<()>>);

const HOLDS_UP: &str = "holds up its core";
const LETS_GO_ON: &str = "lets its core go on";
const STILL_HOLDS: &str = "has not let its core go on yet";
const CARELESS: &str = "the careless one";

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

    fn says(&self, message: &str) -> bool {
        self.of("message").is_some_and(|text| text.contains(message))
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
        let tell = |told| self.events.lock().expect("no panic").send(told);
        let ends = fields.says(HOLDS_UP);
        let (release, held) = mpsc::channel();
        let holds = fields.says(LETS_GO_ON) && fields.of("task") == Some(CARELESS);
        let _nobody_listens_any_more = tell((fields, holds.then_some(release)));
        let _released = held.recv();
        if ends && let Some(runtime) = ENDED_BY_THE_LOG.lock().expect("no panic").take() {
            drop(runtime);
            let ended = Fields(vec![("message", ENDED.to_owned())]);
            let _nobody_listens_any_more = tell((ended, None));
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

/// What the watchdog has told so far.
struct Events {
    events: mpsc::Receiver<Told>,
    /// The stalls of each core, by its number: whatever the machine held up is among them.
    stalls: HashMap<String, u64>,
}

impl Events {
    /// Leaves out what the watchdog of the runtime before told last.
    fn of_a_new_runtime(events: mpsc::Receiver<Told>) -> Self {
        while events.try_recv().is_ok() {}
        Self { events, stalls: HashMap::new() }
    }

    /// The next event of `task` whose text contains `message`.
    fn of_task(&mut self, task: &str, message: &str) -> Told {
        loop {
            let told = self.events.recv_timeout(REPORT_TIME_MAX).expect("the watchdog reports");
            if told.0.says(HOLDS_UP) {
                let core = told.0.of("core").expect("the core").to_owned();
                *self.stalls.entry(core).or_default() += 1;
            }
            if told.0.says(message) && told.0.of("task") == Some(task) {
                return told;
            }
        }
    }

    /// Awaits the stall of `task`, which is the one that calls, and looks at the core's counter.
    fn stalls_of_this_core(&mut self, task: &str) -> Fields {
        let (event, _) = self.of_task(task, HOLDS_UP);
        let core = CoreHandle::current();
        self.assert_all_are_counted(&core);
        let stall = core.latest_stall().expect("a stall");
        assert_eq!((stall.task, stall.is_over), (Some(task), false));
        event
    }

    fn assert_all_are_counted(&self, core: &CoreHandle) {
        let told = self.stalls.get(&core.id().to_string());
        assert_eq!(told, Some(&core.counters().stalls), "told, and counted");
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

fn blocks_a_runtime(backend: Backend, events: mpsc::Receiver<Told>) -> mpsc::Receiver<Told> {
    let builder = Runtime::builder().threads(2).backend(backend);
    let runtime = builder.stall_threshold(Duration::ZERO).start().expect("a runtime");
    let [idle, blocked] = runtime.cores() else { panic!("two cores") };
    assert_eq!(blocked.counters().stalls, 0);
    let mut events = Events::of_a_new_runtime(events);
    let (tell, hang) = mpsc::channel();
    blocked.on_hang(move |hangs| tell.send(hangs).expect("the test waits"));
    let (hung, hangs) = mpsc::channel();
    idle.on_hang(move |_| hung.send(()).expect("the test waits"));
    let stalled = blocked.spawn(async move || {
        let task = spawn_named(CARELESS, async move {
            let event = events.stalls_of_this_core(CARELESS); // which blocks the core
            assert_eq!(hang.recv_timeout(REPORT_TIME_MAX), Ok(true));
            (event, events, hang)
        });
        task.await.expect("no panic")
    });
    let (event, mut events, hang) = stalled.expect("room").wait().expect("no panic");
    assert_eq!(hang.recv_timeout(REPORT_TIME_MAX), Ok(false), "it goes on");
    let held_for: u64 = event.of("held_for_ms").expect("its duration").parse().expect("a number");
    assert!(held_for >= 2, "the finest threshold is 2 ms, not {held_for}");
    let watchdog_is_held = events.of_task(CARELESS, LETS_GO_ON);
    events.assert_all_are_counted(blocked);
    let stall = blocked.latest_stall().expect("a stall");
    assert_eq!((stall.task, stall.is_over), (Some(CARELESS), true));
    assert!(stall.held_for >= Duration::from_millis(held_for));
    assert_eq!(idle.counters().stalls, 0);
    assert!(idle.latest_stall().is_none() && hangs.try_recv().is_err());
    drop(watchdog_is_held);
    runtime.shutdown().expect("no core failed");
    events.events
}

fn blocks_its_own_thread(events: mpsc::Receiver<Told>) -> mpsc::Receiver<Told> {
    let builder = Builder::default().threads(1).stall_threshold(Duration::from_millis(2));
    let mut events = Events::of_a_new_runtime(events);
    let main = async move {
        let task = spawn_named("on the borrowed thread", async move {
            events.stalls_of_this_core("on the borrowed thread");
            let (still, _) = events.of_task("on the borrowed thread", STILL_HOLDS);
            assert_eq!(still.of("thread"), std::thread::current().name(), "as panics name it");
            events.events
        });
        task.await.expect("no panic")
    };
    builder.block_on(main).expect("a core")
}

/// A task that polls several futures, one of which takes long.
fn names_what_it_works_on(events: mpsc::Receiver<Told>) -> mpsc::Receiver<Told> {
    let builder = Builder::default().threads(1).stall_threshold(Duration::from_millis(2));
    let mut events = Events::of_a_new_runtime(events);
    let main = async move {
        let task = spawn_named("a connection", async move {
            PollLabel::new("the quick call").put();
            PollLabel::new("the slow call").put();
            events.stalls_of_this_core("the slow call");
            events.events
        });
        let events = task.await.expect("no panic");
        PollLabel::new("of a task that is over").put();
        events
    };
    builder.block_on(main).expect("a core")
}

/// A task that calls a stream, which calls the stream's callback, which takes long.
fn is_seen_after_a_callback(events: mpsc::Receiver<Told>) -> mpsc::Receiver<Told> {
    let builder = Builder::default().threads(1).stall_threshold(Duration::from_millis(2));
    let mut events = Events::of_a_new_runtime(events);
    let main = async move {
        let (client, server) = pair().await;
        client.shutdown();
        assert!(server.recv().await.expect("a clean end").is_none());
        let task = spawn_named("calls back", async move {
            server.on_incoming(|_, _| Next::Close); // told of the end at once
            events.stalls_of_this_core("calls back");
            events.events
        });
        task.await.expect("no panic")
    };
    builder.block_on(main).expect("a core")
}

/// A subscriber of the log may do anything. Here it ends the runtime that the event names.
fn may_end_the_runtime(events: &mpsc::Receiver<Told>) {
    let runtime = Runtime::builder().threads(1).stall_threshold(Duration::ZERO).start();
    let runtime = runtime.expect("a runtime");
    let (failed, core) = (runtime.failed(), runtime.cores()[0].clone());
    *ENDED_BY_THE_LOG.lock().expect("no panic") = Some(runtime);
    let (release, gate) = mpsc::channel::<()>();
    drop(core.spawn(async move || gate.recv().is_err()).expect("room"));
    let next = || events.recv_timeout(REPORT_TIME_MAX).expect("the watchdog goes on").0;
    while !next().says(HOLDS_UP) {}
    drop(release);
    assert!(failed.wait().is_none());
    while !next().says(ENDED) {}
}
