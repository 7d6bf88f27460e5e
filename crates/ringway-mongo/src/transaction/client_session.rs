//! Sessions that the user keeps.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringway_runtime::sleep;

use super::end::EndTransaction;
use super::options::TransactionOptions;
use crate::client_shared::ClientShared;
use crate::error::{Error, Result};
use crate::limits::{TRANSACTION_PAUSE_FIRST, TRANSACTION_PAUSE_MAX, TRANSACTION_TIME_MAX};
use crate::running::{OnCore, Operation, Running};
use crate::session::KeptSession;

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
}

impl ClientSession {
    pub(crate) fn new(client: &Arc<ClientShared>) -> Self {
        Self { client: Arc::clone(client), kept: KeptSession::new(client.id) }
    }

    pub(crate) fn kept(&self) -> &Arc<KeptSession> {
        &self.kept
    }

    /// Starts a transaction. Nothing is sent before its first operation.
    ///
    /// # Errors
    /// [`is_options`](Error::is_options): one is under way in this session, or an operation is.
    pub fn start_transaction(&self, options: TransactionOptions) -> Result {
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

    /// Aborts the transaction. The server does it by itself if it cannot be told.
    ///
    /// # Errors
    /// [`is_options`](Error::is_options): there is none, or it has ended, or it may have been committed.
    pub fn abort(&self) -> Running<EndTransaction> {
        self.end(false)
    }

    fn end(&self, is_commit: bool) -> Running<EndTransaction> {
        let (client, session) = (Arc::clone(&self.client), Arc::clone(&self.kept));
        Running::new(EndTransaction { client, session, is_commit })
    }

    /// Runs operations in a transaction and commits it. `body` runs again, in a new transaction, after failures that the
    /// server calls passing, and the commit is repeated while it is unknown, for two minutes. It must give this session
    /// to each of its operations, and have no effects elsewhere that may not be repeated.
    ///
    /// # Errors
    /// Those of `body`, whose transaction is aborted, and of [`commit`](Self::commit).
    pub async fn with_transaction<R>(
        &self,
        options: TransactionOptions,
        mut body: impl AsyncFnMut(&Self) -> Result<R>,
    ) -> Result<R> {
        let mut patience = Patience::new();
        loop {
            self.start_transaction(options.clone())?;
            let result = match body(self).await {
                Ok(result) => result,
                Err(error) => {
                    if self.is_open() {
                        self.abort().await?;
                    }
                    if error.is_transient_transaction() && patience.is_left() {
                        self.pause(&mut patience).await?;
                        continue;
                    }
                    return Err(error);
                }
            };
            // The body may have ended it.
            if !self.is_open() {
                return Ok(result);
            }
            match self.commit_patiently(&mut patience).await {
                Ok(()) => return Ok(result),
                Err(error) if error.is_transient_transaction() && patience.is_left() => {
                    self.pause(&mut patience).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn commit_patiently(&self, patience: &mut Patience) -> Result {
        loop {
            match self.commit().await {
                Err(error) if may_commit_again(&error) && patience.is_left() => {
                    self.pause(patience).await?;
                }
                ended => return ended,
            }
        }
    }

    /// Whether a transaction was started and has not ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.kept.with_transaction(|transaction| transaction.is_open()).unwrap_or(true)
    }

    async fn pause(&self, patience: &mut Patience) -> Result {
        let (client, time) = (Arc::clone(&self.client), patience.next_pause());
        Running::new(Pause { client, time }).await
    }
}

/// The time of repetitions.
struct Patience {
    since: Instant,
    pause: Duration,
}

impl Patience {
    fn new() -> Self {
        Self { since: Instant::now(), pause: TRANSACTION_PAUSE_FIRST }
    }

    fn is_left(&self) -> bool {
        self.since.elapsed() < TRANSACTION_TIME_MAX
    }

    /// Each pause is half as long again, and between nothing and that, so that sessions that met do not meet again.
    fn next_pause(&mut self) -> Duration {
        let share = f64::from(bson::Uuid::new().bytes()[0]) / 255.0;
        let pause = self.pause.mul_f64(share);
        self.pause = self.pause.mul_f64(1.5).min(TRANSACTION_PAUSE_MAX);
        pause
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

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession").field("is_open", &self.is_open()).finish_non_exhaustive()
    }
}
