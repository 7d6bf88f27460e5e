//! The streams of one connection: what was received and not yet read, how each ended, who waits.
//!
//! ```text
//!  machine's events                    table                         handles, by key
//!  insert(stream) ───────────────► entry ◄───────────────────── poll_messages, drop_reader
//!  push, initial, end, finish ───►  queue, end, two wakers ◄─── wait_writable, drop_writer
//! ```
//!
//! A connection reuses its stream ids, at once and after 4,095 turns with the same generation. What
//! was received may be read long after. So handles know a stream by a [`StreamKey`] of the table's
//! own, and an entry lives until the stream is over and both handles are gone.
//!
//! Messages wait in a [`Batch`], which a reader takes as a whole. The machine's credit bounds it.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::task::{Poll, Waker};

use ringway_wire::native::{Piece, StreamId};

use crate::call::metadata::Metadata;
use crate::call::status::Status;
use crate::connection::batch::Batch;
use crate::connection::carrier::Received;
use crate::limits;
use crate::metrics::CallCounters;
use crate::waiters::{Errands, HasErrands, LatestWaker};

/// Names a stream among all that its connection ever had.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct StreamKey {
    index: u32,
    generation: u32,
}

/// Which handles a stream has at this side; a half that was never handed out counts as dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handles {
    Reader,
    Writer,
    Both,
}

/// All streams of one connection.
#[derive(Default)]
pub(crate) struct StreamTable {
    entries: Vec<StreamEntry>,
    free: Vec<u32>,
    /// By the machine's slot: the entry of the stream that holds it now.
    by_slot: Vec<Option<u32>>,
    occupied: usize,
    open: usize,
    /// Handles that are to be woken when the table is not borrowed any more.
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
    /// While the machine knows it.
    stream: Option<StreamId>,
    reader: bool,
    writer: bool,
    /// The writer has said that it is done.
    finished: bool,
    inbox: Inbox,
    reading: Option<Waker>,
    writing: Option<Waker>,
    /// Why a writer can no more.
    over: Option<Over>,
    /// Where the messages of a call that is served are counted.
    counters: Option<Arc<CallCounters>>,
    /// The writer has sent a message; at a client, since [`StreamTable::check_writer`] looked.
    begun: bool,
}

/// The message for handles that are used after their handler's return.
pub(crate) const SERVED: &str = "the call is over: its handler has returned";

/// A message that is about to be sent.
pub(crate) struct Sending {
    pub(crate) stream: StreamId,
    /// It is the first, which initial metadata goes with.
    pub(crate) is_first: bool,
}

/// What a writer has done lately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriterUse {
    /// It is finished or gone.
    Finished,
    /// It has sent a message, or nobody waits for the other side.
    InUse,
    /// It has sent nothing, while the reader waits for the other side.
    Forgotten,
}

/// How a stream came to its end. It becomes a status only for a handle that asks, which few do.
enum Over {
    /// The peer has answered.
    Answered,
    /// This side has answered.
    Served,
    Failed(Status),
}

/// What was received for one reader.
#[derive(Default)]
struct Inbox {
    messages: Batch,
    initial: Option<Metadata>,
    end: Option<Received>,
}

/// Why a message was not queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unread {
    /// The reader is gone, or never was. The message counts as not taken, so that the peer gets
    /// no credit for more.
    NoReader,
    /// Too many messages wait, which credit does not prevent where they are empty: end the stream
    /// as RESOURCE_EXHAUSTED.
    Full,
}

impl StreamTable {
    /// Takes in a stream that has just been opened, here or by the peer.
    pub(crate) fn insert(&mut self, stream: StreamId, handles: Handles) -> StreamKey {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(StreamEntry::default());
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[index as usize];
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

    /// Has the messages of a stream counted, as those of a call that is served.
    pub(crate) fn count_on(&mut self, key: StreamKey, counters: Arc<CallCounters>) {
        if let Some(entry) = entry_mut(&mut self.entries, key) {
            entry.counters = Some(counters);
        }
    }

    /// Streams that the machine knows.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Whether no stream is open and no handle is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// The machine's name for a stream that is not over.
    #[inline]
    pub(crate) fn stream(&self, key: StreamKey) -> Option<StreamId> {
        self.entry(key)?.stream
    }

    /// Whether somebody still has a handle of a stream.
    pub(crate) fn has_handles(&self, key: StreamKey) -> bool {
        self.entry(key).is_some_and(|entry| entry.reader || entry.writer)
    }

    /// A stream's key, while the machine knows it.
    pub(crate) fn key(&self, stream: StreamId) -> Option<StreamKey> {
        let index = (*self.by_slot.get(stream.slot() as usize)?)?;
        let entry = &self.entries[index as usize];
        (entry.stream == Some(stream)).then_some(StreamKey { index, generation: entry.generation })
    }
}

/// What the machine reports.
impl StreamTable {
    /// Queues a message for the reader and wakes it.
    ///
    /// # Errors
    /// When it was dropped instead.
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

