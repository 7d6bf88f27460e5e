//! Commands of many tasks of a core, which share one connection.
//!
//! ```text
//!   tasks ──command──► queue ──driver──► connection
//!     ▲                                      │
//!     └───────────── outcome ◄───────────────┘
//! ```
//!
//! The driver is a task that lives as long as there is a command; it has a connection of the pool meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use bson::RawDocumentBuf;
use ringway_runtime::{contain, drop_contained, now_exact, sleep, spawn_detached, timeout};
use ringway_wire::mongo::ServerKind;

use crate::connection::{
    Answer, CommandSource, Next, NextCommand, unanswered, write_pipelined as write,
};
use crate::deployment::{Deployment, Wanted};
use crate::error::{Error, Fate, Kind, Result};
use crate::limits::{
    DRAIN_TIMEOUT, MULTIPLEXED_QUEUE_MAX, PIPELINE_BYTES_MAX, PIPELINE_DEPTH_MAX,
    PIPELINE_REPLY_BYTES_MAX,
};
use crate::observer::{Observed, ObservedServer};
use crate::options::ClientOptions;
use crate::pool::Lease;
use crate::session::{Session, SessionPool};
use crate::topology::StateChange;

/// What a core has for commands that share a connection.
pub(crate) struct Multiplexer {
    deployment: Rc<Deployment>,
    sessions: Arc<SessionPool>,
    options: Arc<ClientOptions>,
    queue: RefCell<VecDeque<Rc<Queued>>>,
    is_running: Cell<bool>,
    /// Wakes the driver when a command arrives.
    driver: RefCell<Option<Waker>>,
    /// Bytes of the replies that nobody has taken yet.
    kept: Cell<usize>,
}

/// A command for a shared connection.
pub(crate) struct SharedCommand {
    pub(crate) database: Arc<str>,
    pub(crate) command: RawDocumentBuf,
    /// It is sent when fewer others are under way.
    pub(crate) depth: usize,
    pub(crate) limit: Duration,
}

struct Queued {
    command: SharedCommand,
    /// When a connection that has not answered it cannot be trusted any more.
    stalls_at: Option<Instant>,
    is_sent: Cell<bool>,
    is_given_up: Cell<bool>,
    outcome: RefCell<Option<Result<RawDocumentBuf>>>,
    waker: RefCell<Option<Waker>>,
}

impl Multiplexer {
    pub(crate) fn new(
        deployment: &Rc<Deployment>,
        sessions: &Arc<SessionPool>,
        options: &Arc<ClientOptions>,
    ) -> Rc<Self> {
        Rc::new(Self {
            deployment: Rc::clone(deployment),
            sessions: Arc::clone(sessions),
            options: Arc::clone(options),
            queue: RefCell::default(),
            is_running: Cell::new(false),
            driver: RefCell::default(),
            kept: Cell::new(0),
        })
    }

    /// Runs a command among the others.
    pub(crate) async fn run(self: Rc<Self>, command: SharedCommand) -> Result<RawDocumentBuf> {
        let limit = command.limit;
        let wanted = Awaited { queued: self.add(command)?, multiplexer: self };
        let outcome = timeout(limit, poll_fn(|cx| wanted.poll(cx))).await;
        outcome.unwrap_or_else(|_| Err(Error::timeout(limit, wanted.queued.fate())))
    }

    fn add(self: &Rc<Self>, command: SharedCommand) -> Result<Rc<Queued>> {
        if self.queue.borrow().len() == MULTIPLEXED_QUEUE_MAX {
            let what = format!("{MULTIPLEXED_QUEUE_MAX} commands wait for the shared connection");
            return Err(Error::new(Kind::Limit, Fate::NotSent, what));
        }
        let wait = command.limit.checked_add(DRAIN_TIMEOUT);
        let queued = Rc::new(Queued {
            stalls_at: wait.and_then(|wait| now_exact().checked_add(wait)),
            command,
            is_sent: Cell::new(false),
            is_given_up: Cell::new(false),
            outcome: RefCell::default(),
            waker: RefCell::default(),
        });
        self.queue.borrow_mut().push_back(Rc::clone(&queued));
        let driver = self.driver.take();
        if let Some(driver) = driver {
            driver.wake();
        }
        if !self.is_running.replace(true) {
            let driver = Driver(Rc::clone(self));
            spawn_detached("mongo shared connection", async move { driver.run().await });
        }
        Ok(queued)
    }

    fn is_empty(&self) -> bool {
        self.queue.borrow().is_empty()
    }

