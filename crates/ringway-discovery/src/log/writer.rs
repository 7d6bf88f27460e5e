//! Writing the log.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::fs::{File, OpenOptions};

use super::folder::Folder;
use super::frame::{Header, Ids};

/// The last file of a log. After the first error it is of no use any more: nobody knows what the disk has.
pub(crate) struct Writer {
    folder: Folder,
    header: Header,
    file: File,
    /// The end of the file.
    at: u64,
    /// The sequence number of the next frame.
    next: u64,
    /// The first sequence number that may not be on the disk.
    synced: u64,
    /// Whether the last frame was synced, and nothing in the file says so.
    is_unmarked: bool,
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
        Ok(Self { folder, header, file, at, next, synced: next, is_unmarked: false })
    }

    /// Goes on behind the last frame of a file, which is on the disk.
    pub(super) fn resume(folder: Folder, header: Header, file: File, at: u64, next: u64) -> Self {
        Self { folder, header, file, at, next, synced: next, is_unmarked: false }
    }

    /// Writes changes and waits until they are on the disk.
    pub(crate) async fn commit(&mut self, ops: &[u8], clock: Duration) -> io::Result<()> {
        self.write(ops, clock).await?;
        self.file.sync_data().await?;
        self.synced = self.next;
        self.is_unmarked = true;
        Ok(())
    }

    /// Writes behind what is synced a frame without changes, for whose sake nobody waits. By it the next start tells
    /// damage from a write that was not completed.
    pub(crate) async fn mark(&mut self, clock: Duration) -> io::Result<()> {
        match std::mem::take(&mut self.is_unmarked) {
            true => self.write(&[], clock).await,
            false => Ok(()),
        }
    }

    async fn write(&mut self, ops: &[u8], clock: Duration) -> io::Result<()> {
        let frame = self.header.frame(self.next, self.synced, clock, ops);
        let bytes = frame.len() as u64;
        self.file.write_all_at(self.at, Bytes::from(frame)).await?;
        self.at += bytes;
        self.next += 1;
        Ok(())
    }

    /// Whether the next file should begin.
    pub(crate) fn is_full(&self) -> bool {
        self.at >= self.folder.log_bytes_max
    }

    /// Begins the next file. Returns its number, which a snapshot of what is before it has too.
    pub(crate) async fn rotate(&mut self) -> io::Result<u64> {
        let number = self.header.number + 1;
        *self = Self::create(self.folder.clone(), number, self.next, self.header.ids).await?;
        Ok(number)
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn ids(&self) -> Ids {
        self.header.ids
    }
}
