//! Writing the log.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::fs::{self, File, OpenOptions};

use super::folder::{Folder, log_name};
use super::frame::{Header, Ids};
use super::recovery::End;
use crate::limits;

/// The last file of a log. After an error it is of no use any more, since nobody knows what the disk has, unless there
/// was [no room](LogError::NoRoom).
pub(crate) struct Writer {
    folder: Folder,
    header: Header,
    file: File,
    /// The end of the last frame.
    at: u64,
    /// The end of the zeros behind it. A sync of what is written over zeros has nothing to change in the file system's own
    /// records, and there is room for it when the disk is full.
    zeroed: u64,
    /// Why there are fewer zeros than there should be: the disk is full.
    shortage: Option<io::Error>,
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
        // One that is there has what somebody was told, whoever has written it.
        let options = OpenOptions::new().write(true).create_new(true).mode(0o600);
        let file = options.open(folder.place(&log_name(number))).await?;
        let bytes = header.encode();
        let at = bytes.len() as u64;
        file.write_all_at(0, bytes).await?;
        file.sync_all().await?;
        folder.sync().await?;
        let mut created = Self::at(folder, header, file, at, next);
        created.write_ahead().await?;
        Ok(created)
    }

    fn at(folder: Folder, header: Header, file: File, at: u64, next: u64) -> Self {
        let (zeroed, shortage) = (at, None);
        let (synced, is_unmarked) = (next, false);
        Self { folder, header, file, at, zeroed, shortage, next, synced, is_unmarked }
    }

    /// Goes on behind the last frame of a file, which is on the disk.
    pub(super) fn resume(folder: Folder, header: Header, file: File, end: &End) -> Self {
        let End { at, next, zeros, .. } = *end;
        Self { zeroed: at + zeros, ..Self::at(folder, header, file, at, next) }
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

    /// Does what can wait until nobody waits: makes room ahead where there was none, and marks what is synced.
    ///
    /// # Errors
    /// Fails as the disk does.
    pub(crate) async fn rest(&mut self, clock: Duration) -> Result<(), LogError> {
        self.write_ahead().await.map_err(LogError::of_write)?;
        self.mark(clock).await
    }

    /// Writes behind what is synced a frame without changes. By it the next start tells damage from a write that was not
    /// completed.
    async fn mark(&mut self, clock: Duration) -> Result<(), LogError> {
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
        self.write_ahead().await
    }

    /// Writes zeros where the next frames will be, once half of them are used. The sync of the frame that was just written
    /// has them on the disk.
    async fn write_ahead(&mut self) -> io::Result<()> {
        self.zeroed = self.zeroed.max(self.at);
        let ahead = self.folder.log_ahead_bytes;
        if self.zeroed - self.at < ahead as u64 / 2 {
            match self.file.write_all_at(self.zeroed, vec![0; ahead]).await {
                Ok(()) => self.zeroed += ahead as u64,
                Err(error) if is_full(&error) => {
                    self.shortage = Some(error);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.shortage = None;
        Ok(())
    }

    /// Why there is no room ahead of the log: only what is short fits any more.
    pub(crate) fn shortage(&self) -> Option<&io::Error> {
        self.shortage.as_ref()
    }

    /// Whether the next file should begin, and a snapshot of keys of so many bytes be made.
    pub(crate) fn is_full(&self, keys_bytes: usize) -> bool {
        self.at >= self.log_bytes().max(keys_bytes / limits::LOG_KEYS_SHARE) as u64
    }

    /// The bytes of a file of the log, after which the next one begins where there are few keys.
    pub(crate) fn log_bytes(&self) -> usize {
        self.folder.log_bytes_max
    }

    /// Begins the next file. Returns its number, which a snapshot of what is before it has too.
    ///
    /// # Errors
    /// Fails as the disk does. Where there was no room, the log goes on in this file.
    pub(crate) async fn rotate(&mut self) -> Result<u64, LogError> {
        self.folder.check().await.map_err(LogError::Failed)?;
        let number = self.header.number + 1;
        let created = Self::create(self.folder.clone(), number, self.next, self.header.ids).await;
        let error = match created {
            Ok(Self { shortage: Some(error), .. }) => error,
            Ok(next) => {
                *self = next;
                return Ok(number);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(LogError::Failed(error));
            }
            Err(error) => error,
        };
        // A start would take what there is of it for the end of the log.
        let removed = fs::remove_file(self.folder.place(&log_name(number))).await;
        if removed.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
            return Err(LogError::Failed(error));
        }
        self.folder.sync().await.map_err(LogError::Failed)?;
        Err(LogError::of_write(error))
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn ids(&self) -> Ids {
        self.header.ids
    }
}
