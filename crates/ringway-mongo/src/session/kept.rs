//! Sessions that users keep.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringway_wire::mongo::SessionId;

use super::{Session, SessionTimes};
use crate::core_number::CoreNumber;
use crate::error::{Error, Fate, Kind, Result};
use crate::transaction::Transaction;

/// A session that the user keeps for several operations, one after the other.
pub(crate) struct KeptSession {
    client: u64,
    abort: Abort,
    state: Mutex<Kept>,
}

/// Has a core of a client abort the transaction of a session.
type Abort = fn(client: u64, home: CoreNumber, session: UsedSession);

#[derive(Default)]
struct Kept {
    /// `None` before its first operation, and while one uses it.
    session: Option<Session>,
    is_used: bool,
    /// Whether nobody ends the transaction any more; noted while an operation uses the session.
    is_forsaken: bool,
    /// Whether it is unknown what the server does in the session; noted while an operation uses it.
    is_lost: bool,
    /// That of the session, while no operation uses it.
    transaction: Transaction,
    /// What is known of the session's times; an operation adds what it has learned when it ends.
    times: SessionTimes,
}

impl KeptSession {
    pub(crate) fn new(client: u64, abort: Abort) -> Arc<Self> {
        let kept = Kept { times: SessionTimes::of_user(), ..Kept::default() };
        Arc::new(Self { client, abort, state: Mutex::new(kept) })
    }

    /// Its id, unless an operation uses it, or none has yet.
    pub(crate) fn id(&self) -> Option<SessionId> {
        self.kept().session.as_ref().map(|session| *session.id())
    }

    /// Looks at the times of the session, or changes them.
    pub(crate) fn with_times<R>(&self, f: impl FnOnce(&mut SessionTimes) -> R) -> R {
        f(&mut self.kept().times)
    }

    /// The session, for one operation.
    ///
    /// # Errors
    /// It is another client's, or another operation uses it, or its options contradict each other.
    pub(crate) fn take(
        self: &Arc<Self>,
        client: u64,
        make: impl FnOnce() -> Session,
    ) -> Result<UsedSession> {
        let wrong = |what: &str| Error::new(Kind::Options, Fate::NotSent, what);
        if self.client != client {
            return Err(wrong("the session is one of another client"));
        }
        let mut kept = self.kept();
        kept.times.check()?;
        if std::mem::replace(&mut kept.is_used, true) {
            return Err(wrong("another operation uses the session: await one before the next"));
        }
        let mut session = kept.session.take().unwrap_or_else(make);
        session.transaction = std::mem::take(&mut kept.transaction);
        **session.times.get_or_insert_default() = kept.times.clone();
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

    /// Has the server abort the transaction, because nobody ends it any more: at once, or when the operation is over that
    /// uses the session. Where the core has ended on which the transaction began, it is left to the server.
    pub(crate) fn forsake_transaction(self: &Arc<Self>) {
        let mut kept = self.kept();
        kept.is_forsaken = kept.is_used;
        if kept.is_used || !kept.transaction.needs_abort() {
            return;
        }
        let Some(home) = kept.transaction.home() else { return };
        let Some(mut session) = kept.session.take() else { return };
        session.transaction = std::mem::take(&mut kept.transaction);
        kept.is_used = true;
        drop(kept);
        let kept = Some(Arc::clone(self));
        (self.abort)(self.client, home, UsedSession { session: Some(session), kept });
    }

    /// Notes that nobody else may use the session after the user.
    fn lose(&self) {
        let mut kept = self.kept();
        match &mut kept.session {
            Some(session) => session.lose(),
            None => kept.is_lost = true,
        }
    }

    fn put_back(self: &Arc<Self>, mut session: Session) {
        let mut kept = self.kept();
        if std::mem::take(&mut kept.is_lost) {
            session.lose();
        }
        kept.transaction = std::mem::take(&mut session.transaction);
        session.times.iter().for_each(|times| kept.times.merge(times));
        (kept.session, kept.is_used) = (Some(session), false);
        let is_forsaken = std::mem::take(&mut kept.is_forsaken);
        drop(kept);
        if is_forsaken {
            self.forsake_transaction();
        }
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

impl RestingSession {
    /// Notes that it is unknown what the server does in it, so that nobody else uses it again.
    pub(crate) fn lose(self) {
        match self {
            Self::Own(mut session) => session.lose(),
            Self::Kept(kept) => kept.lose(),
        }
    }
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
