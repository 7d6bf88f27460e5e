//! The task that learns how one server is.

mod round_trips;

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use ringway_runtime::sync::Notify;
use ringway_runtime::{JoinHandle, now_exact, sleep, spawn_named, timeout, yield_now};
use ringway_wire::mongo::AwaitedChange;

use super::Deployment;
use super::telling::{Heartbeat, TopologyTelling};
use crate::connection::{AskingConnection, Greeting, OwnedAnswer};
use crate::error::Result;
use crate::limits::{CHECK_PERIOD_MIN, STREAMED_MAX};
use crate::topology::{RoundTripTime, ServerDescription, TopologyVersion};
use crate::uri::HostAddress;

/// The monitor of a server. It ends when this is dropped.
///
/// Specification: Server Discovery and Monitoring, "Server Monitoring". A server that numbers its views (since MongoDB
/// 4.4) tells of each change by itself, unless the options forbid it; others are asked now and then.
pub(super) struct Monitor {
    task: JoinHandle<()>,
    signals: Rc<Signals>,
}

/// What others tell a monitor.
#[derive(Default)]
struct Signals {
    hurry: Notify,
    cancelled: Notify,
    /// Whether the monitor's connection is not trusted any more.
    is_cancelled: Cell<bool>,
}

impl Signals {
    fn cancel(&self) {
        self.is_cancelled.set(true);
        self.cancelled.notify_waiters();
    }

    /// Waits for a check, unless it is cancelled before its answer is taken.
    async fn unless_cancelled<T>(&self, check: impl Future<Output = T>) -> Option<T> {
        let mut cancelled = pin!(self.cancelled.notified());
        let mut check = pin!(check);
        let answer = poll_fn(|cx| match cancelled.as_mut().poll(cx) {
            // An answer that came together with it was perhaps sent before the other connection broke.
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => check.as_mut().poll(cx).map(Some),
        });
        let answer = answer.await;
        if answer.is_none() {
            self.is_cancelled.set(false);
        }
        answer
    }
}

