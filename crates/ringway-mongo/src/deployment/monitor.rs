//! The task that asks one server how it is.

use std::rc::{Rc, Weak};
use std::time::Duration;

use ringway_runtime::sync::Notify;
use ringway_runtime::{JoinHandle, now_exact, sleep, spawn_named, timeout};

use super::Deployment;
use crate::connection::{Greeting, OwnedAnswer, ServerConnection, ask, connect_to_ask};
use crate::error::Result;
use crate::limits::CHECK_PERIOD_MIN;
use crate::topology::{RoundTripTime, ServerDescription};
use crate::uri::HostAddress;

/// The monitor of a server. It ends when this is dropped.
///
/// Specification: Server Discovery and Monitoring, "Server Monitoring", in its mode `poll`.
pub(super) struct Monitor {
    task: JoinHandle<()>,
    hurry: Rc<Notify>,
}

impl Monitor {
    /// Begins to ask a server after a pause.
    pub(super) fn start(
        address: HostAddress,
        greeting: &Rc<Greeting>,
        deployment: Weak<Deployment>,
        pause: Duration,
    ) -> Self {
        let hurry = Rc::new(Notify::new());
        let watch = Asking {
            period: greeting.options.seeds.heartbeat,
            address,
            greeting: Rc::clone(greeting),
            deployment,
            connection: None,
            round_trip: RoundTripTime::default(),
        };
        let task = spawn_named("mongo monitor", watch.run(Rc::clone(&hurry), pause));
        Self { task, hurry }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Has it ask as soon as it may.
    pub(super) fn hurry(&self) {
        self.hurry.notify_one();
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
    deployment: Weak<Deployment>,
    /// The connection on which it asks, which is no one of the pool.
    connection: Option<ServerConnection>,
    round_trip: RoundTripTime,
    period: Duration,
}

impl Asking {
    async fn run(mut self, hurry: Rc<Notify>, pause: Duration) {
        sleep(pause).await;
        loop {
            let was_connected = self.connection.is_some();
            let answer = self.check().await;
            let is_lost = answer.is_err() && was_connected;
            let Some(deployment) = self.deployment.upgrade() else { return };
            match answer {
                Ok(answer) => deployment.learned(self.describe(&deployment, &answer)),
                Err(error) => {
                    tracing::debug!(address = %self.address, %error, "a server does not answer");
                    deployment.unanswered(&self.address, &error);
                }
            }
            drop(deployment);
            // A connection may have broken while the server is well, so it is asked again at once.
            if is_lost {
                continue;
            }
            sleep(CHECK_PERIOD_MIN).await;
            let rest = self.period.saturating_sub(CHECK_PERIOD_MIN);
            let _hurried_or_not = timeout(rest, hurry.notified()).await;
        }
    }

    /// Asks once. A round trip is that of `hello` alone, on a connection that is there.
    async fn check(&mut self) -> Result<OwnedAnswer> {
        let (connection, answer, time) = match self.connection.take() {
            Some(mut connection) => {
                let (answer, time) = ask(&self.greeting, &self.address, &mut connection).await?;
                (connection, answer, time)
            }
            None => {
                self.round_trip = RoundTripTime::default();
                connect_to_ask(&self.greeting, &self.address).await?
            }
        };
        self.round_trip.add(time);
        self.connection = Some(connection);
        Ok(answer)
    }

    fn describe(&self, deployment: &Deployment, answer: &OwnedAnswer) -> ServerDescription {
        let now = now_exact().saturating_duration_since(deployment.origin);
        ServerDescription::from_hello(
            self.address.clone(),
            answer.body(),
            self.round_trip.average(),
            now,
        )
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
