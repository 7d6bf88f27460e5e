//! The registry's log: nobody is told of a change before it is on the disk.
//!
//! Changes are made in the store at once, and gathered for the log. One task writes what was gathered and syncs it;
//! what comes meanwhile is gathered for the next time. Whoever has made a change waits until it is logged. Readers and
//! watches see the revision that is logged, which the store's history has.
//!
//! Where the disk is full, nothing is changed until there is room; what was gathered is written again each second.
//! After any other failure of the log nothing is changed any more. To try again would be wrong: after a sync that has
//! failed, nobody knows what the disk has, and a sync that succeeds later does not tell.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ringway_rpc::Status;
use ringway_runtime as runtime;

use super::listeners::wake;
use super::{Registry, State, failure};
use crate::limits;
use crate::log::{self, Folder, Ids, LogError, Writer};
use crate::store::{Dump, Revision};

/// What a registry knows of its log.
pub(super) struct LogState {
    /// `None` while a task writes, and after a failure.
    writer: Option<Writer>,
    /// The number of the batch that changes are gathered for.
    gathering: u64,
    /// The last batch that is on the disk.
    logged: u64,
    /// The last revision that is on the disk.
    visible: Revision,
    /// The reason why nothing is changed, for now or any more.
    failure: Option<Status>,
    /// Who waits for which batch; one entry for each call under way.
    waiting: BTreeMap<u64, (u64, Waker)>,
    next_waiter: u64,
    is_making_snapshot: bool,
}

/// What is written at once.
struct Batch {
    number: u64,
    ops: Vec<u8>,
    revision: Revision,
    clock: Duration,
    /// Everything there is after this batch, if a snapshot is due.
    dump: Option<Dump>,
}

impl LogState {
    pub(super) fn new(writer: Writer, visible: Revision) -> Self {
        Self {
            writer: Some(writer),
            gathering: 1,
            logged: 0,
            visible,
            failure: None,
            waiting: BTreeMap::new(),
            next_waiter: 0,
            is_making_snapshot: false,
        }
    }

    pub(super) fn visible(&self) -> Revision {
        self.visible
    }

    pub(super) fn failure(&self) -> Option<&Status> {
        self.failure.as_ref()
    }

    /// The wakers of those who wait for batches that are logged, or of all after a failure.
    fn take_woken(&mut self) -> Vec<Waker> {
        let is_over = self.failure.is_some();
        let logged = self.logged;
        let woken = self.waiting.extract_if(.., |_, (batch, _)| is_over || *batch <= logged);
        woken.map(|(_, (_, waker))| waker).collect()
    }
}

impl State {
    /// Checks that changes can be made.
    pub(super) fn can_change(&self) -> Result<(), Status> {
        match &self.log {
            Some(LogState { failure: Some(failure), .. }) => Err(failure.clone()),
            Some(_) if self.store.journal_bytes() >= limits::JOURNAL_BYTES_MAX => {
                Err(failure::too_many_requests())
            }
            _ => Ok(()),
        }
    }

    /// The batch that has everything up to now, if it is not on the disk yet.
    pub(super) fn unlogged(&self) -> Option<u64> {
        let log = self.log.as_ref()?;
        let last = if self.store.journal_bytes() > 0 { log.gathering } else { log.gathering - 1 };
        (last > log.logged).then_some(last)
    }
}

impl Registry {
    /// Waits until a batch is on the disk.
    pub(super) async fn logged(&self, batch: u64) -> Result<(), Status> {
        self.log_changes();
        LogWait { registry: self, batch, waiter: None }.await
    }

    /// Has changes written: begins to write the log, if there is something to write and no task does it.
    pub(super) fn log_changes(&self) {
        let mut state = self.state();
        if state.store.journal_bytes() == 0 {
            return;
        }
        let Some(writer) = state.log.as_mut().and_then(|log| log.writer.take()) else {
            return;
        };
        drop(state);
        let writing = Writing { registry: self.clone(), writer: Some(writer) };
        runtime::spawn_named("registry log", writing.run());
    }

    /// Takes what was gathered for the log. `None` if there is nothing.
    fn take_batch(&self, snapshot_is_due: bool) -> Option<Batch> {
        let clock = self.now();
        let State { store, log, .. } = &mut *self.state();
        let log = log.as_mut()?;
        if store.journal_bytes() == 0 {
            return None;
        }
        let makes_snapshot = snapshot_is_due && !log.is_making_snapshot;
        log.is_making_snapshot |= makes_snapshot;
        let number = log.gathering;
        log.gathering += 1;
        Some(Batch {
            number,
            ops: store.take_journal(),
            revision: store.revision(),
            clock,
            dump: makes_snapshot.then(|| store.dump(clock)),
        })
    }

    /// A batch is on the disk: everybody may know.
    fn note_logged(&self, batch: &Batch) {
        let mut state = self.state();
        let State { store, listeners, log: Some(log), .. } = &mut *state else {
            return;
        };
        let from = log.visible.next();
        (log.logged, log.visible) = (batch.number, batch.revision);
        store.logged(batch.revision);
        let mut woken = log.take_woken();
        if batch.revision >= from {
            woken.extend(listeners.changed(store, from));
        }
        drop(state);
        woken.into_iter().for_each(wake);
    }

    fn note_failure(&self, failure: Status, is_for_ever: bool) {
        self.notice(failure.message());
        if let Some(on_failure) = self.shared.on_failure.as_ref().filter(|_| is_for_ever) {
            runtime::contain("a listener of a registry's failure", || {
                on_failure(failure.message())
            });
        }
        let mut state = self.state();
        let Some(log) = &mut state.log else {
            return;
        };
        log.failure = Some(failure);
        let woken = log.take_woken();
        drop(state);
        woken.into_iter().for_each(wake);
    }

