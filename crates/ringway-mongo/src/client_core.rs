//! What all operations of a client share: how a command is run.
//!
//! Every command goes through `run`, or `run_in` with a session and a time of its own. Its [`Purpose`] says which server
//! gets it, and whether it is sent once more if it fails: a read is, and a write where the server knows it again by its
//! number. One time is over all tries.

mod aborting;
mod ending;
mod farewell;
mod one_try;
mod purpose;
mod retries;
mod session_use;
mod slot;
mod streams;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{RawDocument, RawDocumentBuf};
use ringway_runtime::sync::Notify;
use ringway_runtime::{now_exact, sleep, timeout};
use ringway_wire::mongo::ServerKind;

use self::one_try::{OneTry, Until};
pub(crate) use self::purpose::Purpose;
use self::retries::Retries;
use self::session_use::{SessionUse, heard};
use self::slot::SlotTerms;
pub(crate) use self::slot::{MAX_TIME, ReadConcernOf, Slot, has_field};
pub(crate) use self::streams::{AfterBatch, StreamKey, Streams};
use crate::client_shared::ClientShared;
use crate::connection::{Answer, Greeting, Sent};
use crate::connection_pin::ConnectionPin;
use crate::deployment::{Deployment, Pin};
use crate::error::{Error, Fate, Kind, Result};
use crate::here;
use crate::multiplexer::Multiplexer;
use crate::options::ClientOptions;
use crate::orphans::{Orphan, Orphans};
use crate::pool::{Lease, Pool};
use crate::reads::Reads;
use crate::session::{
    ClusterClock, KeptSession, RestingSession, Session, SessionPool, UsedSession,
};
use crate::transaction::Pinned;

/// What operations, cursors and handles of one client share.
pub(crate) struct ClientCore {
    client: u64,
    deployment: Rc<Deployment>,
    sessions: Arc<SessionPool>,
    clock: Arc<ClusterClock>,
    orphans: Rc<Orphans>,
    multiplexer: Rc<Multiplexer>,
    streams: Streams,
    /// Transactions that are being aborted, because nobody ends them.
    aborting: Cell<usize>,
    abort_ended: Notify,
    options: Arc<ClientOptions>,
}

/// The session and the time of one operation.
pub(crate) struct Attempt<'a> {
    /// `None` for no session.
    pub(crate) session: Option<&'a mut Session>,
    pub(crate) time: OperationTime,
    pub(crate) purpose: Purpose,
    /// Which servers answer, if it reads; those of the client if `None`.
    pub(crate) reads: Option<&'a Reads>,
    /// `None` if it has none, or its template has it.
    pub(crate) concern: Option<ReadConcernOf<'a>>,
}

impl<'a> Attempt<'a> {
    /// Of a command that any server answers by the client's preference.
    pub(crate) fn new(session: &'a mut Session, time: OperationTime, purpose: Purpose) -> Self {
        Self { session: Some(session), time, purpose, reads: None, concern: None }
    }
}

/// The time of an operation, of which its commands before this one have spent a part.
#[derive(Clone, Copy)]
pub(crate) struct OperationTime {
    limit: Duration,
    spent: Duration,
    /// Whether servers are told what is left of it.
    is_told: bool,
}

impl OperationTime {
    /// The same time, of which what has passed since then is spent.
    pub(crate) fn since(self, began: Instant) -> Self {
        Self { spent: now_exact().saturating_duration_since(began), ..self }
    }

    /// The same time, of which servers are not told.
    pub(crate) fn untold(self) -> Self {
        Self { is_told: false, ..self }
    }

    pub(crate) fn is_told(self) -> bool {
        self.is_told
    }

    pub(crate) fn limit(self) -> Duration {
        self.limit
    }

    pub(crate) fn left(self) -> Duration {
        self.limit.saturating_sub(self.spent)
    }

    /// Waits for what belongs to the operation after its command was answered.
    ///
    /// # Errors
    /// Those of `rest`, or the time is over.
    pub(crate) async fn over<R>(self, rest: impl Future<Output = Result<R>>) -> Result<R> {
        let done = timeout(self.left(), rest).await;
        done.unwrap_or_else(|_| Err(Error::timeout(self.limit, Fate::Unknown)))
    }
}

impl From<Duration> for OperationTime {
    fn from(limit: Duration) -> Self {
        Self { limit, spent: Duration::ZERO, is_told: false }
    }
}

