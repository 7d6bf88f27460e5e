//! Commit and abort.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bson::raw::cstr;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use ringway_runtime::{now_exact, sleep};

use super::{Phase, wrong};
use crate::action::check_write;
use crate::client_core::{Attempt, ClientCore, OperationTime, Purpose, Slot};
use crate::client_shared::ClientShared;
use crate::connection::Answer;
use crate::cursor::pause_after;
use crate::error::{Error, Result};
use crate::limits::TRIES_MAX;
use crate::running::{OnCore, Operation, Running};
use crate::session::{KeptSession, Session};
use crate::write_concerns::{has_time, without_time};

/// The end of a transaction, made by [`ClientSession::commit`](crate::ClientSession::commit) and
/// [`abort`](crate::ClientSession::abort).
pub struct EndTransaction {
    pub(super) client: Arc<ClientShared>,
    pub(super) session: Arc<KeptSession>,
    pub(super) is_commit: bool,
    /// Its time, if it is another one than the client's.
    pub(super) time: Option<Duration>,
}

impl Running<EndTransaction> {
    /// Sets the time of the operation, instead of the client's
    /// ([`ClientOptions::timeout`](crate::ClientOptions::timeout)).
    pub fn timeout(self, limit: Duration) -> Self {
        self.with(|operation| operation.time = Some(limit))
    }
}

impl Operation for EndTransaction {
    type Output = ();

    fn client(&self) -> &Arc<ClientShared> {
        &self.client
    }

    async fn run(self, OnCore(core): OnCore) -> Result {
        let mut session = core.kept_session(&self.session)?;
        match self.is_commit {
            true => commit(&core, &mut session, self.time).await,
            false => abort(&core, &mut session, self.time).await,
        }
    }
}

/// The specification sets the words of these errors.
const NONE: &str = "no transaction started in this session";

/// Specification: Transactions, "commitTransaction".
async fn commit(core: &Rc<ClientCore>, session: &mut Session, time: Option<Duration>) -> Result {
    let is_again = match session.transaction.phase {
        Phase::None => return Err(wrong(NONE)),
        Phase::Aborted | Phase::Ending { is_commit: false } => {
            return Err(wrong("Cannot call commitTransaction after calling abortTransaction"));
        }
        Phase::Starting | Phase::Committed { was_told: false } => {
            session.transaction.phase = Phase::Committed { was_told: false };
            return Ok(());
        }
        Phase::Committed { was_told: true } | Phase::Ending { is_commit: true } => true,
        Phase::UnderWay => false,
    };
    let ended = send_each(core, session, (true, is_again), time).await;
    session.transaction.phase = Phase::Committed { was_told: true };
    ended.map_err(|mut error| {
        if is_unknown(&error) {
            error.mark_unknown_commit();
            session.transaction.unpin();
        }
        error
    })
}

/// Whether the transaction may have been committed all the same. Specification: Transactions,
/// "UnknownTransactionCommitResult".
fn is_unknown(error: &Error) -> bool {
    /// Nobody could ever confirm such a write concern.
    const IMPOSSIBLE_CONCERN: [i32; 2] = [79, 100];
    const TIME_EXCEEDED: i32 = 50;
    let is_possible = |code: i32| {
        error.is_write() && !IMPOSSIBLE_CONCERN.contains(&code) || code == TIME_EXCEEDED
    };
    error.is_network()
        || error.is_timeout()
        || error.allows_another_write()
        || error.server().is_some_and(|server| is_possible(server.code))
}

/// Specification: Transactions, "abortTransaction": "Drivers MUST ignore all errors".
pub(crate) async fn abort(
    core: &Rc<ClientCore>,
    session: &mut Session,
    time: Option<Duration>,
) -> Result {
    match session.transaction.phase {
        Phase::None => return Err(wrong(NONE)),
        Phase::Committed { .. } => {
            return Err(wrong("Cannot call abortTransaction after calling commitTransaction"));
        }
        Phase::Aborted => return Err(wrong("Cannot call abortTransaction twice")),
        Phase::Ending { is_commit: true } => {
            return Err(wrong("the transaction may have been committed: commit it again"));
        }
        Phase::Starting => {}
        Phase::UnderWay | Phase::Ending { is_commit: false } => {
            if let Err(error) = send_each(core, session, (false, false), time).await {
                tracing::debug!(%error, "a transaction is left to the server to abort");
            }
        }
    }
    session.transaction.phase = Phase::Aborted;
    session.transaction.unpin();
    Ok(())
}

