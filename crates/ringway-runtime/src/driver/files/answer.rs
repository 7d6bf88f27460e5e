//! What file operations answer.

use std::ffi::OsString;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Statx, StatxTimestamp};

use super::descriptor::FileDescriptor;

/// The answer to an operation that has not failed.
#[derive(Debug)]
pub(crate) enum FileAnswer {
    Done,
    Opened(FileDescriptor),
    /// The buffer, longer by what was read; as it was at the end of the file.
    Read(Vec<u8>),
    Written(usize),
    Described(Metadata),
    /// Empty at the end.
    Entries(Vec<DirEntry>),
}

/// What there is at a path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, which only [`DirEntry`] tells of: everything else follows it.
    Symlink,
    /// A pipe, a socket or a device.
    Other,
}

/// One entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DirEntry {
    /// Its name within the directory.
    pub name: OsString,
    /// What it is; `None` where the file system does not say so in its directories.
    pub kind: Option<FileKind>,
}

/// What a file system knows of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Metadata {
    /// What it is.
    pub kind: FileKind,
    /// Its bytes.
    pub len: u64,
    /// Who may do what, as `chmod` takes it.
    pub mode: u32,
    /// When its content was last changed, as fine as the file system's clock: often a few milliseconds.
    pub modified: SystemTime,
    /// When content, names or rights were last changed.
    pub changed: SystemTime,
    /// Names it, together with `device`, while it exists.
    pub inode: u64,
    /// Names its file system while that is mounted.
    pub device: u64,
    /// How many names it has.
    pub links: u32,
}

impl Metadata {
    /// Whether it is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.kind == FileKind::File
    }

    /// Whether it is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.kind == FileKind::Directory
    }

    pub(crate) fn of(status: &Statx) -> Self {
        Self {
            kind: FileKind::of_mode(status.stx_mode),
            len: status.stx_size,
            mode: u32::from(status.stx_mode) & 0o7777,
            modified: time_of(status.stx_mtime),
            changed: time_of(status.stx_ctime),
            inode: status.stx_ino,
            device: rustix::fs::makedev(status.stx_dev_major, status.stx_dev_minor),
            links: status.stx_nlink,
        }
    }
}

impl FileKind {
    pub(crate) fn of_mode(mode: u16) -> Self {
        Self::of(FileType::from_raw_mode(mode.into()))
    }

    pub(crate) fn of(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            _ => Self::Other,
        }
    }
}

fn time_of(stamp: StatxTimestamp) -> SystemTime {
    let part = Duration::from_nanos(stamp.tv_nsec.into());
    let whole = Duration::from_secs(stamp.tv_sec.unsigned_abs());
    let at = match stamp.tv_sec {
        0.. => UNIX_EPOCH.checked_add(whole),
        _ => UNIX_EPOCH.checked_sub(whole),
    };
    at.and_then(|at| at.checked_add(part)).unwrap_or(UNIX_EPOCH)
}
