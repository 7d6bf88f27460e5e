//! The end of cursors that were dropped.

use std::rc::{Rc, Weak};

use bson::{RawArrayBuf, rawdoc};
use ringway_runtime::{spawn_detached, timeout};

use super::{Attempt, ClientCore, Purpose, Slot};
use crate::error::{Error, Fate};
use crate::limits::ORPHAN_TIMEOUT;
use crate::orphans::{OrphanPlace, Orphans};
use crate::pool::ServerId;

impl ClientCore {
    /// Has the background ready for cursors that are dropped.
    pub(crate) fn watch_orphans(self: &Rc<Self>) {
        if self.orphans.begins_to_be_watched() {
            let (orphans, client) = (Rc::clone(&self.orphans), Rc::downgrade(self));
            spawn_detached("mongo cursors", end_each(orphans, client));
        }
    }
}

/// Ends orphaned cursors as long as the client is there. A server that does not answer delays its own only.
async fn end_each(orphans: Rc<Orphans>, client: Weak<ClientCore>) {
    loop {
        while let Some((place, ids)) = orphans.begin() {
            let Some(client) = client.upgrade() else { return };
            let orphans = Rc::clone(&orphans);
            spawn_detached("mongo cursors of a server", async move {
                let _until_the_end = Ending { orphans, server: place.server };
                end(&client, &place, &ids).await;
            });
        }
        if client.strong_count() == 0 {
            return;
        }
        orphans.changed().await;
    }
}

/// The end of cursors at one server, also if it is given up.
struct Ending {
    orphans: Rc<Orphans>,
    server: ServerId,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.orphans.end(self.server);
    }
}

/// If this fails, the server ends the cursors by itself, after ten minutes.
async fn end(client: &Rc<ClientCore>, place: &OrphanPlace, ids: &[i64]) {
    let OrphanPlace { server, database, collection } = place;
    let mut cursors = RawArrayBuf::new();
    ids.iter().for_each(|id| cursors.push(*id));
    let command = rawdoc! { "killCursors": &**collection, "cursors": cursors };
    let (session, purpose) = (None, Purpose::Cursor(*server));
    let (time, reads, concern) = (client.timeout().into(), None, None);
    // "A driver MAY omit a session ID": whoever uses one meanwhile does not wait for this.
    let attempt = Attempt { session, time, purpose, reads, concern };
    let write = |slot: Slot<'_>| slot.write_any(&command, database);
    let ended = client.run_in(attempt, write, |_| Ok(()));
    let ended = timeout(ORPHAN_TIMEOUT, ended).await;
    if let Err(error) = ended.unwrap_or_else(|_| Err(Error::timeout(ORPHAN_TIMEOUT, Fate::Unknown)))
    {
        tracing::debug!(%collection, %error, "cursors are left to the server");
    }
    client.deployment.let_go(*server);
}
