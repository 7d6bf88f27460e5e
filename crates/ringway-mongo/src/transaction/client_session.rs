//! Sessions that the user keeps.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{RawDocument, RawDocumentBuf, Timestamp, Uuid};
use ringway_runtime::sleep;

use super::end::EndTransaction;
use super::options::TransactionOptions;
use crate::client_shared::ClientShared;
use crate::error::{Error, Fate, Kind, Result};
use crate::here::{self, CoreNumber};
use crate::limits::{TRANSACTION_PAUSE_BASE, TRANSACTION_PAUSE_MAX, TRANSACTION_TIME_MAX};
use crate::running::{OnCore, Operation, Running};
use crate::session::{ClusterTime, KeptSession, UsedSession};
use crate::uri::HostAddress;

/// A session for several operations, made by [`Client::start_session`](crate::Client::start_session). An action runs in
/// it if it is given it by its method `session`; one at a time.
///
/// ```no_run
/// use bson::doc;
/// use ringway_mongo::{Client, TransactionOptions};
///
/// # async fn transfer(client: Client) -> ringway_mongo::Result {
/// let accounts = client.database("bank").collection::<bson::Document>("accounts");
/// let session = client.start_session();
/// session
///     .with_transaction(TransactionOptions::new(), async |session| {
///         let less = doc! { "$inc": { "balance": -10 } };
///         accounts.update_one(doc! { "_id": "ada" }, less).session(session).await?;
///         let more = doc! { "$inc": { "balance": 10 } };
///         accounts.update_one(doc! { "_id": "bob" }, more).session(session).await?;
///         Ok(())
///     })
///     .await
/// # }
/// ```
pub struct ClientSession {
    client: Arc<ClientShared>,
    kept: Arc<KeptSession>,
    /// Of transactions that have none of their own.
    defaults: TransactionOptions,
}

impl ClientSession {
    pub(crate) fn new(client: &Arc<ClientShared>) -> Self {
        let (client, kept) = (Arc::clone(client), KeptSession::new(client.id, abort_at));
        Self { client, kept, defaults: TransactionOptions::new() }
    }

    pub(crate) fn kept(&self) -> &Arc<KeptSession> {
        &self.kept
    }

    /// What the server knows it by (`lsid.id`); `None` before its first operation, and while one is under way.
    #[must_use]
    pub fn id(&self) -> Option<Uuid> {
        self.kept.id().map(Uuid::from_bytes)
    }

    /// Sets whether its reads see what the session has read and written before, at whatever member of a replica set; true
    /// by default. Reads wait there until the member has caught up.
    ///
    /// What servers confirm only if the majority of a replica set has it needs such concerns as well.
    #[must_use]
    pub fn causal_consistency(self, is_causal: bool) -> Self {
        self.kept.with_times(|times| times.set_causal(is_causal));
        self
    }

    /// Sets whether all its reads see the data as they were at one time, that of the first read; false by default. Servers
    /// from MongoDB 5.0 on can do it with `find`, `aggregate` and `distinct`, and refuse everything else in such a session.
    #[must_use]
    pub fn snapshot(self, is_snapshot: bool) -> Self {
        self.kept.with_times(|times| times.set_snapshot(is_snapshot));
        self
    }

    /// Has all its reads see the data as they were at a time of the cluster, such as that of another session's
    /// [`snapshot_time`](Self::snapshot_time); otherwise like [`snapshot`](Self::snapshot). Servers refuse a time that is too
    /// long ago, five minutes by default.
    #[must_use]
    pub fn snapshot_at(self, time: Timestamp) -> Self {
        self.kept.with_times(|times| times.set_snapshot_at(time));
        self
    }

    /// The time whose data all its reads see; `None` before the first one, and in sessions that read of no snapshot.
    #[must_use]
    pub fn snapshot_time(&self) -> Option<Timestamp> {
        self.kept.with_times(|times| times.snapshot())
    }

    /// Sets what holds for its transactions where their own options say nothing; by default, what holds for the client.
    #[must_use]
    pub fn default_transaction_options(mut self, options: TransactionOptions) -> Self {
        self.defaults = options;
        self
    }

    /// When its last operation was executed, by the time of the cluster; `None` before, and at servers that stand alone.
    #[must_use]
    pub fn operation_time(&self) -> Option<Timestamp> {
        self.kept.with_times(|times| times.operation())
    }