    /// The disk that was full has room.
    fn note_room(&self) {
        if let Some(log) = &mut self.state().log {
            log.failure = None;
        }
        self.notice("the registry's disk has room again, and changes are taken");
        self.expire_leases();
    }

    /// Tells whoever operates the registry. No lock is held meanwhile.
    pub(super) fn notice(&self, text: &str) {
        match &self.shared.notice {
            Some(notice) => {
                runtime::contain("a listener of a registry's notices", || notice(text));
            }
            None => tracing::warn!("registry: {text}"),
        }
    }
}

/// The task that writes the log while there is something to write.
struct Writing {
    registry: Registry,
    /// `None` when the task has ended in order.
    writer: Option<Writer>,
}

impl Writing {
    async fn run(mut self) {
        if let Err(error) = self.write().await {
            self.writer = None;
            self.registry.note_failure(failure::log(&error), true);
        }
    }

    async fn write(&mut self) -> io::Result<()> {
        loop {
            let Some(writer) = &mut self.writer else {
                return Ok(());
            };
            // All changes of this turn of the core share a sync.
            runtime::yield_now().await;
            let Some(mut batch) = self.registry.take_batch(writer.is_full()) else {
                writer.mark(self.registry.now()).await.or_else(unless_full)?;
                self.rest();
                continue;
            };
            let dump = batch.dump.take();
            let snapshot = dump.map(|dump| Snapshot { registry: self.registry.clone(), dump });
            commit(&self.registry, writer, &batch).await?;
            self.registry.note_logged(&batch);
            let Some(snapshot) = snapshot else {
                continue;
            };
            match writer.rotate().await {
                Ok(number) => {
                    let (folder, ids) = (writer.folder().clone(), writer.ids());
                    let written = snapshot.write(folder, number, ids, batch.clock);
                    runtime::spawn_named("registry snapshot", written);
                }
                // It is tried again with the next batch.
                Err(error) => unless_full(error)?,
            }
        }
    }

    /// Gives the log back if nothing has come meanwhile.
    fn rest(&mut self) {
        let mut state = self.registry.state();
        let is_idle = state.store.journal_bytes() == 0;
        if let Some(log) = state.log.as_mut().filter(|_| is_idle) {
            log.writer = self.writer.take();
        }
    }
}

impl Drop for Writing {
    /// The task was dropped in the middle: its core has ended.
    fn drop(&mut self) {
        if self.writer.is_some() {
            let error = io::Error::other("the core that has written it was stopped");
            self.registry.note_failure(failure::log(&error), true);
        }
    }
}

/// Writes a batch until it is on the disk. A full disk is asked again and again.
async fn commit(registry: &Registry, writer: &mut Writer, batch: &Batch) -> io::Result<()> {
    let mut is_full = false;
    loop {
        match writer.commit(&batch.ops, batch.clock).await {
            Ok(()) => break,
            Err(LogError::Failed(error)) => return Err(error),
            Err(LogError::NoRoom(error)) if !is_full => {
                is_full = true;
                registry.note_failure(failure::no_room(&error), false);
            }
            Err(LogError::NoRoom(_)) => {}
        }
        runtime::sleep(limits::DISK_FULL_RETRY).await;
    }
    if is_full {
        registry.note_room();
    }
    Ok(())
}

/// What can wait until a full disk has room is no failure.
fn unless_full(error: LogError) -> io::Result<()> {
    match error {
        LogError::NoRoom(_) => Ok(()),
        LogError::Failed(error) => Err(error),
    }
}

/// The making of a snapshot, however it ends.
struct Snapshot {
    registry: Registry,
    dump: Dump,
}

impl Snapshot {
    async fn write(mut self, folder: Folder, number: u64, ids: Ids, clock: Duration) {
        let pieces = || {
            let state = self.registry.state();
            state.store.next_piece(&mut self.dump, limits::SNAPSHOT_PIECE_BYTES)
        };
        if let Err(error) = log::write_snapshot(&folder, number, ids, clock, pieces).await {
            self.registry.notice(&format!("{error}; the log grows until that succeeds"));
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut state = self.registry.state();
        state.store.end_dump();
        if let Some(log) = &mut state.log {
            log.is_making_snapshot = false;
        }
    }
}

/// Waits for a batch.
struct LogWait<'a> {
    registry: &'a Registry,
    batch: u64,
    waiter: Option<u64>,
}

impl Future for LogWait<'_> {
    type Output = Result<(), Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = cx.waker().clone();
        let mut state = self.registry.state();
        let Some(log) = &mut state.log else {
            return Poll::Ready(Ok(()));
        };
        if log.logged >= self.batch {
            return Poll::Ready(Ok(()));
        }
        if let Some(failure) = &log.failure {
            return Poll::Ready(Err(failure.clone()));
        }
        let id = self.waiter.unwrap_or(log.next_waiter);
        log.next_waiter = log.next_waiter.max(id + 1);
        let former = log.waiting.insert(id, (self.batch, waker));
        drop(state);
        drop(former); // outside of the lock, since it may be anybody's
        self.waiter = Some(id);
        Poll::Pending
    }
}

impl Drop for LogWait<'_> {
    fn drop(&mut self) {
        let Some(id) = self.waiter else {
            return;
        };
        let former = self.registry.state().log.as_mut().and_then(|log| log.waiting.remove(&id));
        drop(former);
    }
}
