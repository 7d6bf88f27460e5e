//! The registry's log: nobody is told of a change before it is on the disk.
//!
//! Changes are made in the store at once, and gathered for the log. One task writes what was gathered and syncs it;
//! what comes meanwhile is gathered for the next time. Whoever has made a change waits until it is logged. Readers and
//! watches see the revision that is logged, which the store's history has.
//!
//! Where there is no room for what was gathered, nothing is changed until there is; it is written again each second (see
//! [trouble](super::trouble)). After any other failure of the log nothing is changed any more. To try again would be wrong: after
//! a sync that has failed, nobody knows what the disk has, and a sync that succeeds later does not tell.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ringway_rpc::Status;
use ringway_runtime as runtime;

use super::listeners::wake;
use super::pace::Making;
use super::trouble::{Effect, Trouble};
use super::{Registry, State, failure};
use crate::limits;
use crate::log::{LogError, Writer};
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
    /// The reason why not all changes are taken, for now or any more.
    trouble: Option<Trouble>,
    /// Whether a task looks for room on the disk.
    pub(super) looks_for_room: bool,
    /// Who waits for which batch; one entry for each call under way.
    waiting: BTreeMap<u64, (u64, Waker)>,
    next_waiter: u64,
    /// The snapshot that is being made.
    pub(super) making: Option<Making>,
    /// Snapshots that have failed since the last one that was made.
    pub(super) failed_snapshots: u32,
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
            trouble: None,
            looks_for_room: false,
            waiting: BTreeMap::new(),
            next_waiter: 0,
            making: None,
            failed_snapshots: 0,
        }
    }

    pub(super) fn visible(&self) -> Revision {
        self.visible
    }

    /// Why not all changes are taken.
    pub(super) fn failure(&self) -> Option<&Status> {
        self.trouble.as_ref().map(Trouble::status)
    }

    pub(super) fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// Returns what is not so any more. A log that has failed stays so.
    pub(super) fn replace_trouble(&mut self, trouble: Option<Trouble>) -> Option<Trouble> {
        match self.trouble {
            Some(Trouble::Failed(_)) => trouble,
            _ => std::mem::replace(&mut self.trouble, trouble),
        }
    }

    /// The wakers of those who wait for batches that are logged, or of all in trouble.
    pub(super) fn take_woken(&mut self) -> Vec<Waker> {
        let is_over = self.trouble.as_ref().is_some_and(|it| it.of_what_is_under_way().is_some());
        let logged = self.logged;
        let woken = self.waiting.extract_if(.., |_, (batch, _)| is_over || *batch <= logged);
        woken.map(|(_, (_, waker))| waker).collect()
    }
}

impl State {
    /// Checks that a change can be made.
    pub(super) fn can_change(&self, effect: Effect) -> Result<(), Status> {
        let trouble = self.log.as_ref().and_then(LogState::trouble);
        trouble.and_then(|trouble| trouble.refusal(effect)).map_or(Ok(()), Err)
    }

    /// The batch that is gathered, if nothing more should come to it.
    fn full_batch(&self) -> Option<u64> {
        let is_full = self.store.journal_bytes() >= limits::JOURNAL_BYTES_MAX;
        self.log.as_ref().filter(|_| is_full).map(|log| log.gathering)
    }

    /// Whether leases may end. While the disk is full, nobody could register instead.
    pub(super) fn ends_leases(&self) -> bool {
        self.can_change(Effect::Adds).is_ok() && self.full_batch().is_none()
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

    /// Waits until a change can be made: while the disk does not keep up, changes wait and are not refused.
    pub(super) async fn admitted(&self, effect: Effect) -> Result<(), Status> {
        loop {
            let (refusal, full) = {
                let state = self.state();
                (state.can_change(effect).err(), state.full_batch())
            };
            if let Some(refusal) = refusal {
                self.look_for_room();
                return Err(refusal);
            }
            let Some(batch) = full else { return Ok(()) };
            _ = self.logged(batch).await; // trouble is told above
        }
    }

    /// Has changes written, if there are any.
    pub(super) fn log_changes(&self) {
        let has_changes = self.state().store.journal_bytes() > 0;
        if has_changes {
            self.write_log();
        }
    }

    /// Begins to write the log, if no task does it.
    pub(super) fn write_log(&self) {
        let Some(writer) = self.state().log.as_mut().and_then(|log| log.writer.take()) else {
            return;
        };
        let writing = Writing { registry: self.clone(), writer: Some(writer) };
        runtime::spawn_named("registry log", writing.run());
    }

    /// Takes what was gathered for the log. `None` if there is nothing.
    fn take_batch(&self, writer: &Writer) -> Option<Batch> {
        let clock = self.now();
        let State { store, log, .. } = &mut *self.state();
        let log = log.as_mut()?;
        if store.journal_bytes() == 0 {
            return None;
        }
        let makes_snapshot = log.making.is_none()
            && log.trouble.is_none()
            && writer.is_full(store.bytes())
            && store.has_bounded_history();
        let number = log.gathering;
        log.gathering += 1;
        let ops = store.take_journal();
        if let Some(making) = &mut log.making {
            making.note_logged(ops.len());
        }
        let dump = makes_snapshot.then(|| store.dump(clock));
        if makes_snapshot {
            log.making = Some(Making::of(store.bytes(), writer.log_bytes()));
        }
        Some(Batch { number, ops, revision: store.revision(), clock, dump })
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
            self.registry.note_failure(failure::log(&error));
        }
    }

    async fn write(&mut self) -> io::Result<()> {
        loop {
            let Some(writer) = &mut self.writer else {
                return Ok(());
            };
            // All changes of this turn of the core share a sync.
            runtime::yield_now().await;
            self.registry.pace().await;
            let Some(mut batch) = self.registry.take_batch(writer) else {
                writer.rest(self.registry.now()).await.or_else(unless_full)?;
                self.registry.note_room(writer.shortage());
                self.rest();
                continue;
            };
            let dump = batch.dump.take();
            let snapshot = dump.map(|dump| self.registry.snapshot_of(dump));
            commit(&self.registry, writer, &batch).await?;
            self.registry.note_logged(&batch);
            self.registry.note_room(writer.shortage());
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
            self.registry.note_failure(failure::log(&error));
        }
    }
}

/// Writes a batch until it is on the disk. A full disk is asked again and again.
async fn commit(registry: &Registry, writer: &mut Writer, batch: &Batch) -> io::Result<()> {
    let mut is_full = false;
    loop {
        match writer.commit(&batch.ops, batch.clock).await {
            Ok(()) => return Ok(()),
            Err(LogError::Failed(error)) => return Err(error),
            Err(LogError::NoRoom(error)) if !is_full => {
                is_full = true;
                registry.note_full(&error);
            }
            Err(LogError::NoRoom(_)) => {}
        }
        runtime::sleep(limits::DISK_FULL_RETRY).await;
    }
}

/// What can wait until a full disk has room is no failure.
fn unless_full(error: LogError) -> io::Result<()> {
    match error {
        LogError::NoRoom(_) => Ok(()),
        LogError::Failed(error) => Err(error),
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
        if let Some(status) = log.trouble.as_ref().and_then(Trouble::of_what_is_under_way) {
            return Poll::Ready(Err(status));
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