impl ClientCore {
    pub(crate) fn start(shared: &ClientShared) -> Rc<Self> {
        let (options, sessions) = (&shared.options, &shared.sessions);
        let greeting = Greeting::new(Arc::clone(options), Arc::clone(&shared.metadata));
        let deployment = Deployment::start(greeting);
        let core = Self {
            client: shared.id,
            multiplexer: Multiplexer::new(&deployment, sessions, options),
            streams: Streams::new(&deployment, options, &shared.clock),
            deployment,
            sessions: Arc::clone(sessions),
            clock: Arc::clone(&shared.clock),
            orphans: Rc::default(),
            aborting: Cell::default(),
            abort_ended: Notify::default(),
            options: Arc::clone(options),
        };
        Rc::new(core)
    }

    pub(crate) fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// What commands share a connection with.
    pub(crate) fn multiplexer(&self) -> Rc<Multiplexer> {
        Rc::clone(&self.multiplexer)
    }

    /// What exhaust cursors read.
    pub(crate) fn streams(&self) -> &Streams {
        &self.streams
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.options.timeout
    }

    /// The time of an operation: its own, or else the client's. Servers are told of one that somebody has set.
    pub(crate) fn time(&self, own: Option<Duration>) -> OperationTime {
        let is_told = own.is_some() || self.options.is_time_told;
        OperationTime { is_told, ..own.unwrap_or_else(|| self.timeout()).into() }
    }

    /// A session that the user keeps, for one operation.
    ///
    /// # Errors
    /// It is another client's, or another operation uses it.
    pub(crate) fn kept_session(&self, kept: &Arc<KeptSession>) -> Result<UsedSession> {
        kept.take(self.client, || self.session())
    }

    /// The session of a cursor, for its next batch.
    ///
    /// # Errors
    /// Those of [`kept_session`](Self::kept_session).
    pub(crate) fn rested_session(&self, session: RestingSession) -> Result<UsedSession> {
        match session {
            RestingSession::Own(session) => Ok(UsedSession::own(session)),
            RestingSession::Kept(kept) => self.kept_session(&kept),
        }
    }

    pub(crate) fn options(&self) -> &ClientOptions {
        &self.options
    }

    pub(crate) fn session(&self) -> Session {
        self.sessions.take()
    }

    /// Ends a cursor at the server, in the background.
    pub(crate) fn orphan(&self, orphan: Orphan) {
        let server = orphan.place.server;
        if !self.orphans.add(orphan) {
            self.deployment.let_go(server);
        }
    }