    /// Has its reads see also what another session has seen, whose time this is. An earlier time changes nothing.
    pub fn advance_operation_time(&self, at: Timestamp) {
        self.kept.with_times(|times| times.advance_operation(at));
    }

    /// The latest time of the cluster that the session has heard of, as its servers have signed it.
    #[must_use]
    pub fn cluster_time(&self) -> Option<RawDocumentBuf> {
        self.kept.with_times(|times| times.cluster().map(|time| time.document().to_owned()))
    }

    /// Takes a time of the cluster that another session, or another program, has heard of. It is given with
    /// [`advance_operation_time`](Self::advance_operation_time), so that servers believe that.
    ///
    /// # Errors
    /// [`is_options`](Error::is_options): it is no such time.
    pub fn advance_cluster_time(&self, time: &RawDocument) -> Result {
        let wrong = || {
            let what = "a time of a cluster has a timestamp in the field `clusterTime`";
            Error::new(Kind::Options, Fate::NotSent, what)
        };
        let time = Arc::new(ClusterTime::of(time).ok_or_else(wrong)?);
        self.kept.with_times(|times| times.advance_cluster(&time));
        Ok(())
    }

    /// Starts a transaction. Nothing is sent before its first operation.
    ///
    /// # Errors
    /// [`is_options`](Error::is_options): one is under way in this session, or an operation is, or it reads of a snapshot.
    pub fn start_transaction(&self, options: TransactionOptions) -> Result {
        self.kept.with_times(|times| times.check_transaction())?;
        let options = options.or(&self.defaults);
        options.check(self.client.options.write_concern.as_deref())?;
        let options = options.or_of_client(self.client.options.read_concern.as_ref());
        self.kept.with_transaction(|transaction| transaction.start(options))?
    }

    /// Commits the transaction. If that fails so that it may have been done all the same
    /// ([`Error::is_unknown_commit`]), it can be committed again: it is done once.
    ///
    /// # Errors
    /// [`is_options`](Error::is_options): there is none, or it was aborted. Otherwise those of every operation.
    pub fn commit(&self) -> Running<EndTransaction> {
        self.end(true)
    }

    /// Aborts the transaction. The server does it by itself if it cannot be told. Dropping the session does the same in the
    /// background.
    ///
    /// # Errors
    /// [`is_options`](Error::is_options): there is none, or it has ended, or it may have been committed.
    pub fn abort(&self) -> Running<EndTransaction> {
        self.end(false)
    }

    fn end(&self, is_commit: bool) -> Running<EndTransaction> {
        let (client, session) = (Arc::clone(&self.client), Arc::clone(&self.kept));
        Running::new(EndTransaction { client, session, is_commit, time: None })
    }

    /// Runs operations in a transaction and commits it. `body` runs again, in a new transaction, after failures that the
    /// server calls passing, and the commit is repeated while it is unknown, for two minutes or the time that was set for the
    /// client ([`ClientOptions::timeout`](crate::ClientOptions::timeout)). It must give this session
    /// to each of its operations, and have no effects elsewhere that may not be repeated. It must return the errors of its
    /// operations: the server may have aborted the transaction, so that one that goes on is never committed. Each run is one of a clone of
    /// `body`, so that it begins with what the first one began with; to count runs, let it borrow a
    /// [`Cell`](std::cell::Cell) or an atomic number.
    ///
    /// A future of this that is dropped has the transaction aborted in the background, unless its commit has begun. It can
    /// be a part of what `tokio::spawn` takes.
    ///
    /// # Errors
    /// Those of `body`, whose transaction is aborted, and of [`commit`](Self::commit); when there is no time for another run,
    /// [`is_timeout`](Error::is_timeout) with the last of them as its cause, and with its labels.
    pub async fn with_transaction<R>(
        &self,
        options: TransactionOptions,
        // Futures of `AsyncFnMut` borrow the closure, and the compiler does not see that those are `Send`.
        body: impl AsyncFnOnce(&Self) -> Result<R> + Clone,
    ) -> Result<R> {
        let mut patience = Patience::new(self.client.options.told_timeout());
        loop {
            self.start_transaction(options.clone())?;
            let _unended = Unended(&self.kept);
            let failed = match body.clone()(self).await {
                // The body may have ended it.
                Ok(result) if !self.is_open() => return Ok(result),
                Ok(result) => match self.commit_patiently(&mut patience).await {
                    Ok(()) => return Ok(result),
                    Err(error) => error,
                },
                Err(error) => {
                    if self.is_open()
                        && let Err(why) = self.abort().await
                    {
                        tracing::debug!(error = %why.redacted(), "a transaction was not aborted");
                        return Err(error);
                    }
                    error
                }
            };
            if !failed.is_transient_transaction() {
                return Err(failed);
            }
            self.pause(&mut patience, failed).await?;
        }
    }

