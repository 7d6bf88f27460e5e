//! Snapshots of a registry.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;

use super::listeners::wake;
use super::{Registry, State, failure};
use crate::limits;
use crate::log::{self, Folder, Ids};
use crate::store::Dump;

impl Registry {
    /// Waits while the log is ahead of the snapshot that is being made.
    pub(super) async fn pace(&self) {
        poll_fn(|cx| {
            let waker = cx.waker().clone();
            let mut state = self.state();
            let State { store, log, .. } = &mut *state;
            let making = log.as_mut().and_then(|log| log.making.as_mut());
            let Some(making) = making.filter(|it| !it.allows(store.changes_since_dump())) else {
                return Poll::Ready(());
            };
            let former = making.waiting.replace(waker);
            drop(state);
            drop(former);
            Poll::Pending
        })
        .await;
    }

    /// A snapshot of this dump, to be written.
    pub(super) fn snapshot_of(&self, dump: Dump) -> Snapshot {
        Snapshot { registry: self.clone(), dump }
    }
}

/// The making of a snapshot, however it ends.
pub(super) struct Snapshot {
    registry: Registry,
    dump: Dump,
}

impl Snapshot {
    pub(super) async fn write(mut self, folder: Folder, number: u64, ids: Ids, clock: Duration) {
        let pieces = || self.next_piece();
        let written = log::write_snapshot(&folder, number, ids, clock, pieces).await;
        let failed = self.note_end(written.is_ok());
        let Err(error) = written else { return };
        self.registry.notice(&format!("{error}; the log grows until that succeeds"));
        if failed >= limits::SNAPSHOT_FAILURES_MAX {
            let error = io::Error::other(format!("{failed} snapshots in a row have failed"));
            self.registry.note_failure(failure::log(&error));
        }
    }

    /// The next piece, when those before it are written.
    fn next_piece(&mut self) -> Option<Vec<u8>> {
        let mut state = self.registry.state();
        let State { store, log, .. } = &mut *state;
        let making = log.as_mut().and_then(|log| log.making.as_mut());
        let waiting = making.and_then(|making| making.advance(self.dump.progress()));
        let piece = store.next_piece(&mut self.dump, limits::SNAPSHOT_PIECE_BYTES);
        drop(state);
        waiting.into_iter().for_each(wake);
        piece
    }

    /// Returns how many snapshots have failed in a row.
    fn note_end(&self, has_succeeded: bool) -> u32 {
        let mut state = self.registry.state();
        let Some(log) = &mut state.log else { return 0 };
        log.failed_snapshots = if has_succeeded { 0 } else { log.failed_snapshots + 1 };
        log.failed_snapshots
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut state = self.registry.state();
        state.store.end_dump();
        let making = state.log.as_mut().and_then(|log| log.making.take());
        drop(state);
        making.and_then(|making| making.waiting).into_iter().for_each(wake);
    }
}
