//! What is logged of sinks that nobody finishes, and of those that outlive their handlers.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringway_rpc::testing::{TestServer, simulate};
use ringway_rpc::{Sink, Status, Streaming, service};
use ringway_runtime::{sleep, spawn};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Collects the warnings, with their fields.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    fn count(&self) -> usize {
        self.0.lock().expect("no panic").len()
    }

    /// Runs a test in a simulation that logs to a new list.
    fn of<T>(test: impl FnOnce(Self) -> T)
    where
        T: Future<Output = Result<(), Status>> + 'static,
    {
        let warnings = Self::default();
        let outcome = tracing::subscriber::with_default(warnings.clone(), || {
            simulate(1, test(warnings.clone()))
        });
        outcome.unwrap_or_else(|status| panic!("{status}"));
    }

    #[track_caller]
    fn check_only(&self, parts: [&str; 2]) {
        let warnings = self.0.lock().expect("no panic");
        let [warning] = &warnings[..] else { panic!("one warning: {warnings:?}") };
        assert!(parts.iter().all(|part| warning.contains(part)), "{warning}");
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().expect("no panic").push(text.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[service(package = "test.v1", crate = "ringway_rpc")]
trait Numbers {
    async fn sum(&self, numbers: Streaming<u64>) -> Result<u64, Status>;
    async fn subscribe(&self, numbers: Sink<u64>) -> Result<(), Status>;
    async fn count(&self, numbers: Sink<u64>) -> Result<(), Status>;
}

#[derive(Default)]
struct Counting {
    kept: RefCell<Vec<Sink<u64>>>,
}

impl Numbers for Counting {
    async fn sum(&self, mut numbers: Streaming<u64>) -> Result<u64, Status> {
        let mut sum = 0;
        while let Some(number) = numbers.next().await? {
            sum += number;
        }
        Ok(sum)
    }

    async fn subscribe(&self, mut numbers: Sink<u64>) -> Result<(), Status> {
        numbers.send(1).await?;
        self.kept.borrow_mut().push(numbers);
        Ok(())
    }

    async fn count(&self, mut numbers: Sink<u64>) -> Result<(), Status> {
        numbers.send(1).await?;
        numbers.send(2).await
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_forgotten_finish_is_logged_once() {
    Warnings::of(async |warnings: Warnings| {
        let server = TestServer::start(NumbersServer::per_core(Counting::default))?;
        let [client] = server.clients(NumbersClient::new)?;
        let (mut numbers, sum) = client.sum();
        numbers.send(5).await?;
        let sum = spawn(sum);
        sleep(SECOND * 9).await;
        assert_eq!(warnings.count(), 0, "not yet");
        sleep(SECOND * 60).await;
        warnings.check_only(["method=\"test.v1.Numbers/Sum\"", "call `finish()`"]);
        numbers.send(6).await?;
        sleep(SECOND * 60).await;
        assert_eq!(warnings.count(), 1, "it is named once");
        numbers.finish();
        assert_eq!(sum.await??, 11);
        Ok(())
    });
}

#[test]
fn a_sink_in_use_is_not_logged_nor_one_whose_reply_nobody_awaits() {
    Warnings::of(async |warnings: Warnings| {
        let server = TestServer::start(NumbersServer::per_core(Counting::default))?;
        let [client] = server.clients(NumbersClient::new)?;
        let (mut slow, sum_of_slow) = client.sum();
        let (idle, sum_of_idle) = client.sum();
        let (done, sum_of_done) = client.sum();
        done.finish();
        let (sum_of_slow, sum_of_done) = (spawn(sum_of_slow), spawn(sum_of_done));
        for number in 0..10 {
            slow.send(number).await?;
            sleep(SECOND * 9).await;
        }
        slow.finish();
        idle.finish();
        assert_eq!(sum_of_slow.await??, 45);
        assert_eq!((sum_of_idle.await?, sum_of_done.await??), (0, 0));
        assert_eq!(warnings.count(), 0);
        Ok(())
    });
}

#[test]
fn a_sink_that_outlives_its_handler_is_logged_once() {
    Warnings::of(async |warnings: Warnings| {
        let server = TestServer::start(NumbersServer::per_core(Counting::default))?;
        let [client] = server.clients(NumbersClient::new)?;
        let mut numbers = client.count();
        while numbers.next().await?.is_some() {}
        assert_eq!(warnings.count(), 0, "a sink that its handler drops is as it should be");
        for _ in 0..3 {
            let mut numbers = client.subscribe();
            assert_eq!(numbers.next().await?, Some(1));
            assert_eq!(numbers.next().await?, None, "the handler has returned");
        }
        warnings.check_only(["method=\"test.v1.Numbers/Subscribe\"", "its `Sink` is kept"]);
        Ok(())
    });
}