    /// A connection for the commands that wait; `None` as soon as none does.
    async fn lease(&self) -> Option<Result<Lease>> {
        let mut lease = pin!(self.deployment.lease_patiently(Wanted::Write));
        poll_fn(|cx| {
            if self.is_empty() {
                return Poll::Ready(None);
            }
            drop(self.driver.replace(Some(cx.waker().clone())));
            lease.as_mut().poll(cx).map(Some)
        })
        .await
    }

    /// Takes a command out that is not sent and that nobody wants any more.
    fn forget(&self, queued: &Rc<Queued>) {
        let mut queue = self.queue.borrow_mut();
        // Those whose time is over are nearly always the first ones.
        let gone =
            queue.iter().position(|it| Rc::ptr_eq(it, queued)).and_then(|at| queue.remove(at));
        let is_last = gone.is_some() && queue.is_empty();
        drop(queue);
        let driver = if is_last { self.driver.take() } else { None };
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Ends the commands that are not sent.
    fn fail(&self, why: &Error) {
        let left = self.queue.take();
        left.iter().for_each(|queued| queued.fail(why));
    }
}

impl Queued {
    fn fate(&self) -> Fate {
        if self.is_sent.get() { Fate::Unknown } else { Fate::NotSent }
    }

    fn end(&self, outcome: Result<RawDocumentBuf>) {
        *self.outcome.borrow_mut() = Some(outcome);
        let waker = self.waker.take();
        if let Some(waker) = waker {
            contain("a waker", || waker.wake());
        }
    }

    fn fail(&self, why: &Error) {
        self.end(Err(unanswered("a shared connection", Some(why), self.fate())));
    }
}

/// A command as its task has it. Dropping it gives it up.
struct Awaited {
    queued: Rc<Queued>,
    multiplexer: Rc<Multiplexer>,
}

impl Awaited {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<RawDocumentBuf>> {
        let outcome = self.take();
        outcome.map_or_else(
            || {
                drop(self.queued.waker.replace(Some(cx.waker().clone())));
                Poll::Pending
            },
            Poll::Ready,
        )
    }

    fn take(&self) -> Option<Result<RawDocumentBuf>> {
        let outcome = self.queued.outcome.take();
        if let Some(Ok(reply)) = &outcome {
            let kept = &self.multiplexer.kept;
            kept.set(kept.get() - reply.as_bytes().len());
        }
        outcome
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.queued.is_given_up.set(true);
        if !self.queued.is_sent.get() {
            self.multiplexer.forget(&self.queued);
        }
        drop(self.take());
        drop_contained("the destructor of a waker", self.queued.waker.take());
    }
}

/// The task that has the connection.
struct Driver(Rc<Multiplexer>);

impl Driver {
    async fn run(&self) {
        let Self(multiplexer) = self;
        while let Some(leased) = multiplexer.lease().await {
            match leased {
                Ok(lease) => {
                    if let Err(error) = exchange(multiplexer, lease).await {
                        tracing::debug!(%error, "a shared connection has ended");
                    }
                }
                Err(error) => multiplexer.fail(&error),
            }
        }
    }
}

impl Drop for Driver {
    /// Also at the end of the core, or after a panic in it.
    fn drop(&mut self) {
        self.0.is_running.set(false);
        self.0.fail(&Error::new(Kind::Network, Fate::NotSent, "its task has ended"));
    }
}

/// Sends and receives on one connection until nothing is left, or the connection has to be another.
async fn exchange(multiplexer: &Rc<Multiplexer>, mut lease: Lease) -> Result {
    let preference = match lease.server() {
        ServerKind::Standalone => None,
        kind => multiplexer.deployment.least_preference(kind != ServerKind::Mongos).cloned(),
    };
    let mut source = Exchange {
        multiplexer,
        preference,
        observed: lease.observed(&multiplexer.options),
        under_way: HashMap::new(),
        stalls_at: None,
        has_stalled: false,
        bytes: 0,
        refused: None,
    };
    lease.begin_several(PIPELINE_DEPTH_MAX);
    let mut next_look = sleep(Duration::MAX);
    let ended = poll_fn(|cx| {
        drop(multiplexer.driver.replace(Some(cx.waker().clone())));
        if let Poll::Ready(ended) = lease.poll_several(cx, &mut source) {
            return Poll::Ready(ended);
        }
        while let Some(at) = source.stalls_at {
            next_look.reset(at);
            ready!(Pin::new(&mut next_look).poll(cx));
            source.look_for_a_stall(at)?;
        }
        Poll::Pending
    })
    .await;
    if let Some(change) = source.refused.take() {
        multiplexer.deployment.state_changed(&lease, &change);
    }
    match &ended {
        Ok(()) => lease.end_several(),
        Err(error) => {
            match source.has_stalled {
                // A slow command says nothing about the server.
                true => lease.distrust(),
                false => multiplexer.deployment.failed(&lease, error),
            }
            source.fail(error);
        }
    }
    ended
}

/// What is under way on a shared connection.
struct Exchange<'a> {
    multiplexer: &'a Multiplexer,
    /// Of commands that have none of their own.
    preference: Option<RawDocumentBuf>,
    observed: Option<ObservedServer>,
    under_way: HashMap<i32, UnderWay>,
    /// Not later than the first of them stalls.
    stalls_at: Option<Instant>,
    has_stalled: bool,
    /// Bytes of the commands under way.
    bytes: usize,
    /// What says that the server is not what it was, so that nothing more is sent to it.
    refused: Option<StateChange>,
}

