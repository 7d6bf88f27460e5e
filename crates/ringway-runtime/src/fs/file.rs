//! An open file.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::options::OpenOptions;
use super::run::{kernel_path, release, run, unexpected};
use crate::driver::files::{FileAnswer, FileDescriptor, FileOp, Metadata};
use crate::limits;

/// An open regular file. Clones share it; the last one dropped closes it, which the core does not wait for.
///
/// Places are named by each call: there is no position. So tasks may read and write one file at the same
/// time, and calls that are under way at once are done in no particular order. A future that is dropped
/// leaves it open whether its operation is done, and also when: it may still be done after a later one.
///
/// ```
/// use ringway_runtime::fs::File;
///
/// # let dir = std::env::temp_dir().join(format!("ringway-file-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// # let path = dir.join("file");
/// ringway_runtime::block_on(async move {
///     let file = File::create(&path).await?;
///     file.write_all_at(0, "hello, world").await?;
///     file.sync_all().await?;
///     let file = File::open(&path).await?;
///     assert_eq!(file.read_exact_at(7, 5, Vec::new()).await?, b"world");
///     assert_eq!(file.metadata().await?.len, 12);
///     std::io::Result::Ok(())
/// })??;
/// # std::fs::remove_dir_all(dir)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct File {
    descriptor: Option<Arc<FileDescriptor>>,
}