    /// Forgets what a stream's reader has not read.
    pub(crate) fn discard(&mut self, stream: StreamId) {
        if let Some(entry) = live(&mut self.entries, &self.by_slot, stream) {
            entry.inbox.messages = Batch::default();
        }
    }

    /// Keeps what the peer said before its first message.
    pub(crate) fn initial(&mut self, stream: StreamId, metadata: Metadata) {
        let entry = live(&mut self.entries, &self.by_slot, stream);
        if let Some(entry) = entry.filter(|entry| entry.reader) {
            entry.inbox.initial = Some(metadata);
            self.errands.wake(&mut entry.reading);
        }
    }

    /// The peer has closed its half: the reader ends after what is queued.
    pub(crate) fn end(&mut self, stream: StreamId) {
        if let Some(entry) = live(&mut self.entries, &self.by_slot, stream) {
            entry.end(&mut self.errands, || Received::End(Metadata::default()));
        }
    }

    /// The writer may go on.
    #[inline]
    pub(crate) fn writable(&mut self, stream: StreamId) {
        if let Some(entry) = live(&mut self.entries, &self.by_slot, stream) {
            self.errands.wake(&mut entry.writing);
        }
    }

    /// The stream is over and its id may be used again. The reader still gets what is queued, then
    /// the trailers or the failure; the writer fails at once.
    pub(crate) fn finish(&mut self, stream: StreamId, outcome: Result<Metadata, Status>) {
        match outcome {
            Ok(trailers) => self.close(stream, Over::Answered, || Received::End(trailers)),
            Err(status) => {
                let end = Received::Failed(status.clone());
                self.close(stream, Over::Failed(status), || end);
            }
        }
    }

    /// The stream is over, since this side has answered. Handles that are left fail.
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

    /// Finishes all streams: the connection is lost, or drained.
    pub(crate) fn finish_all(&mut self, status: &Status) {
        for index in 0..self.entries.len() {
            if let Some(stream) = self.entries[index].stream {
                self.finish(stream, Err(status.clone()));
            }
        }
    }
}

/// What handles do.
impl StreamTable {
    /// Exchanges what has been received for the reader's empty batch, or says how the stream ended.
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

    /// What the peer said before its first message, once.
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

    /// The writer sends a message; `None` when it can no more.
    #[inline]
    pub(crate) fn begin_send(&mut self, key: StreamKey) -> Option<Sending> {
        let entry = entry_mut(&mut self.entries, key)?;
        let stream = entry.stream?;
        Some(Sending { stream, is_first: !std::mem::replace(&mut entry.begun, true) })
    }

    /// The writer has sent a message of so many bytes.
    #[inline]
    pub(crate) fn sent(&self, key: StreamKey, bytes: usize) {
        if let Some(counters) = self.entry(key).and_then(|entry| entry.counters.as_ref()) {
            counters.reply_message(bytes);
        }
    }

    /// Why the writer can no more, if so.
    pub(crate) fn failure(&self, key: StreamKey) -> Option<Status> {
        match self.entry(key) {
            Some(entry) => entry.over.as_ref().map(Over::status),
            None => Some(gone()),
        }
    }

    /// Has the writer woken by [`writable`](Self::writable) or when the stream is over.
    pub(crate) fn wait_writable(&mut self, key: StreamKey, waker: &mut LatestWaker<'_>) {
        if let Some(entry) = entry_mut(&mut self.entries, key) {
            self.errands.renew(&mut entry.writing, waker);
        }
    }

    /// The writer is done. `true` the first time, and while the stream is open.
    pub(crate) fn finish_writer(&mut self, key: StreamKey) -> bool {
        entry_mut(&mut self.entries, key).is_some_and(|entry| {
            let first = !std::mem::replace(&mut entry.finished, true);
            first && entry.stream.is_some()
        })
    }

    /// What the stream's writer has done since this was asked last.
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

    /// The writer is gone. `true` if it left an open stream unfinished.
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
                ..StreamEntry::default()
            };
            self.free.push(key.index);
            self.occupied -= 1;
        }
    }
}

#[inline]
fn entry_mut(entries: &mut [StreamEntry], key: StreamKey) -> Option<&mut StreamEntry> {
    entries.get_mut(key.index as usize).filter(|entry| entry.generation == key.generation)
}

/// The stream's entry, while the machine knows it.
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

impl Over {
    fn status(&self) -> Status {
        match self {
            Self::Answered => Status::cancelled("the call is over: the peer has answered"),
            Self::Served => Status::cancelled(SERVED),
            Self::Failed(status) => status.clone(),
        }
    }
}

fn gone() -> Status {
    Status::internal("the stream was used after its handle had been dropped")
}
