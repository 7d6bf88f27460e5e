//! Sessions of the server, which each operation borrows.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bson::Uuid;
use ringway_runtime::now;
use ringway_wire::mongo::SessionId;

use crate::limits::{SESSION_MARGIN, SESSIONS_KEPT};

/// How long a server keeps a session that is not used: 30 minutes, unless it is told otherwise.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// The sessions that no operation uses. The one used last is used next.
#[derive(Default)]
pub(crate) struct SessionPool {
    free: RefCell<Vec<(SessionId, Instant)>>,
}

/// A session that one operation, or one cursor, uses. Dropping it gives it back.
pub(crate) struct Session {
    id: SessionId,
    /// When this use of it began, which is not later than its last command.
    since: Instant,
    pool: Rc<SessionPool>,
    is_lost: bool,
}

impl SessionPool {
    pub(crate) fn take(self: &Rc<Self>) -> Session {
        let fresh_since = now().checked_sub(SESSION_TIMEOUT - SESSION_MARGIN);
        let last = self.free.borrow_mut().pop();
        let is_fresh = |used: &Instant| fresh_since.is_none_or(|since| *used >= since);
        let id = match last {
            Some((id, used)) if is_fresh(&used) => id,
            Some(_) => {
                // It was used last, so the others are even older.
                self.free.borrow_mut().clear();
                Uuid::new().bytes()
            }
            None => Uuid::new().bytes(),
        };
        Session { id, since: now(), pool: Rc::clone(self), is_lost: false }
    }
}

impl Session {
    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    /// Notes that it is unknown what the server does in it, so that nobody uses it again.
    pub(crate) fn lose(&mut self) {
        self.is_lost = true;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut free = self.pool.free.borrow_mut();
        if !self.is_lost && free.len() < SESSIONS_KEPT {
            free.push((self.id, self.since));
        }
    }
}
