//! Transactions that nobody ends any more: their sessions were dropped.
//!
//! Specification: Transactions, "endSession changes": "Drivers MUST call abortTransaction".

use std::rc::Rc;

use ringway_runtime::{spawn_detached, timeout};

use super::ClientCore;
use crate::limits::{ABORT_TIMEOUT, ABORTS_MAX};
use crate::session::UsedSession;
use crate::transaction;

impl ClientCore {
    /// Has the server abort the transaction of a session, in the background. Then the session is given back.
    pub(crate) fn abort(self: &Rc<Self>, mut session: UsedSession) {
        if self.aborting.get() == ABORTS_MAX {
            tracing::debug!("a transaction is left to the server to abort: there are too many");
            return;
        }
        let aborting = Aborting::begin(self);
        spawn_detached("mongo transactions", async move {
            let abort = transaction::abort(&aborting.core, &mut session, None);
            if timeout(ABORT_TIMEOUT, abort).await.is_err() {
                tracing::debug!("a transaction is left to the server to abort: it does not answer");
            }
            // Whoever waits for the last one finds its session.
            drop(session);
            drop(aborting);
        });
    }

    /// Waits until no transaction is being aborted.
    pub(super) async fn all_aborted(&self) {
        loop {
            let ended = self.abort_ended.notified();
            if self.aborting.get() == 0 {
                return;
            }
            ended.await;
        }
    }
}

/// A transaction that is being aborted.
struct Aborting {
    core: Rc<ClientCore>,
}

impl Aborting {
    fn begin(core: &Rc<ClientCore>) -> Self {
        core.aborting.set(core.aborting.get() + 1);
        Self { core: Rc::clone(core) }
    }
}

impl Drop for Aborting {
    fn drop(&mut self) {
        self.core.aborting.set(self.core.aborting.get() - 1);
        self.core.abort_ended.notify_waiters();
    }
}
