//! Reading the folder of a registry when it starts.

use std::path::Path;
use std::time::Duration;

use ringway_runtime as runtime;
use ringway_runtime::fs::OpenOptions;

use super::folder::{Folder, FolderFiles, log_name, snapshot_name};
use super::frame::{Frames, Header, Ids, NextFrame};
use super::snapshot::{read_snapshot, write_snapshot};
use super::writer::Writer;
use crate::endpoint::Error;
use crate::limits;
use crate::store::{Revision, Store};

/// A registry as its folder has it.
pub(crate) struct Recovered {
    pub(crate) store: Store,
    pub(crate) writer: Writer,
    /// The clock of the leases, which has stood still meanwhile.
    pub(crate) clock: Duration,
    /// What there was to mend.
    pub(crate) notice: Option<String>,
}

/// Reads everything that is in a folder, or begins it with this revision if it is empty.
///
/// # Errors
/// Fails as the disk does, and if files are missing or damaged.
pub(crate) async fn recover(folder: Folder, first: Revision) -> Result<Recovered, Error> {
    let listing = folder.list().await?;
    for name in &listing.unfinished {
        folder.remove(name).await?;
    }
    match listing.snapshots.last() {
        Some(newest) => recover_from(folder, *newest, &listing).await,
        None => begin(folder, &listing, first).await,
    }
}

/// A registry without keys. Its first log is there before its first snapshot, so that a snapshot without its log is
/// known to have lost it.
async fn begin(folder: Folder, listing: &FolderFiles, first: Revision) -> Result<Recovered, Error> {
    for number in &listing.logs {
        let name = log_name(*number);
        let bytes = folder.read(&name).await?;
        let is_empty = |mut frames: Frames<'_>| matches!(frames.next(), NextFrame::End);
        let is_begun = bytes.len() <= Header::BYTES || Frames::of(&bytes).is_some_and(is_empty);
        if *number != FIRST || !is_begun {
            return Err(missing(&folder.shown(&snapshot_name(*number))));
        }
        folder.remove(&name).await?;
    }
    let ids = Ids::random();
    let created = Writer::create(folder.clone(), FIRST, 0, ids).await;
    let writer = created.map_err(|error| folder.failed("write", &log_name(FIRST), &error))?;
    let mut store = Store::beginning_at(first);
    let mut dump = store.dump(Duration::ZERO);
    let pieces = || store.next_piece(&mut dump, limits::SNAPSHOT_PIECE_BYTES);
    write_snapshot(&folder, FIRST, ids, Duration::ZERO, pieces).await?;
    store.end_dump();
    Ok(Recovered { store, writer, clock: Duration::ZERO, notice: None })
}

async fn recover_from(
    folder: Folder,
    newest: u64,
    listing: &FolderFiles,
) -> Result<Recovered, Error> {
    let (mut store, ids, mut clock) = read_snapshot(&folder, newest).await?;
    let logs: Vec<u64> = listing.logs.iter().copied().filter(|log| *log >= newest).collect();
    for (expected, number) in (newest..).zip(&logs) {
        if *number != expected {
            return Err(missing(&folder.shown(&log_name(expected))));
        }
    }
    let Some(last) = logs.last().copied() else {
        return Err(missing(&folder.shown(&log_name(newest))));
    };
    let mut next = None;
    let mut ending = None;
    for number in logs {
        let replay = Replay { folder: &folder, number, ids, next, is_last: number == last };
        let end = replay.run(&mut store, &mut clock).await?;
        next = Some(end.next);
        ending = Some(end);
    }
    let end = ending.expect("there is a last log");
    // After the end of the process, the disk may not have the names that were found.
    folder.settle().await?;
    folder.remove_before(newest).await?;
    let name = log_name(last);
    let opened = OpenOptions::new().write(true).open(folder.place(&name)).await;
    let file = opened.map_err(|error| folder.failed("open", &name, &error))?;
    // What was read may be in the kernel's memory only, after the end of the process. And no rest of a frame that is cut
    // off may come after a new one.
    let settled = async {
        if end.torn > 0 {
            file.set_len(end.at).await?;
        }
        file.sync_all().await
    };
    settled.await.map_err(|error| folder.failed("sync", &name, &error))?;
    let mut notice = None;
    if end.torn > 0 {
        notice = Some(format!(
            "cut {} bytes off {} at byte {}: the last write was not completed, and nobody was told that it was",
            end.torn,
            folder.shown(&name).display(),
            end.at
        ));
    }
    let Some(header) = end.header else {
        folder.remove(&name).await?;
        let created = Writer::create(folder.clone(), last, end.next, ids).await;
        let writer = created.map_err(|error| folder.failed("write", &name, &error))?;
        return Ok(Recovered { store, writer, clock, notice });
    };
    let writer = Writer::resume(folder, header, file, &end);
    Ok(Recovered { store, writer, clock, notice })
}