/// Sends the end, and again if that may help, which the server does once: one time more, and where a time was set until
/// that is over.
///
/// Specification: Client Side Operations Timeout, "Retryability".
async fn send_each(
    core: &Rc<ClientCore>,
    session: &mut Session,
    (is_commit, is_again): (bool, bool),
    time: Option<Duration>,
) -> Result {
    session.transaction.phase = Phase::Ending { is_commit };
    let (began, time) = (now_exact(), core.time(time));
    let most = if time.is_told() { u32::MAX } else { TRIES_MAX - 1 };
    let (mut done, mut earlier) = (0, None);
    loop {
        let is_again = is_again || done > 0;
        let sent = send(core, session, (is_commit, is_again), time.since(began)).await;
        let Err(error) = sent else { return Ok(()) };
        // Servers with too much to do were asked again already.
        let was_in_vain = error.is_unsent() && core.deployment().waits_for_servers();
        let may_pass = error.allows_another_write() && !error.is_overload();
        let error = match earlier.take() {
            Some(earlier) => error.after(earlier),
            None => error,
        };
        // A router that the transaction stayed with is not waited for; any other server is.
        if !may_pass || done >= most || done > 0 && was_in_vain {
            return Err(error);
        }
        session.transaction.unpin();
        earlier = Some(error);
        let pause = pause_after(done).min(time.since(began).left());
        if !pause.is_zero() {
            sleep(pause).await;
        }
        done += 1;
    }
}

async fn send(
    core: &Rc<ClientCore>,
    session: &mut Session,
    (is_commit, is_again): (bool, bool),
    time: OperationTime,
) -> Result {
    let name = if is_commit { cstr!("commitTransaction") } else { cstr!("abortTransaction") };
    let mut command = RawDocumentBuf::new();
    command.append(name, 1);
    let transaction = &session.transaction;
    let options = core.options();
    let of_transaction = transaction.options.as_ref();
    let concern = of_transaction.and_then(|own| own.write_concern.as_deref());
    let concern = concern.or(options.write_concern.as_deref());
    let timeless = concern.filter(|it| time.is_told() && has_time(it));
    let timeless = timeless.map(without_time);
    let concern = timeless.as_ref().map_or(concern, Option::as_deref);
    match is_commit && is_again {
        true => command.append(cstr!("writeConcern"), majority(concern)),
        false => {
            if let Some(concern) = concern {
                command.append(cstr!("writeConcern"), concern.to_owned());
            }
        }
    }
    if let Some(limit) = of_transaction.and_then(|own| own.max_commit_time)
        && is_commit
        && !time.is_told()
    {
        let limit = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
        command.append(cstr!("maxTimeMS"), limit);
    }
    if let Some(token) = &transaction.recovery_token {
        command.append(cstr!("recoveryToken"), token.clone());
    }
    let attempt = Attempt::new(session, time, Purpose::WriteOnce);
    let write = |slot: Slot<'_>| slot.write_any(&command, "admin");
    let read = |answer: Answer<'_>| check_write(answer.body());
    core.run_in(attempt, write, read).await
}

/// "Drivers MUST apply w:majority to the write concern", with ten seconds for it "if the user has not specified" any.
fn majority(concern: Option<&RawDocument>) -> RawDocumentBuf {
    const TIME_MS: i64 = 10_000;
    let mut majority = RawDocumentBuf::new();
    let mut has_time = false;
    for (key, value) in concern.into_iter().flatten().flatten() {
        has_time |= key.as_str() == "wtimeout";
        if key.as_str() != "w" {
            majority.append(key, value);
        }
    }
    majority.append(cstr!("w"), RawBsonRef::String("majority"));
    if !has_time {
        majority.append(cstr!("wtimeout"), TIME_MS);
    }
    majority
}
