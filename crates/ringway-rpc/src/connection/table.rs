//! The streams of one connection: unread messages, ends, and wakers of handles.
//!
//! ```text
//!  machine's events                    table                         handles, by key
//!  insert(stream) ───────────────► entry ◄───────────────────── poll_messages, drop_reader
//!  push, initial, end, finish ───►  queue, end, two wakers ◄─── wait_writable, drop_writer
//! ```
//!
//! A connection reuses its stream ids: a slot at once, the same generation after 4,095 uses.
//! Received messages may be read long after that. So handles use a [`StreamKey`] of this table, and
//! an entry lives until the stream is over and both handles are gone.
//!
//! Messages wait in a [`Batch`], which a reader takes as a whole. The machine's credit bounds it.

mod over;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::task::{Poll, Waker};

use ringway_wire::native::{Piece, StreamId};

use self::over::Over;
pub(crate) use self::over::SERVED;
use crate::call::metadata::Metadata;
use crate::call::status::Status;
use crate::connection::batch::Batch;
use crate::connection::carrier::Received;
use crate::limits;
use crate::metrics::CallCounters;
use crate::waiters::{Errands, HasErrands, LatestWaker};

/// The key of a stream, unique over the life of its connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct StreamKey {
    index: u32,
    generation: u32,
}

/// The handles that a stream has on this side; a handle that was never made counts as dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handles {
    Reader,
    Writer,
    Both,
}

/// What the handles of a stream wait for, as far as that is the peer's turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waits {
    ForNobody,
    /// The peer has to take something.
    ToSend,
    /// The peer has to say something.
    ToReceive,
}

/// All streams of one connection.
#[derive(Default)]
pub(crate) struct StreamTable {
    entries: Vec<StreamEntry>,
    /// The entry that was freed last, which names the one freed before it.
    free: Option<u32>,
    /// The generation of new entries, above those of entries that were freed.
    generation: u32,
    /// The index of the entry of the stream that holds a slot of the machine.
    by_slot: Vec<Option<u32>>,
    occupied: u32,
    open: u32,
    /// Wakers to run when the table is not borrowed.
    errands: Errands,
}

impl HasErrands for StreamTable {
    #[inline]
    fn errands(&mut self) -> &mut Errands {
        &mut self.errands
    }
}

#[derive(Default)]
struct StreamEntry {
    generation: u32,
    /// The entry freed before this one, if this one is free.
    next_free: Option<u32>,
    /// The machine's id of the stream, until the stream is over.
    stream: Option<StreamId>,
    reader: bool,
    writer: bool,
    /// Whether the writer has finished.
    finished: bool,
    inbox: Inbox,
    reading: Option<Waker>,
    writing: Option<Waker>,
    /// Why the writer cannot send any more.
    over: Option<Over>,
    /// The counters for messages of a served call.
    counters: Option<Arc<CallCounters>>,
    /// Whether the writer has sent a message; on a client, since the last
    /// [`StreamTable::check_writer`].
    begun: bool,
}

/// A message about to be sent.
pub(crate) struct Sending {
    pub(crate) stream: StreamId,
    /// Whether it is the first message, which initial metadata precedes.
    pub(crate) is_first: bool,
}

/// The recent use of a writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriterUse {
    /// The writer has finished or was dropped.
    Finished,
    /// The writer has sent a message, or the reader does not wait.
    InUse,
    /// The writer has sent nothing while the reader waits.
    Forgotten,
}

/// Received data of one reader.
#[derive(Default)]
struct Inbox {
    messages: Batch,
    initial: Option<Metadata>,
    end: Option<Received>,
}

/// Why a message was not queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unread {
    /// There is no reader. The message counts as not taken, so that the peer gets no credit for
    /// more.
    NoReader,
    /// Too many messages wait, which credit does not prevent if they are empty: end the stream with
    /// RESOURCE_EXHAUSTED.
    Full,
}