    /// Runs a command in a session of its own, within the client's time.
    pub(crate) async fn run<R>(
        self: &Rc<Self>,
        purpose: Purpose,
        write: impl FnMut(Slot<'_>) -> Result,
        read: impl FnOnce(Answer<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut session = self.session();
        let attempt = Attempt::new(&mut session, self.time(None), purpose);
        self.run_in(attempt, write, read).await
    }

    /// Runs a command, which is written anew for each try. Whatever happens, its connections are whole afterwards,
    /// or closed.
    pub(crate) async fn run_in<R>(
        self: &Rc<Self>,
        attempt: Attempt<'_>,
        write: impl FnMut(Slot<'_>) -> Result,
        read: impl FnOnce(Answer<'_>) -> Result<R>,
    ) -> Result<R> {
        let Attempt { session, time, purpose, reads, concern } = attempt;
        let (limit, left) = (time.limit, time.left());
        let ends_at = now_exact().checked_add(left);
        let until = ends_at.filter(|_| time.is_told).map(|at| Until { at, limit });
        let sent = Sent::new(false);
        let mut used = SessionUse { session, sent: &sent, home: here::number() };
        let retries = Retries::new(&self.options, purpose, &used, (ends_at, time.is_told));
        let command = (purpose, reads, concern, until);
        let earlier = Cell::new(None);
        let tried = self.try_each(command, (retries, &earlier), &mut used, write, read);
        let result = timeout(left, tried).await.unwrap_or_else(|_| {
            let error = match sent.get() {
                true => Error::timeout(limit, Fate::Unknown),
                false => Error::timeout_before_sending(limit, &self.deployment.describe()),
            };
            Err(earlier.take().into_iter().fold(error, Error::because_of))
        });
        if let Err(error) = &result {
            tracing::debug!(?purpose, error = %error.redacted(), "an operation failed");
        }
        let is_open = matches!(&result, Err(error) if error.is_open());
        if !is_open {
            used.session = None;
        }
        drop(used);
        result
    }

    /// Specifications: Retryable Reads, "Executing Retryable Read Commands"; Retryable Writes, "Executing Retryable
    /// Write Commands"; Client Backpressure, "Overload retry policy".
    async fn try_each<R>(
        &self,
        (purpose, reads, concern, until): (
            Purpose,
            Option<&Reads>,
            Option<ReadConcernOf<'_>>,
            Option<Until>,
        ),
        (mut retries, earlier): (Retries<'_>, &Cell<Option<Error>>),
        used: &mut SessionUse<'_>,
        mut write: impl FnMut(Slot<'_>) -> Result,
        read: impl FnOnce(Answer<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut number = match &mut used.session {
            Some(session) if retries.numbers_writes() => Some(session.next_number()),
            _ => None,
        };
        let mut read = Some(read);
        let is_once = &Cell::new(false);
        loop {
            let mut attempt = OneTry {
                purpose,
                reads,
                concern,
                until,
                number: &mut number,
                server: None,
                avoided: retries.avoided(),
                is_once,
                is_last: retries.is_last(),
                has_labels: true,
            };
            let read_once = |answer: Answer<'_>| read.take().expect("one reply is read")(answer);
            let error = match self.exchange(&mut attempt, used, &mut write, read_once).await {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            let server = attempt.server;
            used.failed(&error);
            let is_numbered = number.is_some() && !is_once.get();
            // Waiting for a server that suits was a part of the try.
            let was_in_vain = error.is_unsent() && self.deployment.waits_for_servers();
            let pause = match read.is_some() {
                true => retries.pause_before_next(&error, is_numbered, was_in_vain),
                false => None,
            };
            if pause.is_some() {
                self.avoid_next(&mut retries, server, &error);
            }
            let mut error = match earlier.take() {
                Some(earlier) => error.after(earlier),
                None => error,
            };
            let Some(pause) = pause else {
                used.transaction_failed(&mut error);
                return Err(error);
            };
            tracing::debug!(error = %error.redacted(), ?pause, "an operation is tried again");
            earlier.set(Some(error));
            if !pause.is_zero() {
                sleep(pause).await;
            }
        }
    }

    /// Notes the server of a try that has failed, where the next one is to prefer another.
    ///
    /// Specification: Retryable Reads, "Selecting the server for retry".
    fn avoid_next(&self, retries: &mut Retries<'_>, server: Option<Rc<Pool>>, error: &Error) {
        let is_retargeted = error.is_overload() && self.options.overload_retargeting;
        if let Some(server) = server
            && (is_retargeted || self.deployment.is_sharded())
        {
            retries.avoid(server.address().clone());
        }
    }

    async fn exchange<R>(
        &self,
        attempt: &mut OneTry<'_>,
        used: &mut SessionUse<'_>,
        write: impl FnOnce(Slot<'_>) -> Result,
        read: impl FnOnce(Answer<'_>) -> Result<R>,
    ) -> Result<R> {
        let (purpose, reads) = (attempt.purpose, attempt.reads);
        let (mut lease, pin, max_time) = self.lease(attempt, used).await?;
        let kind = lease.server();
        let server = pin.as_ref().map_or_else(|| lease.pool().id(), Pin::id);
        let is_router = kind == ServerKind::Mongos;
        attempt.has_labels = lease.labels_errors() || is_router;
        let pinned = |is_first| self.pinned(&lease, pin.as_ref(), is_first);
        let reads_of = (purpose, attempt.concern);
        let fields = used.begin_command((&lease, server), reads_of, &self.clock, pinned)?;
        let (is_in_transaction, api) = (fields.transaction.is_some(), lease.api());
        let terms = SlotTerms {
            fields: &fields,
            number: *attempt.number,
            is_once: attempt.is_once,
            api: api.as_deref(),
            read_preference: self.preference((purpose, reads), kind, is_in_transaction),
            max_time,
            is_unanswered: purpose == Purpose::Unanswered,
            limits: lease.limits(),
            wire_version: lease.wire_version(),
        };
        let observed = lease.observed(&self.options).map(|server| server.command());
        let write = |id, out: &mut Vec<u8>| {
            write(Slot { id, terms, out: &mut *out })?;
            observed.iter().for_each(|observed| observed.started(id, out));
            Ok(())
        };
        let (mut refusal, mut state, mut has_cursor) = (None, None, false);
        let (sent, times) = (used.sent, used.times());
        let read = |answer: Answer<'_>| {
            has_cursor = pin.is_some() && names_cursor(answer.body());
            observed.iter().for_each(|observed| observed.succeeded(answer.body()));
            heard(&self.clock, kind, times, answer.body());
            if is_in_transaction && is_router {
                state = Some(answer.body().to_owned());
            }
            if purpose.is_write() {
                refusal = attempt.refusal_of(answer.body())?;
            }
            read(answer)
        };
        let mut result = match terms.is_unanswered {
            true => lease.send_only(sent, write).await.and_then(|()| read(Answer::none())),
            false => lease.run(sent, write, read).await,
        };
        let is_refused = matches!(&result, Err(error) if error.is_retryable_overload());
        if !is_refused {
            used.end_command(state.as_deref());
        }
        if let Some(change) = &refusal {
            self.deployment.state_changed(&lease, change);
        }
        if let Err(error) = &mut result {
            self.note_failure(attempt, used, &lease, error);
            observed.iter().for_each(|observed| observed.failed(error));
            self.deployment.failed(&lease, error);
        }
        if let Some(pin) = pin {
            pin.end(lease, used.keep(purpose, has_cursor, result.as_ref().err()));
        }
        result
    }

    /// Takes what a failed command tells, and labels its error as servers do that label theirs.
    fn note_failure(
        &self,
        attempt: &OneTry<'_>,
        used: &mut SessionUse<'_>,
        lease: &Lease,
        error: &mut Error,
    ) {
        // The end of a transaction is sent again as well.
        if attempt.is_numbered() || used.ends_transaction() {
            error.label(lease.labels_errors());
        }
        if matches!(attempt.purpose, Purpose::Cursor(_)) && !lease.labels_errors() {
            error.label_resumable();
        }
        let told = error.server_reply().filter(|_| error.kind() == Kind::Command);
        told.iter().for_each(|told| heard(&self.clock, lease.server(), used.times(), told));
        used.transaction_failed(error);
    }

    /// The connection for a try, what it stays with, and how long the server may work, if that has to be said.
    async fn lease(
        &self,
        attempt: &mut OneTry<'_>,
        used: &mut SessionUse<'_>,
    ) -> Result<(Lease, Option<Pin<'_>>, Option<i64>)> {
        let (purpose, reads) = (attempt.purpose, attempt.reads);
        let wanted = used.wanted(purpose, reads);
        let lease = self.deployment.lease(wanted, attempt.avoided).await?;
        let pin = self.deployment.pin(used.wanted(purpose, reads));
        attempt.server = Some(Rc::clone(lease.pool()));
        let checked = attempt.check_number(lease.numbers_writes(), used.sent.get());
        let round_trip = || self.deployment.least_round_trip(lease.pool());
        match checked.and_then(|()| attempt.max_time(round_trip)) {
            Ok(max_time) => Ok((lease, pin, max_time)),
            Err(error) => {
                if let Some(pin) = pin {
                    pin.end(lease, used.keep_unsent(purpose));
                }
                Err(error)
            }
        }
    }

    /// `$readPreference` of a command for a server of a kind.
    fn preference<'a>(
        &'a self,
        (purpose, reads): (Purpose, Option<&'a Reads>),
        kind: ServerKind,
        is_in_transaction: bool,
    ) -> Option<&'a RawDocumentBuf> {
        let is_router = kind == ServerKind::Mongos;
        match (purpose, kind) {
            (_, ServerKind::Standalone) => None,
            // The primary answers.
            _ if is_in_transaction => self.deployment.least_preference(!is_router),
            (Purpose::Read, _) => self.deployment.read_preference(reads, !is_router),
            (Purpose::ReadOnce, _) if reads.is_some() => {
                self.deployment.read_preference(reads, !is_router)
            }
            (Purpose::ReadOnce, _) => self.deployment.least_preference(!is_router),
            _ => None,
        }
    }

    /// What a transaction stays with after a command: a router, and behind a load balancer the connection of its first
    /// command. Another commit takes any.
    fn pinned(&self, lease: &Lease, pin: Option<&Pin<'_>>, is_first: bool) -> Option<Pinned> {
        let Some(pin) = pin else {
            let is_router = lease.server() == ServerKind::Mongos;
            return is_router.then(|| Pinned::Router(lease.pool().address().clone()));
        };
        if !is_first {
            return None;
        }
        let (core, client) = (here::number()?, self.client);
        let release =
            move |id| here::with_core(core, client, move |core| core.deployment.release(id));
        Some(Pinned::Connection(ConnectionPin::new(pin.id(), release)))
    }
}

/// Whether the reply has a cursor that goes on.
fn names_cursor(reply: &RawDocument) -> bool {
    let cursor = reply.get_document("cursor").and_then(|cursor| cursor.get_i64("id"));
    cursor.is_ok_and(|id| id != 0)
}

impl Drop for ClientCore {
    fn drop(&mut self) {
        self.orphans.wake();
    }
}