    async fn commit_patiently(&self, patience: &mut Patience) -> Result {
        loop {
            match self.commit().await {
                Err(error) if may_commit_again(&error) => self.pause(patience, error).await?,
                ended => return ended,
            }
        }
    }

    /// Whether a transaction was started and has not ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.kept.with_transaction(|transaction| transaction.is_open()).unwrap_or(true)
    }

    /// Whether its transaction stays with one router of a sharded cluster, or with one connection behind a load balancer.
    /// It does so from its first operation on until the session is used for something else, or an error says that the
    /// transaction is lost there.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.kept.with_transaction(|transaction| transaction.is_pinned()).unwrap_or_default()
    }

    /// The router of a sharded cluster that its transaction stays with.
    #[must_use]
    pub fn router(&self) -> Option<HostAddress> {
        self.kept.with_transaction(|transaction| transaction.router().cloned()).ok().flatten()
    }

    /// Waits before the next try.
    ///
    /// # Errors
    /// There is no time for it: an error of time with `failed` as its cause.
    async fn pause(&self, patience: &mut Patience, failed: Error) -> Result {
        let Some(time) = patience.next_pause() else {
            return Err(Error::transaction_timeout(patience.limit, failed));
        };
        let client = Arc::clone(&self.client);
        Running::new(Pause { client, time }).await
    }
}

/// Has a core abort the transaction of a session, in the background.
fn abort_at(client: u64, home: CoreNumber, session: UsedSession) {
    here::with_core(home, client, move |core| core.abort(session));
}

/// A transaction that nobody else ends if this is dropped before its end.
struct Unended<'a>(&'a Arc<KeptSession>);

impl Drop for Unended<'_> {
    fn drop(&mut self) {
        self.0.forsake_transaction();
    }
}

/// The time of repetitions.
///
/// Specification: Convenient API for Transactions, "Sequence of Actions".
struct Patience {
    since: Instant,
    limit: Duration,
    longest: Duration,
}

impl Patience {
    fn new(limit: Option<Duration>) -> Self {
        let limit = limit.unwrap_or(TRANSACTION_TIME_MAX);
        Self { since: Instant::now(), limit, longest: TRANSACTION_PAUSE_BASE }
    }

    /// Each pause may be half as long again as the one before, and is between nothing and that, so that sessions that met do
    /// not meet again. `None` if there is no time for it.
    fn next_pause(&mut self) -> Option<Duration> {
        self.longest = self.longest.mul_f64(1.5).min(TRANSACTION_PAUSE_MAX);
        let share = f64::from(Uuid::new().bytes()[0]) / 255.0;
        let pause = self.longest.mul_f64(share);
        let ends = self.since.elapsed().checked_add(pause)?;
        (ends < self.limit).then_some(pause)
    }
}

/// Lets time pass on a core, for callers that have none.
struct Pause {
    client: Arc<ClientShared>,
    time: Duration,
}

impl Operation for Pause {
    type Output = ();

    fn client(&self) -> &Arc<ClientShared> {
        &self.client
    }

    async fn run(self, _: OnCore) -> Result {
        sleep(self.time).await;
        Ok(())
    }
}

/// Another commit would run into the same limit of time.
fn may_commit_again(error: &Error) -> bool {
    const TIME_EXCEEDED: i32 = 50;
    error.is_unknown_commit() && error.server().is_none_or(|server| server.code != TIME_EXCEEDED)
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        self.kept.forsake_transaction();
    }
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession").field("is_open", &self.is_open()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_with_the_time() {
        let mut patience = Patience::new(None);
        let mut longest = Vec::new();
        for _ in 0..20 {
            let pause = patience.next_pause().expect("two minutes are long");
            assert!(pause <= patience.longest);
            longest.push(patience.longest);
        }
        assert_eq!(longest[..2], [7_500, 11_250].map(Duration::from_micros));
        assert_eq!(longest[19], TRANSACTION_PAUSE_MAX);
        assert_eq!(Patience::new(Some(Duration::ZERO)).next_pause(), None);
    }
}