impl Monitor {
    /// Begins to ask a server after a pause.
    pub(super) fn start(
        address: HostAddress,
        (greeting, telling): (&Rc<Greeting>, &Rc<TopologyTelling>),
        deployment: Weak<Deployment>,
        pause: Duration,
    ) -> Self {
        let signals = Rc::<Signals>::default();
        let watch = Asking {
            period: greeting.options.seeds.heartbeat,
            address,
            greeting: Rc::clone(greeting),
            telling: Rc::clone(telling),
            deployment,
            connection: None,
            version: None,
            round_trip: Rc::default(),
            round_trips: None,
            checked_at: now_exact(),
            broke_at: None,
            streamed: 0,
        };
        let task = spawn_named("mongo monitor", watch.run(Rc::clone(&signals), pause));
        Self { task, signals }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Has it ask as soon as it may.
    pub(super) fn hurry(&self) {
        self.signals.hurry.notify_one();
    }

    /// Has it give up the check under way and its connection, because another connection to the server has broken.
    ///
    /// Specification: Server Monitoring, "hello or legacy hello Cancellation".
    pub(super) fn cancel(&self) {
        self.signals.cancel();
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Asking {
    address: HostAddress,
    greeting: Rc<Greeting>,
    telling: Rc<TopologyTelling>,
    deployment: Weak<Deployment>,
    /// The connection on which it asks, which is no one of the pool.
    connection: Option<AskingConnection>,
    /// The version of the last answer on this connection, if the server tells of changes by itself.
    version: Option<TopologyVersion>,
    round_trip: Rc<Cell<RoundTripTime>>,
    /// What measures round trips while the server tells of changes by itself.
    round_trips: Option<Pin<Box<dyn Future<Output = ()>>>>,
    period: Duration,
    /// When the last check was over. One that was cancelled told nothing, so it does not count.
    checked_at: Instant,
    /// When a connection broke last that the server was asked on.
    broke_at: Option<Instant>,
    /// Answers of a server that tells by itself, since the last pause.
    streamed: u32,
}

enum Checked {
    Done(Result<OwnedAnswer>),
    Cancelled,
}

impl Asking {
    async fn run(mut self, signals: Rc<Signals>, pause: Duration) {
        sleep(pause).await;
        loop {
            let was_connected = self.connection.is_some();
            let checked = self.check_unless_cancelled(&signals).await;
            let Some(deployment) = self.deployment.upgrade() else { return };
            let is_answered = matches!(checked, Checked::Done(Ok(_)));
            let is_at_once = match checked {
                Checked::Done(Ok(answer)) => {
                    deployment.learned(self.describe(&deployment, &answer));
                    self.is_streaming()
                }
                Checked::Done(Err(error)) => {
                    self.disconnect();
                    tracing::debug!(address = %self.address, %error, "a server does not answer");
                    deployment.unanswered(&self.address, &error);
                    was_connected
                        && (error.is_network() || error.is_timeout())
                        && self.breaks_seldom()
                }
                Checked::Cancelled => {
                    self.disconnect();
                    false
                }
            };
            // A client that goes while this waits is gone at once.
            drop(deployment);
            match is_at_once {
                true if is_answered => self.keeps_pace().await,
                true => {}
                false => self.wait(&signals).await,
            }
        }
    }

    /// Notes that a connection has broken. It may have done so while the server is well, so that is asked again at once,
    /// unless the one before broke just now.
    fn breaks_seldom(&mut self) -> bool {
        let before = self.broke_at.replace(now_exact());
        before.is_none_or(|before| before.elapsed() >= CHECK_PERIOD_MIN)
    }

    /// Checks the server once, and has round trips measured meanwhile.
    async fn check_unless_cancelled(&mut self, signals: &Signals) -> Checked {
        if signals.is_cancelled.take() {
            self.disconnect();
        }
        let mut round_trips = self.round_trips.take();
        let checked = {
            let mut check = pin!(self.check());
            let measured = poll_fn(|cx| {
                if let Some(measuring) = &mut round_trips {
                    let _never_ends = measuring.as_mut().poll(cx);
                }
                check.as_mut().poll(cx)
            });
            signals.unless_cancelled(measured).await.map_or(Checked::Cancelled, Checked::Done)
        };
        if let Checked::Done(result) = &checked {
            self.checked_at = now_exact();
            self.version = match result {
                Ok(answer) => {
                    let streams = |connection: &AskingConnection| connection.is_streaming();
                    let is_fixed = self.connection.as_ref().is_some_and(streams);
                    let earlier = self.version.filter(|_| is_fixed);
                    TopologyVersion::of(answer.body()).or(earlier)
                }
                Err(_) => None,
            };
        }
        self.round_trips =
            self.is_streaming().then(|| round_trips.unwrap_or_else(|| self.measure()));
        checked
    }

    /// Whether the next check begins at once, because the server tells of changes by itself.
    fn is_streaming(&self) -> bool {
        self.greeting.options.streams && self.version.is_some()
    }

    fn measure(&self) -> Pin<Box<dyn Future<Output = ()>>> {
        let (greeting, address) = (Rc::clone(&self.greeting), self.address.clone());
        let round_trip = Rc::clone(&self.round_trip);
        Box::pin(round_trips::measure(greeting, address, self.period, round_trip))
    }

    /// Lets others run, and pauses if the server tells more than there can be to tell.
    async fn keeps_pace(&mut self) {
        self.streamed += 1;
        if self.streamed < STREAMED_MAX {
            yield_now().await;
        } else {
            self.streamed = 0;
            sleep(CHECK_PERIOD_MIN).await;
        }
    }

    /// Waits until it is time for another check.
    async fn wait(&mut self, signals: &Signals) {
        self.streamed = 0;
        sleep(CHECK_PERIOD_MIN.saturating_sub(self.checked_at.elapsed())).await;
        let rest = self.period.saturating_sub(CHECK_PERIOD_MIN);
        let _hurried_or_not = timeout(rest, signals.hurry.notified()).await;
    }

    async fn check(&mut self) -> Result<OwnedAnswer> {
        let (telling, server) = (Rc::clone(&self.telling), self.address.clone());
        let is_awaited = self.connection.is_some() && self.is_streaming();
        let heartbeat = Heartbeat::begin(&telling, &server, is_awaited);
        let checked = self.ask_or_await().await;
        heartbeat.ended(checked.as_ref().map(OwnedAnswer::body));
        checked
    }

    /// Checks once. A round trip is that of `hello` alone, on a connection that is there.
    async fn ask_or_await(&mut self) -> Result<OwnedAnswer> {
        let (greeting, address) = (&self.greeting, &self.address);
        let (connection, answer, time) = match self.connection.take() {
            Some(mut connection) => match self.version.filter(|_| greeting.options.streams) {
                Some(TopologyVersion { process, counter }) => {
                    let awaited = AwaitedChange { process, counter, time_max: self.period };
                    let answer = connection.await_change(greeting, awaited).await?;
                    (connection, answer, None)
                }
                None => {
                    let (answer, time) = connection.ask(greeting, address).await?;
                    (connection, answer, Some(time))
                }
            },
            None => {
                let (connection, answer, time) = AskingConnection::open(greeting, address).await?;
                (connection, answer, Some(time))
            }
        };
        if let Some(time) = time {
            round_trips::add(&self.round_trip, time);
        }
        self.connection = Some(connection);
        Ok(answer)
    }

    /// Closes its connections. What was measured on them says nothing of the next ones.
    fn disconnect(&mut self) {
        (self.connection, self.version, self.round_trips) = (None, None, None);
        self.round_trip.set(RoundTripTime::default());
    }

    fn describe(&self, deployment: &Deployment, answer: &OwnedAnswer) -> ServerDescription {
        let now = now_exact().saturating_duration_since(deployment.origin);
        let (address, round_trip) = (self.address.clone(), self.round_trip.get());
        let description =
            ServerDescription::from_hello(address, answer.body(), round_trip.average(), now);
        ServerDescription { round_trip_min: round_trip.least(), ..description }
    }
}

impl Drop for Asking {
    /// Has those that wait for a server look for monitors that have ended, if this one ends by a panic.
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(deployment) = self.deployment.upgrade()
        {
            deployment.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    /// Runs a check that is cancelled when it has been polled once. Returns its answer, and whether the cancellation is
    /// remembered for the next one.
    fn cancel(is_answered: bool) -> (Option<u32>, bool) {
        let (signals, answers) = (Signals::default(), Cell::new(false));
        let check = poll_fn(|_| if answers.get() { Poll::Ready(7) } else { Poll::Pending });
        let mut checking = pin!(signals.unless_cancelled(check));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(checking.as_mut().poll(&mut cx).is_pending());
        answers.set(is_answered);
        signals.cancel();
        match checking.as_mut().poll(&mut cx) {
            Poll::Ready(answer) => (answer, signals.is_cancelled.get()),
            Poll::Pending => panic!("the check goes on"),
        }
    }

    #[test]
    fn a_check_is_given_up_even_if_its_answer_has_come() {
        assert_eq!(cancel(false), (None, false));
        assert_eq!(cancel(true), (None, false));
    }

    #[test]
    fn a_check_that_is_cancelled_while_its_answer_is_taken_has_the_connection_made_anew() {
        let signals = Signals::default();
        let check = poll_fn(|_| {
            signals.cancel();
            Poll::Ready(7)
        });
        let mut checking = pin!(signals.unless_cancelled(check));
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(checking.as_mut().poll(&mut cx), Poll::Ready(Some(7)));
        assert!(signals.is_cancelled.get(), "the next check knows it");
    }
}
