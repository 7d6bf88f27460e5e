//! One operation on files, and its end.

use std::ffi::CString;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::OFlags;

use super::answer::{FileAnswer, FileKind};
use super::descriptor::FileDescriptor;
use crate::contain::drop_contained;

/// One operation.
#[derive(Debug)]
pub(crate) enum FileOp {
    Open(OpenRequest),
    /// Opens a regular file to read it, by a path that must not leave `root`.
    OpenBeneath {
        root: CString,
        path: CString,
    },
    /// Ends a descriptor that no other operation has.
    Close(FileDescriptor),
    /// Appends at most `bytes` bytes to `buffer`, which has room for them.
    Read {
        file: Arc<FileDescriptor>,
        at: u64,
        bytes: usize,
        buffer: Vec<u8>,
    },
    /// Without a place, the bytes go to the end.
    Write {
        file: Arc<FileDescriptor>,
        at: Option<u64>,
        bytes: Bytes,
    },
    Sync {
        file: Arc<FileDescriptor>,
        data_only: bool,
    },
    SetLen {
        file: Arc<FileDescriptor>,
        bytes: u64,
    },
    Allocate {
        file: Arc<FileDescriptor>,
        at: u64,
        bytes: u64,
    },
    Describe {
        file: Arc<FileDescriptor>,
    },
    DescribePath {
        path: CString,
    },
    Rename {
        from: CString,
        to: CString,
    },
    RemoveFile {
        path: CString,
    },
    RemoveDir {
        path: CString,
    },
    CreateDir {
        path: CString,
        mode: u32,
    },
    /// The next entries of a directory, as many as one batch holds.
    ReadDir {
        dir: Arc<FileDescriptor>,
    },
    /// Opens a watch on a directory.
    Watch {
        path: CString,
    },
    /// Ends when a watch has something to tell, and leaves it there.
    AwaitChanges {
        watch: Arc<FileDescriptor>,
    },
}

/// How a path is opened.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    pub(crate) path: CString,
    pub(crate) flags: OFlags,
    /// Of a file that is created.
    pub(crate) mode: u32,
    /// The only kind that is opened.
    pub(crate) kind: FileKind,
}

impl OpenRequest {
    /// What the kernel is told of a file that is only read.
    pub(crate) const READ_FLAGS: OFlags =
        OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOCTTY).union(OFlags::NONBLOCK);

    /// What the kernel is told: never to wait for the other end of a pipe, nor to become the terminal of this
    /// process. What else there is at that path is told by its kind afterwards.
    pub(crate) fn kernel_flags(&self) -> OFlags {
        self.flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK
    }
}

/// An operation that has ended, with what it owned, a close left out: dropping that may run code of a user.
#[derive(Debug)]
pub(crate) struct FileEnd {
    pub(crate) op: Option<FileOp>,
    pub(crate) answer: io::Result<FileAnswer>,
}

impl FileEnd {
    pub(crate) fn failed(op: FileOp, errno: i32) -> Box<Self> {
        Box::new(Self { op: Some(op), answer: Err(io::Error::from_raw_os_error(errno)) })
    }

    /// Drops what the operation owned.
    pub(crate) fn retire(self) {
        drop_contained("the destructor of bytes to write", self);
    }
}

impl FileOp {
    /// Whether a full disk may refuse it.
    pub(crate) fn takes_room(&self) -> bool {
        match self {
            FileOp::Open(request) => request.flags.contains(OFlags::CREATE),
            FileOp::Write { .. }
            | FileOp::Allocate { .. }
            | FileOp::SetLen { .. }
            | FileOp::CreateDir { .. } => true,
            _ => false,
        }
    }

    /// The descriptor that this operation shares with others, for whoever drops the last share of it.
    pub(crate) fn into_shared(self) -> Option<Arc<FileDescriptor>> {
        match self {
            FileOp::Read { file, .. }
            | FileOp::Sync { file, .. }
            | FileOp::SetLen { file, .. }
            | FileOp::Allocate { file, .. }
            | FileOp::Describe { file }
            | FileOp::ReadDir { dir: file }
            | FileOp::AwaitChanges { watch: file } => Some(file),
            FileOp::Write { file, bytes, .. } => {
                drop_contained("the destructor of bytes to write", bytes);
                Some(file)
            }
            FileOp::Open(_)
            | FileOp::OpenBeneath { .. }
            | FileOp::Close(_)
            | FileOp::DescribePath { .. }
            | FileOp::Rename { .. }
            | FileOp::RemoveFile { .. }
            | FileOp::RemoveDir { .. }
            | FileOp::CreateDir { .. }
            | FileOp::Watch { .. } => None,
        }
    }
}