struct UnderWay {
    queued: Rc<Queued>,
    session: Option<Session>,
    observed: Option<Observed>,
}

impl Exchange<'_> {
    /// Fails if a command has waited for so long, beyond its own time, that the connection cannot be trusted.
    fn look_for_a_stall(&mut self, now: Instant) -> Result {
        self.stalls_at = self.under_way.values().filter_map(|it| it.queued.stalls_at).min();
        self.has_stalled = self.stalls_at.is_some_and(|at| at <= now);
        if self.has_stalled {
            let what = "the server does not answer on the shared connection";
            return Err(Error::new(Kind::Network, Fate::Unknown, what));
        }
        Ok(())
    }

    /// Ends what is under way. Nobody uses its sessions again.
    fn fail(&mut self, why: &Error) {
        for mut lost in self.under_way.drain().map(|(_, it)| it) {
            if let Some(session) = &mut lost.session {
                session.lose();
            }
            if let Some(observed) = lost.observed.take() {
                observed.failed(why);
            }
            lost.queued.fail(why);
        }
    }

    fn next(&self, in_flight: usize) -> Option<Rc<Queued>> {
        let mut queue = self.multiplexer.queue.borrow_mut();
        let next = queue.front()?;
        let len = next.command.command.as_bytes().len();
        let has_room = self.bytes == 0 || self.bytes + len <= PIPELINE_BYTES_MAX;
        let may_be_sent = in_flight < next.command.depth && has_room && self.refused.is_none();
        if may_be_sent { queue.pop_front() } else { None }
    }

    fn keep(&self, answer: &Answer<'_>) -> Result<RawDocumentBuf> {
        let body = answer.body();
        let kept = self.multiplexer.kept.get() + body.as_bytes().len();
        if kept > PIPELINE_REPLY_BYTES_MAX {
            let what = format!(
                "the command was executed, but replies of more than {PIPELINE_REPLY_BYTES_MAX} bytes wait to be taken"
            );
            return Err(Error::new(Kind::Limit, Fate::Unknown, what));
        }
        self.multiplexer.kept.set(kept);
        Ok(body.to_owned())
    }
}

impl CommandSource for Exchange<'_> {
    fn write_next(&mut self, place: NextCommand<'_>) -> Next {
        let Some(queued) = self.next(place.in_flight) else { return Next::None };
        let SharedCommand { command, database, .. } = &queued.command;
        let session = place.has_sessions.then(|| self.multiplexer.sessions.take());
        let (id, out) = (place.id, place.out);
        let start = out.len();
        let slot = (id, session.as_ref(), self.preference.as_ref(), place.api, &mut *out);
        if let Err(error) = write(slot, command, database) {
            queued.end(Err(error));
            return Next::Refused;
        }
        queued.is_sent.set(true);
        self.bytes += command.as_bytes().len();
        self.stalls_at = self.stalls_at.into_iter().chain(queued.stalls_at).min();
        let observed = self.observed.as_ref().map(|it| it.started(id, &out[start..]));
        self.under_way.insert(id, UnderWay { queued, session, observed });
        Next::Written
    }

    fn answered(&mut self, id: i32, answer: Result<Answer<'_>>) {
        let Some(UnderWay { queued, session, observed }) = self.under_way.remove(&id) else {
            return;
        };
        drop(session);
        observed.iter().for_each(|observed| observed.answered(&answer));
        self.bytes -= queued.command.command.as_bytes().len();
        if let Err(error) = &answer
            && let Some(change) = error.state_change()
        {
            self.refused = Some(change.clone());
        }
        if !queued.is_given_up.get() {
            queued.end(answer.and_then(|answer| self.keep(&answer)));
        }
    }

    fn is_empty(&self) -> bool {
        self.refused.is_some() || self.multiplexer.is_empty()
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        let ended = Error::new(Kind::Network, Fate::Unknown, "its task has ended");
        self.fail(&ended);
    }
}
