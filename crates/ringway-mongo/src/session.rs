//! Sessions of the server, which each operation borrows.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bson::Uuid;
use ringway_runtime::now;
use ringway_wire::mongo::SessionId;

use crate::client_core::ClientCore;
use crate::error::{Error, Fate, Kind, Result};
use crate::limits::{SESSION_MARGIN, SESSIONS_KEPT};
use crate::pool::ServerId;
use crate::transaction::{Transaction, TransactionFields};

/// How long a server keeps a session that is not used: 30 minutes, unless it is told otherwise.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// The sessions that no operation uses, of all cores of a client. The one used last is used next.
#[derive(Default)]
pub(crate) struct SessionPool {
    free: Mutex<Vec<FreeSession>>,
}

struct FreeSession {
    id: SessionId,
    used_at: Instant,
    number: i64,
}

/// A session that one operation, or one cursor, uses. Dropping it gives it back.
pub(crate) struct Session {
    id: SessionId,
    /// The number of its last write that could be repeated.
    number: i64,
    /// The server that it was used at last.
    server: Option<ServerId>,
    pub(crate) transaction: Transaction,
    /// When this use of it began, which is not later than its last command.
    since: Instant,
    pool: Arc<SessionPool>,
    is_lost: bool,
}

impl SessionPool {
    pub(crate) fn take(self: &Arc<Self>) -> Session {
        let fresh_since = now().checked_sub(SESSION_TIMEOUT - SESSION_MARGIN);
        let mut free = self.free();
        let last = free.pop();
        let is_fresh = |last: &FreeSession| fresh_since.is_none_or(|since| last.used_at >= since);
        let (id, number) = match last {
            Some(last) if is_fresh(&last) => (last.id, last.number),
            Some(_) => {
                // It was used last, so the others are even older.
                free.clear();
                (Uuid::new().bytes(), 0)
            }
            None => (Uuid::new().bytes(), 0),
        };
        drop(free);
        let pool = Arc::clone(self);
        Session {
            id,
            number,
            server: None,
            transaction: Transaction::default(),
            since: now(),
            pool,
            is_lost: false,
        }
    }
}

impl SessionPool {
    /// No foreign code runs under the lock, so the content of a poisoned one is sound.
    fn free(&self) -> MutexGuard<'_, Vec<FreeSession>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    /// The number of a write that may be sent again: the server executes each number once.
    pub(crate) fn next_number(&mut self) -> i64 {
        self.number += 1;
        self.number
    }

    pub(crate) fn note_server(&mut self, server: ServerId) {
        self.server = Some(server);
    }

    /// The server that has what was made in the session.
    pub(crate) fn server(&self) -> Option<ServerId> {
        self.server
    }

    /// Notes that it is unknown what the server does in it, so that nobody uses it again.
    pub(crate) fn lose(&mut self) {
        self.is_lost = true;
    }
}

impl Session {
    /// What its transaction adds to the next command.
    pub(crate) fn transaction_fields(&mut self) -> Option<TransactionFields> {
        let number = &mut self.number;
        let next_number = || {
            *number += 1;
            *number
        };
        self.transaction.fields(next_number)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The server ends what is under way by itself; nobody else may run into it.
        self.is_lost |= self.transaction.is_under_way();
        let mut free = self.pool.free();
        if !self.is_lost && free.len() < SESSIONS_KEPT {
            free.push(FreeSession { id: self.id, used_at: self.since, number: self.number });
        }
    }
}

/// A session that the user keeps for several operations, one after the other.
pub(crate) struct KeptSession {
    client: u64,
    state: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// `None` before its first operation, and while one uses it.
    session: Option<Session>,
    is_used: bool,
    /// That of the session, while no operation uses it.
    transaction: Transaction,
}

impl KeptSession {
    pub(crate) fn new(client: u64) -> Arc<Self> {
        Arc::new(Self { client, state: Mutex::default() })
    }

    /// The session, for one operation.
    ///
    /// # Errors
    /// It is another client's, or another operation uses it.
    pub(crate) fn take(self: &Arc<Self>, core: &ClientCore) -> Result<UsedSession> {
        let wrong = |what: &str| Error::new(Kind::Options, Fate::NotSent, what);
        if self.client != core.client() {
            return Err(wrong("the session is one of another client"));
        }
        let mut kept = self.kept();
        if std::mem::replace(&mut kept.is_used, true) {
            return Err(wrong("another operation uses the session: await one before the next"));
        }
        let mut session = kept.session.take().unwrap_or_else(|| core.session());
        session.transaction = std::mem::take(&mut kept.transaction);
        Ok(UsedSession { session: Some(session), kept: Some(Arc::clone(self)) })
    }

    /// Looks at the transaction, or changes it.
    ///
    /// # Errors
    /// An operation uses the session.
    pub(crate) fn with_transaction<R>(&self, f: impl FnOnce(&mut Transaction) -> R) -> Result<R> {
        let mut kept = self.kept();
        if kept.is_used {
            let what = "an operation uses the session: await it first";
            return Err(Error::new(Kind::Options, Fate::NotSent, what));
        }
        Ok(f(&mut kept.transaction))
    }

    fn put_back(&self, mut session: Session) {
        let mut kept = self.kept();
        kept.transaction = std::mem::take(&mut session.transaction);
        (kept.session, kept.is_used) = (Some(session), false);
    }

    /// No foreign code runs under the lock, so the content of a poisoned one is sound.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for KeptSession {
    fn drop(&mut self) {
        let kept = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = &mut kept.session {
            session.transaction = std::mem::take(&mut kept.transaction);
        }
    }
}

/// A session that an operation uses: its own, or one that the user keeps, which gets it back when this is dropped.
pub(crate) struct UsedSession {
    /// Taken by `rest` and `drop` only.
    session: Option<Session>,
    kept: Option<Arc<KeptSession>>,
}

/// The session of a cursor between two batches: its own, or one that others may use meanwhile.
pub(crate) enum RestingSession {
    Own(Session),
    Kept(Arc<KeptSession>),
}

impl UsedSession {
    pub(crate) fn own(session: Session) -> Self {
        Self { session: Some(session), kept: None }
    }

    pub(crate) fn rest(mut self) -> RestingSession {
        match &self.kept {
            Some(kept) => RestingSession::Kept(Arc::clone(kept)),
            None => RestingSession::Own(self.session.take().expect("it is there until then")),
        }
    }
}

impl RestingSession {
    /// # Errors
    /// Those of [`KeptSession::take`].
    pub(crate) fn used(self, core: &ClientCore) -> Result<UsedSession> {
        match self {
            Self::Own(session) => Ok(UsedSession::own(session)),
            Self::Kept(kept) => kept.take(core),
        }
    }
}

impl Deref for UsedSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session.as_ref().expect("it is there until the end")
    }
}

impl DerefMut for UsedSession {
    fn deref_mut(&mut self) -> &mut Session {
        self.session.as_mut().expect("it is there until the end")
    }
}

impl Drop for UsedSession {
    fn drop(&mut self) {
        if let (Some(session), Some(kept)) = (self.session.take(), &self.kept) {
            kept.put_back(session);
        }
    }
}