impl StreamTable {
    /// Adds a stream that was just opened, by either side.
    pub(crate) fn insert(&mut self, stream: StreamId, handles: Handles) -> StreamKey {
        let index = self.free.unwrap_or_else(|| {
            let generation = self.generation;
            self.entries.push(StreamEntry { generation, ..StreamEntry::default() });
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[index as usize];
        self.free = entry.next_free.take();
        entry.stream = Some(stream);
        entry.reader = handles != Handles::Writer;
        entry.writer = handles != Handles::Reader;
        let key = StreamKey { index, generation: entry.generation };
        let slot = stream.slot() as usize;
        if self.by_slot.len() <= slot {
            self.by_slot.resize(slot + 1, None);
        }
        let former = self.by_slot[slot].replace(index);
        debug_assert!(former.is_none(), "the stream before this one has been finished");
        self.occupied += 1;
        self.open += 1;
        key
    }

    /// Counts the messages of a stream on the counters of a served call.
    pub(crate) fn count_on(&mut self, key: StreamKey, counters: Arc<CallCounters>) {
        if let Some(entry) = entry_mut(&mut self.entries, key) {
            entry.counters = Some(counters);
        }
    }

    /// Returns the number of streams that the machine knows.
    pub(crate) fn open(&self) -> usize {
        self.open as usize
    }

    /// Whether no stream is open and no handle is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// Frees the memory that is kept for more streams.
    pub(crate) fn drop_spare(&mut self) {
        if self.is_empty() && !self.entries.is_empty() {
            let generations = self.entries.iter().map(|entry| entry.generation);
            self.generation = generations.max().unwrap_or_default();
            (self.entries, self.free, self.by_slot) = Default::default();
        }
    }

    /// Returns the machine's id of a stream that is not over.
    #[inline]
    pub(crate) fn stream(&self, key: StreamKey) -> Option<StreamId> {
        self.entry(key)?.stream
    }

    /// Whether a handle of the stream exists.
    pub(crate) fn has_handles(&self, key: StreamKey) -> bool {
        self.entry(key).is_some_and(|entry| entry.reader || entry.writer)
    }

    /// What the handles of a stream wait for.
    pub(crate) fn waits(&self, stream: StreamId) -> Waits {
        let entry = self.key(stream).and_then(|key| self.entry(key));
        match entry {
            Some(entry) if entry.writing.is_some() => Waits::ToSend,
            Some(entry) if entry.reading.is_some() => Waits::ToReceive,
            _ => Waits::ForNobody,
        }
    }

    /// Returns a stream's key, while the machine knows the stream.
    pub(crate) fn key(&self, stream: StreamId) -> Option<StreamKey> {
        let index = (*self.by_slot.get(stream.slot() as usize)?)?;
        let entry = &self.entries[index as usize];
        (entry.stream == Some(stream)).then_some(StreamKey { index, generation: entry.generation })
    }
}

/// Events of the machine.
impl StreamTable {
    /// Queues a message for the reader and wakes it.
    ///
    /// # Errors
    /// Fails when the message was dropped instead.
    #[inline]
    pub(crate) fn push(&mut self, stream: StreamId, message: Piece<'_>) -> Result<(), Unread> {
        let Self { entries, by_slot, errands, .. } = self;
        let entry = live(entries, by_slot, stream);
        let entry = entry.filter(|entry| entry.reader).ok_or(Unread::NoReader)?;
        if entry.inbox.messages.len() >= limits::STREAM_MESSAGES_MAX {
            return Err(Unread::Full);
        }
        if let Some(counters) = &entry.counters {
            counters.request_message(message.len());
        }
        entry.inbox.messages.push(message);
        errands.wake(&mut entry.reading);
        Ok(())
    }

    /// Drops a stream's unread messages.
    pub(crate) fn discard(&mut self, stream: StreamId) {
        if let Some(entry) = live(&mut self.entries, &self.by_slot, stream) {
            entry.inbox.messages = Batch::default();
        }
    }

    /// Stores the peer's initial metadata.
    pub(crate) fn initial(&mut self, stream: StreamId, metadata: Metadata) {
        let entry = live(&mut self.entries, &self.by_slot, stream);
        if let Some(entry) = entry.filter(|entry| entry.reader) {
            entry.inbox.initial = Some(metadata);
            self.errands.wake(&mut entry.reading);
        }
    }

    /// Ends the reader after the queued messages, because the peer has half-closed.
    pub(crate) fn end(&mut self, stream: StreamId) {
        if let Some(entry) = live(&mut self.entries, &self.by_slot, stream) {
            entry.end(&mut self.errands, || Received::End(Metadata::default()));
        }
    }

    /// Wakes the writer, because it may send again.
    #[inline]
    pub(crate) fn writable(&mut self, stream: StreamId) {
        if let Some(entry) = live(&mut self.entries, &self.by_slot, stream) {
            self.errands.wake(&mut entry.writing);
        }
    }

    /// Ends a stream; its id may be reused. The reader still gets the queued messages, then the
    /// trailers or the failure; the writer fails at once.
    pub(crate) fn finish(&mut self, stream: StreamId, outcome: Result<Metadata, Status>) {
        match outcome {
            Ok(trailers) => self.close(stream, Over::Answered, || Received::End(trailers)),
            Err(status) => {
                let end = Received::Failed(status.clone());
                self.close(stream, Over::Failed(status), || end);
            }
        }
    }

    /// Ends a stream because this side has answered. Remaining handles fail.
    pub(crate) fn finish_served(&mut self, stream: StreamId) {
        self.close(stream, Over::Served, || Received::Failed(Over::Served.status()));
    }

    fn close(&mut self, stream: StreamId, over: Over, end: impl FnOnce() -> Received) {
        let Some(key) = self.key(stream) else {
            return;
        };
        self.by_slot[stream.slot() as usize] = None;
        let entry = &mut self.entries[key.index as usize];
        entry.stream = None;
        self.open -= 1;
        entry.over = Some(over);
        entry.end(&mut self.errands, end);
        self.errands.wake(&mut entry.writing);
        self.release_if_unused(key);
    }

    /// Ends all streams, because the connection is lost or drained.
    pub(crate) fn finish_all(&mut self, status: &Status) {
        for index in 0..self.entries.len() {
            if let Some(stream) = self.entries[index].stream {
                self.finish(stream, Err(status.clone()));
            }
        }
    }
}

/// Operations of handles.
impl StreamTable {
    /// Exchanges the received messages for the reader's empty batch, or returns how the stream
    /// ended.
    #[inline]
    pub(crate) fn poll_messages(
        &mut self,
        key: StreamKey,
        waker: &mut LatestWaker<'_>,
        batch: &mut Batch,
    ) -> Poll<Received> {
        let Self { entries, errands, .. } = self;
        let Some(entry) = entry_mut(entries, key) else {
            return Poll::Ready(Received::Failed(gone()));
        };
        if !entry.inbox.messages.is_empty() {
            entry.inbox.messages.exchange(batch);
            return Poll::Ready(Received::Messages);
        }
        if let Some(end) = entry.inbox.end.take() {
            return Poll::Ready(end);
        }
        errands.renew(&mut entry.reading, waker);
        Poll::Pending
    }

    /// Polls for the peer's initial metadata, which is returned once.
    pub(crate) fn poll_initial(
        &mut self,
        key: StreamKey,
        waker: &mut LatestWaker<'_>,
    ) -> Poll<Metadata> {
        let Self { entries, errands, .. } = self;
        let Some(entry) = entry_mut(entries, key) else {
            return Poll::Ready(Metadata::default());
        };
        let inbox = &mut entry.inbox;
        if let Some(metadata) = inbox.initial.take() {
            return Poll::Ready(metadata);
        }
        if !inbox.messages.is_empty() || inbox.end.is_some() {
            return Poll::Ready(Metadata::default());
        }
        errands.renew(&mut entry.reading, waker);
        Poll::Pending
    }

    /// Begins to send a message; `None` when the stream is over.
    #[inline]
    pub(crate) fn begin_send(&mut self, key: StreamKey) -> Option<Sending> {
        let entry = entry_mut(&mut self.entries, key)?;
        let stream = entry.stream?;
        Some(Sending { stream, is_first: !std::mem::replace(&mut entry.begun, true) })
    }

    /// Counts a sent message of `bytes` bytes.
    #[inline]
    pub(crate) fn sent(&self, key: StreamKey, bytes: usize) {
        if let Some(counters) = self.entry(key).and_then(|entry| entry.counters.as_ref()) {
            counters.reply_message(bytes);
        }
    }

    /// Returns why the writer cannot send any more; `None` if it can.
    pub(crate) fn failure(&self, key: StreamKey) -> Option<Status> {
        match self.entry(key) {
            Some(entry) => entry.over.as_ref().map(Over::status),
            None => Some(gone()),
        }
    }

    /// Stores the writer's waker, for [`writable`](Self::writable) and the end of the stream.
    pub(crate) fn wait_writable(&mut self, key: StreamKey, waker: &mut LatestWaker<'_>) {
        if let Some(entry) = entry_mut(&mut self.entries, key) {
            self.errands.renew(&mut entry.writing, waker);
        }
    }

    /// Finishes the writer. Returns true the first time, if the stream is open.
    pub(crate) fn finish_writer(&mut self, key: StreamKey) -> bool {
        entry_mut(&mut self.entries, key).is_some_and(|entry| {
            let first = !std::mem::replace(&mut entry.finished, true);
            first && entry.stream.is_some()
        })
    }

    /// Returns the use of the stream's writer since the last call.
    pub(crate) fn check_writer(&mut self, stream: StreamId) -> WriterUse {
        let Some(entry) = live(&mut self.entries, &self.by_slot, stream) else {
            return WriterUse::Finished;
        };
        let has_sent = std::mem::take(&mut entry.begun);
        match () {
            () if entry.finished || !entry.writer => WriterUse::Finished,
            () if has_sent || entry.reading.is_none() => WriterUse::InUse,
            () => WriterUse::Forgotten,
        }
    }

    /// Whether the stream has a writer that has not finished.
    pub(crate) fn has_open_writer(&self, key: StreamKey) -> bool {
        self.entry(key).is_some_and(|entry| entry.writer && !entry.finished)
    }

    /// The reader is gone, and what it has not read.
    pub(crate) fn drop_reader(&mut self, key: StreamKey) {
        if let Some(entry) = entry_mut(&mut self.entries, key) {
            entry.reader = false;
            self.errands.discard(entry.reading.take());
            std::mem::take(&mut entry.inbox).messages.recycle();
            self.release_if_unused(key);
        }
    }

    /// Drops the writer. Returns true if it left an open stream unfinished.
    pub(crate) fn drop_writer(&mut self, key: StreamKey) -> bool {
        let Some(entry) = entry_mut(&mut self.entries, key) else {
            return false;
        };
        entry.writer = false;
        self.errands.discard(entry.writing.take());
        let unfinished = !entry.finished && entry.stream.is_some();
        self.release_if_unused(key);
        unfinished
    }
}

impl StreamTable {
    #[inline]
    fn entry(&self, key: StreamKey) -> Option<&StreamEntry> {
        self.entries.get(key.index as usize).filter(|entry| entry.generation == key.generation)
    }

    fn release_if_unused(&mut self, key: StreamKey) {
        let entry = &mut self.entries[key.index as usize];
        if entry.stream.is_none() && !entry.reader && !entry.writer {
            *entry = StreamEntry {
                generation: entry.generation.wrapping_add(1),
                next_free: self.free.replace(key.index),
                ..StreamEntry::default()
            };
            self.occupied -= 1;
        }
    }
}

#[inline]
fn entry_mut(entries: &mut [StreamEntry], key: StreamKey) -> Option<&mut StreamEntry> {
    entries.get_mut(key.index as usize).filter(|entry| entry.generation == key.generation)
}

/// Returns the stream's entry, while the machine knows the stream.
#[inline]
fn live<'a>(
    entries: &'a mut [StreamEntry],
    by_slot: &[Option<u32>],
    stream: StreamId,
) -> Option<&'a mut StreamEntry> {
    let index = (*by_slot.get(stream.slot() as usize)?)?;
    Some(&mut entries[index as usize]).filter(|entry| entry.stream == Some(stream))
}

impl StreamEntry {
    fn end(&mut self, errands: &mut Errands, end: impl FnOnce() -> Received) {
        if self.reader && self.inbox.end.is_none() {
            self.inbox.end = Some(end());
            errands.wake(&mut self.reading);
        }
    }
}

fn gone() -> Status {
    Status::internal("the stream was used after its handle had been dropped")
}
