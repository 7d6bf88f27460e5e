//! Writing the log.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::fs::{self, File, OpenOptions};

use super::folder::Folder;
use super::frame::{Header, Ids};
use super::recovery::End;

/// The last file of a log. After an error it is of no use any more, since nobody knows what the disk has, unless there
/// was [no room](LogError::NoRoom).
pub(crate) struct Writer {
    folder: Folder,
    header: Header,
    file: File,
    /// The end of the last frame.
    at: u64,
    /// The end of the zeros behind it, which is the end of the file. A sync of what is written over zeros has nothing to
    /// change in the file system's own records.
    zeroed: u64,
    /// The sequence number of the next frame.
    next: u64,
    /// The first sequence number that may not be on the disk.
    synced: u64,
    /// Whether the last frame was synced, and nothing in the file says so.
    is_unmarked: bool,
}

/// The log could not be written.
#[derive(Debug)]
pub(crate) enum LogError {
    /// The disk is full. What is on it is as it was, so the same can be written again.
    NoRoom(io::Error),
    /// Nobody knows what the disk has.
    Failed(io::Error),
}

impl LogError {
    /// A write has failed, after which nothing was synced.
    fn of_write(error: io::Error) -> Self {
        if is_full(&error) { Self::NoRoom(error) } else { Self::Failed(error) }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl Writer {
    /// Begins a file of the log, whose name is on the disk when this returns.
    pub(super) async fn create(
        folder: Folder,
        number: u64,
        next: u64,
        ids: Ids,
    ) -> io::Result<Self> {
        let header = Header::new(number, next, ids);
        let options = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(folder.log(number)).await?;
        let bytes = header.encode();
        let at = bytes.len() as u64;
        file.write_all_at(0, bytes).await?;
        file.sync_all().await?;
        folder.sync().await?;
        let zeroed = at;
        Ok(Self { folder, header, file, at, zeroed, next, synced: next, is_unmarked: false })
    }

    /// Goes on behind the last frame of a file, which is on the disk.
    pub(super) fn resume(folder: Folder, header: Header, file: File, end: &End) -> Self {
        let End { at, next, zeros, .. } = *end;
        let zeroed = at + zeros;
        Self { folder, header, file, at, zeroed, next, synced: next, is_unmarked: false }
    }

    /// Writes changes and waits until they are on the disk.
    ///
    /// # Errors
    /// Fails as the disk does. Where there was no room, only the same changes with the same clock may be written next.
    pub(crate) async fn commit(&mut self, ops: &[u8], clock: Duration) -> Result<(), LogError> {
        self.write(ops, clock).await.map_err(LogError::of_write)?;
        // Whatever a sync that fails says, the kernel may have forgotten what it has not written.
        self.file.sync_data().await.map_err(LogError::Failed)?;
        self.synced = self.next;
        self.is_unmarked = true;
        Ok(())
    }

    /// Writes behind what is synced a frame without changes, for whose sake nobody waits. By it the next start tells
    /// damage from a write that was not completed.
    pub(crate) async fn mark(&mut self, clock: Duration) -> Result<(), LogError> {
        if !std::mem::take(&mut self.is_unmarked) {
            return Ok(());
        }
        match self.write(&[], clock).await.map_err(LogError::of_write) {
            // The next frame is written over what there may be of this one, and is longer.
            Err(LogError::NoRoom(_)) => {
                self.is_unmarked = true;
                Ok(())
            }
            marked => marked,
        }
    }

    async fn write(&mut self, ops: &[u8], clock: Duration) -> io::Result<()> {
        let frame = self.header.frame(self.next, self.synced, clock, ops);
        let bytes = frame.len() as u64;
        self.file.write_all_at(self.at, Bytes::from(frame)).await?;
        self.at += bytes;
        self.next += 1;
        if self.at > self.zeroed { self.write_ahead().await } else { Ok(()) }
    }

    /// Writes zeros where the next frames will be. The sync of the frame that was just written has them on the disk.
    async fn write_ahead(&mut self) -> io::Result<()> {
        self.zeroed = self.at;
        let zeros = Bytes::from(vec![0; self.folder.log_ahead_bytes]);
        match self.file.write_all_at(self.at, zeros).await {
            Ok(_) => self.zeroed += self.folder.log_ahead_bytes as u64,
            // The frames themselves may fit.
            Err(error) if is_full(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether the next file should begin.
    pub(crate) fn is_full(&self) -> bool {
        self.at >= self.folder.log_bytes_max
    }

    /// Begins the next file. Returns its number, which a snapshot of what is before it has too.
    ///
    /// # Errors
    /// Fails as the disk does. Where there was no room, the log goes on in this file.
    pub(crate) async fn rotate(&mut self) -> Result<u64, LogError> {
        let number = self.header.number + 1;
        match Self::create(self.folder.clone(), number, self.next, self.header.ids).await {
            Ok(next) => {
                *self = next;
                Ok(number)
            }
            Err(error) => {
                // A start would take what there is of it for the end of the log.
                let removed = fs::remove_file(self.folder.log(number)).await;
                if removed.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
                    return Err(LogError::Failed(error));
                }
                self.folder.sync().await.map_err(LogError::Failed)?;
                Err(LogError::of_write(error))
            }
        }
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn ids(&self) -> Ids {
        self.header.ids
    }
}
