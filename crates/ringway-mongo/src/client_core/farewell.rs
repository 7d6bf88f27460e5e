//! The end of the sessions of a client, at its own end.
//!
//! Specification: Driver Sessions, "endSessions".

use std::rc::Rc;

use bson::spec::BinarySubtype;
use bson::{Binary, RawArrayBuf, rawdoc};
use ringway_runtime::{now_exact, spawn_detached, timeout};
use ringway_wire::mongo::SessionId;

use super::{Attempt, ClientCore, OperationTime, Purpose, Slot};
use crate::error::{Error, Fate, Kind, Result};
use crate::limits::{SESSIONS_END_TIMEOUT, SESSIONS_ENDED_MAX};
use crate::pool::PoolCounts;
use crate::reads::Reads;
use crate::uri::{ReadMode, ReadPreference};

impl ClientCore {
    /// Gives up what the client has on this core. Its sessions are ended in the background, if a server was reached from
    /// here; with several such cores, the first one ends all.
    pub(crate) fn leave(self: Rc<Self>) {
        let has_sessions = !self.sessions.is_empty() || self.aborting.get() > 0;
        let counts = self.deployment.view().add_counts(PoolCounts::default());
        if counts.made > 0 && has_sessions {
            spawn_detached("mongo sessions", async move { self.end_sessions().await });
        }
    }

    /// Has the server forget the sessions that no operation uses, once their transactions are aborted. What it has not been told in time, it finds out by itself.
    pub(crate) async fn end_sessions(self: &Rc<Self>) {
        let began = now_exact();
        if timeout(SESSIONS_END_TIMEOUT, self.all_aborted()).await.is_err() {
            tracing::debug!("transactions are left to the server to abort");
        }
        let ids = self.sessions.take_all();
        for some in ids.chunks(SESSIONS_ENDED_MAX) {
            let time = OperationTime::from(SESSIONS_END_TIMEOUT).since(began);
            if let Err(error) = self.end_some(some, time).await {
                tracing::debug!(%error, "sessions are left to the server");
                return;
            }
        }
    }

    async fn end_some(self: &Rc<Self>, ids: &[SessionId], time: OperationTime) -> Result {
        let mut list = RawArrayBuf::new();
        for id in ids {
            let (subtype, bytes) = (BinarySubtype::Uuid, id.to_vec());
            list.push(rawdoc! { "id": Binary { subtype, bytes } });
        }
        let command = rawdoc! { "endSessions": list };
        // "MUST be sent to the primary if the primary is available, otherwise [...] to any available secondary"
        let reads = Reads::new(&ReadPreference::new(ReadMode::PrimaryPreferred))?;
        let (session, purpose, concern) = (None, Purpose::ReadOnce, None);
        let attempt = Attempt { session, time, purpose, reads: Some(&reads), concern };
        let write = |slot: Slot<'_>| match slot.limits().has_sessions {
            true => slot.write_any(&command, "admin"),
            false => {
                let what = "the server has no sessions";
                Err(Error::new(Kind::Incompatible, Fate::NotSent, what))
            }
        };
        self.run_in(attempt, write, |_| Ok(())).await
    }
}