/// One file of the log, and what is known of it.
struct Replay<'a> {
    folder: &'a Folder,
    number: u64,
    ids: Ids,
    /// The sequence number that it begins with, unless it is the first.
    next: Option<u64>,
    is_last: bool,
}

/// The end of a file of the log.
pub(super) struct End {
    /// `None` if the file was made and nothing was written to it.
    header: Option<Header>,
    /// The place behind the last frame.
    pub(super) at: u64,
    /// The sequence number of the next frame.
    pub(super) next: u64,
    /// Zeros behind it, which were written for the next frames.
    pub(super) zeros: u64,
    /// Bytes of a write that was not completed.
    torn: u64,
}

impl Replay<'_> {
    async fn run(self, store: &mut Store, clock: &mut Duration) -> Result<End, Error> {
        let name = log_name(self.number);
        let path = self.folder.shown(&name);
        let bytes = self.folder.read(&name).await?;
        let Some(mut frames) = Frames::of(&bytes) else {
            // A file whose header was not synced has no frames.
            return match (self.is_last && bytes.len() <= Header::BYTES, self.next) {
                (true, Some(next)) => Ok(End { header: None, at: 0, next, zeros: 0, torn: 0 }),
                _ => Err(damaged(&path, 0)),
            };
        };
        let Header { number, ids, first, .. } = frames.header;
        let follows = self.next.is_none_or(|next| next == first);
        if number != self.number || ids != self.ids || !follows {
            return Err(damaged(&path, 0));
        }
        let mut turns = Turns::default();
        loop {
            let at = frames.at;
            match frames.next() {
                NextFrame::Frame(frame) => {
                    *clock = frame.clock;
                    store.apply(frame.payload, frame.clock).map_err(|_| damaged(&path, at))?;
                    turns.after(frame.payload.len()).await;
                }
                NextFrame::Torn if self.is_last => {
                    let torn =
                        bytes[at..].iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
                    return Ok(End { torn: torn as u64, ..frames.end(0) });
                }
                NextFrame::End => return Ok(frames.end(bytes.len() - at)),
                NextFrame::Torn | NextFrame::Damage => return Err(damaged(&path, at)),
            }
        }
    }
}

/// Gives other tasks of the core their turns while much is read.
#[derive(Default)]
pub(super) struct Turns {
    bytes: usize,
}

impl Turns {
    /// So many bytes more have been read.
    pub(super) async fn after(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes >= limits::RESTORED_BYTES_AT_ONCE {
            self.bytes = 0;
            runtime::yield_now().await;
        }
    }
}

impl Frames<'_> {
    fn end(&self, zeros: usize) -> End {
        let (at, zeros) = (self.at as u64, zeros as u64);
        End { header: Some(self.header), at, next: self.next, zeros, torn: 0 }
    }
}

/// A file has bytes that nobody has written like that.
pub(super) fn damaged(path: &Path, at: usize) -> Error {
    Error::new(format!(
        "{} is damaged at byte {at}, and nothing is read from there on; restore the folder from a copy, or move it \
         away to begin without keys",
        path.display()
    ))
}

fn missing(path: &Path) -> Error {
    Error::new(format!(
        "{} is missing; restore the folder from a copy, or move it away to begin without keys",
        path.display()
    ))
}

/// The number of the first log and snapshot.
const FIRST: u64 = 1;
