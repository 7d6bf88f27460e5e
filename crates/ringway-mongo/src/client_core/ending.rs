//! The end of cursors that were dropped.

use std::rc::{Rc, Weak};

use bson::rawdoc;
use ringway_runtime::{spawn_detached, timeout};

use super::{Attempt, ClientCore, Purpose, Slot};
use crate::error::{Error, Fate};
use crate::limits::ORPHAN_TIMEOUT;
use crate::orphans::{Orphan, Orphans};

impl ClientCore {
    /// Has the background ready for cursors that are dropped.
    pub(crate) fn watch_orphans(self: &Rc<Self>) {
        if self.orphans.begins_to_be_watched() {
            let (orphans, client) = (Rc::clone(&self.orphans), Rc::downgrade(self));
            spawn_detached("mongo cursors", end_each(orphans, client));
        }
    }
}

/// Ends orphaned cursors at the server as long as the client is there.
async fn end_each(orphans: Rc<Orphans>, client: Weak<ClientCore>) {
    loop {
        while let Some(orphan) = orphans.next() {
            let Some(client) = client.upgrade() else { return };
            end(&client, &orphan).await;
        }
        if client.strong_count() == 0 {
            return;
        }
        orphans.changed().await;
    }
}

/// If this fails, the server ends the cursor by itself, after ten minutes.
async fn end(client: &Rc<ClientCore>, orphan: &Orphan) {
    let command = rawdoc! { "killCursors": &*orphan.collection, "cursors": [orphan.id] };
    let (session, purpose) = (None, Purpose::Cursor(orphan.server));
    let (time, reads, concern) = (client.timeout().into(), None, None);
    // "A driver MAY omit a session ID": whoever uses one meanwhile does not wait for this.
    let attempt = Attempt { session, time, purpose, reads, concern };
    let write = |slot: Slot<'_>| slot.write_any(&command, &orphan.database);
    let ended = client.run_in(attempt, write, |_| Ok(()));
    let ended = timeout(ORPHAN_TIMEOUT, ended).await;
    if let Err(error) = ended.unwrap_or_else(|_| Err(Error::timeout(ORPHAN_TIMEOUT, Fate::Unknown)))
    {
        tracing::debug!(collection = %orphan.collection, %error, "a cursor is left to the server");
    }
    client.deployment.let_go(orphan.server);
}
