//! Sessions of the server, which each operation borrows.

mod clock;
mod ending;
mod kept;
mod times;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bson::Uuid;
use ringway_runtime::now;
use ringway_wire::mongo::SessionId;

pub(crate) use self::clock::{ClusterClock, ClusterTime};
pub(crate) use self::kept::{KeptSession, RestingSession, UsedSession};
pub(crate) use self::times::SessionTimes;
use crate::limits::{SESSION_MARGIN, SESSION_TIMEOUT_DEFAULT, SESSIONS_KEPT};
use crate::pool::ServerId;
use crate::transaction::{Transaction, TransactionFields};

/// The sessions that no operation uses, of all cores of a client. The one used last is used next.
pub(crate) struct SessionPool {
    free: Mutex<Vec<FreeSession>>,
    /// The shortest time for which any server has kept unused sessions, in seconds.
    timeout_secs: AtomicU64,
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
    /// Of a session that the user keeps.
    pub(crate) times: Option<Box<SessionTimes>>,
    /// When this use of it began, which is not later than its last command.
    since: Instant,
    pool: Arc<SessionPool>,
    is_lost: bool,
}

impl Default for SessionPool {
    fn default() -> Self {
        let timeout_secs = AtomicU64::new(SESSION_TIMEOUT_DEFAULT.as_secs());
        Self { free: Mutex::default(), timeout_secs }
    }
}

impl SessionPool {
    /// How long servers keep unused sessions.
    ///
    /// Specification: Driver Sessions, "Server Session Pool": `logicalSessionTimeoutMinutes`.
    fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_secs.load(Ordering::Relaxed))
    }

    fn note_timeout(&self, timeout: Duration) {
        if timeout < self.timeout() {
            self.timeout_secs.fetch_min(timeout.as_secs(), Ordering::Relaxed);
        }
    }

    pub(crate) fn take(self: &Arc<Self>) -> Session {
        let fresh_since = now().checked_sub(self.timeout().saturating_sub(SESSION_MARGIN));
        let mut free = self.free();
        let is_fresh = |last: &FreeSession| fresh_since.is_none_or(|since| last.used_at >= since);
        // One that was used for long is old when it comes back, and says nothing of those before it.
        let fresh = std::iter::from_fn(|| free.pop()).find(is_fresh);
        drop(free);
        let fresh = fresh.map(|fresh| (fresh.id, fresh.number));
        let (id, number) = fresh.unwrap_or_else(|| (Uuid::new().bytes(), 0));
        let pool = Arc::clone(self);
        Session {
            id,
            number,
            server: None,
            transaction: Transaction::default(),
            times: None,
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

    /// Whether a user keeps it, and it is no operation's own.
    pub(crate) fn is_of_user(&self) -> bool {
        self.times.is_some()
    }

    /// The number of a write that may be sent again: the server executes each number once.
    pub(crate) fn next_number(&mut self) -> i64 {
        self.number += 1;
        self.number
    }

    /// Notes which server is to use it, and how long that keeps unused ones.
    pub(crate) fn note_server(&mut self, server: ServerId, timeout: Duration) {
        self.server = Some(server);
        self.pool.note_timeout(timeout);
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
    /// What its transaction adds to the next command. The first one of it begins behind what the session has seen.
    pub(crate) fn transaction_fields(&mut self) -> Option<TransactionFields> {
        let number = &mut self.number;
        let next_number = || {
            *number += 1;
            *number
        };
        let mut fields = self.transaction.fields(next_number)?;
        if fields.is_first
            && let Some(times) = &self.times
            && let Some(causal) = times.causal_concern(fields.read_concern.as_deref())
        {
            fields.read_concern = Some(causal);
        }
        Some(fields)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // What could not be aborted the server ends by itself; nobody else may run into it.
        self.is_lost |= self.transaction.is_under_way();
        let mut free = self.pool.free();
        if !self.is_lost && free.len() < SESSIONS_KEPT {
            free.push(FreeSession { id: self.id, used_at: self.since, number: self.number });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session that was begun long ago and given back just now says nothing of those below it.
    #[test]
    fn an_old_session_is_left_out_and_the_others_stay() {
        let test = async {
            let pool = Arc::<SessionPool>::default();
            let (fresh, mut old) = (pool.take(), pool.take());
            let id = *fresh.id();
            let Some(since) = old.since.checked_sub(SESSION_TIMEOUT_DEFAULT) else { return };
            old.since = since;
            drop(fresh);
            drop(old);
            assert_eq!(*pool.take().id(), id);
            assert_eq!(pool.take_all(), [id], "the old one is gone");
        };
        ringway_runtime::block_on(test).expect("a runtime");
    }
}