impl File {
    /// Opens a file to read it.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub async fn open(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).open(path).await
    }

    /// Opens a file to read it, by a path that must not leave the directory `root`: for paths that a stranger
    /// has chosen. The kernel watches every step of the path, so neither `..` nor a symbolic link leads out, not
    /// even one that is made meanwhile; links that stay below `root` are followed. It is done by the blocking
    /// pool, and takes Linux 5.6.
    ///
    /// # Errors
    /// `CrossesDevices` when the path leaves `root` or is absolute; otherwise as [`open`](Self::open).
    pub async fn open_beneath(root: impl AsRef<Path>, path: impl AsRef<Path>) -> io::Result<File> {
        let (root, path) = (kernel_path(root.as_ref())?, kernel_path(path.as_ref())?);
        match run(FileOp::OpenBeneath { root, path }).await? {
            FileAnswer::Opened(descriptor) => Ok(File::of(descriptor)),
            other => Err(unexpected(&other)),
        }
    }

    /// Opens an empty file to read and write it: one that exists is emptied.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub async fn create(path: impl AsRef<Path>) -> io::Result<File> {
        let options = OpenOptions::new().read(true).write(true);
        options.create(true).truncate(true).open(path).await
    }

    pub(super) fn of(descriptor: FileDescriptor) -> Self {
        Self { descriptor: Some(Arc::new(descriptor)) }
    }

    /// Reads at most `bytes_max` bytes that begin at `at`, behind what is in `buffer`, and gives the buffer
    /// back: as it was at the end of the file. May read less at any time, and never more than 512 KiB.
    ///
    /// # Errors
    /// The kernel's; the buffer is lost with it.
    pub async fn read_at(
        &self,
        at: u64,
        bytes_max: usize,
        mut buffer: Vec<u8>,
    ) -> io::Result<Vec<u8>> {
        let bytes = bytes_max.min(limits::FILE_PIECE_BYTES_MAX);
        buffer.try_reserve(bytes)?;
        match run(FileOp::Read { file: self.share(), at, bytes, buffer }).await? {
            FileAnswer::Read(buffer) => Ok(buffer),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads as [`read_at`](Self::read_at), all of `bytes` bytes.
    ///
    /// # Errors
    /// `UnexpectedEof` where the file ends before, or the kernel's.
    pub async fn read_exact_at(
        &self,
        at: u64,
        bytes: usize,
        mut buffer: Vec<u8>,
    ) -> io::Result<Vec<u8>> {
        buffer.try_reserve(bytes)?;
        let mut read = 0;
        while read < bytes {
            let before = buffer.len();
            buffer = self.read_at(at + read as u64, bytes - read, buffer).await?;
            if buffer.len() == before {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            read += buffer.len() - before;
        }
        Ok(buffer)
    }

    /// Writes bytes from `at` on and tells how many: perhaps not all, and never more than 512 KiB. A file
    /// that is shorter gets zeros up to there.
    ///
    /// # Errors
    /// The kernel's, such as `StorageFull`.
    pub async fn write_at(&self, at: u64, bytes: impl Into<Bytes>) -> io::Result<usize> {
        self.write(Some(at), bytes.into()).await
    }

    /// Writes all of `bytes` from `at` on.
    ///
    /// # Errors
    /// The kernel's; some of the bytes may be written then, and `WriteZero` where it takes none.
    pub async fn write_all_at(&self, at: u64, bytes: impl Into<Bytes>) -> io::Result<()> {
        let mut rest = bytes.into();
        let mut at = at;
        while !rest.is_empty() {
            let written = self.write(Some(at), rest.clone()).await?;
            let _written = rest.split_to(self.progress(written)?);
            at += written as u64;
        }
        Ok(())
    }

    /// Writes all of `bytes` at the end of the file, wherever that is by then. Nothing of another writer comes
    /// in between, unless the kernel takes the bytes in several parts: it does so with more than 512 KiB, and
    /// where the disk is full.
    ///
    /// # Errors
    /// As [`write_all_at`](Self::write_all_at).
    pub async fn append(&self, bytes: impl Into<Bytes>) -> io::Result<()> {
        let mut rest = bytes.into();
        while !rest.is_empty() {
            let written = self.write(None, rest.clone()).await?;
            let _written = rest.split_to(self.progress(written)?);
        }
        Ok(())
    }

    async fn write(&self, at: Option<u64>, mut bytes: Bytes) -> io::Result<usize> {
        bytes.truncate(limits::FILE_PIECE_BYTES_MAX);
        match run(FileOp::Write { file: self.share(), at, bytes }).await? {
            FileAnswer::Written(count) => Ok(count),
            other => Err(unexpected(&other)),
        }
    }

    fn progress(&self, written: usize) -> io::Result<usize> {
        if written == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(written) }
    }

    /// Waits until content, length and everything else that is known of this file is on the disk (`fsync`). A
    /// file that is new, or has a new name, needs [`sync_dir`](super::sync_dir) of its directory as well.
    ///
    /// # Errors
    /// The disk's. What was written since the last success may be lost then, and a later success does not
    /// say otherwise: write it again, or give the file up.
    pub async fn sync_all(&self) -> io::Result<()> {
        self.done(FileOp::Sync { file: self.share(), data_only: false }).await
    }

    /// Waits until content and length are on the disk (`fdatasync`), but not times and rights.
    ///
    /// # Errors
    /// As [`sync_all`](Self::sync_all).
    pub async fn sync_data(&self) -> io::Result<()> {
        self.done(FileOp::Sync { file: self.share(), data_only: true }).await
    }

    /// Cuts the file off at that length, or fills it up with zeros.
    ///
    /// # Errors
    /// The kernel's, such as `FileTooLarge`.
    pub async fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.done(FileOp::SetLen { file: self.share(), bytes }).await
    }

    /// Reserves room on the disk for `bytes` bytes from `at` on, so that writing there does not find it full;
    /// a shorter file gets zeros up to their end.
    ///
    /// # Errors
    /// `StorageFull`; `Unsupported` where the file system cannot do that.
    pub async fn allocate(&self, at: u64, bytes: u64) -> io::Result<()> {
        self.done(FileOp::Allocate { file: self.share(), at, bytes }).await
    }

    /// What the file system knows of the file.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        match run(FileOp::Describe { file: self.share() }).await? {
            FileAnswer::Described(metadata) => Ok(metadata),
            other => Err(unexpected(&other)),
        }
    }

    async fn done(&self, op: FileOp) -> io::Result<()> {
        run(op).await.map(drop)
    }

    /// The descriptor, for one more operation.
    pub(super) fn share(&self) -> Arc<FileDescriptor> {
        Arc::clone(self.descriptor.as_ref().expect("present until the drop"))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Some(descriptor) = self.descriptor.take() {
            release(descriptor);
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("File").field(&self.descriptor).finish()
    }
}
